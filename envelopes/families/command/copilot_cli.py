"""The shells of the GitHub Copilot CLI. Of a command that ended, later releases record `{shellExecution: {exitCode}}`.

The output is in the receipt alone, both streams as one text, before a line about the end:

    … / <shellId: 0 completed with exit code 0>, or <exited with exit code 0> in earlier releases
    … / <command with shellId: 10 is still running after 10 seconds. …>
    <command started in background with shellId: 11>

Of a long output the model gets the first 500 characters, between a sentence with the path of the whole and that line.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import Span
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import (
    COMMAND_TASK,
    CommandResult,
    SavedOutput,
    explain_exit,
    recorded_outcome,
)
from envelopes.schema.result import TaskHandle

END = re.compile(r"\n?<(?:shellId: [^\s>]+ completed|exited) with exit code (?P<exitCode>-?\d{1,10})>\Z")
RUNNING = re.compile(r"\n?<command with shellId: (?P<id>[^\s>]+) is still running after [^<]*>\Z")
STARTED = re.compile(r"<command started in (?:detached )?background with shellId: (?P<id>[^\s>]+)>\Z")
EXIT = "/shellExecution"
TOOLS = ("bash", "read_bash", "write_bash", "stop_bash", "list_bash")


def _read_command(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text or ""
    end, recorded = END.search(receipt), RecordedObject(evidence.result).member("shellExecution").integer("exitCode")
    if running := RUNNING.search(receipt) or STARTED.match(receipt):
        task = TaskHandle(kind=COMMAND_TASK, task_id=running["id"])
        result = CommandResult(disposition="promoted_to_task", task=task, combined=receipt[: running.start()])
        return reading(evidence, result, recorded_outcome(result), links={}, fidelity="parsed_from_receipt")
    if end is None and recorded is None:
        return read_text(evidence)
    preview = find_output_preview(receipt)
    start, stop = (preview.start, preview.end) if preview else (0, end.start() if end else len(receipt))
    status, output = int(end["exitCode"]) if end else recorded, receipt[start:stop]
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=status if recorded is None else recorded,
        combined=output,
        interpretation=None if status is None else explain_exit(command, status, output),
        saved_output=SavedOutput(path=preview.path) if preview else None,
        cut_by_source=preview is not None,
    )
    links = {} if recorded is None else {f"{EXIT}/exitCode": "/result/exit_status"}
    return reading(evidence, result, recorded_outcome(result), links=links, fidelity="parsed_from_receipt")


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the exit code."""
    shell = RecordedObject(evidence.result).member("shellExecution")
    return link_groups(END.search(text), shell, EXIT) or align_failure(evidence, text)


MAPPINGS = (ToolMapping(agent="copilot-cli", tools=TOOLS, version=2, read=_read_command, align=_align_command),)
