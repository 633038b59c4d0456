"""Cline's tools for files.

read_files        [{query: path or path:first-last, result: numbered lines, error?, success}]
apply_patch       {query, result: "Successfully applied patch …" and a file a line, error?, success}
editor            the same, with a sentence, or `Edited P` and the changed lines as a difference
read_file         the text, behind numbers from releases of 2026 on, in the receipt alone
write_to_file, replace_in_file, apply_patch of tasks
                  a sentence, and the file between <final_file_content> tags, in the receipt alone
"""

from __future__ import annotations

import re

from envelopes.alignment.cline_receipts import (
    AGENT,
    align_sent,
    pointer_of,
    read_answer,
    read_entries,
    read_failed_entries,
)
from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.file.results import (
    FileChange,
    FileContent,
    PatchAction,
    PatchedFile,
    PatchResult,
    patch_outcome,
    summarize_read,
)

QUERY = re.compile(r"(?P<path>.*?)(?::(?P<first>\d{1,9})-(?:EOF|\d{1,9}))?")
NUMBERED = re.compile(r"^ *(?P<number>\d{1,9}) \| ?", re.MULTILINE)
SHOWN = re.compile(
    r"\n\n[\[(](?:Showing lines \d{1,9}-(?P<last>\d{1,9}) of (?P<total>\d{1,9})(?: total)?\. [^\n]*|"
    r"File has (?P<all>\d{1,9}) lines? total\.)[\])]\Z"
)
LINE_END = re.compile(r" ?\[line truncated\]$", re.MULTILINE)
REPEATED = re.compile(r"\[(?:File already read|DUPLICATE READ)\] [^\n]*\n")
PATCHED = re.compile(r"Successfully applied patch to the following files:\n+")
PATCHED_FILE = re.compile(r"(?P<path>.+?)(?:: \[(?P<action>deleted)\]| -> (?P<target>.+))?")
FINAL = re.compile(
    r'<final_file_content path="(?P<path>[^"\n]*)">\n(?P<content>.*?)\n?\n</final_file_content>', re.DOTALL
)
SAVED = re.compile(r"The content was successfully saved to |The updated content, which includes both your original")
EDITED = re.compile(r"(?P<created>File created successfully at: )|Edited |Inserted content at line |Replaced ")
USER_EDITS = "The user made the following updates to your content:"


def _read_numbered(text: str, path: str) -> tuple[FileContent, bool]:
    """The lines of a file without their numbers, and whether the client stopped before the end of the file."""
    note = SHOWN.search(text, max(0, len(text) - 1_000))
    body = text[: note.start()] if note else text
    first = NUMBERED.match(body)
    content = NUMBERED.sub("", body) if first else body
    count = content.count("\n") + (content[-1:] not in ("", "\n"))
    total = next((int(found) for found in (note["total"], note["all"]) if found), None) if note else None
    result = FileContent(
        path=path,
        content=content,
        start_line=int(first["number"]) if first else 1,
        line_count=count,
        total_lines=total,
    )
    return result, bool(note and note["last"] and note["last"] != note["total"])


def _line_cuts(text: str, pointer: str) -> tuple[SourceCut, ...]:
    count = sum(1 for _ in LINE_END.finditer(text))
    return (SourceCut(pointer=pointer, unit="line ends", count=count),) if count else ()


def _read_files(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence) or read_failed_entries(evidence):
        return failure
    entries = read_entries(evidence)
    if not entries:
        return read_untyped(evidence)
    texts = [entry.text("result") for entry in entries]
    pointers = [pointer_of(evidence, index, "result") for index in range(len(entries))]
    outputs = tuple(OutputField(at) for at, text in zip(pointers, texts, strict=True) if text)
    cuts = tuple(cut for at, text in zip(pointers, texts, strict=True) for cut in _line_cuts(text or "", at))
    if len(entries) > 1:
        parts = [f"{entry.text('query')}\n{entry.text('error') or entry.text('result') or ''}" for entry in entries]
        return reading(
            evidence,
            RecordedText("\n\n".join(parts)),
            f"read {len(entries)} files",
            links={"": "/result/text"},
            outputs=outputs,
            source_cuts=cuts,
        )
    query = QUERY.fullmatch(entries[0].text("query") or "")
    path = (query["path"] if query else "") or "a file"
    if texts[0] is None:
        return reading(evidence, FileContent(path=path, kind="image"), f"read {path} (image)", links={})
    result, is_limited = _read_numbered(texts[0], path)
    asked = query is not None and query["first"] is not None
    if is_limited and not asked:
        missing = (result.total_lines or 0) - (result.line_count or 0)
        at = texts[0].count("\n") - 1
        cuts += (
            SourceCut(
                pointer=pointers[0], unit="lines", count=missing, start=at, end=at + 2, lines=missing, is_limit=True
            ),
        )
    return reading(
        evidence,
        result,
        summarize_read(path, result.line_count),
        links={pointers[0]: "/result/content_preview", pointer_of(evidence, 0, "query"): "/result/path"},
        outputs=tuple(OutputField(at, first_line=result.start_line or 1, is_asked=asked) for at in pointers),
        source_cuts=cuts,
    )


def _read_file(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    path, text = RecordedObject(evidence.args).text("path"), answer.receipt_text
    if path is None or text is None:
        return read_untyped(answer)
    repeated = REPEATED.match(text)
    result, is_limited = _read_numbered(text[repeated.end() :] if repeated else text, path)
    missing = (result.total_lines or 0) - (result.start_line or 1) - (result.line_count or 0) + 1
    cuts = _line_cuts(text, "")
    if is_limited and RecordedObject(evidence.args).get("end_line") is None:
        cuts += (SourceCut(pointer="", unit="lines", count=missing, lines=missing, is_limit=True),)
    summary = summarize_read(path, result.line_count)
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_edit(evidence: Evidence) -> Reading:
    """The one file that the editor changed, or those of a patch."""
    if failure := read_failure(evidence) or read_failed_entries(evidence):
        return failure
    if not evidence.has_result:
        return _read_saved(evidence)
    recorded = RecordedObject(evidence.result)
    text, path = recorded.text("result") or "", RecordedObject(evidence.args).text("path")
    links = {"/result": "/result/changed_files"}
    if patched := PATCHED.match(text):
        result = PatchResult(changed_files=_patched_files(text[patched.end() :]))
        return reading(evidence, result, patch_outcome(result), links=links)
    edited = EDITED.match(text)
    if path is None or edited is None:
        return read_untyped(evidence)
    content = RecordedObject(evidence.args).text("new_text") or "" if edited["created"] else ""
    change = FileChange(path=path, action="add" if edited["created"] else "modify", content=content)
    return reading(evidence, change, f"{'created' if edited['created'] else 'changed'} {path}", links=links)


def _patched_files(text: str) -> tuple[PatchedFile, ...]:
    files = []
    for line in text.splitlines():
        if (file := PATCHED_FILE.fullmatch(line)) and not line.startswith("<"):
            action: PatchAction = "delete" if file["action"] else "move" if file["target"] else "modify"
            path = file["target"] or file["path"]
            files.append(PatchedFile(action=action, path=path, from_path=file["path"] if file["target"] else None))
    return tuple(files)


def _read_saved(evidence: Evidence) -> Reading:
    """A change of a task, whose receipt has the whole new text of each file."""
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    text, path = answer.receipt_text or "", RecordedObject(evidence.args).text("path")
    if patched := PATCHED.match(text):
        names = [final["path"] for final in FINAL.finditer(text)]
        files = tuple(PatchedFile(action="modify", path=name) for name in names)
        files = files or _patched_files(text[patched.end() :].partition("\n\n")[0])
        result = PatchResult(changed_files=files)
        return reading(evidence, result, patch_outcome(result), links={}, fidelity="parsed_from_receipt")
    final = FINAL.search(text)
    if path is None or not (final or SAVED.match(text)):
        return read_untyped(answer)
    change = FileChange(path=path, content=final["content"] if final else "", user_modified=USER_EDITS in text)
    return reading(evidence, change, f"changed {path}", links={}, fidelity="parsed_from_receipt")


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("read_files",), version=1, read=_read_files, align=align_sent),
    ToolMapping(agent=AGENT, tools=("read_file",), version=1, read=_read_file, align=align_sent),
    ToolMapping(agent=AGENT, tools=("editor", "apply_patch"), version=1, read=_read_edit, align=align_sent),
    ToolMapping(agent=AGENT, tools=("write_to_file", "replace_in_file"), version=1, read=_read_saved, align=align_sent),
)
