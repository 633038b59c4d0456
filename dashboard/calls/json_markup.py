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

import html
import json
import re
from dataclasses import dataclass

import msgspec
from pygments.token import STANDARD_TYPES, Keyword, Name, Number, Punctuation, String

from dashboard.inert import Html, attribute, inert
from dashboard.windows import ROOM, Window, window_end
from envelopes.pointer import join
from envelopes.preview import split_lines

INDENT = 2
QUOTE = html.escape('"')
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
_CLOSING = ("}", "]")
_OPENING = frozenset(("{", "[", "{\n", "[\n"))
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


@dataclass
class _Open:
    """A container whose closing bracket has not come yet. `pointer` is escaped: of children only the last step is."""

    pointer: str
    count: int = 0


def head(text: str, limit: int, named: str) -> Window:
    """The first characters with folds; `named` is the attribute that carries a value's pointer."""
    shown = _Head(named)
    end = 0
    for line in split_lines(text[: window_end(text, 0, limit)]):
        shown.add(line)
        end += len(line)
        if shown.room < 0:
            break
    shown.out.extend("</details>" for _ in shown.stack)
    return Window(html=Html("".join(shown.out)), start=0, end=end, total=len(text))


class _Head:
    """The markup of whole lines, one after the other."""

    def __init__(self, named: str) -> None:
        self.named = named
        self.out: list[str] = []
        self.room = ROOM
        self.stack: list[_Open] = []
        self._keys: dict[str, tuple[str, str]] = {}  # rows of a list have the same ones
        self._values: dict[str, tuple[str, str]] = {}  # and short values that come again

    def add(self, line: str) -> None:
        written = self._line(line)
        self.out.append(written)
        self.room -= len(written)

    def _line(self, line: str) -> str:
        found = _LINE.match(line)
        indent, key, value = found.groups() if found else ("", None, line)
        if value.startswith(_CLOSING) and self.stack:
            self.stack.pop()
            return f'<div class="jl">{indent}<span class="{MARK}">{inert(value)}</span></div></details>'
        label, step = (self._keys.get(key) or self._key(key)) if key else ("", None)
        pointer = self._child(step) if self.stack else ""
        pointed = f'{self.named}="{pointer}"'
        if len(value) <= 2 and value in _OPENING:  # a long value would be hashed
            self.stack.append(_Open(pointer))
            return (
                f'<details open class="jf" {pointed}><summary>{indent}{label}'
                f'<span class="{MARK}">{value}</span></summary>'
            )
        before, after = self._values.get(value) or self._value(value) if len(value) < LONG_WORD else _scalar(value)
        return f'<div class="jl">{indent}{label}{before}{pointed}{after}</div>'

    def _child(self, step: str | None) -> str:
        """The pointer of the next value in the container that is open."""
        parent = self.stack[-1]
        found = f"{parent.pointer}/{parent.count if step is None else step}"
        parent.count += 1
        return found

    def _key(self, key: str) -> tuple[str, str]:
        """Its label, and the escaped step that it is in a pointer."""
        name = str(json.loads(key)) if "\\" in key else key[1:-1]
        label = f'<span class="{KEY}">{_string(key)}</span><span class="{MARK}">:</span> '
        self._keys[key] = found = label, attribute(join("", name)[1:])
        return found

    def _value(self, value: str) -> tuple[str, str]:
        self._values[value] = found = _scalar(value)
        return found


def _scalar(value: str) -> tuple[str, str]:
    """What stands before and behind its pointer."""
    newline = "\n" if value.endswith("\n") else ""
    core = value[:-1] if newline else value
    comma = newline != "" and core.endswith(",")
    if comma:
        core = core[:-1]
    mark = f'<span class="{MARK}">,</span>' if comma else ""
    body = _string(core) if core.startswith('"') else inert(core)
    if "\\n" in core:  # a block of its own, its comma inside, as it would else stand on a line alone
        return f'<span class="jv jm {_class_of(core)}" ', f">{body}{mark}{newline}</span>"
    word = " jw" if len(core) > LONG_WORD and " " not in core else ""
    return f'<span class="jv{word} {_class_of(core)}" ', f">{body}</span>{mark}{newline}"


def _class_of(token: str) -> str:
    if token.startswith('"'):
        return STRING
    if token in ("true", "false", "null"):
        return CONSTANT
    if token in ("{}", "[]"):
        return MARK
    return INTEGER if token.lstrip("-").isdigit() else FLOAT


def _string(token: str) -> str:
    if "\\" in token:
        return _ESCAPE.sub(_escape, inert(token))
    if len(token) > 1 and token[0] == token[-1] == '"':  # most have nothing to escape between their quotes
        return f"{QUOTE}{inert(token[1:-1])}{QUOTE}"
    return inert(token)


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
