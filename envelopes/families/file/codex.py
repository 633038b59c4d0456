"""Codex's apply_patch, and where its receipts come from.

The recorded result is `patch_apply_end` or the item `FileChange`, where a release keeps one:

    {changes: {path: {type: add | update | delete, unified_diff?, content?, move_path?}}, success, stdout, stderr, …}

or the item `file_change` of `codex exec --json`, which has `changes: [{path, kind: add | update | delete}]`.

Receipts are `Success. Updated the following files:` and a line for each file, as they are, behind the header of a
command, or as JSON of `{output, metadata}`. Releases without a record leave the receipt alone, whose lines name the
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.json_spans import match_json_at
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span, match_once
from envelopes.families.file.results import (
    ChangeAction,
    FileChange,
    Hunk,
    PatchAction,
    PatchedFile,
    PatchResult,
    patch_outcome,
)
from envelopes.text.outline import outline_text
from envelopes.text.pointer import join
from envelopes.text.untrusted_json import Untrusted, parse_json

ACTIONS: dict[str, ChangeAction] = {"add": "add", "update": "modify", "delete": "delete"}
LETTERS: dict[str, PatchAction] = {"A": "add", "M": "modify", "D": "delete"}
VERBS = {"add": "created", "modify": "updated", "delete": "deleted"}
HUNK = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@[^\n]*$", re.MULTILINE)
SUCCESS = "Success. Updated the following files:\n"
CHANGED_FILE = re.compile(r"([AMD]) ([^\n]+)\n?")
OUTPUT = '{"output":'
HEADER = re.compile(
    r"Exit code: (?P<exit>-?\d{1,10})\n(?:Wall time: [\d.]+ seconds\n|Total output lines: \d+\n)*Output:\n"
)


def _read_patch(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    changes = recorded.get("changes")
    if evidence.is_error or not isinstance(changes, dict) or not changes:
        return read_failure(evidence) or _read_receipt(evidence)
    files = {path: RecordedObject(change) for path, change in changes.items()}
    if len(files) > 1 or any(change.text("move_path") for change in files.values()):
        result = PatchResult(changed_files=tuple(_patched_file(path, change) for path, change in files.items()))
        return reading(evidence, result, patch_outcome(result), links={"/changes": "/result/changed_files"})
    ((path, change),) = files.items()
    action = ACTIONS.get(change.text("type") or "", "modify")
    diff = change.text("unified_diff")
    one = FileChange(
        path=path,
        action=action,
        hunks=None if diff is None else tuple(read_hunks(diff)),
        content=(change.text("content") or "") if action == "add" else "",
    )
    at = join("/changes", path)
    links = {f"{at}/type": "/result/changed_files/0/action", f"{at}/unified_diff": "/result/diff_preview"}
    return reading(evidence, one, f"{VERBS[action]} {path}", links=links)


def _read_changes(evidence: Evidence) -> Reading:
    """Reads a list of changes without their contents."""
    listed = RecordedObject(evidence.result).items("changes")
    if evidence.is_error or not listed:
        return read_failure(evidence) or read_untyped(evidence)
    files = [(change.text("path") or "", ACTIONS.get(change.text("kind") or "", "modify")) for change in listed]
    result = PatchResult(changed_files=tuple(PatchedFile(action=action, path=path) for path, action in files))
    return reading(evidence, result, patch_outcome(result), links={"/changes": "/result/changed_files"})


def _patched_file(path: str, change: RecordedObject) -> PatchedFile:
    """A moved file has its new path in `move_path`."""
    if moved := change.text("move_path"):
        return PatchedFile(action="move", path=moved, from_path=path)
    return PatchedFile(action=ACTIONS.get(change.text("type") or "", "modify"), path=path)


def read_hunks(diff: str) -> Iterator[Hunk]:
    """Yields the hunks of a difference; that of an empty file has none."""
    headers = list(HUNK.finditer(diff))
    for header, following in zip_longest(headers, headers[1:]):
        numbers = [int(number) if number else 1 for number in header.groups()]
        lines = diff[header.end() + 1 : following.start() if following else len(diff)].removesuffix("\n").split("\n")
        yield Hunk(
            old_start=numbers[0], old_lines=numbers[1], new_start=numbers[2], new_lines=numbers[3], lines=tuple(lines)
        )


def _read_receipt(evidence: Evidence) -> Reading:
    """The files that the receipt lists, or the failure that its exit code means, where nothing else was recorded."""
    receipt = evidence.receipt_text or ""
    if evidence.result is not None:
        return read_untyped(evidence)
    text, status = _output_of(receipt)
    if status:
        failed = msgspec.structs.replace(evidence, is_error=True, receipt_text=text if text.strip() else receipt)
        return read_failure(failed) or read_untyped(evidence)
    start = text.find(SUCCESS)
    if start < 0:
        return read_untyped(evidence)
    rows = CHANGED_FILE.findall(text, start + len(SUCCESS))
    result = PatchResult(changed_files=tuple(PatchedFile(action=LETTERS[letter], path=path) for letter, path in rows))
    return reading(evidence, result, patch_outcome(result), links={}, fidelity="parsed_from_receipt")


def _output_of(receipt: str) -> tuple[str, int | None]:
    """The output in a receipt and its exit code, as far as it has one."""
    if header := HEADER.match(receipt):
        return receipt[header.end() :], int(header["exit"])
    if not receipt.startswith(OUTPUT):
        return receipt, None
    try:
        document = parse_json(receipt.encode("utf-8", "surrogatepass"))
    except Untrusted:
        return receipt, None
    recorded = RecordedObject(document)
    return recorded.text("output") or outline_text(document), recorded.member("metadata").integer("exit_code")


def _align_patch(evidence: Evidence, text: str) -> list[Span]:
    stdout = RecordedObject(evidence.result).text("stdout") or ""
    if text.startswith(OUTPUT):
        return match_json_at(text, len(OUTPUT), stdout, "/stdout")[0] if stdout else []
    core = stdout.rstrip()
    span = match_once(text, core, "/stdout")
    return [span] if span else align_failure(evidence, text)


MAPPINGS = (
    ToolMapping(agent="codex", tools=("apply_patch",), version=3, read=_read_patch, align=_align_patch),
    ToolMapping(agent="codex", tools=("file_change",), version=1, read=_read_changes, align=align_failure),
)
