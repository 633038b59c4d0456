"""A short preview of a command without secrets, and its digest.

A command may hold credentials and whole scripts. In its preview heredocs and inline scripts are replaced by a
note and whatever looks like a secret by `[redacted]` (`envelopes.text.credentials`); white space is joined, and
the preview ends after 240 characters (spec/tools.md B.0). Redacting comes before cutting, so that no half of a
secret escapes its pattern. The sha256 is over the command as it was given.

Every family previews commands with this, in the canonical result and so in each receipt.
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
    lines = cmd.split("\n")
    outside = list(_without_heredocs(lines)) if "<<" in cmd else lines
    text, scripts = _INLINE_SCRIPT.subn(rf"\1{SCRIPT_NOTE}", "\n".join(outside))
    preview = " ".join(redact(text).split())
    return CommandPreview(
        preview=preview if len(preview) <= PREVIEW_CHARACTERS else preview[: PREVIEW_CHARACTERS - 1] + "…",
        digest=hashlib.sha256(cmd.encode("utf-8", "surrogatepass")).hexdigest(),
        contains_heredoc=len(outside) != len(lines) or ("<<" in cmd and HEREDOC_NOTE in outside),
        contains_inline_script=scripts > 0,
    )


def _without_heredocs(lines: list[str]) -> Iterator[str]:
    """The lines with a note for the text of each heredoc. One without a closing line is none: `1 << shift`."""
    positions: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        positions.setdefault(line.strip("\t"), []).append(number)
    at = 0
    while at < len(lines):
        yield lines[at]
        for words in _HEREDOC.findall(lines[at]):
            word = "".join(words)
            ends = positions.get(word, [])
            following = bisect_right(ends, at)
            if following < len(ends):
                yield HEREDOC_NOTE
                yield word
                at = ends[following]
        at += 1
