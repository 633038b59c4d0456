"""OpenHands' tools for files: file_editor, planning_file_editor, apply_patch, read_file, write_file and edit.

    file_editor    {content, command, path, prev_exist, old_content?, new_content?}, the words of SWE-agent's editor
    read_file      {content, file_path, file_content, is_truncated, lines_shown?, total_lines}
    write_file     {content, file_path, is_new_file, old_content?, new_content}; edit also {replacements_made}
    apply_patch    {content, message, fuzz, commit: {changes: {path: {type, old_content?, new_content?, move_path?}}}}
    list_directory {content, dir_path, entries: [{name, path, is_directory, size}], total_count, is_truncated}

The receipt is the text in `content`; of a folder that list_directory listed it has the number of entries alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.openhands_receipts import (
    AGENT,
    TEXT,
    align_observation,
    find_text_outputs,
    read_text_with,
    recorded_texts,
)
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.families.file.results import (
    ChangeAction,
    FileChange,
    FileContent,
    PatchAction,
    PatchedFile,
    PatchResult,
    patch_outcome,
    summarize_folder,
    summarize_read,
)
from envelopes.families.file.swe_agent import read_editor, requested_hunk

LISTED = re.compile(
    r"Here's the files and directories up to 2 levels deep in (?P<path>[^\n]+), excluding hidden items:\n"
)
IMAGE = re.compile(r"Image file (?P<path>[^\n]+) read successfully\.")
NOTE = re.compile(r"NOTE: [^\n]+\n")
ACTIONS: dict[str, PatchAction] = {"add": "add", "delete": "delete"}


def _read_words(evidence: Evidence) -> Reading:
    """Reads the words of the editor: a listing, an image, or what SWE-agent's editor has too."""
    text = evidence.result if isinstance(evidence.result, str) else ""
    if image := IMAGE.match(text):
        result = FileContent(path=image["path"], kind="image")
        return reading(evidence, result, f"read {image['path']} (image)", links={})
    listed = LISTED.match(text)
    if listed is None:
        return read_editor(evidence)
    names, path = text[listed.end() :], listed["path"]
    result = FileContent(path=path, content=names, line_count=len(names.splitlines()))
    cuts = find_source_cuts(text, "", "stream")
    return reading(evidence, result, f"listed {path}", links={"": "/result/content_preview"}, source_cuts=cuts)


def _read_editor(evidence: Evidence) -> Reading:
    """A note stands before the lines where the range passed the end of the file."""
    text = recorded_texts(evidence).get(TEXT, "")
    if (note := NOTE.match(text)) is None or evidence.is_error:
        return read_text_with(_read_words)(evidence)
    return read_text_with(_read_words, start=note.end())(evidence)


def _reader(expects: str, read: Callable[[Evidence, RecordedObject], Reading]) -> Callable[[Evidence], Reading]:
    def read_tool(evidence: Evidence) -> Reading:
        recorded = RecordedObject(evidence.result)
        if failure := read_failure(evidence):
            return failure
        return read(evidence, recorded) if recorded.has_any((expects,)) else read_untyped(evidence)

    return read_tool


def _read_file(evidence: Evidence, recorded: RecordedObject) -> Reading:
    path, total = recorded.text("file_path") or "a file", recorded.integer("total_lines")
    shown = [number for number in recorded.elements("lines_shown") if isinstance(number, int)]
    first, last = (shown[0], shown[-1]) if shown else (1, total)
    content = recorded.text("file_content") or ""
    count = None if last is None else last - first + 1
    result = FileContent(path=path, content=content, start_line=first, line_count=count, total_lines=total)
    links = {"/file_path": "/result/path", "/file_content": "/result/content_preview"}
    is_asked = RecordedObject(evidence.args).integer("limit") is not None
    cuts: tuple[SourceCut, ...] = ()
    if total is not None and last is not None and last < total and not is_asked:
        missing = total - last
        cuts = (SourceCut(pointer=TEXT, unit="lines", count=missing, lines=missing, is_limit=True),)
    summary, outputs = summarize_read(path, count), find_text_outputs(evidence)
    return reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)


def _read_change(evidence: Evidence, recorded: RecordedObject) -> Reading:
    is_new = recorded.flag("is_new_file") is True
    action: ChangeAction = "add" if is_new else "modify"
    path, args = recorded.text("file_path") or "a file", RecordedObject(evidence.args)
    hunks = requested_hunk(args.text("old_string"), args.text("new_string")) if not is_new else None
    content = (recorded.text("new_content") or "") if is_new else ""
    change = FileChange(path=path, action=action, hunks=hunks, content=content)
    links = {"/file_path": "/result/changed_files/0/path"}
    if content:
        links["/new_content"] = "/result/diff_preview"
    return reading(evidence, change, f"{'created' if is_new else 'updated'} {path}", links=links)


def _read_patch(evidence: Evidence, recorded: RecordedObject) -> Reading:
    changes = recorded.member("commit").member("changes")
    paths = list(changes.recorded) if isinstance(changes.recorded, dict) else []
    files = []
    for path in paths:
        change = changes.member(path)
        action, moved = ACTIONS.get(change.text("type") or "", "modify"), change.text("move_path")
        file = PatchedFile(action=action, path=path)
        files.append(PatchedFile(action="move", path=moved, from_path=path) if moved else file)
    result = PatchResult(changed_files=tuple(files))
    return reading(evidence, result, patch_outcome(result), links={"/commit/changes": "/result/changed_files"})


def _read_folder(evidence: Evidence, recorded: RecordedObject) -> Reading:
    entries = recorded.items("entries")
    names = [f"{entry.text('name') or ''}{'/' if entry.flag('is_directory') else ''}" for entry in entries]
    path = recorded.text("dir_path") or "a folder"
    result = FileContent(path=path, content="\n".join(names), line_count=len(names))
    links = {"/dir_path": "/result/path", "/entries": "/result/content_preview"}
    is_cut = recorded.flag("is_truncated") is True
    cuts = (SourceCut(pointer="/entries", unit="files", is_limit=True),) if is_cut else ()
    summary = summarize_folder(path, len(names))
    return reading(evidence, result, summary, links=links, source_cuts=cuts)


def _mapping(read: Callable[[Evidence], Reading], *tools: str) -> ToolMapping:
    return ToolMapping(agent=AGENT, tools=tools, version=2, read=read, align=align_observation)


MAPPINGS = (
    _mapping(_read_editor, "file_editor", "planning_file_editor"),
    _mapping(_reader("file_content", _read_file), "read_file"),
    _mapping(_reader("new_content", _read_change), "write_file", "edit"),
    _mapping(_reader("commit", _read_patch), "apply_patch"),
    _mapping(_reader("entries", _read_folder), "list_directory"),
)
