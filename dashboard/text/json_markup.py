"""Indented, coloured and foldable JSON, every value with its RFC 6901 pointer.

The text is the recorded one with other white space between its tokens and nothing else: repeated keys, 1.00 and
\\u escapes stay as written. Colour classes are those of Pygments. Its lexer would have to run again to learn the
pointers, so the lines of the indented text are read here: JSON strings contain no newline, so each line is one
member, one element or one closing bracket.

    indent_json(raw)                      the text
    first_chunk(text, limit, attribute)   its first chunk: folds and pointers
    later_chunk(text, start, limit)       any later chunk: colours only
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

from dashboard.text.masks import mask_around
from dashboard.text.text_markup import MAX_MARKUP, TextChunk, choose_escape, chunk_end, escape_attribute
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

COMMA = f'<span class="{MARK}">,</span>'
DRAWN_ESCAPES = {r"\n": "nl", rf"\{QUOTE}": "dq", r"\t": "tb", r"\\": "bs"}

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_MEMBER = re.compile(rf"({_STRING}): (.*)", re.DOTALL)
_TOKEN = re.compile(rf'(?P<key>{_STRING})(?=:)|(?P<string>{_STRING}?)|(?P<word>[^\s"{{}}\[\],:]+)|[{{}}\[\],:]+|\s+')
_CLOSING = ("}", "]")
_OPENING = frozenset(("{", "[", "{\n", "[\n"))
_ESCAPE = re.compile(r"\\(?:n|&quot;|u[0-9a-fA-F]{4}|.)")
_RAW_TOKEN = re.compile(rf'{_STRING}|[{{}}\[\],:]|[^\s"{{}}\[\],:]+')


def indent_json(raw: bytes) -> str:
    """Indented by two. Text that is no JSON is given back as it is."""
    try:
        return msgspec.json.format(raw, indent=INDENT).decode()
    except msgspec.DecodeError:
        return _indent_tokens(raw.decode("utf-8", "surrogateescape"))


def _indent_tokens(text: str) -> str:
    """For JSON that the strict formatter refuses (a lone surrogate, NaN)."""
    pieces: list[str] = []
    depth = 0
    previous = ""
    for mark in _RAW_TOKEN.findall(text):
        follows_open = previous != "" and previous in "{["
        if mark in "}]":
            depth -= 1
        if (mark in "}]") is not follows_open:
            pieces.append("\n" + " " * INDENT * depth)
        pieces.append(mark)
        if mark == ",":
            pieces.append("\n" + " " * INDENT * depth)
        elif mark == ":":
            pieces.append(" ")
        depth += mark in "{["
        previous = mark
    return "".join(pieces)


@dataclass
class _Container:
    """An object or list whose closing bracket has not come yet. `pointer` is escaped; `count` counts its values."""

    pointer: str
    count: int = 0


class _LineMarkup(NamedTuple):
    """The markup of a line around its pointer. `step` is the last one of the pointer, None for an element of a list."""

    before: str
    after: str
    step: str | None = None
    opens: bool = False
    closes: bool = False


def first_chunk(text: str, limit: int, attribute: str) -> TextChunk:
    """The first characters with folds; `attribute` is the one that carries a value's pointer."""
    text = mask_around(text, 0, limit)
    chunk = text[: chunk_end(text, 0, limit)]
    writer = _LineWriter(attribute, _TokenMarkup(chunk))
    end, room = 0, MAX_MARKUP
    for line in split_lines(chunk):
        end += len(line)
        room -= len(writer.write(line))
        if room < 0:
            break
    return TextChunk(html=writer.html, start=0, end=end, total=len(text))


class _LineWriter:
    """Writes the markup of whole lines, one after the other."""

    def __init__(self, attribute: str, tokens: _TokenMarkup) -> None:
        self._attribute, self._tokens = attribute, tokens
        self._lines: list[str] = []
        self._open: list[_Container] = []
        # Most lines of a list of rows repeat, and all of their keys do.
        self._markup: dict[str, _LineMarkup] = {}
        self._labels: dict[str, tuple[str, str]] = {}

    @property
    def html(self) -> SafeString:
        return mark_safe("".join([*self._lines, *("</details>" for _ in self._open)]))

    def write(self, line: str) -> str:
        markup = self._markup.get(line)
        if markup is None:
            markup = self._build_markup(line)
            if len(line) < SHORT_LINE and self._open:
                self._markup[line] = markup
        if markup.closes:
            self._open.pop()
            html = markup.before
        else:
            pointer = ""
            if self._open:
                parent = self._open[-1]
                pointer = f"{parent.pointer}/{parent.count if markup.step is None else markup.step}"
                parent.count += 1
            if markup.opens:
                self._open.append(_Container(pointer))
            html = f"{markup.before}{pointer}{markup.after}"
        self._lines.append(html)
        return html

    def _build_markup(self, line: str) -> _LineMarkup:
        value, key = line.lstrip(" "), None
        indent = line[: len(line) - len(value)]
        if '": ' in value and (match := _MEMBER.match(value)):
            key, value = match.groups()
        if value.startswith(_CLOSING) and self._open:
            bracket = self._tokens.escape(value)
            closing = f'<div class="jl">{indent}<span class="{MARK}">{bracket}</span></div></details>'
            return _LineMarkup(closing, "", closes=True)
        label, step = self._label(key) if key else ("", None)
        if value in _OPENING:
            before = f'<details open class="jf" {self._attribute}="'
            after = f'"><summary>{indent}{label}<span class="{MARK}">{value}</span></summary>'
            return _LineMarkup(before, after, step, opens=True)
        before, after = self._tokens.draw_scalar(value)
        return _LineMarkup(f'<div class="jl">{indent}{label}{before}{self._attribute}="', f'"{after}</div>', step)

    def _label(self, key: str) -> tuple[str, str]:
        """The markup of a key, and the escaped step of a pointer that it is."""
        if key not in self._labels:
            name = str(json.loads(key)) if "\\" in key else key[1:-1]
            label = f'<span class="{KEY}">{self._tokens.draw_string(key)}</span><span class="{MARK}">:</span> '
            self._labels[key] = label, escape_attribute(join("", name)[1:])
        return self._labels[key]


class _TokenMarkup:
    """Draws the tokens of one chunk, which is searched once for what must be escaped: most have nothing but quotes."""

    def __init__(self, chunk: str) -> None:
        self._escape_inside = choose_escape(chunk.replace('"', ""))
        self.escape = html.escape if self._escape_inside is str else self._escape_inside

    def draw_scalar(self, value: str) -> tuple[str, str]:
        """The markup of a value before and behind its pointer."""
        newline = "\n" if value.endswith("\n") else ""
        core = value[:-1] if newline else value
        comma = newline != "" and core.endswith(",")
        if comma:
            core = core[:-1]
        mark = COMMA if comma else ""
        body = self.draw_string(core) if core.startswith('"') else self.escape(core)
        if "\\n" in core:  # a block of its own, with its comma inside, which would else be on a line alone
            return f'<span class="jv jm {_token_class(core)}" ', f">{body}{mark}{newline}</span>"
        word = " jw" if len(core) > LONG_WORD and " " not in core else ""
        return f'<span class="jv{word} {_token_class(core)}" ', f">{body}</span>{mark}{newline}"

    def draw_string(self, token: str) -> str:
        if "\\" in token:
            return _ESCAPE.sub(_escape_markup, self.escape(token))
        if len(token) > 1 and token[0] == token[-1] == '"':
            return f"{QUOTE}{self._escape_inside(token[1:-1])}{QUOTE}"
        return self.escape(token)


def _token_class(token: str) -> str:
    if token.startswith('"'):
        return STRING
    if token in ("true", "false", "null"):
        return CONSTANT
    if token in ("{}", "[]"):
        return MARK
    return INTEGER if token.lstrip("-").isdigit() else FLOAT


def _escape_markup(match: re.Match[str]) -> str:
    """A \\n also breaks the line on the screen (call.css), without a character of its own.

    Escapes of characters that can be drawn have a class, so that the stylesheet draws a long text as its lines.
    """
    name = DRAWN_ESCAPES.get(match.group())
    return f'<i class="{f"{ESCAPE} {name}" if name else ESCAPE}">{match.group()}</i>'


def later_chunk(text: str, start: int, limit: int) -> TextChunk:
    """Characters from `start`, coloured. Reading begins at the line's own start, where no string is open."""
    pieces: list[str] = []
    text = mask_around(text, start, start + limit)
    end, room = start, 2 * MAX_MARKUP
    begin, stop = text.rfind("\n", 0, start) + 1, chunk_end(text, start, limit)
    tokens = _TokenMarkup(text[begin:stop])
    for match in _TOKEN.finditer(text, begin, stop):
        if match.end() <= start:
            continue
        token = match.group()[max(0, start - match.start()) :]
        match match.lastgroup:
            case "key":
                piece = f'<span class="{KEY}">{tokens.draw_string(token)}</span>'
            case "string":
                piece = f'<span class="{STRING}">{tokens.draw_string(token)}</span>'
            case "word":
                piece = f'<span class="{_token_class(token)}">{tokens.escape(token)}</span>'
            case _:
                piece = tokens.escape(token)
        pieces.append(piece)
        end = match.end()
        room -= len(piece)
        if room < 0:
            break
    return TextChunk(html=mark_safe("".join(pieces)), start=start, end=end, total=len(text))
