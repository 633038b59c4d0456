"""Finds credentials in a text by one table of shapes, which the masks of the dashboard use too.

    find_secrets   what is certainly a credential, by a shape that nothing else has, never by its name
    redact         a command's text with whatever may be a credential replaced, by shape and by name

`redact` rather hides too much: a harmless `--sort-key name` loses its value in the preview of the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import methodcaller
from typing import NamedTuple

import msgspec

from envelopes.text.credential_shapes import SHAPES, SecretShape

REDACTED = "[redacted]"
# Every repetition is bounded or stops at a character that the next attempt would need, so that a command of a
# megabyte takes linear time.
_NAME = r"(?:key(?!word|board)|token(?!iz)|secret|password|passwd|passphrase|pwd|credentials?|auth(?!or)|cookie)"
_VALUE = r"(?:\\\"[^\"]*\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s'\"&;|)]+)"
_BY_NAME = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?P<before>[a-z][a-z0-9+.-]{0,20}://)[^\s/'\"]*(?P<after>@)",
        r"(?P<before>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\s'\"]+(?P<after>)",
        rf"(?P<before>{_NAME}\w{{0,30}}\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}){_VALUE}(?P<after>)",
        rf"(?P<before>(?<![\w-])--?[a-z0-9_-]{{0,40}}{_NAME}[a-z0-9_-]{{0,20}}\s+)(?!-){_VALUE}(?P<after>)",
        r"(?P<before>(?<![\w-])(?:-u\s*|--user[=\s])[\"']?[^\s:'\"/]{1,80}:)[^\s'\"]+(?P<after>)",
        rf"(?P<before>\bsshpass\s+-p\s*|\b(?:mysql|mysqldump|mariadb)\b[^\n;|]{{0,80}}?\s-p){_VALUE}(?P<after>)",
    )
)
_NO_WORD_BEFORE = r"(?:(?<!\w)(?=\w)|(?<=\\[nrtbf])|(?!\w))"


@cache
def _begins() -> tuple[re.Pattern[str], ...]:
    """Finds where one of the shapes may be. Python is quicker with those inside of words when they are apart."""
    outside = "|".join(shape.begins for shape in SHAPES if not shape.inside)
    inside = [shape.begins for shape in SHAPES if shape.inside]
    return re.compile(f"{_NO_WORD_BEFORE}(?:{outside})"), *map(re.compile, inside)


@cache
def _patterns() -> tuple[tuple[SecretShape, re.Pattern[str]], ...]:
    """Compiled when they are needed first, which takes 50 ms."""
    return tuple(
        (shape, re.compile(f"{'' if shape.inside else _NO_WORD_BEFORE}(?:{shape.pattern})")) for shape in SHAPES
    )


_PASSWORD = re.compile(r"://[^\s/:@'\"<>$%{}*]{1,64}:[^\s/:@'\"<>$%{}*]{3,64}@[\w.-]+")
_LONGEST_SCHEME = 21
_SCHEME = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}\Z")
# What documentation writes in place of a password.
_PLACEHOLDER = re.compile(r"EXAMPLE|example|x{4,}|X{4,}|\*{3}|:(?:pass(?:word)?|secret|pwd|token|user|PASSWORD)@")


class ShapeGate(NamedTuple):
    """`has_piece` tests whether one of these shapes may be in a text; `shapes` are titles and certain patterns."""

    has_piece: Callable[[str], object]
    shapes: tuple[tuple[str, re.Pattern[str]], ...]


def _gate(shapes: Sequence[SecretShape]) -> ShapeGate:
    """A gate for shapes whose pieces begin with the same letter: one pass over the text looks for all of them."""
    pieces = sorted({piece for shape in shapes for piece in shape.pieces})
    needed = [piece for piece in pieces if not any(other != piece and other in piece for other in pieces)]
    either = re.compile("|".join(map(re.escape, needed))).search
    has_piece = methodcaller("__contains__", needed[0]) if len(needed) == 1 else either
    return ShapeGate(has_piece, tuple((shape.title, shape.certain) for shape in shapes if shape.certain))


_BY_LETTER = sorted((shape for shape in SHAPES if shape.certain), key=lambda shape: shape.pieces[0][0])
_GATES = tuple(_gate(list(shapes)) for _, shapes in groupby(_BY_LETTER, lambda shape: shape.pieces[0][0]))


class Secret(msgspec.Struct, frozen=True):
    """Characters [start, end) of a text. `kind` is for messages, which never contain the characters themselves."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> Iterator[Secret]:
    """The secrets in the order of the text; those that overlap are one."""
    end = 0
    for start, stop, kind in sorted((*_shaped(text), *_in_addresses(text))):
        if start >= end and not _PLACEHOLDER.search(text[start:stop]):
            yield Secret(kind, start, stop)
            end = stop


def redact(text: str) -> str:
    """`text` with the values of `KEY=…`, `--token …`, headers, URL credentials and known tokens replaced."""
    for pattern in _BY_NAME:
        text = pattern.sub(rf"\g<before>{REDACTED}\g<after>", text)
    for shape, pattern in _patterns() if any(begins.search(text) for begins in _begins()) else ():
        text = _redact_shape(text, shape, pattern)
    return text


def _redact_shape(text: str, shape: SecretShape, pattern: re.Pattern[str]) -> str:
    pieces: list[str] = []
    offset = 0
    for match in pattern.finditer(text):
        start, end = shape.span(match)
        if offset <= start < end:
            pieces += [text[offset:start], REDACTED]
            offset = end
    return "".join([*pieces, text[offset:]])


def _shaped(text: str) -> Iterator[tuple[int, int, str]]:
    for has_piece, shapes in _GATES:
        for kind, certain in shapes if has_piece(text) else ():
            yield from ((match.start(), match.end(), kind) for match in certain.finditer(text))


def _in_addresses(text: str) -> Iterator[tuple[int, int, str]]:
    """`scheme://user:password@host`, found by its `://`, because a scheme may begin at any letter."""
    if "://" not in text:
        return
    for match in _PASSWORD.finditer(text):
        scheme = _SCHEME.search(text, max(0, match.start() - _LONGEST_SCHEME), match.start())
        if scheme:
            yield scheme.start(), match.end(), "a password in an address"
