"""OpenCode's bash, which records `{output, exit, truncated, outputPath?}`; its receipts do not have the exit code.

    the output, with both streams as one text; `(no output)` where there is none
    ...output truncated... / Full output saved to: P / the last 2,000 lines or 50 KB of it
    <shell_metadata> … </shell_metadata>     behind the output of a command that was stopped

The record has at most the last 30,000 characters, behind `...`, so it may have more than the receipt, or less.
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
LEFT_OUT = "...\n\n"  # before the end of an output of which the record has no more
LEAST_LEFT = 20_000  # characters behind it; an output may begin so by itself
STOPPED = re.compile(r"(?:\A|\n\n)<shell_metadata>\n(?P<note>[^<]*)\n</shell_metadata>\Z")
TIMED_OUT = "shell tool terminated command after exceeding timeout"


def _read_command(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    output = recorded.text("output")
    if output is None or evidence.is_error:
        return read_failure(evidence) or read_text(evidence)
    if stopped := STOPPED.search(evidence.receipt_text or ""):
        return _read_stopped(evidence, output, stopped["note"].strip())
    start = _recorded_start(output)
    text = "" if output == NOTHING else output[start:]
    status, saved = recorded.integer("exit"), recorded.text("outputPath")
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=status,
        combined=text,
        interpretation=None if status is None else explain_exit(command, status, text),
        saved_output=SavedOutput(path=saved) if saved else None,
        cut_by_source=start > 0,
    )
    links = {
        "/output": "/result/combined_output_preview" if text else "",
        "/exit": "/result/exit_status" if status is not None else "",
        "/outputPath": "/result/saved_output/path" if saved else "",
    }
    links = {pointer: field for pointer, field in links.items() if field}
    outputs = (OutputField("/output", start=start),) if text.strip() else ()
    summary = recorded_outcome(result)
    receipt = evidence.receipt_text or ""
    if start and not find_output_preview(receipt):  # the receipt has what the record lacks
        summary = recorded_outcome(msgspec.structs.replace(result, combined=receipt))
        read = reading(evidence, result, summary, links=links, outputs=outputs, fidelity="bounded")
        return msgspec.structs.replace(read, is_cut_unknown=True)
    cuts = (SourceCut(pointer="/output", unit="output", end=2, lines=1),) if start else ()
    return reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)


def _recorded_start(output: str) -> int:
    """The character at which the recorded output begins: behind the mark of what was left out, where there is one."""
    return len(LEFT_OUT) if output.startswith(LEFT_OUT) and len(output) > LEAST_LEFT else 0


def _read_stopped(evidence: Evidence, output: str, note: str) -> Reading:
    """A command that was stopped at its time limit, or by the user, has no verdict; its output is in `details`."""
    kind = "command_timed_out" if note.startswith(TIMED_OUT) else "cancelled"
    error = ToolError(kind=kind, message=note, details={"output": output}, retryable=True)
    complete = CompleteOutput(
        tool_name=evidence.tool, status="error", summary_text=note.partition(". ")[0], error=error
    )
    has_output = bool(STOPPED.sub("", output).replace(NOTHING, "").strip())
    return Reading(
        build=lambda: complete,
        fidelity="structured",
        links={"/output": "/error/details/output"},
        outputs=(OutputField("/output"),) if has_output else (),
    )


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the output where it is whole on both sides, or the end that both have."""
    recorded = RecordedObject(evidence.result)
    output = recorded.text("output")
    if output is None or evidence.is_error:
        return align_failure(evidence, text)
    preview, stopped = find_output_preview(text), STOPPED.search(text)
    start, end = preview.start if preview else 0, stopped.start() if stopped else len(text)
    spans = []
    if preview and recorded.text("outputPath") == preview.path:
        at = text.index(preview.path)
        spans.append(Span(at, at + len(preview.path), "/outputPath", 0, len(preview.path)))
    first = _recorded_start(output)
    is_part = preview is not None or first > 0
    length = min(end - start, len(output) - first)
    is_end = length > 0 and output != NOTHING and text[end - length : end] == output[len(output) - length :]
    if is_end and (is_part or length == end - start == len(output)):
        spans.append(Span(end - length, end, "/output", len(output) - length, len(output)))
    return spans


MAPPINGS = (ToolMapping(agent="opencode", tools=("bash",), version=1, read=_read_command, align=_align_command),)
