"""pi's read, write and edit.

    read   {truncation: {content, totalLines, outputLines, firstLineExceedsLimit, …}} of a text that was cut alone;
           {imageUnsupportedByModel} of an image that went to no model
    edit   {diff, patch?, firstChangedLine?}: `diff` is numbered, `patch` (after 0.73) a unified difference

The receipt of a read is the text, with a note in brackets behind it where lines of the file follow. What was not cut is
in the receipt alone. Releases up to 0.73 count the empty text behind the last line end of a file as a line. Receipts of
a write and an edit are a sentence with the path of the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span, match_at
from envelopes.families.file.codex import read_hunks
from envelopes.families.file.results import FileChange, FileContent, Hunk, summarize_read

AGENT = "pi"
CONTENT = "/truncation/content"
NOTE = re.compile(r"\n\n\[\d{1,12} more lines in file\. Use offset=\d{1,12} to continue\.?\]\Z")
IMAGE = re.compile(r"Read image file \[[\w./+-]+\]")
WRITTEN = re.compile(r"Successfully (?:wrote (?:\d+ bytes )?to|replaced (?:\d+ block\(s\)|text) in) ")
NUMBERED = re.compile(r"(?P<sign>[ +-]) *(?P<number>\d{1,9}) (?P<text>[^\n]*)")


def _read_file(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    arguments, receipt = RecordedObject(evidence.args), evidence.receipt_text
    path = arguments.text("path")
    if path is None or receipt is None:
        return read_untyped(evidence)
    if IMAGE.match(receipt):
        result = FileContent(path=path, kind="image")
        return reading(evidence, result, f"read {path} (image)", links={}, fidelity="parsed_from_receipt")
    truncation = RecordedObject(evidence.result).member("truncation")
    shown = truncation.text("content")
    first = max(1, arguments.integer("offset") or 1)
    is_limited = shown is None and arguments.number("limit") is not None
    note = NOTE.search(receipt, max(0, len(receipt) - 1_000)) if is_limited else None
    content = shown if shown is not None else receipt[: note.start()] if note else receipt
    count = content.count("\n") + (content[-1:] not in ("", "\n"))
    result = FileContent(path=path, content=content, start_line=first, line_count=count)
    missing = (truncation.integer("totalLines") or 0) - (truncation.integer("outputLines") or 0)
    is_cut = shown is not None and missing > 0
    at = content.count("\n") + 1 if content else 0
    cut = SourceCut(pointer=CONTENT, unit="lines", count=missing, start=at, end=at, lines=missing, is_limit=True)
    return reading(
        evidence,
        result,
        summarize_read(path, count),
        links={CONTENT: "/result/content_preview"} if shown else {},
        outputs=(OutputField(CONTENT, first_line=first),) if shown else (),
        fidelity="parsed_from_receipt" if shown is None else "structured",
        source_cuts=(cut,) if is_cut else (),
    )


def _align_file(evidence: Evidence, text: str) -> list[Span]:
    """Links the lines of a text that was cut."""
    content = RecordedObject(evidence.result).member("truncation").text("content") or ""
    shown = match_at(text, 0, content, CONTENT)
    return [shown] if shown else align_failure(evidence, text)


def _read_change(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    path, recorded = RecordedObject(evidence.args).text("path"), RecordedObject(evidence.result)
    if path is None or not WRITTEN.match(evidence.receipt_text or ""):
        return read_untyped(evidence)
    patch, diff = recorded.text("patch"), recorded.text("diff")
    if patch is None and diff is None:
        change = FileChange(path=path, content=RecordedObject(evidence.args).text("content") or "")
        return reading(evidence, change, f"wrote {path}", links={}, fidelity="parsed_from_receipt")
    hunks = read_hunks(patch) if patch is not None else _read_numbered(diff or "")
    links = {"/diff" if patch is None else "/patch": "/result/diff_preview"}
    return reading(evidence, FileChange(path=path, hunks=tuple(hunks)), f"updated {path}", links=links)


def _read_numbered(diff: str) -> Iterator[Hunk]:
    """Yields the hunks of a difference whose lines have numbers; a line with three dots is between two of them.

    An added line has its new number, any other its old one.
    """
    offset, lines = 0, list[re.Match[str]]()
    for text in [*diff.split("\n"), ""]:
        if line := NUMBERED.fullmatch(text):
            lines.append(line)
        elif lines:
            signs = [line["sign"] for line in lines]
            start = int(lines[0]["number"]) - (offset if signs[0] == "+" else 0)
            yield Hunk(
                old_start=start,
                old_lines=len(signs) - signs.count("+"),
                new_start=start + offset,
                new_lines=len(signs) - signs.count("-"),
                lines=tuple(f"{line['sign']}{line['text']}" for line in lines),
            )
            offset += signs.count("+") - signs.count("-")
            lines = []


def _align_change(evidence: Evidence, text: str) -> list[Span]:
    """Links the path of the arguments."""
    sentence, path = WRITTEN.match(text), RecordedObject(evidence.args).text("path") or ""
    if sentence is None or not path or not text.startswith(path, sentence.end()):
        return align_failure(evidence, text)
    return [Span(sentence.end(), sentence.end() + len(path), "/path", 0, len(path), "args")]


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("read",), version=2, read=_read_file, align=_align_file),
    ToolMapping(agent=AGENT, tools=("write", "edit"), version=1, read=_read_change, align=_align_change),
)
