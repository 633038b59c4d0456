"""Kimi Code's Bash, which keeps both streams as one text, with the end of the command behind it.

… / Command failed with exit code: 3.          of a failure, behind `Process exited with code 3` without an output
Command executed successfully.                 in place of an empty output
task_id: bash-1 / … / status: running / … / foreground_output: / …    a command that works in the background
"""

from __future__ import annotations

import re

from envelopes.alignment.kimi_code_receipts import (
    AGENT,
    OUTPUT,
    align_answer,
    find_cuts,
    read_answer,
    read_success,
    shown_output,
    typed,
)
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import COMMAND_TASK, CommandResult, explain_exit, recorded_outcome
from envelopes.schema.result import TaskHandle

FAILED = re.compile(
    r"(?:\A|\n)(?:Process exited with code -?\d+\n)?Command failed with exit code: (?P<status>-?\d{1,10})\.\Z"
)
SUCCEEDED = "Command executed successfully."
STARTED = re.compile(r"task_id: (?P<id>\S+)\npid: \d+\ndescription: [^\n]*\nstatus: (?P<status>\S+)\n")
PRINTED = "\nforeground_output:\n"


def _read_command(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    failed = FAILED.search(answer.output) if answer and answer.is_error and not evidence.skip else None
    if answer is None or failed is None:
        return _read_other(evidence)
    return _read_ended(evidence, answer, answer.output[: failed.start()], int(failed["status"]))


def _read_success(evidence: Evidence, answer: ToolReturn) -> Reading:
    if task := STARTED.match(answer.output):
        handle = TaskHandle(kind=COMMAND_TASK, task_id=task["id"], status=task["status"])
        printed = answer.output.partition(PRINTED)[2]
        started = CommandResult(disposition="promoted_to_task", task=handle, combined=printed)
        links = {OUTPUT: "/result/task_handle"}
        return read_success(evidence, answer, started, recorded_outcome(started), links=links)
    return _read_ended(evidence, answer, "" if answer.output == SUCCEEDED else shown_output(answer), 0)


def _read_ended(evidence: Evidence, answer: ToolReturn, output: str, status: int) -> Reading:
    command = RecordedObject(evidence.args).text("command") or ""
    cuts = find_cuts(answer)
    result = CommandResult(
        exit_status=status,
        combined=output,
        interpretation=explain_exit(command, status, output),
        cut_by_source=bool(cuts),
    )
    links = {OUTPUT: "/result/combined_output_preview" if output else "/result/exit_status"}
    return read_success(evidence, answer, result, recorded_outcome(result), links=links, source_cuts=cuts)


_read_other = typed(_read_success, read_text)
MAPPINGS = (ToolMapping(agent=AGENT, tools=("Bash",), version=2, read=_read_command, align=align_answer),)
