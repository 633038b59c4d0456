"""Aligns JSON text in a receipt with the recorded value that it was written from.

Runtimes print `JSON.stringify` of a result, compact or indented. White space between the tokens is ignored;
names must come in the recorded order. Text that is not JSON of exactly this value gets no link at all. Only
the first 65,536 characters are matched: the links of a megabyte of JSON take more than a second, and nobody
reads that much at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from json import JSONDecodeError, JSONDecoder

from envelopes.alignment.spans import Span
from envelopes.schema.result import JsonValue
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import join

_DECODER = JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
# A run of plain characters, or one escape: the two `\u` of a surrogate pair are one character.
_RUN = re.compile(
    r"(?P<plain>[^\\]+)|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)
MATCHED_CHARACTERS = 65_536


class _Differs(Exception):
    """The text is not JSON of the value."""


class _LimitReached(Exception):
    """The first MATCHED_CHARACTERS of the text agree with the value; the rest is not compared."""


def match_json(text: str, value: JsonValue, pointer: str, *, start: int = 0) -> list[Span]:
    """Links `text` from `start` to its end when it is JSON of `value`."""
    spans, end = match_json_at(text, start, value, pointer)
    return spans if text[end:].strip() == "" else []


def match_json_at(text: str, at: int, value: JsonValue, pointer: str) -> tuple[list[Span], int]:
    """Returns the links and the end of the JSON; no links and `at` when the text is not JSON of `value`."""
    spans: list[Span] = []
    try:
        return spans, _match(text, at, value, pointer, spans)
    except _LimitReached:
        return spans, len(text)
    except _Differs:
        return [], at


def place_in_json(text: str, at: int, spans: Iterable[Span]) -> Iterator[Span]:
    """Moves spans of a decoded string to its JSON, which begins behind its quote at character `at` of `text`.

    An escape is a span of its own: without it the line that it is in would count as not shown.
    """
    offset = 0
    for span in sorted(spans):
        while offset < span.end and (run := _RUN.match(text, at)):
            edge = span.start if offset < span.start else span.end
            length = min(len(run[0]), edge - offset) if run["plain"] else 1
            end = at + length if run["plain"] else run.end()
            if offset >= span.start:
                value = span.value_start + offset - span.start
                yield Span(at, end, span.pointer, value, value + length)
            at, offset = end, offset + length


def _match(text: str, at: int, value: JsonValue, pointer: str, spans: list[Span]) -> int:
    at = _skip(text, at)
    if at > MATCHED_CHARACTERS:
        raise _LimitReached
    match value:
        case str():
            return _string(text, at, value, pointer, spans)
        case dict():
            return _object(text, at, value, pointer, spans)
        case list():
            return _array(text, at, value, pointer, spans)
        case _:
            return _scalar(text, at, value, pointer, spans)


def _object(text: str, at: int, value: dict[str, JsonValue], pointer: str, spans: list[Span]) -> int:
    at = _token(text, at, "{")
    for index, (key, child) in enumerate(value.items()):
        at = _token(text, at, ",") if index else at
        at = _string(text, _skip(text, at), key, pointer, [])
        at = _match(text, _token(text, at, ":"), child, join(pointer, key), spans)
    return _token(text, at, "}")


def _array(text: str, at: int, value: list[JsonValue], pointer: str, spans: list[Span]) -> int:
    at = _token(text, at, "[")
    for index, child in enumerate(value):
        at = _token(text, at, ",") if index else at
        at = _match(text, at, child, join(pointer, index), spans)
    return _token(text, at, "]")


def _scalar(text: str, at: int, value: JsonValue, pointer: str, spans: list[Span]) -> int:
    if value is None or isinstance(value, bool):
        end = _token(text, at, scalar_text(value))
    else:
        end = _number_end(text, at, value)
    spans.append(Span(at, end, pointer))
    return end


def _number_end(text: str, at: int, value: JsonValue) -> int:
    """Compares the number, not its notation: 1.0 may be printed as 1, and 1e21 with all its digits."""
    number = _NUMBER.match(text, at)
    if number is None or (number[0] != str(value) and float(number[0]) != value):
        raise _Differs
    return number.end()


def _string(text: str, at: int, value: str, pointer: str, spans: list[Span]) -> int:
    if not text.startswith('"', at):
        raise _Differs
    try:
        decoded, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError:
        raise _Differs from None
    if decoded != value:
        raise _Differs
    offset = 0
    for run in _RUN.finditer(text, at + 1, end - 1):
        length = run.end() - run.start() if run["plain"] else 1
        if run["plain"]:
            spans.append(Span(run.start(), run.end(), pointer, offset, offset + length))
        offset += length
    return end


def _token(text: str, at: int, token: str) -> int:
    at = _skip(text, at)
    if not text.startswith(token, at):
        raise _Differs
    return at + len(token)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
