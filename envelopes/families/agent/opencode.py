"""OpenCode's task, which records the session of its subagent: `{sessionId, parentSessionId, model}`.

<task id="ses_…" state="completed">
<task_result>
the last words of the subagent
</task_result>
</task>
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.agent.results import AgentRun

REPORT = re.compile(
    r'<task id="(?P<sessionId>[^"\n]+)" state="(?P<state>[^"\n]+)">\n'
    r"<task_result>\n(?P<text>.*)\n</task_result>\n</task>\Z",
    re.DOTALL,
)


def _read_task(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    report = REPORT.match(evidence.receipt_text or "")
    if report is None:
        return read_untyped(evidence)
    result = AgentRun(status=report["state"], text=report["text"])
    return reading(evidence, result, f"Agent ended: {report['state']}", links={}, fidelity="parsed_from_receipt")


def _align_task(evidence: Evidence, text: str) -> list[Span]:
    """Links the id of the subagent's session."""
    return link_groups(REPORT.match(text), RecordedObject(evidence.result)) or align_failure(evidence, text)


MAPPINGS = (ToolMapping(agent="opencode", tools=("task",), version=1, read=_read_task, align=_align_task),)
