"""pi's bash and powershell, whose receipts have both streams as one text and how the command ended:

    the output, or `(no output)`
    …the last 2,000 lines or 50 KB of it / [Showing lines 3001-5000 of 5000. Full output: /tmp/pi-bash-1.log]
    … / Command exited with code 3 | Command timed out after 5 seconds | Command aborted     behind a blank line

A success has no exit status: releases up to 0.73 took a command that a signal ended for one. The record is there for an
output that was cut alone, `{truncation: {content, totalLines, totalBytes, outputLines, lastLinePartial, …},
fullOutputPath?}`, and up to 0.73 not for one that failed. Releases that kept 100 KB of a longer output in memory count
the lines in these.
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span, match_at, match_once
from envelopes.families.command.results import CommandResult, SavedOutput, explain_exit, recorded_outcome
from envelopes.schema.result import CompleteOutput, ToolError

NOTHING = "(no output)"
CONTENT = "/truncation/content"
END = re.compile(
    r"(?:\A|\n\n)(?P<end>Command exited with code (?P<status>\d{1,10})|(?P<timeout>Command timed out after )[\d.]+ "
    r"seconds[^\n]*|Command aborted)\Z"
)
NOTE = re.compile(
    r"\n\n\[Showing (?:lines (?P<first>\d{1,12})-(?P<last>\d{1,12}) of \d{1,12}"
    r"|last \S+ of line (?P<line>\d{1,12}) \([^)]*\))(?: \(\S+ limit\))?\. Full output: (?P<path>[^\n]+)\]\Z"
)
LEAST_LINE_END = 50_000  # bytes of a line of which the end alone is shown
UNSAVED = "undefined"  # written as the path of an output that was not saved
IN_MEMORY = range(100 * 1024 - 64 * 1024, 100 * 1024 + 1)  # bytes, as many as some releases count of more


class _Receipt(msgspec.Struct, frozen=True):
    """The text of a receipt in its parts; `note` is behind an output that was cut."""

    output: str
    note: re.Match[str] | None
    end: re.Match[str] | None

    @property
    def path(self) -> str | None:
        path = self.note["path"] if self.note else UNSAVED
        return None if path == UNSAVED else path


def _split_receipt(evidence: Evidence) -> _Receipt:
    text = evidence.receipt_text or ""
    end = END.search(text, max(0, len(text) - 1_000)) if evidence.is_error else None
    body = text[: end.start()] if end else text
    note = NOTE.search(body, max(0, len(body) - 5_000))
    if note and not _is_own(note, body[: note.start()], evidence):
        note = None
    output = body[: note.start()] if note else body
    return _Receipt("" if output == NOTHING else output, note, end)


def _is_own(note: re.Match[str], output: str, evidence: Evidence) -> bool:
    """False for a note that the command printed itself. That of a success is recorded, any fits its output."""
    if not evidence.is_error and RecordedObject(evidence.result).member("truncation").recorded is None:
        return False
    if note["line"]:
        return len(output.encode("utf-8", "replace")) >= LEAST_LINE_END
    return output.count("\n") + 1 == int(note["last"]) - int(note["first"]) + 1


def _find_cut(receipt: _Receipt, truncation: RecordedObject) -> tuple[SourceCut, ...]:
    """The cut before the output, of as many lines as are certain."""
    if receipt.note is None:
        return ()
    pointer = CONTENT if truncation.text("content") else ""
    if receipt.note["line"]:
        return (SourceCut(pointer=pointer, unit="output", end=1 if pointer else 0, lines=int(receipt.note["line"])),)
    missing = int(receipt.note["first"]) - 1
    size = truncation.integer("totalBytes")
    if size is None or size in IN_MEMORY:
        return (SourceCut(pointer=pointer, unit="output", lines=max(1, missing)),)
    return (SourceCut(pointer=pointer, unit="lines", count=missing, lines=missing),)


def _read_command(evidence: Evidence) -> Reading:
    receipt = _split_receipt(evidence)
    if evidence.is_error and receipt.end is None:
        return read_failure(evidence) or _read_end(evidence, receipt, "tool_execution_failed")
    if receipt.end and not receipt.end["status"]:
        return _read_end(evidence, receipt, "command_timed_out" if receipt.end["timeout"] else "cancelled")
    recorded = RecordedObject(evidence.result)
    truncation = recorded.member("truncation")
    status = int(receipt.end["status"]) if receipt.end else None
    command = RecordedObject(evidence.args).text("command") or ""
    content = truncation.text("content")
    result = CommandResult(
        exit_status=status,
        combined=receipt.output,
        interpretation=None if status is None else explain_exit(command, status, receipt.output),
        saved_output=SavedOutput(path=receipt.path) if receipt.path else None,
        cut_by_source=receipt.note is not None,
    )
    links = {CONTENT: "/result/combined_output_preview"} if content else {}
    if receipt.path and recorded.text("fullOutputPath") == receipt.path:
        links["/fullOutputPath"] = "/result/saved_output/path"
    return reading(
        evidence,
        result,
        recorded_outcome(result),
        links=links,
        outputs=(OutputField(CONTENT),) if content else (),
        fidelity="structured" if content else "parsed_from_receipt",
        source_cuts=_find_cut(receipt, truncation),
    )


def _read_end(evidence: Evidence, receipt: _Receipt, kind: str) -> Reading:
    """A command that was stopped has no verdict; its output is in `details`."""
    message = receipt.end["end"] if receipt.end else "the command failed"
    details = {"output": receipt.output} if receipt.output else None
    error = ToolError(kind=kind, message=message, details=details, retryable=kind == "command_timed_out")
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=message, error=error)
    cuts = _find_cut(receipt, RecordedObject(None))
    return Reading(build=lambda: complete, fidelity="parsed_from_receipt", source_cuts=cuts)


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the output that was cut, and the path of the whole one."""
    recorded = RecordedObject(evidence.result)
    content = recorded.member("truncation").text("content") or ""
    output = match_at(text, 0, content, CONTENT)
    if output is None:
        return align_failure(evidence, text)
    path = match_once(text, recorded.text("fullOutputPath") or "", "/fullOutputPath", start=output.end)
    return [output, path] if path else [output]


MAPPINGS = (ToolMapping(agent="pi", tools=("bash", "powershell"), version=2, read=_read_command, align=_align_command),)
