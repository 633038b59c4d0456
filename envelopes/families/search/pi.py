"""pi's grep, find and ls, which record at which limit they stopped and what was cut:

    {matchLimitReached?, linesTruncated?, truncation?: {content, totalLines, outputLines, …}}     grep
    {resultLimitReached?, truncation?}     find     {entryLimitReached?, truncation?}     ls

What they found is a line each in the receipt: `path:7: text`, with `path-8- text` around it, or a path. A note about
limits may follow in brackets. Without a limit and a cut nothing is recorded.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut, SourceCutUnit
from envelopes.alignment.spans import Span, match_at
from envelopes.families.base import count_noun
from envelopes.families.search.results import (
    FileMatches,
    TextMatches,
    describe_pattern,
    summarize_files,
    summarize_matches,
)

AGENT = "pi"
CONTENT = "/truncation/content"
NOTHING = ("No matches found", "No files found matching pattern", "(empty directory)")
NOTE = re.compile(
    r"\n\n\[(?:(?P<matchLimitReached>\d{1,9}) matches limit reached|(?P<resultLimitReached>\d{1,9}) results limit "
    r"reached|(?P<entryLimitReached>\d{1,9}) entries limit reached|\S+ limit reached|Some lines truncated to \d+ chars)"
    r"[^\n]*\]\Z"
)
LIMITS: dict[str, SourceCutUnit] = {
    "matchLimitReached": "matches",
    "resultLimitReached": "files",
    "entryLimitReached": "files",
}
LINE_END = "... [truncated]"


def _find_note(evidence: Evidence, receipt: str) -> re.Match[str] | None:
    """The note of a search of which a limit or a cut is recorded; other lines like it were found."""
    return NOTE.search(receipt, max(0, len(receipt) - 1_000)) if evidence.has_result else None


def _found_lines(evidence: Evidence) -> list[str]:
    receipt = evidence.receipt_text or ""
    if receipt in NOTHING:
        return []
    note = _find_note(evidence, receipt)
    return (receipt[: note.start()] if note else receipt).split("\n")


def _find_cuts(evidence: Evidence, lines: list[str]) -> tuple[SourceCut, ...]:
    """Lines that were cut, lines beyond 50 KB, and what is beyond the tool's own limit."""
    recorded = RecordedObject(evidence.result)
    truncation, cuts = recorded.member("truncation"), list[SourceCut]()
    pointer = CONTENT if truncation.text("content") else ""
    if recorded.flag("linesTruncated"):
        count = sum(line.endswith(LINE_END) for line in lines)
        cuts.append(SourceCut(pointer="", unit="line ends", count=count))
    missing = (truncation.integer("totalLines") or 0) - (truncation.integer("outputLines") or 0)
    if missing > 0:
        at = len(lines)
        cuts.append(SourceCut(pointer=pointer, unit="lines", count=missing, start=at, end=at, lines=missing))
    if RecordedObject(evidence.args).integer("limit") is None:
        cuts += [
            SourceCut(pointer="", unit=unit, is_limit=True)
            for name, unit in LIMITS.items()
            if recorded.integer(name) is not None
        ]
    return tuple(cuts)


def _build(evidence: Evidence, result: TextMatches | FileMatches, summary: str, lines: list[str]) -> Reading:
    """`bounded` where the record has the text, or else only limits."""
    recorded = RecordedObject(evidence.result)
    is_recorded = bool(recorded.member("truncation").text("content"))
    is_text = is_recorded and isinstance(result, TextMatches)
    return reading(
        evidence,
        result,
        summary,
        links={CONTENT: "/result/content"} if is_text else {},
        outputs=(OutputField(CONTENT),) if is_recorded else (),
        fidelity="structured" if is_text else "parsed_from_receipt",
        source_cuts=_find_cuts(evidence, lines),
    )


def _read_matches(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    lines = _found_lines(evidence)
    total = RecordedObject(evidence.result).member("truncation").integer("totalLines") or len(lines)
    # With lines around the matches, a line may look like a match by its text.
    is_counted = not RecordedObject(evidence.args).get("context")
    count = total if is_counted else None
    result = TextMatches(mode="content", content="\n".join(lines), match_count=count, line_count=total)
    around = f"{count_noun(total, 'line')} found{describe_pattern(evidence)}"
    return _build(evidence, result, around if count is None else summarize_matches(count, evidence), lines)


def _read_files(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    lines, recorded = _found_lines(evidence), RecordedObject(evidence.result)
    is_part = any(recorded.get(name) is not None for name in (*LIMITS, "truncation"))
    result = FileMatches(filenames=lines, file_count=len(lines), truncated=is_part)
    return _build(evidence, result, summarize_files(len(lines)), lines)


def _align_search(evidence: Evidence, text: str) -> list[Span]:
    """Links the text that was cut, and the limits."""
    recorded = RecordedObject(evidence.result)
    shown = match_at(text, 0, recorded.member("truncation").text("content") or "", CONTENT)
    spans = [*([shown] if shown else []), *link_groups(_find_note(evidence, text), recorded)]
    return spans or align_failure(evidence, text)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("grep",), version=2, read=_read_matches, align=_align_search),
    ToolMapping(agent=AGENT, tools=("find", "ls"), version=1, read=_read_files, align=_align_search),
)
