"""What may be said of a command's text: a short preview without secrets, and its digest.

A command may hold credentials and whole scripts. A preview therefore has its heredocs and inline
scripts replaced by a note, what looks like a secret by `[redacted]` (envelopes/text/credentials.py), its white
space joined, and ends after 240 characters (spec/tools.md B.0). Redacting comes before cutting, so
that no half of a secret escapes its pattern. The sha256 is over the command as it was given.

Every family that says something of a command says this, in the canonical result and so in each receipt.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from envelopes.text.credentials import redact

PREVIEW_CHARACTERS = 240
HEREDOC_NOTE = "[heredoc left out]"
SCRIPT_NOTE = "[inline script left out]"

_INLINE_SCRIPT = re.compile(
    r"(\b(?:python[\d.]{0,5}|node|deno|bun|perl|ruby|php|bash|sh|zsh|pwsh)\s+(?:-[\w-]{1,20}\s+){0,4}?-(?:[ce]|[a-z]c)\s+)"
    r"('[^']*'|\"(?:[^\"\\]|\\.)*\")"
)
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(?:'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|\\?([A-Za-z_][\w.-]{0,80}))")


class CommandPreview(msgspec.Struct, frozen=True, kw_only=True):
    """`preview` is for receipts, lists and logs; `digest` is the sha256 of the whole command, in hex."""

    preview: str
    digest: str
    contains_heredoc: bool
    contains_inline_script: bool


def preview_command(cmd: str) -> CommandPreview:
    text, has_heredoc = _without_heredocs(cmd)
    text, scripts = _INLINE_SCRIPT.subn(rf"\1{SCRIPT_NOTE}", text)
    shown = " ".join(redact(text).split())
    return CommandPreview(
        preview=shown if len(shown) <= PREVIEW_CHARACTERS else shown[: PREVIEW_CHARACTERS - 1] + "…",
        digest=hashlib.sha256(cmd.encode("utf-8", "surrogatepass")).hexdigest(),
        contains_heredoc=has_heredoc,
        contains_inline_script=scripts > 0,
    )


def _without_heredocs(cmd: str) -> tuple[str, bool]:
    if "<<" not in cmd:
        return cmd, False
    lines = cmd.split("\n")
    kept = list(_kept_lines(lines))
    return "\n".join(kept), len(kept) != len(lines) or HEREDOC_NOTE in kept


def _kept_lines(lines: list[str]) -> Iterator[str]:
    """The lines outside of heredocs. What has no closing line is none: `1 << shift` looks alike."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip("\t"), []).append(number)
    at = 0
    while at < len(lines):
        yield lines[at]
        for words in _HEREDOC.findall(lines[at]):
            word = "".join(words)
            ends = places.get(word, [])
            following = bisect_right(ends, at)
            if following < len(ends):
                yield HEREDOC_NOTE
                yield word
                at = ends[following]
        at += 1
