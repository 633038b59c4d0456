"""Kimi CLI's Shell, Bash and CMD before 0.57, which keeps both streams as one text.

Command executed successfully.    Command failed with exit code: 3.    Command killed by timeout (60s)
Background task started.          and in the output `task_id: bash-1 / kind: bash / status: starting / …`
"""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import AGENT, OUTPUT, align_return, read_failed, read_output, read_return
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.command.results import COMMAND_TASK, CommandResult, explain_exit, recorded_outcome
from envelopes.schema.result import TaskHandle

FAILED = re.compile(r"Command failed with exit code: (?P<status>-?\d{1,10})\.")
STARTED = re.compile(r"task_id: (?P<id>\S+)\nkind: \S+\nstatus: (?P<status>\S+)\n")


def _read_command(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    failed = FAILED.match(returned.message) if returned.is_error else None
    if failed is None and (failure := read_failed(evidence, returned)):
        return failure
    if returned.message.startswith("Background task started") and (task := STARTED.match(returned.output)):
        handle = TaskHandle(kind=COMMAND_TASK, task_id=task["id"], status=task["status"])
        started = CommandResult(disposition="promoted_to_task", task=handle)
        return read_output(
            evidence, returned, started, recorded_outcome(started), links={OUTPUT: "/result/task_handle"}
        )
    status = int(failed["status"]) if failed else 0
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=status,
        combined=returned.output,
        interpretation=explain_exit(command, status, returned.output),
        cut_by_source=returned.is_cut,
    )
    links = {OUTPUT: "/result/combined_output_preview", "/message": "/result/exit_status"}
    return read_output(evidence, returned, result, recorded_outcome(result), links=links)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("Shell", "Bash", "CMD"), version=2, read=_read_command, align=align_return),
)
