"""Kimi CLI's tools for tasks in the background, which return `name: value` lines, and behind `[output]` an output."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import AGENT, OUTPUT, align_return, read_failed, read_output, read_return
from envelopes.alignment.lenient_structs import RecordedText
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.task.results import TaskRead, read_outcome

FIELD = re.compile(r"^(?P<name>[a-z_]+): (?P<value>[^\n]*)$", re.MULTILINE)
SHOWN = "\n[output]\n"
TRUNCATED = re.compile(r"\[Truncated\. Full output: [^\n]*\]\n\n")
NOTHING = "[no output available]"


def _read_task(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    head, _, output = returned.output.partition(SHOWN)
    fields: dict[str, str] = {}
    for field in FIELD.finditer(head):
        fields.setdefault(field["name"], field["value"])
    cut = TRUNCATED.match(output)
    code = fields.get("exit_code", "")
    result = TaskRead(
        retrieval_status=fields.get("retrieval_status"),
        task_id=fields.get("task_id"),
        kind=fields.get("kind"),
        status=fields.get("status"),
        summary=fields.get("description"),
        exit_status=int(code) if re.fullmatch(r"-?\d{1,10}", code) else None,
        output="" if output == NOTHING else output[cut.end() :] if cut else output,
        failure=fields.get("reason"),
    )
    line = head.count("\n") + 2
    pointer = OUTPUT if returned.is_recorded else ""
    cuts = (SourceCut(pointer=pointer, unit="output", start=line, end=line + 2, lines=1),) if cut else ()
    links = {OUTPUT: "/result/task/output_preview"} if result.output else {}
    return read_output(evidence, returned, result, read_outcome(result), links=links, source_cuts=cuts)


def _read_text(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    summary = returned.output.partition("\n")[0] or returned.message
    return read_output(evidence, returned, RecordedText(returned.output), summary, links={OUTPUT: "/result/text"})


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("TaskOutput",), version=1, read=_read_task, align=align_return),
    ToolMapping(agent=AGENT, tools=("TaskList", "TaskStop"), version=1, read=_read_text, align=align_return),
)
