"""The language of template variants: Liquid with few tags, few filters, and strings that know where they are from.

Needs the standard library and python-liquid alone, and runs in a process of its own (`template_worker`).
A `Tracked` string is a list of pieces, each with the pointer of the field and the characters of it that it
is. Filters that take a part keep both; filters that reword keep the pointer; anything else loses the source:
no link is better than a false one. `true` and `false` have no source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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
KEPT_FILTERS = (
    *("abs", "at_least", "at_most", "ceil", "floor", "round", "plus", "minus", "times", "divided_by", "modulo"),
    *("default", "size", "first", "last", "map", "where", "reject", "compact", "concat", "reverse", "sort", "uniq"),
    *("sum", "find", "has"),
)
OUTPUT = 400_000  # characters that a template may write
LOCALS = 8_000_000  # bytes that it may hold in variables
LOOPS = 200_000  # rounds of nested loops together
REPEATS = 1_000
STRING = 1_000_000  # characters of one text
PIECES = 50_000


class Piece(NamedTuple):
    text: str
    pointer: str | None = None
    start: int | None = None
    end: int | None = None
    role: str = ""


def _joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Without empty ones; words of the template's own that follow each other are one piece."""
    kept: list[Piece] = []
    for piece in pieces:
        before = kept[-1] if kept else None
        if before and piece.pointer is None and before.pointer is None and piece.role == before.role:
            kept[-1] = Piece(before.text + piece.text, role=piece.role)
        elif piece.text:
            kept.append(piece)
    return tuple(kept)


class Tracked(str):
    """A string and the pieces that it is made of."""

    pieces: tuple[Piece, ...]

    def __new__(cls, pieces: Iterable[Piece]) -> Tracked:
        kept = _joined(pieces)
        if len(kept) > PIECES or sum(len(piece.text) for piece in kept) > STRING:
            raise OutputStreamLimitError("a text that it makes is too long", token=None)
        made = super().__new__(cls, "".join(piece.text for piece in kept))
        made.pieces = kept
        return made

    def cut(self, start: int, end: int) -> Tracked:
        """Characters [start, end), each still where it was."""
        found, at = [], 0
        for piece in self.pieces:
            first, last = max(start - at, 0), min(end - at, len(piece.text))
            if first < last:
                place = piece._replace(text=piece.text[first:last])
                if piece.start is not None:
                    place = place._replace(start=piece.start + first, end=piece.start + last)
                found.append(place)
            at += len(piece.text)
        return Tracked(found)

    def reworded(self, text: str) -> Tracked:
        """Another text for the same field: no slice of it, but from it."""
        pointers = {piece.pointer for piece in self.pieces}
        return Tracked([Piece(text, pointers.pop() if len(pointers) == 1 else None)])


class TrackedInt(int):
    tracked: Tracked

    def __str__(self) -> str:
        return self.tracked


class TrackedFloat(float):
    tracked: Tracked

    def __str__(self) -> str:
        return self.tracked


def tracked(value: Any, pointer: str = "") -> Any:
    """The same JSON value with leaves that know their pointers."""
    match value:
        case str():
            return Tracked([Piece(value, pointer, 0, len(value))])
        case bool() | None:
            return value
        case int() | float():
            made = TrackedInt(value) if isinstance(value, int) else TrackedFloat(value)
            made.tracked = Tracked([Piece(json.dumps(value), pointer)])
            return made
        case dict():
            return {key: tracked(child, f"{pointer}/{_token(key)}") for key, child in value.items()}
        case _:
            return [tracked(child, f"{pointer}/{index}") for index, child in enumerate(value)]


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


class _Buffer(StringIO):
    """Collects what is written, with its pieces."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.size = 0
        self.limit = limit
        self.pieces: list[Piece] = []

    def write(self, text: str, /) -> int:
        self.size += len(text)
        if self.size > self.limit:
            raise OutputStreamLimitError(f"it writes more than {OUTPUT:,} characters", token=None)
        self.pieces.extend(_pieces(text))
        return len(text)

    def getvalue(self) -> Tracked:
        return Tracked(self.pieces)


class _Context(RenderContext):
    def get_buffer(self, buf: Any = None) -> _Buffer:
        return _Buffer(OUTPUT - (buf.size if isinstance(buf, _Buffer) else 0))


class _Template(BoundTemplate):
    context_class = _Context

    def _get_buffer(self) -> _Buffer:
        return _Buffer(OUTPUT)


class _Language(Environment):
    template_class = _Template
    loop_iteration_limit = LOOPS
    local_namespace_limit = LOCALS
    context_depth_limit = 20
    block_nesting_limit = 20

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        super().setup_tags_and_filters(extra=False)
        self.tags = {name: tag for name, tag in self.tags.items() if name in TAGS}
        self.filters = {name: self.filters[name] for name in KEPT_FILTERS} | FILTERS


@lru_cache(maxsize=8)  # a comparison renders the same text for call after call
def parsed(source: str) -> BoundTemplate:
    """Raises LiquidError, with the token where it is wrong."""
    template = LANGUAGE.from_string(source)
    found = template.analyze()
    for variables in found.variables.values():
        for one in variables:
            if any(str(segment).startswith("_") for segment in one.segments):
                raise _at(source, one.span.index, "names that begin with an underscore are not reachable")
    for name, spans in found.filters.items():
        if name not in LANGUAGE.filters:
            raise _at(source, spans[0].index, f"there is no filter {name!r}")
    for name, variables in found.globals.items():
        if name not in ROOTS:
            said = f"there is no {name!r}: a template has {', '.join(sorted(ROOTS))}, and what it assigns"
            raise _at(source, variables[0].span.index, said)
    return template


def _at(source: str, index: int, reason: str) -> LiquidError:
    error = LiquidError(reason, token=None)
    error.line = source.count("\n", 0, max(index, 0)) + 1  # type: ignore[attr-defined]
    return error


def written(source: str, canonical: dict[str, Any]) -> list[Piece]:
    """Raises LiquidError, RecursionError and MemoryError."""
    template = parsed(source)
    context = _Context(template, globals=tracked(canonical))
    buffer = _Buffer(OUTPUT)
    template.render_with_context(context, buffer)
    return buffer.pieces


def line_of(error: LiquidError) -> int | None:
    known = getattr(error, "line", None)
    if known is not None:
        return int(known)
    token = error.token
    return None if token is None or token.start_index < 0 else token.source.count("\n", 0, token.start_index) + 1


def _pieces(value: Any) -> tuple[Piece, ...]:
    """Of anything that Liquid may put out."""
    match value:
        case Tracked():
            return value.pieces
        case TrackedInt() | TrackedFloat():
            return value.tracked.pieces
        case str():
            return (Piece(value),) if value else ()
        case None | Undefined():
            return ()
        case bool():
            return (Piece(str(value).lower()),)
        case list():
            return tuple(piece for one in value for piece in _pieces(one))
        case _:
            return (Piece(str(value)),)


def _text(value: Any) -> Tracked:
    return value if isinstance(value, Tracked) else Tracked(_pieces(value))


def _number(value: Any, most: int) -> int:
    try:
        return max(0, min(int(value), most))
    except (TypeError, ValueError, OverflowError):
        return 0


def _split(value: Any, separator: Any = "\n") -> list[Tracked]:
    text, mark = _text(value), str(separator) or "\n"
    found, at = [], 0
    while (end := text.find(mark, at)) >= 0:
        found.append(text.cut(at, end))
        at = end + len(mark)
    return [*found, text.cut(at, len(text))]


def _strip(value: Any, *, left: bool = True, right: bool = True) -> Tracked:
    text = _text(value)
    start = len(text) - len(text.lstrip()) if left else 0
    return text.cut(start, len(text.rstrip()) if right else len(text))


def _lines(value: Any, count: Any, *, from_end: bool) -> Tracked:
    """Whole lines of one end, and how many there are when that is not all of them."""
    text, wanted = _text(value), _number(count, 1_000_000)
    ends = [0]
    while (end := text.find("\n", ends[-1])) >= 0:
        ends.append(end + 1)
    if ends[-1] < len(text):
        ends.append(len(text))
    total = len(ends) - 1
    if total <= wanted:
        return text
    said = Piece(f"[showing {'last' if from_end else 'first'} {wanted} of {total} lines]", role="marker")
    if from_end:
        return Tracked([said, Piece("\n", role="marker"), *text.cut(ends[total - wanted], len(text)).pieces])
    return Tracked([*text.cut(0, ends[wanted]).pieces, said])


def _join(values: Any, separator: Any = " ") -> Tracked:
    between = _pieces(separator)
    found: list[Piece] = []
    for index, one in enumerate(values if isinstance(values, list | tuple) else [values]):
        found.extend((*between, *_pieces(one)) if index else _pieces(one))
    return Tracked(found)


def _indent(value: Any, width: Any = 2) -> Tracked:
    space = " " * _number(width, REPEATS)
    return _join([_join([space, line], "") for line in _split(value)], "\n")


def _slice(value: Any, start: Any, length: Any = 1) -> Tracked:
    text = _text(value)
    at = start if isinstance(start, int) and start >= 0 else max(0, len(text) + int(start))
    return text.cut(at, at + _number(length, len(text)))


def _with_role(role: str) -> Callable[[Any], Tracked]:
    return lambda value: Tracked(piece._replace(role=role) for piece in _pieces(value))


def _reworded(change: Callable[[str], str]) -> Callable[[Any], Tracked]:
    return lambda value: _text(value).reworded(change(str.__str__(_text(value))))


FILTERS: dict[str, Callable[..., Any]] = {
    "append": lambda value, other: Tracked((*_pieces(value), *_pieces(other))),
    "prepend": lambda value, other: Tracked((*_pieces(other), *_pieces(value))),
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
    "upcase": _reworded(str.upper),
    "downcase": _reworded(str.lower),
    "capitalize": _reworded(str.capitalize),
    "replace": lambda value, old, new="": _text(value).reworded(str(_text(value)).replace(str(old), str(new), REPEATS)),
    "json": lambda value: _text("").reworded(json.dumps(value, ensure_ascii=False)),
    "headline": _with_role("headline"),
    "hint": _with_role("hint"),
    "label": _with_role("label"),
}
LANGUAGE = _Language(tolerance=Mode.STRICT, strict_filters=True, autoescape=False)
