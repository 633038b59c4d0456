"""Finds credentials in a text by one table of shapes.

    find_secrets   what is certainly a credential, by a shape that nothing else has, never by its name
    redact         a command's text with whatever may be a credential replaced, by shape and by name

`redact` rather hides too much: a harmless `--sort-key name` loses its value in the preview of the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import methodcaller
from typing import NamedTuple

import msgspec

REDACTED = "[redacted]"


class SecretShape(msgspec.Struct, frozen=True):
    """How one kind of credential looks.

    Every text that contains the shape contains one of its `pieces`, which all begin with the same letter: looking
    for these first costs a hundredth of the pattern. `certain` matches nothing else; `likely` also matches what is
    cut short or of another release.
    """

    kind: str
    pieces: tuple[str, ...]
    certain: re.Pattern[str] | None
    likely: str | None = None


SHAPES = (
    SecretShape(
        "a private key",
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}"),
        r"-----BEGIN (?:[A-Z]+ ){0,4}PRIVATE KEY-----(?:\s|\\n)+[A-Za-z0-9+/=]{16}[A-Za-z0-9+/=\s\\]*"
        r"(?:-----END (?:[A-Z]+ ){0,4}PRIVATE KEY-----)?",
    ),
    SecretShape(
        "an AWS access key",
        ("AKIA", "ASIA"),
        re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}",
    ),
    SecretShape(
        "a GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
        r"\b(?:gh[opusr]_\w{20,}|github_pat_\w{20,})",
    ),
    SecretShape("a GitLab token", ("glpat-",), re.compile(r"\bglpat-[A-Za-z0-9_-]{20}\b"), r"\bglpat-[\w-]{16,}"),
    SecretShape(
        "a Slack token",
        ("xox",),
        re.compile(r"\bxox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}"),
        r"\bxox[a-z]-[\w-]{10,}",
    ),
    SecretShape("an Anthropic key", ("sk-ant-",), re.compile(r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}")),
    SecretShape(
        "an OpenAI key",
        ("sk-",),
        re.compile(r"\bsk-(?:proj-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{48}\b)"),
        r"\bsk-[\w-]{16,}",
    ),
    SecretShape("a Google key", ("AIza",), re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b"), r"\bAIza[\w-]{30,}"),
    SecretShape("a Stripe key", ("k_live_",), re.compile(r"\b[sr]k_live_[A-Za-z0-9]{24,}\b"), r"\b[sr]k_live_\w{16,}"),
    # Documentation is full of web tokens, so none is certain.
    SecretShape("a web token", ("eyJ",), None, r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
)
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
_BY_SHAPE = re.compile("|".join(shape.likely for shape in SHAPES if shape.likely))
_PASSWORD = re.compile(r"://[^\s/:@'\"<>$%{}*]{1,64}:[^\s/:@'\"<>$%{}*]{3,64}@[\w.-]+")
_LONGEST_SCHEME = 21
_SCHEME = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}\Z")
# What documentation writes in place of a password.
_PLACEHOLDER = re.compile(r"EXAMPLE|example|x{4,}|X{4,}|\*{3}|:(?:pass(?:word)?|secret|pwd|token|user|PASSWORD)@")


class ShapeGate(NamedTuple):
    """`has_piece` tests whether one of these shapes may be in a text; `shapes` are kinds with their certain pattern."""

    has_piece: Callable[[str], object]
    shapes: tuple[tuple[str, re.Pattern[str]], ...]


def _gate(shapes: Sequence[SecretShape]) -> ShapeGate:
    """A gate for shapes whose pieces begin with the same letter: one pass over the text looks for all of them."""
    pieces = sorted({piece for shape in shapes for piece in shape.pieces})
    needed = [piece for piece in pieces if not any(other != piece and other in piece for other in pieces)]
    either = re.compile("|".join(map(re.escape, needed))).search
    has_piece = methodcaller("__contains__", needed[0]) if len(needed) == 1 else either
    return ShapeGate(has_piece, tuple((shape.kind, shape.certain) for shape in shapes if shape.certain))


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
    return _BY_SHAPE.sub(REDACTED, text)


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
