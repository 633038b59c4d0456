"""Cuts that a source made before it recorded anything, which comparing the halves cannot find, and inflated receipts.

What an agent or a tool leaves out of an output is in neither half. It writes one of these marks in its place:

    failure  ... [39012 characters truncated] ...  between the halves, 5,000 characters each, of a long failure
    stream   ... [40 lines truncated] ...          behind the first 30,000 characters, or between two halves of them
    task     [Truncated. Full output: /tmp/b1]     before the end of a task's output; or as for a stream
    server   [OUTPUT TRUNCATED - exceeded …]       behind the beginning of what an MCP server returned
             result (… characters) exceeds …       in place of all of it; in place of a failure as well
    notebook Outputs are too large to include. …   in place of the outputs of a cell
    file     ... [truncated]                       behind the first 2,000 characters of a line
             ... (line truncated to 2000 chars)     the same in OpenCode
    matches  [Omitted long matching line]          in place of a line that ripgrep does not print
    stream   <START_TOOL_OUTPUT>                   before what Inspect left of an output that was too long
             <response clipped>                     behind what SWE-agent and its editor left of one
             Tool output was too large …            before what the Gemini CLI left of one that it saved
             [... truncated for saved session …]    between the halves of what Qwen Code records of one
             [... output limited to 10000 bytes; …] between the halves, 5,000 bytes each, of what Terminus sends
    middle   …5549 chars truncated…                 between the halves, 5,000 bytes each, of what Codex records
             ... command output truncated for       between the halves, 32 KiB each, of what later releases record
             persistence ...
             ... 1981727 bytes omitted ...          between the halves, 512 KiB each, of what a command printed
    dropped  <output too long - dropped 3578 …      between the halves, 5,000 characters each, of what the Copilot CLI
             lines from the middle>                 records of what a server returned
             [Truncated — full output (96.6 KB) …]  behind the first 5,000 in other releases
    receipt  …768 tokens truncated…                 between the halves of what Codex sent, often behind a line with the
                                                    number of lines, and `Warning: truncated output` in code mode
             (Results are truncated. …)            behind a listing of 100 files

Files and outputs may contain these texts themselves, so a mark is one only in this form and at this place. Sizes are
compared loosely, because names in a published log were replaced by shorter or longer ones. Previews of outputs that
an agent saved to a file are in `saved_outputs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from envelopes.text.preview import Cut

SourceCutUnit: TypeAlias = Literal[
    "characters", "lines", "line ends", "long lines", "files", "matches", "output", "tokens"
]
CutPlace: TypeAlias = Literal["failure", "stream", "task", "server", "notebook", "file", "matches", "middle", "dropped"]

LEAST_HALF = 2_500  # characters on each side of a mark; the agent leaves 5,000 or more
LOPSIDED = 2  # the longer half around a mark has at most so many times the characters of the shorter one
_LISTING_LIMIT = "\n(Results are truncated. Consider using a more specific path or pattern.)"

_TRUNCATED = re.compile(
    r"\n\n\.\.\. \[(?P<count>\d{1,12}) (?P<unit>lines|characters) truncated\] \.\.\."
    r"(?:(?:\nShell cwd was reset to [^\n]*)?\s*\Z|\n\n)"
)
_SAVED_TASK = re.compile(r"\A\s*\[Truncated\. Full output: [^\n]*\]\n\n")
_TOKEN_LIMIT = re.compile(
    r"(?:\A|\n\n)\[OUTPUT TRUNCATED - exceeded \d+ token limit\]\n\nThe tool output was truncated[^\n]*\Z"
)
_SAVED_RESULT = re.compile(
    r"\A(?:Error: )?result \([\d,]+ characters(?: across (?P<total>\d[\d,]{0,14}) lines)?[^)\n]*\)"
    r" exceeds maximum allowed tokens\. Output has been saved to [\s\S]*"
)
_LARGE_OUTPUTS = re.compile(r"\AOutputs are too large to include\. Use [\s\S]*")
_LINE_END = re.compile(r"^[^\n]{1000,2500}(?:\.\.\.|…) ?\[truncated\]$", re.MULTILINE)
_LONG_LINE_END = re.compile(r"^[^\n]{1000,2500}\.\.\. \(line truncated to \d{4} chars\)$", re.MULTILINE)
_LONG_LINE = re.compile(
    r"^(?:[^\n]*[:-])?\[Omitted long (?:matching line|context line|line with \d+ matches)\]$", re.MULTILINE
)
_MIDDLE = re.compile(r"…(?P<count>\d{1,12}) chars truncated…")
_PERSISTED = re.compile(r"\n\.\.\. command output truncated for persistence \.\.\.\n")
_OMITTED = re.compile(r"\n\.\.\. \d{1,15} bytes omitted \.\.\.\n")
_DROPPED = re.compile(
    r"^<output too long - dropped (?P<count>\d{1,12}) (?P<unit>lines) from the middle>$", re.MULTILINE
)
_UNRECORDED = re.compile(
    r"(?:\n<output too long - dropped [^\n]*)?\n\n\[Truncated — full output \([^)\n]*\) saved to [^\n]+\]\Z"
)
_CLIPPED = re.compile(r"(?:…|\.\.\.)?<response clipped>(?=<NOTE>|\s*\Z)")
_TOO_LARGE = re.compile(r"\ATool output was too large and has been truncated\.\n")
_SESSION_PREVIEW = re.compile(r"\n\[\.\.\. truncated for saved session preview; original length: \d{1,12}[^\n\]]*\]\n")
_SCREEN = re.compile(r"\n\[\.\.\. output limited to \d{1,12} bytes; \d{1,15} interior bytes omitted \.\.\.\]\n")
_TOKENS = re.compile(r"…(?P<count>\d{1,12}) tokens truncated…")
_WARNING = r"Warning: truncated output \(original token count: \d{1,12}\)\n"
TOKENS_HEAD = re.compile(
    rf"(?:{_WARNING})?Total output lines: (?P<total>\d{{1,12}})\n\n"
    rf"|{_WARNING}\.\.\. \d{{1,15}} bytes omitted \.\.\.\n\n"
)
# The header of code mode, or of an answer of an MCP server, may stand before it.
_CODE_MODE = re.compile(
    rf"\A(?:[^\n]*\nWall time:? [\d.]+ seconds\nOutput:\n)?{_WARNING}|\[omitted \d{{1,6}} text items \.\.\.\]\s*\Z"
)
_SHORTENED = re.compile(
    r"\A\s*The output of your call to \S+ was too long to be displayed\.\n"
    r"Here is a truncated version:\n<START_TOOL_OUTPUT>"
)
_BETWEEN_HALVES = (_TRUNCATED, _MIDDLE, _PERSISTED, _OMITTED, _SESSION_PREVIEW, _DROPPED, _SCREEN)
# For each place: a text without which no mark is there, the mark, and the unit of what it replaces.
_MARKS: dict[CutPlace, tuple[tuple[str, re.Pattern[str], SourceCutUnit], ...]] = {
    "stream": (
        (" truncated] ...", _TRUNCATED, "characters"),
        ("<START_TOOL_OUTPUT>", _SHORTENED, "output"),
        ("<response clipped>", _CLIPPED, "output"),
        ("has been truncated.", _TOO_LARGE, "output"),
        (" saved session preview; ", _SESSION_PREVIEW, "output"),
        (" interior bytes omitted ...]", _SCREEN, "output"),
    ),
    "task": (("[Truncated. ", _SAVED_TASK, "output"), (" truncated] ...", _TRUNCATED, "characters")),
    "failure": ((" exceeds maximum allowed ", _SAVED_RESULT, "output"), (" truncated] ...", _TRUNCATED, "characters")),
    "server": (("[OUTPUT TRUNCATED ", _TOKEN_LIMIT, "output"), (" exceeds maximum allowed ", _SAVED_RESULT, "output")),
    "notebook": (("too large to include", _LARGE_OUTPUTS, "output"),),
    "file": (
        ("[truncated]", _LINE_END, "line ends"),
        (" (line truncated to ", _LONG_LINE_END, "line ends"),
    ),
    "matches": (("[Omitted long ", _LONG_LINE, "long lines"),),
    "middle": (
        (" chars truncated…", _MIDDLE, "characters"),
        (" truncated for persistence ...", _PERSISTED, "output"),
        (" bytes omitted ...", _OMITTED, "output"),
    ),
    "dropped": (
        (" lines from the middle>", _DROPPED, "output"),
        ("\n[Truncated — full output ", _UNRECORDED, "output"),
    ),
}


class SourceCut(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an output that is in neither half.

    `pointer` is the recorded field that lacks it, `count` the size in `unit`, None where the source did not record it.
    Those in `tokens` are missing from the receipt, and may be in the record.
    The lines [start, end) of that field, from 0, are the mark and the lines that it breaks off. They stand for `lines`
    lines of the complete output, or more where `count` is no number of lines. `is_limit`: a tool stopped at its own
    limit, which the arguments of the call did not set.
    """

    pointer: str
    unit: SourceCutUnit
    count: int | None = None
    start: int = 0
    end: int = 0
    lines: int = 0
    is_limit: bool = False


def is_saved_result(text: str) -> bool:
    """True for what Claude Code wrote in place of a server's answer, which it saved to a file: the call succeeded."""
    return _SAVED_RESULT.match(text) is not None


def find_receipt_cuts(receipt: str) -> tuple[SourceCut, ...]:
    """The cuts that a receipt other than a preview shows by itself, where no result was recorded."""
    if receipt.endswith(_LISTING_LIMIT):
        return (SourceCut(pointer="", unit="files", is_limit=True),)
    return find_source_cuts(receipt, "", "failure") + find_token_cuts(receipt)


def find_token_cuts(text: str) -> tuple[SourceCut, ...]:
    """The cut that Codex made in a receipt, or in the output in it. What the tool returned may be in the record."""
    if "truncated" not in text and "[omitted " not in text:
        return ()
    marks = list(_TOKENS.finditer(text))
    middle = [mark for mark in marks if _is_between_halves(mark.start(), len(text) - mark.end())]
    for mark in middle or (marks if TOKENS_HEAD.match(text) else ()):
        return (SourceCut(pointer="", unit="tokens", count=int(mark["count"])),)
    return (SourceCut(pointer="", unit="tokens"),) if _CODE_MODE.search(text) else ()


def find_source_cuts(text: str, pointer: str, place: CutPlace, *, start: int = 0) -> tuple[SourceCut, ...]:
    """The cuts that marks of this place show in a recorded text, from character `start`."""
    return tuple(_cut_at(mark, text, pointer, unit) for mark, unit in find_marks(text, place, start=start))


def find_marks(text: str, place: CutPlace, *, start: int = 0) -> Iterator[tuple[re.Match[str], SourceCutUnit]]:
    """The marks of this place in a text, from character `start`, with the unit of what each replaces."""
    for hint, pattern, unit in _MARKS[place]:
        for mark in pattern.finditer(text, start) if hint in text else ():
            between = pattern not in _BETWEEN_HALVES or _is_between_halves(mark.start() - start, len(text) - mark.end())
            if between:
                yield mark, unit


def _is_between_halves(before: int, behind: int) -> bool:
    """Checks that a mark is behind a long beginning, or between two long texts of about the same length."""
    if behind == 0:
        return before >= LEAST_HALF
    return min(before, behind) >= LEAST_HALF and max(before, behind) <= LOPSIDED * min(before, behind)


def _cut_at(mark: re.Match[str], text: str, pointer: str, unit: SourceCutUnit) -> SourceCut:
    groups = mark.groupdict()
    stated = groups.get("count") or groups.get("total")
    count = int(stated.replace(",", "")) if stated else 1 if unit in ("line ends", "long lines") else None
    is_lines = groups.get("unit") == "lines" or bool(groups.get("total"))
    first, total = text.count("\n", 0, mark.start()), text.count("\n") + (not text.endswith("\n"))
    return SourceCut(
        pointer=pointer,
        unit="lines" if is_lines else unit,
        count=count,
        start=first,
        end=min(total, first + 1 + text.count("\n", mark.start(), mark.end())),
        lines=max(1, count or 0) if is_lines else 1,
    )


def complete_cut(cut: Cut, source_cuts: Iterable[SourceCut]) -> Cut:
    """The cut of the complete output, from that of a recorded field and what the source left out of it."""
    total, shown = cut.total, cut.shown
    for gap in sorted(source_cuts, key=lambda source_cut: source_cut.start, reverse=True):
        growth = gap.lines - (gap.end - gap.start)
        total, shown = total + growth, tuple(_without(shown, gap, growth))
    return Cut(cut.unit, total, shown)


def _without(shown: tuple[tuple[int, int], ...], gap: SourceCut, growth: int) -> Iterator[tuple[int, int]]:
    """The ranges without the lines of `gap`, those behind it moved by `growth`."""
    for start, end in shown:
        if start < gap.start:
            yield start, min(end, gap.start)
        if end > gap.end:
            yield max(start, gap.end) + growth, end + growth
