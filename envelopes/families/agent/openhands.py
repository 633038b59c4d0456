"""OpenHands' task, which records `{content, task_id, subagent, status}`.

The receipt begins with a part of these three, behind which the last words of the subagent are.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.openhands_receipts import AGENT, align_observation, find_text_outputs, recorded_texts
from envelopes.alignment.spans import Span
from envelopes.families.agent.results import AgentRun

HEAD = re.compile(r"Task ID: (?P<task_id>[^\n]*)\nSubagent: (?P<subagent>[^\n]*)\nStatus: (?P<status>[^\n]*)\Z")


def _read_task(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    if failure := read_failure(evidence):
        return failure
    if not recorded.has_any(("task_id",)):
        return read_untyped(evidence)
    texts = recorded_texts(evidence)
    status = recorded.text("status")
    result = AgentRun(status=status, text="\n".join(texts.values()))
    links = {"/status": "/result/status"} if status else {}
    links |= dict.fromkeys(list(texts)[:1], "/result/text")
    summary = f"Agent ended{f': {status}' if status else ''}"
    return reading(evidence, result, summary, links=links, outputs=find_text_outputs(evidence))


def _align_task(evidence: Evidence, text: str) -> list[Span]:
    return link_groups(HEAD.match(text), RecordedObject(evidence.result)) or align_observation(evidence, text)


MAPPINGS = (ToolMapping(agent=AGENT, tools=("task",), version=1, read=_read_task, align=_align_task),)
