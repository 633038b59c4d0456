"""Kimi Code's tools for tasks in the background, which return `name: value` lines, and behind `[output]` an output."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_code_receipts import OUTPUT, read_success, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedText
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.task.kimi_cli import FIELD, NOTHING, SHOWN
from envelopes.families.task.results import TaskRead, read_outcome

REST = "\n\n[still_running]\n"  # other tasks, behind the one that ended
WORD = re.compile(r"-?\d{1,10}")


def _read_task(evidence: Evidence, answer: ToolReturn) -> Reading:
    head, _, output = answer.output.partition(REST)[0].partition(SHOWN)
    fields: dict[str, str] = {}
    for field in FIELD.finditer(head):
        fields.setdefault(field["name"], field["value"])
    code = fields.get("exit_code", "")
    result = TaskRead(
        retrieval_status=fields.get("retrieval_status") or fields.get("wait_status"),
        task_id=fields.get("task_id"),
        kind=fields.get("kind"),
        status=fields.get("status"),
        summary=fields.get("description"),
        exit_status=int(code) if WORD.fullmatch(code) else None,
        output="" if output == NOTHING else output,
        failure=fields.get("reason"),
    )
    links = {OUTPUT: "/result/task/output_preview"} if result.output else {}
    return read_success(evidence, answer, result, read_outcome(result), links=links)


def _read_text(evidence: Evidence, answer: ToolReturn) -> Reading:
    summary = answer.output[:1_000].partition("\n")[0] or "no output"
    return read_success(evidence, answer, RecordedText(answer.output), summary, links={OUTPUT: "/result/text"})


MAPPINGS = (
    tool_mapping(("TaskOutput", "WaitFor"), _read_task),
    tool_mapping(("TaskList", "TaskStop"), _read_text),
)
