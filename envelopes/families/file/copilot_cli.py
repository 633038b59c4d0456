"""The view, create, edit and apply_patch of the GitHub Copilot CLI.

They record what a person is shown, `{detailedContent}`: a unified difference, of a view one without changes whose lines
are those of the file, or the names in a folder. Later releases add `{fileEdits: [{path, kind}]}`. The receipt of a view
has the lines alone, behind their numbers in earlier releases (`12. a line`); those of the others are a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span, match_once
from envelopes.families.file.codex import read_hunks
from envelopes.families.file.results import (
    ChangeAction,
    FileChange,
    FileContent,
    PatchedFile,
    PatchResult,
    patch_outcome,
    summarize_read,
)

AGENT = "copilot-cli"
DIFFERENCE, DETAIL = "\ndiff --git ", "/detailedContent"
HUNK = re.compile(r"^@@ -(?P<first>\d{1,9})(?:,\d{1,9})? \+\d[^\n]*@@\n", re.MULTILINE)
TOO_LARGE = re.compile(r"File too large to read at once \(")
IMAGE = "Viewed image file successfully."
FILES = re.compile(r"^--- a(?P<old>/[^\n]*)\n\+\+\+ b(?P<new>/[^\n]*)$", re.MULTILINE)
NO_FILE = "/dev/null"
ACTIONS: dict[str, ChangeAction] = {"create": "add", "delete": "delete"}  # by the kind of an edit
WRITTEN = re.compile(r"(?P<created>Created file )|File .* updated with changes\.|(?:Added|Modified|Deleted|Moved) \d")


def _shown_lines(detail: str) -> tuple[int, int] | None:
    """The number of the first line of the one hunk, and the character at which its lines begin."""
    hunk = HUNK.search(detail) if detail.startswith(DIFFERENCE) else None
    return (int(hunk["first"]), hunk.end()) if hunk else None


def _read_file(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    detail, receipt = RecordedObject(evidence.result).text("detailedContent") or "", evidence.receipt_text or ""
    path = RecordedObject(evidence.args).text("path") or "a file"
    if receipt == IMAGE:
        return reading(evidence, FileContent(path=path, kind="image"), f"read {path} (image)", links={})
    if TOO_LARGE.match(receipt):
        cut = SourceCut(pointer="", unit="output", is_limit=True)
        content = FileContent(path=path)
        return reading(evidence, content, receipt, links={}, fidelity="parsed_from_receipt", source_cuts=(cut,))
    shown = _shown_lines(detail)
    if shown is None:
        return read_untyped(evidence)
    first, start = shown
    lines = [line[1:] for line in detail[start:].removesuffix("\n").split("\n")]
    is_empty = not any(lines) and not receipt
    count = 0 if is_empty else len(lines) - (not lines[-1])
    content = FileContent(path=path, content="" if is_empty else "\n".join(lines), start_line=first, line_count=count)
    summary = summarize_read(path, count)
    return reading(evidence, content, summary, links={DETAIL: "/result/content_preview"})


def _align_file(evidence: Evidence, text: str) -> Iterator[Span]:
    """Links the lines, each where it is the next one of the record."""
    detail = RecordedObject(evidence.result).text("detailedContent") or ""
    shown = _shown_lines(detail)
    if shown is None:
        yield from align_failure(evidence, text)
        return
    at, value = 0, shown[1]
    for number, recorded in enumerate(detail[value:].split("\n"), shown[0]):
        if at > len(text):
            return
        end = text.find("\n", at)
        line_end = len(text) if end < 0 else end
        prefix = f"{number}. "
        start = at + len(prefix) if text.startswith(prefix + recorded[1:], at) else at
        line = recorded[1:]
        if not text.startswith(line, start) or text[start + len(line) : line_end].strip("\r"):
            return
        if line:
            yield Span(start, start + len(line), DETAIL, value + 1, value + 1 + len(line))
        at, value = line_end + 1, value + len(recorded) + 1


def _read_change(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    recorded = RecordedObject(evidence.result)
    detail, edits = recorded.text("detailedContent") or "", recorded.items("fileEdits")
    written = WRITTEN.match(evidence.receipt_text or "")
    path = RecordedObject(evidence.args).text("path")
    links = {f"/fileEdits/{index}/path": f"/result/changed_files/{index}/path" for index in range(len(edits))}
    if path is None and (files := _patched_files(edits, detail)):
        links = links or {DETAIL: "/result/changed_files"}
        result = PatchResult(changed_files=files)
        return reading(evidence, result, patch_outcome(result), links=links)
    if path is None or not detail.startswith(DIFFERENCE) or written is None:
        return read_untyped(evidence)
    action: ChangeAction = "add" if written["created"] else "modify"
    change = FileChange(path=path, action=action, hunks=tuple(read_hunks(detail)))
    summary = f"{'created' if action == 'add' else 'updated'} {path}"
    return reading(evidence, change, summary, links={DETAIL: "/result/diff_preview", **links})


def _patched_files(edits: list[RecordedObject], detail: str) -> tuple[PatchedFile, ...]:
    """The files that a patch changed, of earlier releases by the heads of the difference."""
    if edits:
        names = [(ACTIONS.get(edit.text("kind") or "", "modify"), edit.text("path") or "a file") for edit in edits]
        return tuple(PatchedFile(action=action, path=path) for action, path in names)
    return tuple(
        PatchedFile(action="add", path=file["new"])
        if file["old"] == NO_FILE
        else PatchedFile(action="delete", path=file["old"])
        if file["new"] == NO_FILE
        else PatchedFile(action="modify", path=file["new"])
        for file in FILES.finditer(detail)
    )


def _align_change(evidence: Evidence, text: str) -> list[Span]:
    """Links the paths that the sentence names, those of the record or else the argument."""
    if not WRITTEN.match(text):
        return align_failure(evidence, text)
    spans = []
    for index, edit in enumerate(RecordedObject(evidence.result).items("fileEdits")):
        if span := match_once(text, edit.text("path") or "", f"/fileEdits/{index}/path"):
            spans.append(span)
    path = RecordedObject(evidence.args).text("path") or ""
    if not spans and (span := match_once(text, path, "")):
        return [Span(span.start, span.end, "/path", 0, len(path), "args")]
    return spans


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("view",), version=1, read=_read_file, align=_align_file),
    ToolMapping(
        agent=AGENT, tools=("create", "edit", "apply_patch"), version=1, read=_read_change, align=_align_change
    ),
)
