"""OpenCode's bash, which records `{output, exit, outputPath?}`; its receipts do not have the exit code.

Receipts of release 1.0 to 1.18:

    the output, both streams as one text; nothing, or `(no output)`, where there is none
    <shell_metadata> … </shell_metadata>      behind the output of a command that was stopped
    <bash_metadata> … </bash_metadata>        the same before 1.14; in 1.0 also behind the first 30,000 characters
    ...output truncated... / Full output saved to: P / the last 2,000 lines or 50 KB of it
    the first of them / ...1002 lines truncated... / The tool call succeeded …    before 1.14

The record has 30,000 characters at most, the last ones behind `...`, or before 1.14 the first ones before it. So it may
have more than the receipt, or less.
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import CommandResult, SavedOutput, explain_exit, recorded_outcome
from envelopes.schema.result import CompleteOutput, ToolError

NOTHING = "(no output)"
BEFORE, BEHIND = "...\n\n", "\n\n..."  # the part of an output that was recorded
LEAST_PART = 20_000  # characters of it; a shorter output may begin or end so by itself
NOTE = re.compile(r"(?:\A|\n\n)<(?P<tag>shell|bash)_metadata>\n(?P<note>[^<]*)\n</(?P=tag)_metadata>\Z")
STOPPED = re.compile(r"(?P<timeout>\w+ tool terminated comm+and after exceeding timeout)|User aborted the command")
CUT = re.compile(r"truncated output as it exceeded \d+ char limit")


class _RecordedOutput(msgspec.Struct, frozen=True):
    """Characters [start, end) of the recorded text are output; what is before or behind them is a mark, or a note."""

    text: str
    start: int
    end: int
    note: str = ""

    @property
    def output(self) -> str:
        return "" if self.text == NOTHING else self.text[self.start : self.end]

    @property
    def is_part(self) -> bool:
        return self.start > 0 or self.text.endswith(BEHIND, self.end)

    def find_cut(self) -> SourceCut | None:
        """The cut before the output, or behind it; None for a whole one."""
        lines = self.text.count("\n") + (not self.text.endswith("\n"))
        if self.start:
            return SourceCut(pointer="/output", unit="output", end=2, lines=1)
        if self.is_part or CUT.search(self.note):
            first = self.text.count("\n", 0, self.end) + 1
            return SourceCut(pointer="/output", unit="output", start=first, end=lines, lines=1)
        return None


def _recorded_output(text: str) -> _RecordedOutput:
    note = NOTE.search(text)
    if note:
        return _RecordedOutput(text, 0, note.start(), note["note"])
    is_long = len(text) > LEAST_PART
    if is_long and text.startswith(BEFORE):
        return _RecordedOutput(text, len(BEFORE), len(text))
    return _RecordedOutput(text, 0, len(text) - len(BEHIND) if is_long and text.endswith(BEHIND) else len(text))


def _read_command(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    text, receipt = recorded.text("output"), evidence.receipt_text or ""
    if text is None or evidence.is_error:
        return read_failure(evidence) or read_text(evidence)
    kept, note = _recorded_output(text), NOTE.search(receipt)
    cut = kept.find_cut()
    if note and (stopped := STOPPED.search(note["note"])):
        return _read_stopped(evidence, kept, note["note"].strip(), is_timeout=stopped["timeout"] is not None)
    status, saved = recorded.integer("exit"), recorded.text("outputPath")
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=status,
        combined=kept.output,
        interpretation=None if status is None else explain_exit(command, status, kept.output),
        saved_output=SavedOutput(path=saved) if saved else None,
        cut_by_source=cut is not None,
    )
    links = {
        pointer: f"/result/{field}"
        for pointer, field, is_there in (
            ("/output", "combined_output_preview", kept.output),
            ("/exit", "exit_status", status is not None),
            ("/outputPath", "saved_output/path", saved),
        )
        if is_there
    }
    outputs = (OutputField("/output", start=kept.start),) if kept.output.strip() else ()
    summary = recorded_outcome(result)
    if kept.is_part and not find_output_preview(receipt):  # the receipt has what the record lacks
        summary = recorded_outcome(msgspec.structs.replace(result, combined=receipt))
        read = reading(evidence, result, summary, links=links, outputs=outputs, fidelity="bounded")
        return msgspec.structs.replace(read, is_cut_unknown=True)
    cuts = (cut,) if cut else ()
    return reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)


def _read_stopped(evidence: Evidence, kept: _RecordedOutput, note: str, *, is_timeout: bool) -> Reading:
    """A command that was stopped at its time limit, or by the user, has no verdict; its output is in `details`."""
    kind = "command_timed_out" if is_timeout else "cancelled"
    error = ToolError(kind=kind, message=note, details={"output": kept.output}, retryable=True)
    complete = CompleteOutput(
        tool_name=evidence.tool, status="error", summary_text=note.partition(". ")[0], error=error
    )
    return Reading(
        build=lambda: complete,
        fidelity="structured",
        links={"/output": "/error/details/output"},
        outputs=(OutputField("/output"),) if kept.output.strip() else (),
    )


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the output where it is whole on both sides, or the end or the beginning that both have."""
    recorded = RecordedObject(evidence.result)
    output = recorded.text("output")
    if output is None or evidence.is_error:
        return align_failure(evidence, text)
    if text == output != NOTHING:
        return [Span(0, len(text), "/output", 0, len(text))]
    kept, preview, note = _recorded_output(output), find_output_preview(text), NOTE.search(text)
    start, end = (preview.start, preview.end) if preview else (0, note.start() if note else len(text))
    spans = []
    if preview and recorded.text("outputPath") == preview.path:
        at = text.index(preview.path)
        spans.append(Span(at, at + len(preview.path), "/outputPath", 0, len(preview.path)))
    length = min(end - start, len(kept.output))
    is_whole = length == end - start == len(kept.output)
    if not length or not (is_whole or preview or kept.is_part):
        return spans
    if preview.start > 0 if preview else kept.start > 0:
        start, first = end - length, kept.end - length
    else:
        first = kept.start
    if text[start : start + length] == output[first : first + length]:
        spans.append(Span(start, start + length, "/output", first, first + length))
    return spans


MAPPINGS = (ToolMapping(agent="opencode", tools=("bash",), version=2, read=_read_command, align=_align_command),)
