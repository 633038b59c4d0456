"""JSON as an operator reads it: indented, coloured, foldable, every value with its RFC 6901 pointer.

The text is the recorded one with other white space between its tokens and nothing else: repeated
keys, 1.00 and \\u escapes stay as written. Colour classes are those of Pygments; a lexer would have
to run again to learn the pointers, so the lines of the indented text are read here directly: JSON
strings hold no newline, so each line is one member, one element or one closing bracket.

    pretty(raw)                    the text
    head(text, limit, attribute)   its first window: folds and pointers
    rest(text, start, limit)       any later window: colours only
"""

from __future__ import annotations

import json
import re

import msgspec
from pygments.token import STANDARD_TYPES, Keyword, Name, Number, Punctuation, String

from dashboard.inert import Html, attribute, inert
from dashboard.windows import ROOM, Window, window_end
from envelopes.pointer import join
from envelopes.preview import split_lines

INDENT = 2
LONG_WORD = 24  # characters without a space that may break anywhere

KEY: str = STANDARD_TYPES[Name.Tag]
STRING: str = STANDARD_TYPES[String.Double]
ESCAPE: str = STANDARD_TYPES[String.Escape]
CONSTANT: str = STANDARD_TYPES[Keyword.Constant]
INTEGER: str = STANDARD_TYPES[Number.Integer]
FLOAT: str = STANDARD_TYPES[Number.Float]
MARK: str = STANDARD_TYPES[Punctuation]

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_LINE = re.compile(rf"( *)(?:({_STRING}): )?(.*)", re.DOTALL)
_TOKEN = re.compile(rf'(?P<key>{_STRING})(?=:)|(?P<string>{_STRING}?)|(?P<word>[^\s"{{}}\[\],:]+)|[{{}}\[\],:]+|\s+')
_ESCAPE = re.compile(r"\\(?:n|&quot;|u[0-9a-fA-F]{4}|.)")
_RAW_TOKEN = re.compile(rf'{_STRING}|[{{}}\[\],:]|[^\s"{{}}\[\],:]+')


def pretty(raw: bytes) -> str:
    """Indented by two. What is no JSON is given back as it is."""
    try:
        return msgspec.json.format(raw, indent=INDENT).decode()
    except msgspec.DecodeError:
        return _indented(raw.decode("utf-8", "surrogateescape"))


def _indented(text: str) -> str:
    """For JSON that the strict formatter refuses (a lone surrogate, NaN)."""
    tokens = _RAW_TOKEN.findall(text)
    out: list[str] = []
    depth = 0
    for at, token in enumerate(tokens):
        follows_open = at > 0 and tokens[at - 1] in "{["
        if token in "}]":
            depth -= 1
            out.append(token if follows_open else "\n" + " " * INDENT * depth + token)
            continue
        if follows_open:
            out.append("\n" + " " * INDENT * depth)
        out.append(_spaced(token, depth))
        depth += token in "{["
    return "".join(out)


def _spaced(token: str, depth: int) -> str:
    match token:
        case ",":
            return ",\n" + " " * INDENT * depth
        case ":":
            return ": "
        case _:
            return token


class _Open:
    """A container whose closing bracket has not come yet."""

    def __init__(self, pointer: str, *, is_list: bool) -> None:
        self.pointer = pointer
        self.is_list = is_list
        self.count = 0

    def child(self, key: str | None) -> str:
        """The pointer of the next value in it."""
        found = join(self.pointer, self.count if key is None else key)
        self.count += 1
        return found


def head(text: str, limit: int, named: str) -> Window:
    """The first characters with folds; `named` is the attribute that carries a value's pointer."""
    out: list[str] = []
    stack: list[_Open] = []
    end = 0
    room = ROOM
    for line in split_lines(text[: window_end(text, 0, limit)]):
        before = len(out)
        _line(line, stack, out, named)
        end += len(line)
        room -= sum(map(len, out[before:]))
        if room < 0:
            break
    out.extend("</details>" for _ in stack)
    return Window(html=Html("".join(out)), start=0, end=end, total=len(text))


def _line(line: str, stack: list[_Open], out: list[str], named: str) -> None:
    indent, key, value = _parts(line)
    if value[:1] in ("}", "]") and stack:
        stack.pop()
        out.append(f'<div class="jl">{indent}<span class="{MARK}">{inert(value)}</span></div></details>')
        return
    pointer = stack[-1].child(_unquoted(key)) if stack else ""
    label = f'<span class="{KEY}">{_string(key)}</span><span class="{MARK}">:</span> ' if key else ""
    pointed = f'{named}="{attribute(pointer)}"'
    if value.rstrip("\n") in ("{", "["):
        stack.append(_Open(pointer, is_list=value[0] == "["))
        out.append(
            f'<details open class="jf" {pointed}><summary>{indent}{label}<span class="{MARK}">{value}</span></summary>'
        )
        return
    out.append(f'<div class="jl">{indent}{label}{_scalar(value, pointed)}</div>')


def _parts(line: str) -> tuple[str, str, str]:
    found = _LINE.match(line)
    indent, key, value = found.groups() if found else ("", None, line)
    return indent, key or "", value


def _unquoted(key: str) -> str | None:
    if not key:
        return None
    found = json.loads(key) if "\\" in key else key[1:-1]
    return str(found)


def _scalar(value: str, pointed: str) -> str:
    newline = "\n" if value.endswith("\n") else ""
    core = value[: len(value) - len(newline)]
    comma = "," if newline and core.endswith(",") else ""
    core = core[: len(core) - len(comma)]
    body = _string(core) if core.startswith('"') else inert(core)
    mark = f'<span class="{MARK}">,</span>' if comma else ""
    if "\\n" in core:  # a block of its own, its comma inside, as it would else stand on a line alone
        return f'<span class="jv jm {_class_of(core)}" {pointed}>{body}{mark}{newline}</span>'
    word = " jw" if len(core) > LONG_WORD and " " not in core else ""
    return f'<span class="jv{word} {_class_of(core)}" {pointed}>{body}</span>{mark}{newline}'


def _class_of(token: str) -> str:
    if token.startswith('"'):
        return STRING
    if token in ("true", "false", "null"):
        return CONSTANT
    if token in ("{}", "[]"):
        return MARK
    return INTEGER if token.lstrip("-").isdigit() else FLOAT


def _string(token: str) -> str:
    escaped = inert(token)
    return _ESCAPE.sub(_escape, escaped) if "\\" in token else escaped


def _escape(found: re.Match[str]) -> str:
    """A \\n also breaks the line on the screen (call.css), without a character of its own."""
    name = f"{ESCAPE} nl" if found.group() == "\\n" else ESCAPE
    return f'<i class="{name}">{found.group()}</i>'


def rest(text: str, start: int, limit: int) -> Window:
    """Characters from `start`, coloured. Reading begins at the line's own start, where no string is open."""
    out: list[str] = []
    end, room = start, 2 * ROOM
    for found in _TOKEN.finditer(text, text.rfind("\n", 0, start) + 1, window_end(text, start, limit)):
        if found.end() <= start:
            continue
        out.append(_token(found, found.group()[max(0, start - found.start()) :]))
        end = found.end()
        room -= len(out[-1])
        if room < 0:
            break
    return Window(html=Html("".join(out)), start=start, end=end, total=len(text))


def _token(found: re.Match[str], token: str) -> str:
    match found.lastgroup:
        case "key":
            return f'<span class="{KEY}">{_string(token)}</span>'
        case "string":
            return f'<span class="{STRING}">{_string(token)}</span>'
        case "word":
            return f'<span class="{_class_of(token)}">{inert(token)}</span>'
        case _:
            return inert(token)
