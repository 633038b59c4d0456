"""Kimi Code's Grep and Glob, which return a line for each thing found, and lines about limits before or behind them."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_code_receipts import OUTPUT, find_cuts, read_success, shown_output, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.source_cuts import SourceCut, SourceCutUnit
from envelopes.families.base import count_noun
from envelopes.families.search.results import (
    FileMatches,
    TextMatches,
    describe_pattern,
    summarize_files,
    summarize_matches,
)

COUNTED = re.compile(
    r"Found (?P<matches>\d{1,9}) total (?:non-sensitive )?occurrences? across (?P<files>\d{1,9}) files?\."
)
PAGED = re.compile(r"Results truncated to (?P<shown>\d{1,9}) lines(?: \(total: (?P<total>\d{1,9})\))?")
PAGE = re.compile(r"Showing matches (?P<first>\d{1,9})–(?P<last>\d{1,9}) of (?P<total>\d{1,9})")
FIRST = re.compile(r"\[Truncated at \d+ matches|Only the first (?P<shown>\d{1,9}) matches")
NOTICE = re.compile(
    r"Showing matches \d+–|rg: |No (?:non-sensitive )?matches found|Found \d+ (?:total |matches\Z)"
    r"|Filtered \d+ sensitive file"
    r"|Results truncated to \d+ |\[(?:Output truncated|Truncated) at |\[stdout truncated at |Only the first \d+ matches"
    r"|(?:Grep|Glob) timed out after |Glob completed with warnings"
)
CONTENT, FILES, COUNT = "content", "files_with_matches", "count_matches"


def _found_lines(answer: ToolReturn) -> list[str]:
    """The lines that are no notice of the tool."""
    lines = shown_output(answer).removesuffix("\n").split("\n")
    return [line for line in lines if line and not NOTICE.match(line)]


def _read_matches(evidence: Evidence, answer: ToolReturn) -> Reading:
    arguments = RecordedObject(evidence.args)
    mode = arguments.text("output_mode") or FILES
    lines = _found_lines(answer)
    counted, paged = COUNTED.search(answer.output), PAGED.search(answer.output)
    total = int(paged["total"]) if paged and paged["total"] else len(lines)
    cuts = find_cuts(answer)
    if paged and arguments.integer("head_limit") is None:
        missing = total - len(lines) - (arguments.integer("offset") or 0)
        unit: SourceCutUnit = "lines" if mode == CONTENT else "files"
        count, at = missing if paged["total"] else None, len(lines)
        limit = SourceCut(
            pointer=OUTPUT, unit=unit, count=count, start=at, end=at, lines=max(1, missing), is_limit=True
        )
        cuts = (*cuts, limit)
    if mode == FILES:
        result = TextMatches(mode=mode, filenames=lines, file_count=total)
        return _read_found(evidence, answer, result, summarize_files(total), "/result/filenames", cuts)
    matches = int(counted["matches"]) if counted else None
    result = TextMatches(
        mode="count" if mode == COUNT else mode,
        content="\n".join(lines),
        file_count=int(counted["files"]) if counted else None,
        line_count=total,
        match_count=matches,
    )
    around = f"{count_noun(total, 'line')} found{describe_pattern(evidence)}"
    summary = around if matches is None else summarize_matches(matches, evidence)
    return _read_found(evidence, answer, result, summary, "/result/content", cuts)


def _read_files(evidence: Evidence, answer: ToolReturn) -> Reading:
    names, page = _found_lines(answer), PAGE.search(answer.output)
    total = int(page["total"]) if page else len(names)
    missing = total - int(page["last"]) if page else None
    is_part = FIRST.search(answer.output) is not None or bool(missing)
    is_limited = is_part and RecordedObject(evidence.args).integer("head_limit") is None
    result = FileMatches(filenames=names, file_count=total, truncated=is_part)
    at = len(names)
    limit = SourceCut(pointer=OUTPUT, unit="files", count=missing, start=at, end=at, lines=missing or 1, is_limit=True)
    cuts = (limit,) if is_limited else find_cuts(answer)
    return _read_found(evidence, answer, result, summarize_files(total), "/result/filenames", cuts)


def _read_found(
    evidence: Evidence,
    answer: ToolReturn,
    result: FileMatches | TextMatches,
    summary: str,
    field: str,
    cuts: tuple[SourceCut, ...],
) -> Reading:
    return read_success(evidence, answer, result, summary, links={OUTPUT: field}, source_cuts=cuts)


MAPPINGS = (tool_mapping(("Grep",), _read_matches), tool_mapping(("Glob",), _read_files))
