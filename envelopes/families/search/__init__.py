"""Tools that look for files and for text in them: Grep, Glob, LS and LSP of Claude Code.

    Matches   files, or lines, that hold a pattern
    Files     files whose names match
    Symbols   a language server's answer, as the text it was told in

The counts are the source's own: in content mode Claude Code keeps 0 for the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from envelopes.alignment.excerpt import match_excerpt
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, link_groups, reading, tool_mapping
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.spans import Span, match_items
from envelopes.families.base import Family, Projector, ResultMembers, project_by_type
from envelopes.families.segments import (
    headline,
    item_lines,
    label,
    line_break,
    member_line,
    receipt_renderer,
    text_block,
    text_value,
)
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """`mode` is content, files_with_matches or count; the counts are the source's own, where it kept them."""

    mode: str
    filenames: list[str] = []
    content: str | None = None
    file_count: int | None = None
    line_count: int | None = None
    match_count: int | None = None
    applied_limit: int | None = None
    applied_offset: int | None = None


class Files(msgspec.Struct, frozen=True, kw_only=True):
    filenames: list[str] = []
    file_count: int | None = None
    truncated: bool | None = None
    duration_ms: int | float | None = None


class Symbols(msgspec.Struct, frozen=True, kw_only=True):
    operation: str | None = None
    content: str = ""
    path: str | None = None
    result_count: int | None = None
    file_count: int | None = None


def _matches(found: Matches, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    content = {} if found.content is None else projector.text("content", found.content, policy.preview, role="content")
    return {
        "mode": found.mode,
        "file_count": found.file_count,
        "line_count": found.line_count,
        "match_count": found.match_count,
        "applied_limit": found.applied_limit,
        "applied_offset": found.applied_offset,
        **projector.items("filenames", list(found.filenames), policy),
        **content,
    }


def _files(found: Files, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "file_count": found.file_count,
        "truncated": found.truncated,
        "duration_ms": found.duration_ms,
        **projector.items("filenames", list(found.filenames), policy),
    }


def _symbols(found: Symbols, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "operation": found.operation,
        "path": found.path,
        "result_count": found.result_count,
        "file_count": found.file_count,
        **projector.text("content", found.content, policy.preview, role="content"),
    }


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    result = RecordedObject(canonical.result)
    if result.flag("truncated"):
        yield line_break()
        yield label("The search stopped early: there are more. Use a narrower path or pattern.")
    yield from member_line(canonical, "Limit", "/result/applied_limit")
    yield from member_line(canonical, "Offset", "/result/applied_offset")
    yield from item_lines(canonical, "/result/filenames", _filename)
    yield from text_block(canonical, "/result/content")
    yield from text_block(canonical, "/result/text")


def _filename(name: JsonValue, pointer: str) -> Iterable[Segment]:
    yield text_value(str(name), pointer)


def _read_grep(evidence: Evidence, recorded: RecordedObject) -> Reading:
    content = recorded.text("content")
    found = Matches(
        mode=recorded.text("mode") or ("files_with_matches" if content is None else "content"),
        filenames=recorded.strings("filenames"),
        content=content,
        file_count=recorded.integer("numFiles"),
        line_count=recorded.integer("numLines"),
        match_count=recorded.integer("numMatches"),
        applied_limit=recorded.integer("appliedLimit"),
        applied_offset=recorded.integer("appliedOffset"),
    )
    links = {
        "/mode": "/result/mode",
        "/filenames": "/result/filenames",
        "/content": "/result/content",
        "/numFiles": "/result/file_count",
        "/numLines": "/result/line_count",
        "/numMatches": "/result/match_count",
        "/appliedLimit": "/result/applied_limit",
        "/appliedOffset": "/result/applied_offset",
    }
    outputs = () if content is None else (OutputField("/content"),)
    return reading(evidence, found, _grep_summary(found, evidence), links=links, outputs=outputs)


def _grep_summary(found: Matches, evidence: Evidence) -> str:
    pattern = RecordedObject(evidence.args).text("pattern")
    sought = f" for {pattern!r}" if pattern else ""
    if found.mode == "files_with_matches":
        count = len(found.filenames) if found.file_count is None else found.file_count
        return f"Found {_counted(count, 'file')}{sought}" if count else f"No files found{sought}"
    if found.mode == "count" and found.match_count is not None:
        return f"Found {_counted(found.match_count, 'match', 'matches')}{sought}"
    if not found.content:
        return f"No matches found{sought}"
    lines = found.line_count if found.line_count is not None else found.content.rstrip("\n").count("\n") + 1
    return f"Found {_counted(lines, 'line')}{sought}"


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


_PREVIEWED = r"(?:\A|\A<persisted-output>\n[^\n]*\n\nPreview \(first [^)\n]*\):\n)"
_PAGES = r"(?:limit: (?P<appliedLimit>\d+))?(?:, )?(?:offset: (?P<appliedOffset>\d+))?"
_FOUND_FILES = re.compile(rf"{_PREVIEWED}Found (?P<numFiles>\d+) files?(?: {_PAGES})?\n")
_PAGINATION = re.compile(rf"\n\n\[Showing results with pagination = {_PAGES}\]\s*\Z")
_COUNTED = re.compile(
    r"\n\nFound (?P<numMatches>\d+) total occurrences? across (?P<numFiles>\d+) files?\."
    rf"(?: with pagination = {_PAGES})?\s*\Z"
)


def _align_grep(recorded: RecordedObject, text: str) -> Iterable[Span]:
    if listed := _FOUND_FILES.match(text):
        return chain(link_groups(listed, recorded), match_items(text, listed.end(), _names(recorded), "/filenames"))
    ending = _COUNTED.search(text) or _PAGINATION.search(text)
    end = ending.start() if ending else len(text)
    return [
        *match_excerpt(text, recorded.text("content") or "", "/content", end=end),
        *link_groups(ending, recorded),
    ]


def _names(recorded: RecordedObject) -> Iterator[str]:
    """Up to the first element that is no string: what follows cannot have been printed as one."""
    for item in recorded.elements("filenames"):
        if not isinstance(item, str):
            break
        yield item


def _read_glob(evidence: Evidence, recorded: RecordedObject) -> Reading:
    found = Files(
        filenames=recorded.strings("filenames"),
        file_count=recorded.integer("numFiles"),
        truncated=recorded.flag("truncated"),
        duration_ms=recorded.number("durationMs"),
    )
    links = {
        "/filenames": "/result/filenames",
        "/numFiles": "/result/file_count",
        "/truncated": "/result/truncated",
        "/durationMs": "/result/duration_ms",
    }
    pattern = RecordedObject(evidence.args).text("pattern")
    count = len(found.filenames) if found.file_count is None else found.file_count
    said = f"{_counted(count, 'file') if count else 'No file'} found" + (f" for {pattern!r}" if pattern else "")
    return reading(evidence, found, said, links=links)


_LISTING = re.compile(_PREVIEWED)


def _align_glob(recorded: RecordedObject, text: str) -> Iterator[Span]:
    start = _LISTING.match(text)
    return match_items(text, start.end() if start else 0, _names(recorded), "/filenames")


def _read_lsp(evidence: Evidence, recorded: RecordedObject) -> Reading:
    found = Symbols(
        operation=recorded.text("operation"),
        content=recorded.text("result") or "",
        path=recorded.text("filePath"),
        result_count=recorded.integer("resultCount"),
        file_count=recorded.integer("fileCount"),
    )
    links = {
        "/operation": "/result/operation",
        "/result": "/result/content",
        "/filePath": "/result/path",
        "/resultCount": "/result/result_count",
        "/fileCount": "/result/file_count",
    }
    counted = "" if found.result_count is None else f": {_counted(found.result_count, 'result')}"
    said = f"{found.operation or evidence.tool}{counted}"
    return reading(evidence, found, said, links=links, outputs=(OutputField("/result"),))


def _align_lsp(recorded: RecordedObject, text: str) -> list[Span]:
    return match_excerpt(text, recorded.text("result") or "", "/result")


AGENT = "claude-code"

FAMILY = Family(
    name="search",
    title="Search",
    results=(Matches, Files, Symbols, RecordedText),
    project=project_by_type({Matches: _matches, Files: _files, Symbols: _symbols}),
    renderers={"receipt": receipt_renderer(_body)},
    mappings=(
        tool_mapping(
            agent=AGENT,
            tools=("Grep",),
            version=1,
            expects=("mode", "filenames", "content", "numFiles"),
            read=_read_grep,
            align=_align_grep,
            lists=("filenames",),
        ),
        tool_mapping(
            agent=AGENT,
            tools=("Glob",),
            version=1,
            expects=("filenames", "numFiles"),
            read=_read_glob,
            align=_align_glob,
            lists=("filenames",),
        ),
        tool_mapping(
            agent=AGENT,
            tools=("LSP",),
            version=1,
            expects=("result", "operation"),
            read=_read_lsp,
            align=_align_lsp,
        ),
        # A listing is recorded as one string, so the recorded text is all there is to type.
        tool_mapping(agent=AGENT, tools=("LS",), version=1, expects=(), read=_read_glob, align=_align_glob),
    ),
    examples=Path(__file__).with_name("examples.json"),
)
