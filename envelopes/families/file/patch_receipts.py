"""What the model gets of a patch that was applied, and of a file tool that failed.

Patch applied with 1 diagnostic: 3 files changed        ApplyPatch failed: no place matches hunk 2
M src/app.py                                            Kind: context_not_found
R docs/old.md -> docs/new.md                            Path: src/app.py
D notes.txt                                             Hint: read the file again
Diagnostics:                                            Retryable: no
src/app.py: hunk_count_mismatch: …                      All details are in the audit record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from envelopes.families.file.patch import MARKS
from envelopes.families.segments import headline, label, line_break, member_line, reason_line, value
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult

SHOWN_NOTES = 8
MESSAGE_CHARACTERS = 700
WORD_CHARACTERS = 96  # a longer run of characters is data that a patch dragged along, not prose
DETAILS = (
    ("Path", "path"),
    ("From path", "from_path"),
    ("Hunk", "hunk"),
    ("Line", "line"),
    ("Matches", "matches"),
)
_LONG_WORD = re.compile(rf"(\S{{{WORD_CHARACTERS}}})\S+")


def patched(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    yield from _headline(result)
    for index, file in enumerate(result["changed_files"]):
        yield line_break()
        yield from _file(canonical, file, f"/result/changed_files/{index}")
    if "changed_files_omitted" in result:
        yield line_break()
        yield Segment(
            f"[showing first {len(result['changed_files'])} of {result['changed_file_count']} files]", "marker"
        )
    yield from _notes(canonical, result, "diagnostics", "Diagnostics:", _diagnostic)
    yield from _notes(canonical, result, "ignored_metadata", "Ignored metadata, not applied:", _ignored)


def file_failure(canonical: CanonicalResult) -> Iterator[Segment]:
    """The message may quote a whole patch, so it is bounded here; the canonical error keeps it (RFC-096)."""
    assert canonical.error is not None
    yield value(canonical, "/tool_name")
    yield label(" failed: ")
    yield from _message(canonical.error.message)
    yield line_break()
    yield label("Kind: ")
    yield value(canonical, "/error/kind")
    for title, member in DETAILS:
        yield from member_line(canonical, title, f"/error/details/{member}")
    yield from reason_line(canonical)
    if hint := canonical.error.recovery_hint:
        yield line_break()
        yield label("Hint: ")
        yield Segment(hint, "hint", SegmentSource("canonical", "/error/recovery_hint", 0, len(hint)))
    yield line_break()
    yield label("Retryable: ")
    yield value(canonical, "/error/retryable", "yes" if canonical.error.retryable else "no")
    if canonical.error.details:
        yield line_break()
        yield label("All details are in the audit record.")


def _headline(result: dict[str, Any]) -> Iterator[Segment]:
    count = result["changed_file_count"]
    diagnostics = len(result.get("diagnostics", ())) + result.get("diagnostics_omitted", 0)
    if diagnostics:
        yield headline(f"Patch applied with {_counted(diagnostics, 'diagnostic')}", "/result/diagnostics")
    else:
        yield headline("Patch applied", "/result/changed_files")
    yield label(": ")
    yield Segment(_counted(count, "file"), "value", SegmentSource("canonical", "/result/changed_file_count"))
    yield label(" changed")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _file(canonical: CanonicalResult, file: dict[str, Any], pointer: str) -> Iterator[Segment]:
    yield value(canonical, f"{pointer}/action", MARKS[file["action"]])
    yield label(" ")
    if "from_path" in file:
        yield value(canonical, f"{pointer}/from_path")
        yield label(" -> ")
    yield value(canonical, f"{pointer}/path")


def _notes(
    canonical: CanonicalResult,
    result: dict[str, Any],
    field: str,
    title: str,
    note: Callable[[CanonicalResult, str], Iterator[Segment]],
) -> Iterator[Segment]:
    listed = result.get(field, ())
    omitted = max(0, len(listed) - SHOWN_NOTES) + result.get(f"{field}_omitted", 0)
    if not listed and not omitted:
        return
    yield line_break()
    yield label(title)
    for index in range(min(len(listed), SHOWN_NOTES)):
        yield line_break()
        yield from note(canonical, f"/result/{field}/{index}")
    if omitted:
        yield line_break()
        yield Segment(f"[omitted {omitted}]", "marker")


def _diagnostic(canonical: CanonicalResult, pointer: str) -> Iterator[Segment]:
    yield value(canonical, f"{pointer}/path")
    yield label(": ")
    yield value(canonical, f"{pointer}/kind")
    yield label(": ")
    yield value(canonical, f"{pointer}/message")


def _ignored(canonical: CanonicalResult, pointer: str) -> Iterator[Segment]:
    yield value(canonical, f"{pointer}/path")
    yield label(": ")
    yield value(canonical, f"{pointer}/kind")
    yield label(" ")
    yield value(canonical, f"{pointer}/value")


def _message(message: str) -> Iterator[Segment]:
    """At most 700 characters of it, words of at most 96; each cut is marked where it is."""
    end = min(len(message), MESSAGE_CHARACTERS)
    at = 0
    for word in _LONG_WORD.finditer(message, 0, end):
        yield _slice(message, at, word.end(1))
        yield Segment("…", "marker")
        at = word.end()
    yield _slice(message, at, end)
    if end < len(message):
        yield Segment(f"\n[message cut: first {end} of {len(message)} characters]", "marker")


def _slice(message: str, start: int, end: int) -> Segment:
    return Segment(message[start:end], "headline", SegmentSource("canonical", "/error/message", start, end))
