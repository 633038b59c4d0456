"""The run_shell_command of the Gemini CLI and of Qwen Code, whose receipt names each thing that is known of the end.

    Command: ls -l / Directory: (root) / Output: … / Error: (none) / Exit Code: 0 / Signal: 0 /
    Background PIDs: (none) / Process Group PGID: 26593

Later releases leave out the lines that have nothing to say, put tags around the rest (`alignment.gemini_receipts`), and
save an output that is too long to a file. The recorded result is what a person saw of it, where that is the output
itself: it is whole where the receipt has the beginning and the end alone.
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.gemini_receipts import (
    SHELL_HEAD,
    SHELL_TOOL,
    match_output,
    match_shell_tail,
    untrusted_region,
)
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import Span, match_at
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import (
    COMMAND_TASK,
    CommandResult,
    SavedOutput,
    explain_exit,
    recorded_outcome,
)
from envelopes.schema.result import CompleteOutput, TaskHandle, ToolError

STDERR = re.compile(r"\nStderr: (?P<stderr>.*)\Z", re.DOTALL)
BACKGROUND = re.compile(
    r"Command (?:is running in|moved to) background \(PID: (?P<id>\d{1,10})\)"
    r"|Background shell started\.\nid: (?P<shell>[\w-]{1,100})\n"
)
CANCELLED = re.compile(r"Command was (?:automatically cancelled|cancelled by user) ")
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
    if CANCELLED.match(shown):  # which has the status of a success
        return read_failure(msgspec.structs.replace(evidence, is_error=True)) or read_text(evidence)
    head = SHELL_HEAD.match(shown)
    if head is None or (evidence.has_result and not _is_output(evidence)):
        return read_failure(evidence) or read_text(evidence)
    return _read_sections(evidence, shown, head.end())


def _is_output(evidence: Evidence) -> bool:
    output = evidence.result
    return isinstance(output, str) and bool(match_output(evidence.receipt_text or "", output, SHELL_TOOL))


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
    result = CommandResult(
        exit_status=code,
        combined="" if recorded is None and stdout in NOTHING else stdout,
        stderr="" if stderr is None or stderr["stderr"] in NOTHING else stderr["stderr"],
        interpretation=None if code is None else explain_exit(command, code, stdout),
        saved_output=SavedOutput(path=preview.path) if preview else None,
        cut_by_source=preview is not None and recorded is None,
    )
    if tail and (tail["signal"] or NOTHING[0]) not in NO_SIGNAL:
        return _read_signal(evidence, result, tail["signal"])
    summary = recorded_outcome(result)
    if recorded is None:
        return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")
    links = {"": "/result/combined_output_preview"}
    return reading(evidence, result, summary, links=links, outputs=(OutputField(""),), fidelity="stringified")


def _read_signal(evidence: Evidence, result: CommandResult, signal: str) -> Reading:
    """A command that was ended by a signal has no verdict; its output is in `details`."""
    message, output = f"the command was ended by signal {signal}", str(result.combined)
    error = ToolError(
        kind="tool_execution_failed", message=message, details={"output": output} if output else None, retryable=False
    )
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=message, error=error)
    if not isinstance(evidence.result, str):
        return Reading(build=lambda: complete, fidelity="parsed_from_receipt")
    links, outputs = {"": "/error/details/output"}, (OutputField(""),)
    return Reading(build=lambda: complete, fidelity="stringified", links=links, outputs=outputs)


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the output, and the command that the receipts of earlier releases repeat."""
    spans = _align_arguments(evidence, text)
    if isinstance(evidence.result, str):
        parts = match_output(text, evidence.result, SHELL_TOOL)
        spans += [Span(part.at, part.at + part.length, "", part.start, part.start + part.length) for part in parts]
    return spans or align_failure(evidence, text)


def _align_arguments(evidence: Evidence, text: str) -> list[Span]:
    command = RecordedObject(evidence.args).text("command") or ""
    span = match_at(text, len(COMMAND), command, "/command") if text.startswith(COMMAND) else None
    if span is None or not text.startswith("\nDirectory: ", span.end):
        return []
    return [Span(span.start, span.end, "/command", 0, len(command), "args")]


MAPPINGS = (ToolMapping(agent="gemini-cli", tools=(SHELL_TOOL,), version=7, read=_read_command, align=_align_command),)
