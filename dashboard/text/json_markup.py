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
from typing import NamedTuple

import msgspec
from django.utils.safestring import SafeString, mark_safe
from pygments.token import STANDARD_TYPES, Keyword, Name, Number, Punctuation, String

from dashboard.text.chunks import MAX_MARKUP, TextChunk, chunk_end
from dashboard.text.escaping import escape_attribute
from dashboard.text.text_markup import escape
from envelopes.text.pointer import join
from envelopes.text.preview import split_lines

INDENT = 2
QUOTE = html.escape('"')
LONG_WORD = 24  # characters without a space that may break anywhere
SHORT_LINE = 64

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


class _Shape(NamedTuple):
    """The markup of a line around its pointer. `step` is the last one of that, None of an element of a list."""

    before: str
    after: str
    step: str | None = None
    opens: bool = False
    closes: bool = False


def head(text: str, limit: int, named: str) -> TextChunk:
    """The first characters with folds; `named` is the attribute that carries a value's pointer."""
    shown = _Head(named)
    end, room = 0, MAX_MARKUP
    for line in split_lines(text[: chunk_end(text, 0, limit)]):
        written = shown.line(line)
        end += len(line)
        room -= len(written)
        if room < 0:
            break
    return TextChunk(html=shown.html, start=0, end=end, total=len(text))


class _Head:
    """The markup of whole lines, one after the other."""

    def __init__(self, named: str) -> None:
        self._named = named
        self._out: list[str] = []
        self._stack: list[_Open] = []
        self._shapes: dict[str, _Shape] = {}  # most lines of a list of rows come again
        self._labels: dict[str, tuple[str, str]] = {}  # and all of their keys

    @property
    def html(self) -> SafeString:
        return mark_safe("".join([*self._out, *("</details>" for _ in self._stack)]))

    def line(self, line: str) -> str:
        shape = self._shapes.get(line) or self._shape(line)
        if shape.closes:
            self._stack.pop()
            written = shape.before
        else:
            pointer = self._child(shape.step) if self._stack else ""
            if shape.opens:
                self._stack.append(_Open(pointer))
            written = f"{shape.before}{pointer}{shape.after}"
        self._out.append(written)
        return written

    def _child(self, step: str | None) -> str:
        """The pointer of the next value in the container that is open."""
        parent = self._stack[-1]
        found = f"{parent.pointer}/{parent.count if step is None else step}"
        parent.count += 1
        return found

    def _shape(self, line: str) -> _Shape:
        found = self._shape_of(line)
        if len(line) < SHORT_LINE and self._stack:
            self._shapes[line] = found
        return found

    def _shape_of(self, line: str) -> _Shape:
        found = _LINE.match(line)
        indent, key, value = found.groups() if found else ("", None, line)
        if value.startswith(_CLOSING) and self._stack:
            closing = f'<div class="jl">{indent}<span class="{MARK}">{escape(value)}</span></div></details>'
            return _Shape(closing, "", closes=True)
        label, step = (self._labels.get(key) or self._label(key)) if key else ("", None)
        if value in _OPENING:
            before = f'<details open class="jf" {self._named}="'
            after = f'"><summary>{indent}{label}<span class="{MARK}">{value}</span></summary>'
            return _Shape(before, after, step, opens=True)
        before, after = _scalar(value)
        return _Shape(f'<div class="jl">{indent}{label}{before}{self._named}="', f'"{after}</div>', step)

    def _label(self, key: str) -> tuple[str, str]:
        """And the escaped step that the key is in a pointer."""
        name = str(json.loads(key)) if "\\" in key else key[1:-1]
        label = f'<span class="{KEY}">{_string(key)}</span><span class="{MARK}">:</span> '
        self._labels[key] = found = label, escape_attribute(join("", name)[1:])
        return found


def _scalar(value: str) -> tuple[str, str]:
    """What stands before and behind its pointer."""
    newline = "\n" if value.endswith("\n") else ""
    core = value[:-1] if newline else value
    comma = newline != "" and core.endswith(",")
    if comma:
        core = core[:-1]
    mark = f'<span class="{MARK}">,</span>' if comma else ""
    body = _string(core) if core.startswith('"') else escape(core)
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
        return _ESCAPE.sub(_escape, escape(token))
    if len(token) > 1 and token[0] == token[-1] == '"':  # most have nothing to escape between their quotes
        return f"{QUOTE}{escape(token[1:-1])}{QUOTE}"
    return escape(token)


def _escape(found: re.Match[str]) -> str:
    """A \\n also breaks the line on the screen (call.css), without a character of its own."""
    name = f"{ESCAPE} nl" if found.group() == "\\n" else ESCAPE
    return f'<i class="{name}">{found.group()}</i>'


def rest(text: str, start: int, limit: int) -> TextChunk:
    """Characters from `start`, coloured. Reading begins at the line's own start, where no string is open."""
    out: list[str] = []
    end, room = start, 2 * MAX_MARKUP
    for found in _TOKEN.finditer(text, text.rfind("\n", 0, start) + 1, chunk_end(text, start, limit)):
        if found.end() <= start:
            continue
        out.append(_token(found, found.group()[max(0, start - found.start()) :]))
        end = found.end()
        room -= len(out[-1])
        if room < 0:
            break
    return TextChunk(html=mark_safe("".join(out)), start=start, end=end, total=len(text))


def _token(found: re.Match[str], token: str) -> str:
    match found.lastgroup:
        case "key":
            return f'<span class="{KEY}">{_string(token)}</span>'
        case "string":
            return f'<span class="{STRING}">{_string(token)}</span>'
        case "word":
            return f'<span class="{_class_of(token)}">{escape(token)}</span>'
        case _:
            return escape(token)
