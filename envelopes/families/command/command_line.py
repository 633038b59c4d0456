"""What may be said of a command's text: a short preview without secrets, and its digest.

A command may hold credentials and whole scripts. A preview therefore has its heredocs and inline
scripts replaced by a note, what looks like a secret by `[redacted]`, its white space joined, and
ends after 240 characters (spec/tools.md B.0). Redacting comes before cutting, so that no half of a
secret escapes its pattern. The sha256 is over the command as it was given.

What is redacted is decided by names and shapes, so it errs on the side of hiding: a harmless
`--sort-key name` loses its value in the preview, never in the command.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

PREVIEW_CHARACTERS = 240
SOFT_THRESHOLD = 4_000  # characters; a longer command is better kept in a file and run from there
CHARACTERS_PER_TOKEN = 4
DEFAULT_OUTPUT_TOKENS = 8_000
MOST_OUTPUT_TOKENS = 64_000
REDACTED = "[redacted]"
HEREDOC_NOTE = "[heredoc left out]"
SCRIPT_NOTE = "[inline script left out]"

# Every repetition is bounded or stops at a character that the next attempt would need, so that a
# command of a megabyte takes linear time.
_NAME = r"(?:key(?!word|board)|token(?!iz)|secret|password|passwd|passphrase|pwd|credentials?|auth(?!or)|cookie)"
_VALUE = r"(?:\\\"[^\"]*\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s'\"&;|)]+)"
_SECRETS = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        (r"([a-z][a-z0-9+.-]{0,20}://)[^\s/'\"]*@", rf"\1{REDACTED}@"),
        (r"(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\s'\"]+", rf"\1{REDACTED}"),
        (rf"({_NAME}\w{{0,30}}\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}){_VALUE}", rf"\1{REDACTED}"),
        (rf"(?<![\w-])(--?[a-z0-9_-]{{0,40}}{_NAME}[a-z0-9_-]{{0,20}}\s+)(?!-){_VALUE}", rf"\1{REDACTED}"),
        (r"(?<![\w-])((?:-u\s*|--user[=\s])[\"']?[^\s:'\"/]{1,80}:)[^\s'\"]+", rf"\1{REDACTED}"),
        (rf"(\bsshpass\s+-p\s*|\b(?:mysql|mysqldump|mariadb)\b[^\n;|]{{0,80}}?\s-p){_VALUE}", rf"\1{REDACTED}"),
        (
            r"\b(?:gh[opusr]_\w{20,}|github_pat_\w{20,}|sk-[\w-]{16,}|xox[a-z]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
            r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)",
            REDACTED,
        ),
    )
)
_INLINE_SCRIPT = re.compile(
    r"(\b(?:python[\d.]{0,5}|node|deno|bun|perl|ruby|php|bash|sh|zsh|pwsh)\s+(?:-[\w-]{1,20}\s+){0,4}?-(?:[ce]|[a-z]c)\s+)"
    r"('[^']*'|\"(?:[^\"\\]|\\.)*\")"
)
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(?:'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|\\?([A-Za-z_][\w.-]{0,80}))")


class CommandText(msgspec.Struct, frozen=True, kw_only=True):
    """`preview` is for receipts, lists and logs; `digest` is the sha256 of the whole command, in hex."""

    preview: str
    digest: str
    contains_heredoc: bool
    contains_inline_script: bool


def describe(cmd: str) -> CommandText:
    text, has_heredoc = _without_heredocs(cmd)
    text, scripts = _INLINE_SCRIPT.subn(rf"\1{SCRIPT_NOTE}", text)
    shown = " ".join(redacted(text).split())
    return CommandText(
        preview=shown if len(shown) <= PREVIEW_CHARACTERS else shown[: PREVIEW_CHARACTERS - 1] + "…",
        digest=hashlib.sha256(cmd.encode("utf-8", "surrogatepass")).hexdigest(),
        contains_heredoc=has_heredoc,
        contains_inline_script=scripts > 0,
    )


def redacted(text: str) -> str:
    """`text` with the values of `KEY=…`, `--token …`, headers, URL credentials and known tokens replaced."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def output_tokens(asked: int | None) -> int:
    """How many tokens of output a command may show: 0 and None mean the default, 64,000 is the most."""
    return min(asked, MOST_OUTPUT_TOKENS) if asked and asked > 0 else DEFAULT_OUTPUT_TOKENS


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
