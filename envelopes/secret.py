"""Finds credentials by shapes that nothing else has. A guess by name (`password = …`) is not made here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

SHAPES: tuple[tuple[str, str], ...] = (
    ("a private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}"),
    ("an AWS access key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{20}\b"),
    ("a Slack token", r"\bxox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}"),
    ("an Anthropic key", r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}"),
    ("an OpenAI key", r"\bsk-(?:proj-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{48}\b)"),
    ("a Google key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("a Stripe key", r"\b[sr]k_live_[A-Za-z0-9]{24,}\b"),
    (
        "a password in an address",
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"<>$%{}*]{1,64}:[^\s/:@'\"<>$%{}*]{3,64}@[\w.-]+",
    ),
)
SHAPE = re.compile("|".join(f"({shape})" for _, shape in SHAPES))
# What documentation writes in a password's place.
PLACEHOLDER = re.compile(r"EXAMPLE|example|x{4,}|X{4,}|\*{3}|:(?:pass(?:word)?|secret|pwd|token|user|PASSWORD)@")


class Secret(msgspec.Struct, frozen=True):
    """`kind` says what it is; the characters themselves are never part of a message."""

    kind: str
    start: int
    end: int


def secrets_in(text: str) -> Iterator[Secret]:
    for found in SHAPE.finditer(text):
        if found.lastindex and not PLACEHOLDER.search(found[0]):
            yield Secret(SHAPES[found.lastindex - 1][0], found.start(), found.end())
