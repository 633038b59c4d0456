"""Claude Code's Read, Edit, MultiEdit, Write and NotebookEdit, as recorded from 2.0 to 2.1.

    Read          {type: text | image | notebook | pdf | parts | file_unchanged, file: {filePath, …}}
    Edit          {filePath, oldString, newString, originalFile, structuredPatch, userModified, replaceAll}
    MultiEdit     {filePath, edits, originalFileContents, structuredPatch, userModified}
    Write         {type: create | update, filePath, content, structuredPatch, originalFile}
    NotebookEdit  {notebook_path, cell_id, new_source, edit_mode, …}

A release that kept no result leaves only the receipt; what is read from that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.families.file.results import Action, FileChange, FileRead, Hunk, Image, Kind

KINDS: dict[str, Kind] = {
    "text": "text",
    "image": "image",
    "notebook": "notebook",
    "pdf": "pdf",
    "parts": "pages",
    "file_unchanged": "unchanged",
}
NUMBERED = re.compile(r" *([0-9]{1,12})(?:→|\t)(.*)")
CHANGED = re.compile(
    r"The file (?P<modify>[^\n]+?) has been updated|File created successfully at: (?P<add>[^\n]+?)(?: \(file state|$)",
    re.MULTILINE,
)
CELL_WORDS = {"replace": "updated", "insert": "inserted", "delete": "deleted"}

CHANGE_LINKS = {
    "/filePath": "/result/changed_files/0/path",
    "/structuredPatch": "/result/diff_preview",
    "/userModified": "/result/user_modified",
}


def read_file(evidence: Evidence) -> Reading:
    return _first_of(evidence, ("file",), _read_recorded, _read_receipt)


def read_change(evidence: Evidence) -> Reading:
    """Edit, MultiEdit and Write."""
    return _first_of(evidence, ("filePath",), _change_recorded, _change_receipt)


def read_notebook_edit(evidence: Evidence) -> Reading:
    return _first_of(evidence, ("notebook_path", "cell_id", "new_source"), _cell_recorded, _change_receipt)


def _first_of(
    evidence: Evidence,
    expects: tuple[str, ...],
    recorded: Callable[[Evidence, RecordedObject], Reading],
    from_receipt: Callable[[Evidence, str], Reading | None],
) -> Reading:
    """A failure, the recorded result, the receipt where no result was kept, or whatever is there as text."""
    if failure := read_failure(evidence):
        return failure
    members = RecordedObject(evidence.result)
    if members.has_any(expects):
        return recorded(evidence, members)
    found = from_receipt(evidence, evidence.receipt_text or "") if evidence.result is None else None
    return found or read_untyped(evidence)


def _read_recorded(evidence: Evidence, recorded: RecordedObject) -> Reading:
    file = recorded.member("file")
    kind = KINDS.get(recorded.text("type") or "text", "text")
    path = file.text("filePath") or RecordedObject(evidence.args).text("file_path") or "a file"
    content = _notebook_text(file) if kind == "notebook" else file.text("content") or ""
    result = FileRead(
        path=path,
        kind=kind,
        content=content,
        start_line=file.integer("startLine"),
        line_count=file.integer("numLines"),
        total_lines=file.integer("totalLines"),
        image=_image(file) if kind == "image" else None,
        size=file.integer("originalSize") if kind in ("pdf", "pages") else None,
    )
    outputs: tuple[OutputField, ...] = ()
    if content and kind == "text":
        outputs = (OutputField("/file/content", result.start_line or 1, result.total_lines),)
    return reading(evidence, result, _said(result), links=_read_links(file, result), outputs=outputs)


def _said(read: FileRead) -> str:
    match read.kind:
        case "text":
            count = f"{read.line_count} lines of " if read.line_count is not None else ""
            return f"read {count}{read.path}"
        case "unchanged":
            return f"{read.path} is unchanged since it was last read"
    return f"read {read.path} ({read.kind})"


def _read_links(file: RecordedObject, read: FileRead) -> dict[str, str]:
    links = {
        "filePath": "path",
        "content": "content_preview",
        "cells": "content_preview",
        "startLine": "start_line",
        "numLines": "line_count",
        "totalLines": "total_lines",
    }
    if read.image:
        links |= {"type": "image/media_type", "originalSize": "image/size", "dimensions": "image"}
    elif read.size is not None:
        links["originalSize"] = "size"
    return {f"/file/{name}": f"/result/{target}" for name, target in links.items() if file.get(name) is not None}


def _image(file: RecordedObject) -> Image:
    shown = file.member("dimensions")
    return Image(
        media_type=file.text("type"),
        size=file.integer("originalSize"),
        width=shown.integer("originalWidth"),
        height=shown.integer("originalHeight"),
    )


def _notebook_text(file: RecordedObject) -> str:
    cells = file.items("cells")
    return "\n\n".join(
        f"# cell {cell.text('cell_id') or number} ({cell.text('cellType') or 'code'})\n{cell.text('source') or ''}"
        for number, cell in enumerate(cells)
    )


def _read_receipt(evidence: Evidence, receipt: str) -> Reading | None:
    """The numbered lines of the receipt; the reminder that may follow them is not part of the file."""
    first, lines = numbered_lines(receipt)
    path = RecordedObject(evidence.args).text("file_path")
    if not lines or path is None:
        return None
    result = FileRead(path=path, content="\n".join(lines), start_line=first, line_count=len(lines))
    return reading(evidence, result, _said(result), links={}, fidelity="parsed_from_receipt")


def numbered_lines(text: str) -> tuple[int, list[str]]:
    """The number of the first line, and the lines as long as their numbers go on by one."""
    first = 0
    lines: list[str] = []
    for line in text.split("\n"):
        found = NUMBERED.fullmatch(line)
        if found is None or (lines and int(found[1]) != first + len(lines)):
            break
        first = first if lines else int(found[1])
        lines.append(found[2])
    return first, lines


def _change_recorded(evidence: Evidence, recorded: RecordedObject) -> Reading:
    action: Action = "add" if recorded.text("type") == "create" else "modify"
    result = FileChange(
        path=recorded.text("filePath") or "a file",
        action=action,
        hunks=hunks(recorded),
        content=recorded.text("content") or "",
        user_modified=recorded.flag("userModified"),
        replaced_all=recorded.flag("replaceAll"),
    )
    links = {pointer: to for pointer, to in CHANGE_LINKS.items() if recorded.get(pointer[1:]) is not None}
    if recorded.text("type"):
        links["/type"] = "/result/changed_files/0/action"
    if action == "add" and result.content:
        links["/content"] = "/result/diff_preview"
    if result.replaced_all:
        links["/replaceAll"] = "/result/replaced_all"
    return reading(evidence, result, _changed(result), links=links)


def _changed(change: FileChange) -> str:
    words = {"add": "created", "modify": "updated", "delete": "deleted"}
    return f"{words[change.action]} {change.path}"


def hunks(recorded: RecordedObject) -> tuple[Hunk, ...] | None:
    if not isinstance(recorded.get("structuredPatch"), list):
        return None
    return tuple(
        Hunk(
            old_start=hunk.integer("oldStart") or 0,
            old_lines=hunk.integer("oldLines") or 0,
            new_start=hunk.integer("newStart") or 0,
            new_lines=hunk.integer("newLines") or 0,
            lines=tuple(hunk.strings("lines")),
        )
        for hunk in recorded.items("structuredPatch")
    )


def _change_receipt(evidence: Evidence, receipt: str) -> Reading | None:
    found = CHANGED.match(receipt)
    if found is None:
        return None
    action: Action = "add" if found["add"] else "modify"
    result = FileChange(path=found["add"] or found["modify"], action=action)
    return reading(evidence, result, _changed(result), links={}, fidelity="parsed_from_receipt")


def _cell_recorded(evidence: Evidence, recorded: RecordedObject) -> Reading:
    """A cell's edit changes the notebook; no patch is recorded, so its new source is shown as added lines."""
    mode = recorded.text("edit_mode") or "replace"
    path = recorded.text("notebook_path") or RecordedObject(evidence.args).text("notebook_path") or "a notebook"
    source = recorded.text("new_source") or ""
    lines = tuple(f"+{line}" for line in source.split("\n")) if mode != "delete" else ()
    result = FileChange(path=path, action="modify", hunks=(Hunk(lines=lines),) if lines else None)
    links = {"/notebook_path": "/result/changed_files/0/path"} if recorded.text("notebook_path") else {}
    if lines:
        links["/new_source"] = "/result/diff_preview"
    said = f"{CELL_WORDS.get(mode, 'updated')} a cell of {path}"
    return reading(evidence, result, said, links=links)
