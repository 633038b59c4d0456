"""The Continue CLI's Bash, whose receipt is what a command printed.

`Stderr: ` stands before what it printed to that stream, if that is not all. Its exit status is known of a command that
failed and wrote to it. A command is stopped when it prints nothing for as long as its `timeout`, and it may go on as a
job in the background, of which CheckBackgroundJob returns JSON: `{job_id, status, command, output, exit_code?, …}`.
"""

from __future__ import annotations

import re

from envelopes.alignment.continue_receipts import continue_mapping, find_beginning_cut, read_parsed
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.command.results import COMMAND_TASK, CommandResult, command_outcome, recorded_outcome
from envelopes.schema.result import CompleteOutput, TaskHandle, ToolError, summarize
from envelopes.text.untrusted_json import Untrusted, parse_json

FAILED = re.compile(r"Error executing tool Bash: Error \(exit code (?P<code>\d{1,3})\): (?P<stderr>.*)\Z", re.DOTALL)
LATE = re.compile(r"\n\n\[Command (?P<end>timed out after [\d.]+ seconds of no output)\]\Z")
BACKGROUND = re.compile(
    r"Command moved to background\. Job ID: (?P<id>\S+)\nOutput so far:\n(?P<output>.*)\n", re.DOTALL
)


def _read_command(evidence: Evidence, receipt: str) -> Reading:
    cuts = find_beginning_cut(receipt)
    if late := LATE.search(receipt):
        output, message = receipt[: late.start()], f"the command {late['end']}"
        details = {"output": output} if output else None
        return _read_error(
            evidence, ToolError(kind="command_timed_out", message=message, details=details, retryable=True)
        )
    if job := BACKGROUND.match(receipt):
        task = TaskHandle(kind=COMMAND_TASK, task_id=job["id"])
        result = CommandResult(disposition="promoted_to_task", task=task, combined=job["output"])
    else:
        result = CommandResult(combined=receipt, cut_by_source=bool(cuts))
    return read_parsed(evidence, result, command_outcome(result), *cuts)


def _read_error(evidence: Evidence, error: ToolError) -> Reading:
    summary = summarize(error.message)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=summary, error=error)
    return Reading(build=lambda: complete, fidelity="parsed_from_receipt")


def _read_job(evidence: Evidence, receipt: str) -> Reading | None:
    try:
        job = RecordedObject(parse_json(receipt.encode("utf-8", "surrogatepass")))
    except Untrusted:
        return None
    name, output = job.text("job_id"), job.text("output") or ""
    if name is None:
        message = job.text("error")
        error = ToolError(kind="tool_execution_failed", message=message or "", retryable=False)
        return None if message is None else _read_error(evidence, error)
    if job.text("status") in ("running", "pending"):
        task = TaskHandle(kind=COMMAND_TASK, task_id=name)
        result = CommandResult(disposition="promoted_to_task", task=task, combined=output)
    else:
        result = CommandResult(exit_status=job.integer("exit_code"), combined=output)
    return read_parsed(evidence, result, recorded_outcome(result))


def _read_any(evidence: Evidence) -> Reading:
    """A command that failed has a status, and what it printed to the other stream is not in the receipt."""
    if failed := FAILED.match(evidence.receipt_text or ""):
        result = CommandResult(exit_status=int(failed["code"]), stderr=failed["stderr"])
        return read_parsed(evidence, result, recorded_outcome(result))
    return _MAPPING.read(evidence)


_MAPPING = continue_mapping("Bash", _read_command)
MAPPINGS = (
    ToolMapping(agent=_MAPPING.agent, tools=_MAPPING.tools, version=1, read=_read_any, align=_MAPPING.align),
    continue_mapping("CheckBackgroundJob", _read_job),
)
