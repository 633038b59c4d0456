"""Finds credentials by shapes that nothing else has. A guess by name (`password = …`) is not made here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

# Kind, what its text must hold, shape: looking for the piece first costs a hundredth of trying the shape everywhere.
SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    (
        "a private key",
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}"),
    ),
    ("an AWS access key", ("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b")),
    (
        "a GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
    ),
    ("a GitLab token", ("glpat-",), re.compile(r"\bglpat-[A-Za-z0-9_-]{20}\b")),
    ("a Slack token", ("xox",), re.compile(r"\bxox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}")),
    ("an Anthropic key", ("sk-ant-",), re.compile(r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}")),
    ("an OpenAI key", ("sk-",), re.compile(r"\bsk-(?:proj-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{48}\b)")),
    ("a Google key", ("AIza",), re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b")),
    ("a Stripe key", ("k_live_",), re.compile(r"\b[sr]k_live_[A-Za-z0-9]{24,}\b")),
)
_PASSWORD = re.compile(r"://[^\s/:@'\"<>$%{}*]{1,64}:[^\s/:@'\"<>$%{}*]{3,64}@[\w.-]+")
LONGEST_SCHEME = 21
_SCHEME = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}\Z")
# What documentation writes in a password's place.
PLACEHOLDER = re.compile(r"EXAMPLE|example|x{4,}|X{4,}|\*{3}|:(?:pass(?:word)?|secret|pwd|token|user|PASSWORD)@")


class Secret(msgspec.Struct, frozen=True):
    """`kind` says what it is; the characters themselves are never part of a message."""

    kind: str
    start: int
    end: int


def secrets_in(text: str) -> Iterator[Secret]:
    """In the order of the text. Those that overlap are one secret."""
    end = 0
    for start, stop, kind in sorted((*_shaped(text), *_in_addresses(text))):
        if start >= end and not PLACEHOLDER.search(text[start:stop]):
            yield Secret(kind, start, stop)
            end = stop


def _shaped(text: str) -> Iterator[tuple[int, int, str]]:
    for kind, pieces, shape in SHAPES:
        if any(piece in text for piece in pieces):
            yield from ((found.start(), found.end(), kind) for found in shape.finditer(text))


def _in_addresses(text: str) -> Iterator[tuple[int, int, str]]:
    """`scheme://user:password@host`, sought from its `://`, for a scheme may begin at any letter."""
    for found in _PASSWORD.finditer(text):
        scheme = _SCHEME.search(text, max(0, found.start() - LONGEST_SCHEME), found.start())
        if scheme:
            yield scheme.start(), found.end(), "a password in an address"
