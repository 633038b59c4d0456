"""Claude Code's Read, Edit, MultiEdit, Write and NotebookEdit, as recorded from 2.0 to 2.1.

    Read          {type: text | image | notebook | pdf | parts | file_unchanged, file: {filePath, …}}
    Edit          {filePath, oldString, newString, originalFile, structuredPatch, userModified, replaceAll}
    MultiEdit     {filePath, edits, originalFileContents, structuredPatch, userModified}
    Write         {type: create | update, filePath, content, structuredPatch, originalFile}
    NotebookEdit  {notebook_path, cell_id, new_source, edit_mode, …}

A release that kept no result leaves only the receipt; a result that was read from that has the fidelity
`parsed_from_receipt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import msgspec

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_struct, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.alignment.spans import whole_cut
from envelopes.families.file.alignment import NUMBERED, align_change, align_notebook_edit, align_read
from envelopes.families.file.results import (
    ChangeAction,
    FileChange,
    FileContent,
    FileImage,
    Hunk,
    ReadKind,
    summarize_read,
)
from envelopes.schema.result import JsonValue

AGENT = "claude-code"
MAX_DIGITS = 12
KINDS: dict[str, ReadKind] = {
    "text": "text",
    "image": "image",
    "notebook": "notebook",
    "pdf": "pdf",
    "parts": "pages",
    "file_unchanged": "unchanged",
}
FILE_NAMES = {
    "filePath": "path",
    "content": "content_preview",
    "cells": "content_preview",
    "startLine": "start_line",
    "numLines": "line_count",
    "totalLines": "total_lines",
}
IMAGE_NAMES = {"type": "image/media_type", "originalSize": "image/size", "dimensions": "image"}
HUNK_NAMES = {"oldStart": "old_start", "oldLines": "old_lines", "newStart": "new_start", "newLines": "new_lines"}
CHANGED = re.compile(
    r"The file (?P<modify>[^\n]+?) has been updated|File created successfully at: (?P<add>[^\n]+?)(?: \(file state|$)",
    re.MULTILINE,
)
CELL_VERBS = {"replace": "updated", "insert": "inserted", "delete": "deleted"}
CHANGE_VERBS = {"add": "created", "modify": "updated", "delete": "deleted"}
CHANGE_LINKS = {
    "/filePath": "/result/changed_files/0/path",
    "/structuredPatch": "/result/diff_preview",
    "/userModified": "/result/user_modified",
}


def _read_first(
    expects: tuple[str, ...],
    from_result: Callable[[Evidence, RecordedObject], Reading],
    from_receipt: Callable[[Evidence, str], Reading | None],
    evidence: Evidence,
) -> Reading:
    """Reads a failure, the recorded result, the receipt where no result was kept, or the text of either."""
    if failure := read_failure(evidence):
        return failure
    recorded = RecordedObject(evidence.result)
    if recorded.has_any(expects):
        return from_result(evidence, recorded)
    read = from_receipt(evidence, evidence.receipt_text or "") if evidence.result is None else None
    return read or read_untyped(evidence)


def _file_from_result(evidence: Evidence, recorded: RecordedObject) -> Reading:
    file = recorded.member("file")
    kind = KINDS.get(recorded.text("type") or "text", "text")
    content = _notebook_text(file) if kind == "notebook" else file.text("content") or ""
    start = file.integer("startLine")  # 0 where the call asked for `offset: 0`, which begins at the first line too
    result = FileContent(
        path=file.text("filePath") or RecordedObject(evidence.args).text("file_path") or "a file",
        kind=kind,
        content=content,
        start_line=None if start is None else max(1, start),
        line_count=file.integer("numLines"),
        total_lines=file.integer("totalLines"),
        image=_read_image(file) if kind == "image" else None,
        size=file.integer("originalSize") if kind in ("pdf", "pages") else None,
    )
    names = FILE_NAMES | (IMAGE_NAMES if result.image else {})
    if result.size is not None:
        names = {**names, "originalSize": "size"}
    links = {f"/file/{name}": f"/result/{field}" for name, field in names.items() if file.get(name) is not None}
    if not content or kind != "text":
        cuts = _find_notebook_cuts(file) if kind == "notebook" else ()
        return reading(evidence, result, _summarize_read(result), links=links, source_cuts=cuts)
    lines = _requested_lines(evidence)
    first = result.start_line or 1
    count = result.line_count or 0
    is_inside = content.endswith("\n") and first + count - 1 < (result.total_lines or 0)
    output = OutputField(
        "/file/content",
        first,
        result.total_lines,
        is_asked=bool(lines and lines.is_part),
        ends_in_blank_line=is_inside and count == content.count("\n") + 1,
    )
    cuts = find_source_cuts(content, "/file/content", "file")
    if lines and (missing := lines.missing_behind(first, result)):
        end = output.with_blank_line(whole_cut(content)).total
        limit = SourceCut(
            pointer="/file/content", unit="lines", count=missing, start=end, end=end, lines=missing, is_limit=True
        )
        cuts = (*cuts, limit)
    return reading(evidence, result, _summarize_read(result), links=links, outputs=(output,), source_cuts=cuts)


def _find_notebook_cuts(file: RecordedObject) -> tuple[SourceCut, ...]:
    return tuple(
        cut
        for number, cell in enumerate(file.items("cells"))
        for output in cell.items("outputs")
        for cut in find_source_cuts(output.text("text") or "", f"/file/cells/{number}/outputs", "notebook")
    )


class _RequestedLines(msgspec.Struct, frozen=True):
    """The lines of a file that a call asked for, from `first`, which counts from 1; `count` None: all of them."""

    first: int
    count: int | None

    @property
    def is_part(self) -> bool:
        return self.first > 1 or self.count is not None

    def missing_behind(self, first: int, result: FileContent) -> int:
        """How many of them are behind the lines that the tool returned, from its `first`."""
        if result.total_lines is None or result.line_count is None:
            return 0
        last = result.total_lines if self.count is None else min(self.first + self.count - 1, result.total_lines)
        return max(0, last - (first + result.line_count - 1))


def _requested_lines(evidence: Evidence) -> _RequestedLines | None:
    """None where the arguments were not recorded, or name lines in another form than a number."""
    if not isinstance(evidence.args, dict):
        return None
    numbers = [_read_number(evidence.args.get(name)) for name in ("offset", "limit")]
    given = [evidence.args.get(name) is not None for name in ("offset", "limit")]
    if given != [number is not None for number in numbers]:
        return None
    offset, limit = numbers
    return _RequestedLines(max(1, offset or 1), limit)


def _read_number(value: JsonValue) -> int | None:
    """A number; a model may write one as a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < MAX_DIGITS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _summarize_read(result: FileContent) -> str:
    match result.kind:
        case "text":
            return summarize_read(result.path, result.line_count)
        case "unchanged":
            return f"{result.path} is unchanged since it was last read"
    return f"read {result.path} ({result.kind})"


def _read_image(file: RecordedObject) -> FileImage:
    dimensions = file.member("dimensions")
    return FileImage(
        media_type=file.text("type"),
        size=file.integer("originalSize"),
        width=dimensions.integer("originalWidth"),
        height=dimensions.integer("originalHeight"),
    )


def _notebook_text(file: RecordedObject) -> str:
    cells = file.items("cells")
    return "\n\n".join(
        f"# cell {cell.text('cell_id') or number} ({cell.text('cellType') or 'code'})\n{cell.text('source') or ''}"
        for number, cell in enumerate(cells)
    )


def _file_from_receipt(evidence: Evidence, receipt: str) -> Reading | None:
    """The numbered lines of the receipt, as long as their numbers go on by one; a reminder may follow them."""
    first = 0
    lines: list[str] = []
    for line in receipt.split("\n"):
        numbered = NUMBERED.fullmatch(line)
        if numbered is None or (lines and int(numbered[1]) != first + len(lines)):
            break
        first = first if lines else int(numbered[1])
        lines.append(numbered[2])
    path = RecordedObject(evidence.args).text("file_path")
    if not lines or path is None:
        return None
    content = "\n".join(lines)
    result = FileContent(path=path, content=content, start_line=max(1, first), line_count=len(lines))
    cuts = find_source_cuts(content, "", "file")
    summary = _summarize_read(result)
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _change_from_result(evidence: Evidence, recorded: RecordedObject) -> Reading:
    action: ChangeAction = "add" if recorded.text("type") == "create" else "modify"
    hunks = None
    if isinstance(recorded.get("structuredPatch"), list):
        hunks = tuple(
            read_struct(Hunk, hunk, HUNK_NAMES, lines=tuple(hunk.strings("lines")))
            for hunk in recorded.items("structuredPatch")
        )
    result = FileChange(
        path=recorded.text("filePath") or "a file",
        action=action,
        hunks=hunks,
        content=recorded.text("content") or "",
        user_modified=recorded.flag("userModified"),
        replaced_all=recorded.flag("replaceAll"),
    )
    links = {pointer: field for pointer, field in CHANGE_LINKS.items() if recorded.get(pointer[1:]) is not None}
    if recorded.text("type"):
        links["/type"] = "/result/changed_files/0/action"
    if action == "add" and result.content:
        links["/content"] = "/result/diff_preview"
    if result.replaced_all:
        links["/replaceAll"] = "/result/replaced_all"
    return reading(evidence, result, f"{CHANGE_VERBS[action]} {result.path}", links=links)


def _change_from_receipt(evidence: Evidence, receipt: str) -> Reading | None:
    changed = CHANGED.match(receipt)
    if changed is None:
        return None
    action: ChangeAction = "add" if changed["add"] else "modify"
    result = FileChange(path=changed["add"] or changed["modify"], action=action)
    summary = f"{CHANGE_VERBS[action]} {result.path}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _cell_from_result(evidence: Evidence, recorded: RecordedObject) -> Reading:
    """A cell's edit changes the notebook; no patch is recorded, so its new source is shown as added lines."""
    mode = recorded.text("edit_mode") or "replace"
    path = recorded.text("notebook_path") or RecordedObject(evidence.args).text("notebook_path") or "a notebook"
    source = recorded.text("new_source") or ""
    lines = tuple(f"+{line}" for line in source.split("\n")) if mode != "delete" else ()
    result = FileChange(path=path, action="modify", hunks=(Hunk(lines=lines),) if lines else None)
    links = {"/notebook_path": "/result/changed_files/0/path"} if recorded.text("notebook_path") else {}
    if lines:
        links["/new_source"] = "/result/diff_preview"
    return reading(evidence, result, f"{CELL_VERBS.get(mode, 'updated')} a cell of {path}", links=links)


MAPPINGS = (
    ToolMapping(
        agent=AGENT,
        tools=("Read",),
        version=4,
        read=partial(_read_first, ("file",), _file_from_result, _file_from_receipt),
        align=align_read,
    ),
    ToolMapping(
        agent=AGENT,
        tools=("Edit", "MultiEdit", "Write"),
        version=1,
        read=partial(_read_first, ("filePath",), _change_from_result, _change_from_receipt),
        align=align_change,
    ),
    ToolMapping(
        agent=AGENT,
        tools=("NotebookEdit",),
        version=1,
        read=partial(_read_first, ("notebook_path", "cell_id", "new_source"), _cell_from_result, _change_from_receipt),
        align=align_notebook_edit,
    ),
)
