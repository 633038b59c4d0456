"""The language of template variants: Liquid with few tags, few filters, and strings that keep their sources.

Needs only the standard library and python-liquid, and runs in a process of its own (`template_worker`). A
`TrackedText` is a list of pieces, each with the pointer of its field and its range in that field. Filters that take
a part keep both; filters that change the text keep the pointer; any other operation loses the source, because no
link is better than a false one. `true` and `false` have no source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import lru_cache
from io import StringIO
from typing import Any, NamedTuple

from liquid import Environment, Mode
from liquid.context import RenderContext
from liquid.exceptions import LiquidError, OutputStreamLimitError
from liquid.template import BoundTemplate
from liquid.undefined import Undefined

ROOTS = frozenset({"tool_name", "status", "summary_text", "result", "error", "artifacts"})
TAGS = frozenset(
    ("content", "output", "illegal", "if", "unless", "case", "for", "break", "continue", "assign", "capture", "echo")
    + ("liquid", "comment", "#")
)
BUILTIN_FILTERS = (
    *("abs", "at_least", "at_most", "ceil", "floor", "round", "plus", "minus", "times", "divided_by", "modulo"),
    *("default", "size", "first", "last", "map", "where", "reject", "compact", "concat", "reverse", "sort", "uniq"),
    *("sum", "find", "has"),
)
_CUT_MARKER = re.compile(
    r"\.\.\.\n\[output truncated: showing first (\d+) and last (\d+) of (\d+) (lines|characters)\]\n\.\.\.\n"
)
_OWN_MARKER = re.compile(r"\[showing (?:first |last )?\d+ of (\d+) (lines|characters)\]")
MEMBERS_OF_LANGUAGE = frozenset({"size", "first", "last"})  # of every value
MAX_OUTPUT = 400_000  # characters that a template may write
MAX_LOCALS = 8_000_000  # bytes of its variables
MAX_ITERATIONS = 200_000  # of nested loops together
MAX_REPEATS = 1_000  # replacements of one filter, or blanks of an indentation
MAX_TEXT = 1_000_000  # characters of one text
MAX_PIECES = 50_000  # of one text


class TrackedPiece(NamedTuple):
    """A text and its field, None for the template's own words. The range is None where it is not a slice of it."""

    text: str
    pointer: str | None = None
    start: int | None = None
    end: int | None = None
    role: str = ""


class TrackedText(str):
    """A string and the pieces that it consists of."""

    pieces: tuple[TrackedPiece, ...]

    def __new__(cls, pieces: Iterable[TrackedPiece]) -> TrackedText:
        merged = _merge_pieces(pieces)
        if len(merged) > MAX_PIECES or sum(len(piece.text) for piece in merged) > MAX_TEXT:
            raise OutputStreamLimitError("a text that it makes is too long", token=None)
        text = super().__new__(cls, "".join(piece.text for piece in merged))
        text.pieces = merged
        return text

    def cut(self, start: int, end: int) -> TrackedText:
        """Characters [start, end), each with its source."""
        parts, at = [], 0
        for piece in self.pieces:
            first, last = max(start - at, 0), min(end - at, len(piece.text))
            if first < last:
                part = piece._replace(text=piece.text[first:last])
                if piece.start is not None:
                    part = part._replace(start=piece.start + first, end=piece.start + last)
                parts.append(part)
            at += len(piece.text)
        return TrackedText(parts)

    def replaced_by(self, text: str) -> TrackedText:
        """Another text from the same field, which is not a slice of it."""
        pointers = {piece.pointer for piece in self.pieces}
        return TrackedText([TrackedPiece(text, pointers.pop() if len(pointers) == 1 else None)])


def _merge_pieces(pieces: Iterable[TrackedPiece]) -> tuple[TrackedPiece, ...]:
    """Removes empty pieces, and joins pieces without source that follow each other."""
    merged: list[TrackedPiece] = []
    for piece in pieces:
        before = merged[-1] if merged else None
        if before and piece.pointer is None and before.pointer is None and piece.role == before.role:
            merged[-1] = TrackedPiece(before.text + piece.text, role=piece.role)
        elif piece.text:
            merged.append(piece)
    return tuple(merged)


class TrackedInt(int):
    tracked: TrackedText

    def __str__(self) -> str:
        return self.tracked


class TrackedFloat(float):
    tracked: TrackedText

    def __str__(self) -> str:
        return self.tracked


def track(value: Any, pointer: str = "") -> Any:
    """Returns the same JSON value with leaves that have their pointers."""
    match value:
        case str():
            return TrackedText([TrackedPiece(value, pointer, 0, len(value))])
        case bool() | None:
            return value
        case int() | float():
            number = TrackedInt(value) if isinstance(value, int) else TrackedFloat(value)
            number.tracked = TrackedText([TrackedPiece(json.dumps(value), pointer)])
            return number
        case dict():
            # Escaped here: the process imports nothing of the library.
            keys = {key: key.replace("~", "~0").replace("/", "~1") for key in value}
            return {key: track(child, f"{pointer}/{keys[key]}") for key, child in value.items()}
        case _:
            return [track(child, f"{pointer}/{index}") for index, child in enumerate(value)]


class _Buffer(StringIO):
    """Collects the output with its pieces."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.size = 0
        self.limit = limit
        self.pieces: list[TrackedPiece] = []

    def write(self, text: str, /) -> int:
        self.size += len(text)
        if self.size > self.limit:
            raise OutputStreamLimitError(f"it writes more than {MAX_OUTPUT:,} characters", token=None)
        self.pieces.extend(_pieces(text))
        return len(text)

    def getvalue(self) -> TrackedText:
        return TrackedText(self.pieces)


class _Context(RenderContext):
    def get_buffer(self, buf: Any = None) -> _Buffer:
        return _Buffer(MAX_OUTPUT - (buf.size if isinstance(buf, _Buffer) else 0))


class _Template(BoundTemplate):
    context_class = _Context

    def _get_buffer(self) -> _Buffer:
        return _Buffer(MAX_OUTPUT)


class _Language(Environment):
    template_class = _Template
    loop_iteration_limit = MAX_ITERATIONS
    local_namespace_limit = MAX_LOCALS
    context_depth_limit = 20
    block_nesting_limit = 20

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        super().setup_tags_and_filters(extra=False)
        self.tags = {name: tag for name, tag in self.tags.items() if name in TAGS}
        self.filters = {name: self.filters[name] for name in BUILTIN_FILTERS} | FILTERS


@lru_cache(maxsize=8)  # a comparison renders the same text for call after call
def parse_template(source: str) -> BoundTemplate:
    """Parses a template. Raises LiquidError with its line."""
    template = LANGUAGE.from_string(source)
    analysis = template.analyze()
    for variables in analysis.variables.values():
        for variable in variables:
            if any(str(segment).startswith("_") for segment in variable.segments):
                reason = "names that begin with an underscore are not reachable"
                raise _error_at(source, variable.span.index, reason)
    for name, spans in analysis.filters.items():
        if name not in LANGUAGE.filters:
            raise _error_at(source, spans[0].index, f"there is no filter {name!r}")
    for name, variables in analysis.globals.items():
        if name not in ROOTS:
            reason = f"there is no {name!r}: a template has {', '.join(sorted(ROOTS))}, and what it assigns"
            raise _error_at(source, variables[0].span.index, reason)
    return template


def find_missing_fields(source: str, canonical: dict[str, Any]) -> list[tuple[int, str, str]]:
    """The fields that the template names and the envelope lacks: the line, the path, and the nearest name or "".

    A template writes nothing for them, which is meant where only some results have a field.
    """
    missing = []
    for variables in parse_template(source).analyze().globals.values():
        for variable in variables:
            found = _find_missing(list(variable.segments), canonical)
            if found is not None:
                line = source.count("\n", 0, max(variable.span.index, 0)) + 1
                missing.append((line, *found))
    return sorted(set(missing))


def _find_missing(segments: list[Any], canonical: dict[str, Any]) -> tuple[str, str] | None:
    value: Any = canonical
    for number, segment in enumerate(segments):
        if not isinstance(value, dict) or not isinstance(segment, str) or segment in MEMBERS_OF_LANGUAGE:
            return None
        if segment not in value:
            near = get_close_matches(segment, list(value), n=1)
            return (".".join(segments[: number + 1]), near[0] if near else "") if number else None
        value = value[segment]
    return None


def _error_at(source: str, index: int, reason: str) -> LiquidError:
    error = LiquidError(reason, token=None)
    error.line = source.count("\n", 0, max(index, 0)) + 1  # type: ignore[attr-defined]
    return error


def render_template(source: str, canonical: dict[str, Any]) -> list[TrackedPiece]:
    """Runs a template over an envelope. Raises LiquidError, RecursionError and MemoryError."""
    template = parse_template(source)
    context = _Context(template, globals=track(canonical))
    buffer = _Buffer(MAX_OUTPUT)
    template.render_with_context(context, buffer)
    return buffer.pieces


def error_line(error: LiquidError) -> int | None:
    line = getattr(error, "line", None)
    if line is not None:
        return int(line)
    token = error.token
    return None if token is None or token.start_index < 0 else token.source.count("\n", 0, token.start_index) + 1


def _pieces(value: Any) -> tuple[TrackedPiece, ...]:
    """The pieces of any value that Liquid may output."""
    match value:
        case TrackedText():
            return value.pieces
        case TrackedInt() | TrackedFloat():
            return value.tracked.pieces
        case str():
            return (TrackedPiece(value),) if value else ()
        case None | Undefined():
            return ()
        case bool():
            return (TrackedPiece(str(value).lower()),)
        case list():
            return tuple(piece for element in value for piece in _pieces(element))
        case _:
            return (TrackedPiece(str(value)),)


def _text(value: Any) -> TrackedText:
    return value if isinstance(value, TrackedText) else TrackedText(_pieces(value))


def _number(value: Any, most: int) -> int:
    try:
        return max(0, min(int(value), most))
    except (TypeError, ValueError, OverflowError):
        return 0


def _split(value: Any, separator: Any = "\n") -> list[TrackedText]:
    text, mark = _text(value), str(separator) or "\n"
    parts, at = [], 0
    while (end := text.find(mark, at)) >= 0:
        parts.append(text.cut(at, end))
        at = end + len(mark)
    return [*parts, text.cut(at, len(text))]


def _strip(value: Any, *, left: bool = True, right: bool = True) -> TrackedText:
    text = _text(value)
    start = len(text) - len(text.lstrip()) if left else 0
    return text.cut(start, len(text.rstrip()) if right else len(text))


class _CutPlace(NamedTuple):
    """The place of a cut: text[:head_end] and text[tail_start:] are the output's own, `total` counts all of it."""

    head_end: int
    tail_start: int
    total: int
    unit: str


def _find_cut(text: str) -> _CutPlace | None:
    """Finds the marker of the projection (`text.preview.find_cut`), or one that a filter here has written.

    An output may contain the same words: the numbers of a projection's marker have to fit the text around it.
    """
    at = 0
    for piece in text.pieces if isinstance(text, TrackedText) else ():
        if piece.role == "marker" and (own := _OWN_MARKER.search(piece.text)):
            return _CutPlace(at, at + len(piece.text), int(own[1]), own[2])
        at += len(piece.text)
    for match in _CUT_MARKER.finditer(text):
        first, last, total = (int(match[group]) for group in (1, 2, 3))
        head, tail = text[: match.start()], text[match.end() :]
        if match[4] == "lines":
            fits = head.count("\n") == first and len(_line_ends(tail)) - 1 == last
        else:
            fits = len(head) >= first and head[first:] in ("", "\n") and len(tail) == last
        if fits:
            return _CutPlace(match.start(), match.end(), total, match[4])
    return None


def _line_ends(text: str) -> list[int]:
    ends = [0]
    while (end := text.find("\n", ends[-1])) >= 0:
        ends.append(end + 1)
    return [*ends, len(text)] if ends[-1] < len(text) else ends


def _lines(value: Any, count: Any, *, from_end: bool) -> TrackedText:
    """Whole lines from one end, and a marker with their number when that is not all of them.

    Of a preview these are lines before or behind its cut, and the marker counts the complete output.
    """
    text, limit = _text(value), _number(count, 1_000_000)
    cut = _find_cut(text)
    place, part = "last " if from_end else "first ", text
    if cut is not None:
        head, tail = text.cut(0, cut.head_end), text.cut(cut.tail_start, len(text))
        if len(_line_ends(head)) + len(_line_ends(tail)) - 2 <= limit:
            return text
        wanted, other = (tail, head) if from_end else (head, tail)
        part = wanted or other
        place = place if wanted else ""  # lines of the other end: only their number is certain
    ends = _line_ends(part)
    shown = len(ends) - 1
    if cut is None and shown <= limit:
        return text
    limit = min(limit, shown)
    lines = part.cut(ends[shown - limit], len(part)) if from_end else part.cut(0, ends[limit])
    # Where the cut counts characters, a line beside it may be half a line.
    number, total, unit = (limit, shown, "lines") if cut is None else (limit, cut.total, cut.unit)
    marker = f"[showing {place}{number if unit == 'lines' else len(lines)} of {total} {unit}]"
    if from_end:
        return TrackedText([TrackedPiece(f"{marker}\n", role="marker"), *lines.pieces])
    line_break = "\n" if lines[-1:] not in ("", "\n") else ""
    return TrackedText([*lines.pieces, TrackedPiece(f"{line_break}{marker}", role="marker")])


def _join(values: Any, separator: Any = " ") -> TrackedText:
    between = _pieces(separator)
    pieces: list[TrackedPiece] = []
    for index, value in enumerate(values if isinstance(values, list | tuple) else [values]):
        pieces.extend((*between, *_pieces(value)) if index else _pieces(value))
    return TrackedText(pieces)


def _indent(value: Any, width: Any = 2) -> TrackedText:
    space = " " * _number(width, MAX_REPEATS)
    return _join([_join([space, line], "") for line in _split(value)], "\n")


def _slice(value: Any, start: Any, length: Any = 1) -> TrackedText:
    text = _text(value)
    at = start if isinstance(start, int) and start >= 0 else max(0, len(text) + int(start))
    return text.cut(at, at + _number(length, len(text)))


def _with_role(role: str) -> Callable[[Any], TrackedText]:
    return lambda value: TrackedText(piece._replace(role=role) for piece in _pieces(value))


def _with_text(change: Callable[[str], str]) -> Callable[[Any], TrackedText]:
    return lambda value: _text(value).replaced_by(change(str.__str__(_text(value))))


FILTERS: dict[str, Callable[..., Any]] = {
    "append": lambda value, other: TrackedText((*_pieces(value), *_pieces(other))),
    "prepend": lambda value, other: TrackedText((*_pieces(other), *_pieces(value))),
    "join": _join,
    "split": _split,
    "lines": _split,
    "slice": _slice,
    "strip": _strip,
    "lstrip": lambda value: _strip(value, right=False),
    "rstrip": lambda value: _strip(value, left=False),
    "first_lines": lambda value, count: _lines(value, count, from_end=False),
    "last_lines": lambda value, count: _lines(value, count, from_end=True),
    "indent": _indent,
    "upcase": _with_text(str.upper),
    "downcase": _with_text(str.lower),
    "capitalize": _with_text(str.capitalize),
    "replace": lambda value, old, new="": _text(value).replaced_by(
        str(_text(value)).replace(str(old), str(new), MAX_REPEATS)
    ),
    "json": lambda value: _text("").replaced_by(json.dumps(value, ensure_ascii=False)),
    "headline": _with_role("headline"),
    "hint": _with_role("hint"),
    "label": _with_role("label"),
}
LANGUAGE = _Language(tolerance=Mode.STRICT, strict_filters=True, autoescape=False)
