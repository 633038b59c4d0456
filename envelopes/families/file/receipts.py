"""The file family's receipts: what was read or changed, then the text or the diff verbatim.

A patch has a line for each file and no text:

Patch applied with 1 diagnostic: 3 files changed        ApplyPatch failed: hunk 2 matches no place in src/app.py
M src/app.py                                            Kind: context_not_found
R docs/old.md -> docs/new.md                            Hint: read the file again
D notes.txt                                             Same call again: will fail
Diagnostics:                                            The hunk expects:
src/app.py: hunk_count_mismatch: …                      …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.base import count_noun
from envelopes.families.file.results import MARKS, SHOWN_NOTES
from envelopes.families.file.tools import TOOLS
from envelopes.families.fitting import fit
from envelopes.families.indented_values import with_indented_values
from envelopes.families.segments import (
    artifact_lines,
    error_receipt,
    headline,
    label,
    line_break,
    marker,
    member_lines,
    phrase,
    preview,
    text_value,
    value,
    with_ways_to_read,
)
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult

ACTIONS = {"add": "File created", "modify": "File updated", "delete": "File deleted"}
KINDS = {
    "image": "Read an image",
    "notebook": "Read a notebook",
    "pdf": "Read a PDF",
    "pages": "Read pages of a PDF",
    "unchanged": "File unchanged since it was last read",
}
IMAGE_LINES = (("Type", "media_type"), ("Bytes", "size"), ("Width", "width"), ("Height", "height"))
ERROR_DETAILS = (
    ("Path", "path"),
    ("From path", "from_path"),
    ("Hunk", "hunk"),
    ("Patch line", "line"),
    ("Matches", "matches"),
)
# What an error quotes: the hunk's lines, and those of the file that are most like them.
QUOTED = (("The hunk expects", "expected"), ("The nearest lines of the file", "nearest"))
MESSAGE_CHARACTERS = 700
WORD_CHARACTERS = 96  # a longer run of characters is data that a patch dragged along, not prose
_LONG_WORD = re.compile(rf"(\S{{{WORD_CHARACTERS}}})\S+")


def receipt(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    body = list(_failure(canonical) if canonical.error else _outcome(canonical))
    last = [*(() if canonical.error else _reading_on(canonical)), *artifact_lines(canonical, policy)]
    if last and body and body[-1].text.endswith("\n"):
        last = last[1:]  # the text has begun the next line already
    return with_ways_to_read(fit(body, policy, tail=last), canonical, policy)


def _failure(canonical: CanonicalResult) -> Iterator[Segment]:
    """The message may quote a whole patch, so it is bounded here; the canonical error keeps it (RFC-096).

    Of a hunk that fits nowhere, its first lines and the nearest lines of the file follow.
    """
    yield from error_receipt(canonical, ERROR_DETAILS, _message, TOOLS)
    details = RecordedObject(canonical.error.details if canonical.error else None)
    for title, name in QUOTED:
        lines = details.strings(name)
        if lines:
            yield line_break()
            yield label(f"{title}:")
        for index, line in enumerate(lines):
            yield line_break()
            yield text_value(line.rstrip("\n"), f"/error/details/{name}/{index}", role="preview")


def _message(message: str) -> Iterator[Segment]:
    """At most 700 characters of it, words of at most 96; each cut is marked where it is."""
    end = min(len(message), MESSAGE_CHARACTERS)
    start = 0
    for word in _LONG_WORD.finditer(message, 0, end):
        yield text_value(message[start : word.end(1)], "/error/message", start, role="headline")
        yield marker("…")
        start = word.end()
    yield text_value(message[start:end], "/error/message", start, role="headline")
    if end < len(message):
        yield marker(f"\n[message cut: first {end} of {len(message)} characters]")


@with_indented_values
def _outcome(canonical: CanonicalResult) -> Iterator[Segment]:
    result: dict[str, Any] = canonical.result if isinstance(canonical.result, dict) else {}
    match result:
        case {"changed_files": [{"action": str(action)}, *_], "diff_preview": _}:
            yield from _changed(canonical, result, action)
        case {"changed_files": list()}:
            yield from _patched(canonical, result)
        case {"match_count": int(), "matches": list()}:
            yield from _matches(canonical, result)
        case {"path": str(), "text": str(), "total_lines": int()}:
            yield from _slice(canonical, result)
        case {"path": str()}:
            yield from _read(canonical, result)
        case _:
            yield headline(canonical.summary_text)
            yield line_break(2)
            yield preview(canonical, "/result/text")


def _slice(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    """Shows the place of the text, the text, and the call that reads on."""
    if not result["line_count"]:
        yield from phrase(canonical, "{path}")
        yield headline(" is empty", "/result/text")
        return
    first, count = result["line"], result["line_count"]
    yield headline(f"Line {first}" if count == 1 else f"Lines {first} to {first + count - 1}", "/result/line")
    if result.get("column"):
        yield from phrase(canonical, ", from character {column},")
    yield from phrase(canonical, " of {total_lines} of {path}")
    yield from [label(" (JSON, laid out for reading)")] if result.get("laid_out") else []
    yield line_break(2)
    yield preview(canonical, "/result/text")


def _matches(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    count, total = result["match_count"], result["total_lines"]
    yield headline(f"{count or 'None'} of {total} lines matched", "/result/match_count")
    yield from phrase(canonical, " in {path}")
    for index in range(len(result["matches"])):
        yield from phrase(canonical, "\n{line}: {text}", f"/result/matches/{index}")


def _reading_on(canonical: CanonicalResult) -> Iterator[Segment]:
    """The arguments of the next call; nothing at the end."""
    result = canonical.result if isinstance(canonical.result, dict) else {}
    line, column = result.get("next_line"), result.get("next_column")
    if "total_lines" not in result or not isinstance(line, int):
        return
    place = f"line={line}" + (f" column={column}" if isinstance(column, int) and column > 1 else "")
    words = f"[the first {len(result['matches'])} matches; next: {place}, the same find]" if "matches" in result else ""
    yield line_break()
    yield marker(words or f"[next: {place}]")


def _changed(canonical: CanonicalResult, result: dict[str, Any], action: str) -> Iterator[Segment]:
    yield headline(ACTIONS[action], "/result/changed_files/0/action")
    yield from phrase(canonical, f"\n{MARKS[action]} {{path}}", "/result/changed_files/0")
    if result["additions"] is not None:
        yield from phrase(canonical, " (+{additions} -{deletions} lines)")
    if result["user_modified"]:
        yield line_break()
        yield headline("The user changed the edit before it was applied.", "/result/user_modified")
    if result["diff_preview"]:
        yield from phrase(canonical, "\n\nDiff:\n")
        yield preview(canonical, "/result/diff_preview")


def _read(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    kind = result.get("kind")
    yield headline(KINDS[kind], "/result/kind") if kind else headline("Read", "/result/path")
    yield label(" " if kind is None else ": ")
    yield value(canonical, "/result/path")
    first, count = result["start_line"], result["line_count"]
    if first is not None and count:
        yield from phrase(canonical, "\nLines {start_line} to ")
        yield value(canonical, "/result/line_count", str(first + count - 1))
        if result["total_lines"] is not None:
            yield from phrase(canonical, " of {total_lines}")
    yield from member_lines(canonical, IMAGE_LINES, "/result/image")
    if result["content_preview"]:
        yield line_break(2)
        yield preview(canonical, "/result/content_preview")
    elif kind is None:
        yield line_break()
        yield label("No text.")


def _patched(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    count = result["changed_file_count"]
    diagnostics = len(result.get("diagnostics", ())) + result.get("diagnostics_omitted", 0)
    if diagnostics:
        yield headline(f"Patch applied with {count_noun(diagnostics, 'diagnostic')}", "/result/diagnostics")
    else:
        yield headline("Patch applied", "/result/changed_files")
    yield label(": ")
    yield value(canonical, "/result/changed_file_count", count_noun(count, "file"))
    yield label(" changed")
    for index, file in enumerate(result["changed_files"]):
        pointer = f"/result/changed_files/{index}"
        yield line_break()
        yield value(canonical, f"{pointer}/action", MARKS[file["action"]])
        yield from phrase(canonical, " {from_path} -> {path}" if "from_path" in file else " {path}", pointer)
    if "changed_files_omitted" in result:
        yield line_break()
        yield marker(f"[showing first {len(result['changed_files'])} of {count} files]")
    yield from _notes(canonical, result, "diagnostics", "Diagnostics:", "{path}: {kind}: {message}")
    yield from _notes(canonical, result, "ignored_metadata", "Ignored metadata, not applied:", "{path}: {kind} {value}")


def _notes(canonical: CanonicalResult, result: dict[str, Any], field: str, title: str, words: str) -> Iterator[Segment]:
    """The first notes of a list, each as a phrase of its fields, and how many there are besides."""
    notes = result.get(field, ())
    omitted = max(0, len(notes) - SHOWN_NOTES) + result.get(f"{field}_omitted", 0)
    if not notes and not omitted:
        return
    yield line_break()
    yield label(title)
    for index in range(min(len(notes), SHOWN_NOTES)):
        yield line_break()
        yield from phrase(canonical, words, f"/result/{field}/{index}")
    if omitted:
        yield line_break()
        yield marker(f"[omitted {omitted}]")
