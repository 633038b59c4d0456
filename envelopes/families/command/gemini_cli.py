"""The run_shell_command of the Gemini CLI and of Qwen Code, whose receipt names each thing that is known of the end.

    Command: ls -l / Directory: (root) / Output: … / Error: (none) / Exit Code: 0 / Signal: 0 /
    Background PIDs: (none) / Process Group PGID: 26593

Later releases leave out the lines that have nothing to say, put tags around the rest (`alignment.gemini_receipts`), and
save an output that is too long to a file. The receipt of a command that was stopped has a sentence and the output. The
recorded result is what a person saw of it, where that is the output itself: it is whole where the receipt has the
beginning and the end alone. Qwen Code 0.24 records the end of the command as well:

    {type: "shell_result", output, exitCode, signal, outcome: completed | failed | cancelled | timed_out, error,
     outputFiles[], truncated, …}     `truncated`: the output has a mark in its middle
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.failures import align_failure, read_failure, tool_error
from envelopes.alignment.gemini_receipts import (
    SHELL_TOOL,
    STOPPED_HEAD,
    match_output,
    match_shell_head,
    match_shell_tail,
    untrusted_region,
)
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping, bounded_fidelity
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.alignment.spans import Span, match_at
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import (
    COMMAND_TASK,
    CommandResult,
    SavedOutput,
    explain_exit,
    recorded_outcome,
)
from envelopes.schema.result import CompleteOutput, TaskHandle, ToolError, summarize

STDERR = re.compile(r"\nStderr: (?P<stderr>.*)\Z", re.DOTALL)
BACKGROUND = re.compile(
    r"Command (?:is running in|moved to) background \(PID: (?P<id>\d{1,10})\)"
    r"|Background shell started\.\nid: (?P<shell>[\w-]{1,100})\n"
)
NOT_RUN = re.compile(r"Command (?:was (?:automatically cancelled|cancelled by user) |injection detected: )")
RECORD = "shell_result"
STOPPED = {
    "timed_out": ("command_timed_out", "the command timed out"),
    "cancelled": ("cancelled", "the command was cancelled"),
}
NOTHING = ("(empty)", "(none)")
NO_SIGNAL = (*NOTHING, "0", "null", "undefined")
COMMAND = "Command: "


def _read_command(evidence: Evidence) -> Reading:
    receipt = evidence.receipt_text or ""
    start, end = untrusted_region(receipt)
    shown = receipt[start:end]
    if background := BACKGROUND.match(shown):
        task = TaskHandle(kind=COMMAND_TASK, task_id=background["id"] or background["shell"])
        result = CommandResult(disposition="promoted_to_task", task=task)
        return reading(evidence, result, recorded_outcome(result), links={}, fidelity="parsed_from_receipt")
    if (record := RecordedObject(evidence.result)).text("type") == RECORD:
        return _read_record(evidence, record)
    if (stopped := STOPPED_HEAD.match(shown)) and (not evidence.has_result or _is_output(evidence)):
        return _read_stopped(evidence, stopped)
    if NOT_RUN.match(shown):  # which has the status of a success
        return read_failure(msgspec.structs.replace(evidence, is_error=True)) or read_text(evidence)
    head = match_shell_head(shown)
    if head is None or (evidence.has_result and not _is_output(evidence)):
        return read_failure(evidence) or read_text(evidence)
    return _read_sections(evidence, shown, head.end())


def _recorded_output(evidence: Evidence) -> tuple[str, str] | None:
    """The pointer of the recorded output, and that output."""
    if isinstance(evidence.result, str):
        return "", evidence.result
    record = RecordedObject(evidence.result)
    output = record.text("output") if record.text("type") == RECORD else None
    return None if output is None else ("/output", output)


def _is_output(evidence: Evidence) -> bool:
    output = evidence.result
    return isinstance(output, str) and bool(match_output(evidence.receipt_text or "", output, SHELL_TOOL))


def _read_record(evidence: Evidence, record: RecordedObject) -> Reading:
    """Reads the record that Qwen Code has of a command, whose flag of an error is that of the exit status."""
    output, code, signal = record.text("output") or "", record.integer("exitCode"), record.integer("signal")
    stopped, stated = STOPPED.get(record.text("outcome") or ""), record.text("error")
    if stopped:
        return _read_end(evidence, ToolError(kind=stopped[0], message=stated or stopped[1], retryable=False), output)
    if code is None and signal:
        return _read_end(evidence, _signal_error(str(signal)), output)
    if code is None and evidence.is_error:
        message = stated or "the command failed"
        return _read_end(evidence, ToolError(kind="tool_execution_failed", message=message, retryable=False), output)
    command, saved = RecordedObject(evidence.args).text("command") or "", record.strings("outputFiles")
    result = CommandResult(
        exit_status=code,
        combined=output,
        interpretation=None if code is None else explain_exit(command, code, output),
        saved_output=SavedOutput(path=saved[0]) if saved else None,
        cut_by_source=record.flag("truncated") is True,
    )
    links = {"/output": "/result/combined_output_preview", "/exitCode": "/result/exit_status"}
    return reading(
        evidence,
        result,
        recorded_outcome(result),
        links=links | ({"/outputFiles/0": "/result/saved_output/path"} if saved else {}),
        outputs=(_output_field(evidence, "/output", output),),
        source_cuts=find_source_cuts(output, "/output", "stream"),
    )


def _output_field(evidence: Evidence, pointer: str, output: str) -> OutputField:
    """Nothing is claimed of lines that are missing from a receipt in which the output is not found."""
    is_found = bool(match_output(evidence.receipt_text or "", output, SHELL_TOOL))
    return OutputField(pointer, claim="certain" if is_found else "proven")


def _read_stopped(evidence: Evidence, stopped: re.Match[str]) -> Reading:
    """Reads a command that was stopped, which has the status of a success; its output is in `details`."""
    recorded = _recorded_output(evidence)
    output = recorded[1] if recorded else stopped.string[stopped.end() :] if stopped["below"] else ""
    return _read_end(evidence, tool_error(evidence.agent, stopped["reason"]), output)


def _read_sections(evidence: Evidence, shown: str, start: int) -> Reading:
    """Reads the output from the recorded result, else from the receipt, and how the command ended from the latter."""
    preview = find_output_preview(evidence.receipt_text or "")
    recorded = evidence.result if isinstance(evidence.result, str) else None
    tail = match_shell_tail(shown, start, recorded)
    output = shown[start : tail.start() if tail else len(shown)]
    stderr = STDERR.search(output) if recorded is None else None
    stdout = recorded if recorded is not None else output[: stderr.start()] if stderr else output
    status = tail["exit"] if tail else None
    code = int(status) if status and status not in NOTHING else None
    command = RecordedObject(evidence.args).text("command") or ""
    printed = "" if recorded is None and stdout in NOTHING else stdout
    is_unsaved = recorded is None and tail is not None and bool(tail["unsaved"])
    result = CommandResult(
        exit_status=code,
        combined=printed,
        stderr="" if stderr is None or stderr["stderr"] in NOTHING else stderr["stderr"],
        interpretation=None if code is None else explain_exit(command, code, printed),
        saved_output=SavedOutput(path=preview.path) if preview else None,
        cut_by_source=recorded is None and (preview is not None or is_unsaved),
    )
    if tail and (tail["signal"] or NOTHING[0]) not in NO_SIGNAL:
        return _read_end(evidence, _signal_error(tail["signal"]), str(result.combined))
    summary = recorded_outcome(result)
    if recorded is None:
        cuts = (SourceCut(pointer="", unit="output"),) if is_unsaved else ()
        return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)
    links = {"": "/result/combined_output_preview"}
    return reading(evidence, result, summary, links=links, outputs=(OutputField(""),), fidelity="stringified")


def _signal_error(signal: str) -> ToolError:
    message = f"the command was ended by signal {signal}"
    return ToolError(kind="tool_execution_failed", message=message, retryable=False)


def _read_end(evidence: Evidence, error: ToolError, output: str) -> Reading:
    """A command that has no verdict, because something else ended it; its output is in `details`."""
    error = msgspec.structs.replace(error, details={"output": output} if output else None)
    complete = CompleteOutput(
        tool_name=evidence.tool, status="error", summary_text=summarize(error.message), error=error
    )
    recorded = _recorded_output(evidence)
    if recorded is None:
        return Reading(build=lambda: complete, fidelity="parsed_from_receipt")
    pointer = recorded[0]
    cuts = find_source_cuts(output, pointer, "stream") if pointer else ()
    return Reading(
        build=lambda: complete,
        fidelity=bounded_fidelity("structured" if pointer else "stringified", cuts),
        links={pointer: "/error/details/output"},
        outputs=(_output_field(evidence, pointer, output),),
        source_cuts=cuts,
    )


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the output, and the command that the receipts of earlier releases repeat."""
    spans = _align_arguments(evidence, text)
    if recorded := _recorded_output(evidence):
        pointer, output = recorded
        spans += match_output(text, output, SHELL_TOOL, pointer)
    return spans or align_failure(evidence, text)


def _align_arguments(evidence: Evidence, text: str) -> list[Span]:
    command = RecordedObject(evidence.args).text("command") or ""
    span = match_at(text, len(COMMAND), command, "/command") if text.startswith(COMMAND) else None
    if span is None or not text.startswith("\nDirectory: ", span.end):
        return []
    return [Span(span.start, span.end, "/command", 0, len(command), "args")]


MAPPINGS = (ToolMapping(agent="gemini-cli", tools=(SHELL_TOOL,), version=9, read=_read_command, align=_align_command),)
