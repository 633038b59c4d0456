"""Kilo Code's background_process, whose receipt has `name: value` lines for each process; the record has its id alone.

{processID, status, …}    start, status, logs, stop, monitor
{count}                   list
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.base import count_noun
from envelopes.families.task.results import TaskRead, read_outcome

AGENT = "kilo-code"
PROCESS = re.compile(r"(?:[a-z_]+: [^\n]*(?:\n|\Z))+")
ID = re.compile(r"^(?:process )?id: (?P<id>\S+)$", re.MULTILINE)


def _read_process(evidence: Evidence) -> Reading:
    recorded, receipt = RecordedObject(evidence.result), evidence.receipt_text or ""
    if failure := read_failure(evidence):
        return failure
    count, process = recorded.integer("count"), recorded.text("processID")
    if count is not None:
        text = RecordedText(receipt)
        return reading(evidence, text, count_noun(count, "background task"), links={}, fidelity="parsed_from_receipt")
    if process is None:
        return read_untyped(evidence)
    lines = [line.partition(": ") for line in receipt.splitlines()] if PROCESS.fullmatch(receipt) else []
    fields = {name: value for name, _, value in lines}
    result = TaskRead(
        task_id=process,
        status=recorded.text("status") or fields.get("status"),
        summary=fields.get("command"),
        output="" if fields else receipt,
    )
    links = {"/processID": "/result/task/task_id"}
    summary = read_outcome(result) if fields else receipt.partition("\n")[0] or read_outcome(result)
    return reading(evidence, result, summary, links=links, fidelity="parsed_from_receipt")


def _align_process(evidence: Evidence, text: str) -> list[Span]:
    """Links the id of the process."""
    process, named = RecordedObject(evidence.result).text("processID"), ID.search(text)
    if process and named and named["id"] == process:
        return [Span(named.start("id"), named.end("id"), "/processID", 0, len(process))]
    return align_failure(evidence, text)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("background_process",), version=1, read=_read_process, align=_align_process),
)
