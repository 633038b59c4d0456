"""OpenCode's glob and grep, which record how much they found, `{count, truncated}` and `{matches, truncated}`.

What they found is in the receipt alone:

    a path a line, or `No files found`
    Found 100 matches (more matches available) / a path and a colon / Line 7: the first 2,000 characters of the line
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut, SourceCutUnit
from envelopes.alignment.spans import Span
from envelopes.families.search.results import FileMatches, TextMatches, summarize_files, summarize_matches

AGENT = "opencode"
NOTHING = "No files found"
FOUND = re.compile(r"Found (?P<matches>\d{1,9}) matches[^\n]*\n")
LIMIT = "\n\n(Results "  # are truncated, with advice
HIDDEN = re.compile(r"\((?P<count>\d{1,9}) hidden\)")
LINE_END = re.compile(r"^  Line \d{1,9}: [^\n]{1990,2010}\.\.\.$", re.MULTILINE)


def _read_files(evidence: Evidence) -> Reading:
    recorded, receipt = RecordedObject(evidence.result), evidence.receipt_text or ""
    if failure := read_failure(evidence):
        return failure
    count = recorded.integer("count")
    if count is None or find_output_preview(receipt):
        return read_untyped(evidence)
    names = [] if receipt.startswith(NOTHING) else receipt.partition(LIMIT)[0].splitlines()
    result = FileMatches(filenames=names, file_count=count, truncated=recorded.flag("truncated"))
    links = {"/count": "/result/file_count", "/truncated": "/result/truncated"}
    summary = summarize_files(count)
    cuts = _limit(recorded, "files", receipt)
    return reading(evidence, result, summary, links=links, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_matches(evidence: Evidence) -> Reading:
    recorded, receipt = RecordedObject(evidence.result), evidence.receipt_text or ""
    if failure := read_failure(evidence):
        return failure
    count, head = recorded.integer("matches"), FOUND.match(receipt)
    if count is None or find_output_preview(receipt) or not (head or receipt.startswith(NOTHING)):
        return read_untyped(evidence)
    content = receipt[head.end() :].partition(LIMIT)[0] if head else ""
    result = TextMatches(mode="content", content=content, match_count=count)
    summary = summarize_matches(count, evidence)
    links = {"/matches": "/result/match_count"}
    shortened = len(LINE_END.findall(content))
    ends = (SourceCut(pointer="", unit="line ends", count=shortened),) if shortened else ()
    cuts = ends + _limit(recorded, "matches", receipt)
    return reading(evidence, result, summary, links=links, fidelity="parsed_from_receipt", source_cuts=cuts)


def _limit(recorded: RecordedObject, unit: SourceCutUnit, receipt: str) -> tuple[SourceCut, ...]:
    if not recorded.flag("truncated"):
        return ()
    hidden = HIDDEN.search(receipt.rpartition(LIMIT)[2])
    return (SourceCut(pointer="", unit=unit, count=int(hidden["count"]) if hidden else None, is_limit=True),)


def _align_search(evidence: Evidence, text: str) -> list[Span]:
    """Links the number of matches."""
    return link_groups(FOUND.match(text), RecordedObject(evidence.result)) or align_failure(evidence, text)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("glob",), version=1, read=_read_files, align=_align_search),
    ToolMapping(agent=AGENT, tools=("grep",), version=1, read=_read_matches, align=_align_search),
)
