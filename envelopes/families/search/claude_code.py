"""Claude Code's Grep, Glob, LS and LSP: what it recorded, and where its receipts took it from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from envelopes.alignment.lenient_structs import (
    RecordedObject,
    link_groups,
    link_names,
    read_struct,
    reading,
    tool_mapping,
)
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.saved_outputs import PREVIEW_HEAD
from envelopes.alignment.source_cuts import SourceCut, SourceCutUnit, find_source_cuts
from envelopes.alignment.spans import Span, match_excerpt, match_items, whole_cut
from envelopes.families.base import count_noun
from envelopes.families.search.results import FileMatches, SymbolAnswer, TextMatches, describe_pattern

_mapping = partial(tool_mapping, agent="claude-code")
GREP_NAMES = {
    "mode": "mode",
    "filenames": "filenames",
    "content": "content",
    "numFiles": "file_count",
    "numLines": "line_count",
    "numMatches": "match_count",
    "appliedLimit": "applied_limit",
    "appliedOffset": "applied_offset",
}
GLOB_NAMES = {
    "filenames": "filenames",
    "numFiles": "file_count",
    "truncated": "truncated",
    "durationMs": "duration_ms",
}
LSP_NAMES = {
    "operation": "operation",
    "result": "content",
    "filePath": "path",
    "resultCount": "result_count",
    "fileCount": "file_count",
}

_PREVIEWED = rf"(?:\A{PREVIEW_HEAD}|\A)"
_PAGES = r"(?:limit: (?P<appliedLimit>\d+))?(?:, )?(?:offset: (?P<appliedOffset>\d+))?"
_FOUND_FILES = re.compile(rf"{_PREVIEWED}Found (?P<numFiles>\d+) files?(?: {_PAGES})?\n")
_PAGINATION = re.compile(rf"\n\n\[Showing results with pagination = {_PAGES}\]\s*\Z")
_TOTALS = re.compile(
    r"\n\nFound (?P<numMatches>\d+) total occurrences? across (?P<numFiles>\d+) files?\."
    rf"(?: with pagination = {_PAGES})?\s*\Z"
)
_LISTING = re.compile(_PREVIEWED)


def _read_grep(evidence: Evidence, recorded: RecordedObject) -> Reading:
    content = recorded.text("content")
    mode = recorded.text("mode") or ("files_with_matches" if content is None else "content")
    result = read_struct(TextMatches, recorded, GREP_NAMES, mode=mode)
    return reading(
        evidence,
        result,
        _summarize_grep(result, evidence),
        links=link_names(GREP_NAMES),
        outputs=() if content is None else (OutputField("/content"),),
        source_cuts=_find_grep_cuts(evidence, recorded, result),
    )


def _find_grep_cuts(evidence: Evidence, recorded: RecordedObject, result: TextMatches) -> tuple[SourceCut, ...]:
    """The lines that were too long, and what is behind a limit that the call did not set itself."""
    cuts = () if result.content is None else find_source_cuts(result.content, "/content", "matches")
    args = RecordedObject(evidence.args)
    is_own_limit = (
        result.applied_limit is not None and isinstance(evidence.args, dict) and args.get("head_limit") is None
    )
    if not is_own_limit and not recorded.flag("truncated"):
        return cuts
    if result.content is None:
        return (*cuts, SourceCut(pointer="/filenames", unit="files", is_limit=True))
    end = whole_cut(result.content).total
    unit: SourceCutUnit = "files" if result.mode == "count" else "matches"
    return (*cuts, SourceCut(pointer="/content", unit=unit, start=end, end=end, lines=1, is_limit=True))


def _summarize_grep(result: TextMatches, evidence: Evidence) -> str:
    sought = describe_pattern(evidence)
    if result.mode == "files_with_matches":
        count = len(result.filenames) if result.file_count is None else result.file_count
        return f"Found {count_noun(count, 'file')}{sought}" if count else f"No files found{sought}"
    if result.mode == "count" and result.match_count is not None:
        return f"Found {count_noun(result.match_count, 'match', 'matches')}{sought}"
    if not result.content:
        return f"No matches found{sought}"
    lines = result.line_count if result.line_count is not None else result.content.rstrip("\n").count("\n") + 1
    return f"Found {count_noun(lines, 'line')}{sought}"


def _align_grep(recorded: RecordedObject, text: str) -> Iterable[Span]:
    if listed := _FOUND_FILES.match(text):
        return chain(link_groups(listed, recorded), match_items(text, listed.end(), _filenames(recorded), "/filenames"))
    ending = _TOTALS.search(text) or _PAGINATION.search(text)
    end = ending.start() if ending else len(text)
    return [
        *match_excerpt(text, recorded.text("content") or "", "/content", end=end),
        *link_groups(ending, recorded),
    ]


def _filenames(recorded: RecordedObject) -> Iterator[str]:
    """The names up to the first element that is no string: what follows cannot have been printed as one."""
    for name in recorded.elements("filenames"):
        if not isinstance(name, str):
            break
        yield name


def _read_glob(evidence: Evidence, recorded: RecordedObject) -> Reading:
    result = read_struct(FileMatches, recorded, GLOB_NAMES)
    count = len(result.filenames) if result.file_count is None else result.file_count
    summary = f"{count_noun(count, 'file') if count else 'No file'} found{describe_pattern(evidence)}"
    cuts = (SourceCut(pointer="/filenames", unit="files", is_limit=True),) if result.truncated else ()
    return reading(evidence, result, summary, links=link_names(GLOB_NAMES), source_cuts=cuts)


def _align_glob(recorded: RecordedObject, text: str) -> Iterator[Span]:
    start = _LISTING.match(text)
    return match_items(text, start.end() if start else 0, _filenames(recorded), "/filenames")


def _read_lsp(evidence: Evidence, recorded: RecordedObject) -> Reading:
    result = read_struct(SymbolAnswer, recorded, LSP_NAMES)
    counted = "" if result.result_count is None else f": {count_noun(result.result_count, 'result')}"
    summary = f"{result.operation or evidence.tool}{counted}"
    return reading(evidence, result, summary, links=link_names(LSP_NAMES), outputs=(OutputField("/result"),))


def _align_lsp(recorded: RecordedObject, text: str) -> list[Span]:
    return match_excerpt(text, recorded.text("result") or "", "/result")


MAPPINGS = (
    _mapping(
        tools=("Grep",),
        version=3,
        expects=("mode", "filenames", "content", "numFiles"),
        read=_read_grep,
        align=_align_grep,
        lists=("filenames",),
    ),
    _mapping(
        tools=("Glob",),
        version=3,
        expects=("filenames", "numFiles"),
        read=_read_glob,
        align=_align_glob,
        lists=("filenames",),
    ),
    _mapping(tools=("LSP",), version=1, expects=("result", "operation"), read=_read_lsp, align=_align_lsp),
    # A listing is recorded as one string, so the recorded text is all there is to type.
    _mapping(tools=("LS",), version=2, expects=(), read=_read_glob, align=_align_glob),
)
