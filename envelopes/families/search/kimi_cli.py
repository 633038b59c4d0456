"""Kimi CLI's Grep and Glob, which return a line for each thing found, and a sentence about limits."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import (
    AGENT,
    OUTPUT,
    align_return,
    find_cuts,
    read_failed,
    read_output,
    read_return,
)
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut, SourceCutUnit
from envelopes.families.base import count_noun
from envelopes.families.search.results import (
    FileMatches,
    TextMatches,
    describe_pattern,
    summarize_files,
    summarize_matches,
)

COUNTED = re.compile(r"Found (?P<matches>\d{1,9}) total occurrences across (?P<files>\d{1,9}) files\.")
PAGED = re.compile(r"Results truncated to (?P<shown>\d{1,9}) lines(?: \(total: (?P<total>\d{1,9})\))?")
FOUND = re.compile(r"Found (?P<count>\d{1,9}) matches for pattern ")
FIRST = " Only the first "
CONTENT, FILES, COUNT = "content", "files_with_matches", "count_matches"


def _read_matches(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    arguments = RecordedObject(evidence.args)
    mode = arguments.text("output_mode") or FILES
    lines = returned.output.removesuffix("\n").split("\n") if returned.output else []
    counted, paged = COUNTED.search(returned.message), PAGED.search(returned.message)
    total = int(paged["total"]) if paged and paged["total"] else len(lines)
    cuts = find_cuts(returned)
    if paged and arguments.integer("head_limit") is None:
        missing = total - len(lines) - (arguments.integer("offset") or 0)
        unit: SourceCutUnit = "lines" if mode == CONTENT else "files"
        count = missing if paged["total"] else None
        at = len(lines)
        cuts = (
            *cuts,
            SourceCut(
                pointer=OUTPUT if returned.is_recorded else "",
                unit=unit,
                count=count,
                start=at,
                end=at,
                lines=max(1, missing),
                is_limit=True,
            ),
        )
    if mode == FILES:
        result = TextMatches(mode=mode, filenames=lines, file_count=total)
        summary, links = summarize_files(total), {OUTPUT: "/result/filenames"}
    else:
        matches = int(counted["matches"]) if counted else None
        result = TextMatches(
            mode="count" if mode == COUNT else mode,
            content=returned.output,
            file_count=int(counted["files"]) if counted else None,
            line_count=total,
            match_count=matches,
        )
        links = {OUTPUT: "/result/content"}
        around = f"{count_noun(total, 'line')} found{describe_pattern(evidence)}"
        summary = around if matches is None else summarize_matches(matches, evidence)
    return read_output(evidence, returned, result, summary, links=links, source_cuts=cuts)


def _read_files(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    names = returned.output.split("\n") if returned.output else []
    found = FOUND.match(returned.message)
    count = int(found["count"]) if found else len(names)
    is_part = FIRST in returned.message
    result = FileMatches(filenames=names, file_count=count, truncated=is_part)
    at, missing = len(names), count - len(names)
    pointer = OUTPUT if returned.is_recorded else ""
    cut = SourceCut(pointer=pointer, unit="files", count=missing, start=at, end=at, lines=missing, is_limit=True)
    return read_output(
        evidence,
        returned,
        result,
        summarize_files(count),
        links={OUTPUT: "/result/filenames", "/message": "/result/file_count"},
        source_cuts=(cut,) if is_part and missing > 0 else (),
    )


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("Grep",), version=1, read=_read_matches, align=align_return),
    ToolMapping(agent=AGENT, tools=("Glob",), version=1, read=_read_files, align=align_return),
)
