"""OpenCode's task, which records the session of its subagent: `{sessionId, …}`. Its receipts, by release:

<task id="ses_…" state="completed"> / <task_result> / the last words of the subagent / </task_result> / </task>
task_id: ses_… (for resuming …) / <task_result> / … / </task_result>
… / <task_metadata> / session_id: ses_… / </task_metadata>
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.agent.results import AgentRun

REPORTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r'<task id="(?P<sessionId>[^"\n]+)" state="(?P<state>[^"\n]+)">\n'
        r"<task_result>\n(?P<text>.*)\n</task_result>\n</task>\Z",
        r"task_id: (?P<sessionId>\S+)(?: \([^\n]*\))?(?P<state>)\n\n<task_result>\n(?P<text>.*)\n</task_result>\Z",
        r"(?P<text>.*)\n\n<task_metadata>(?P<state>)\nsession_id: (?P<sessionId>\S+)\n</task_metadata>\Z",
    )
)


def _find_report(receipt: str) -> re.Match[str] | None:
    return next((report for pattern in REPORTS if (report := pattern.match(receipt))), None)


def _read_task(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    report = _find_report(evidence.receipt_text or "")
    if report is None:
        return read_untyped(evidence)
    result = AgentRun(status=report["state"] or None, text=report["text"])
    summary = f"Agent ended{f': {result.status}' if result.status else ''}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _align_task(evidence: Evidence, text: str) -> list[Span]:
    """Links the id of the subagent's session."""
    return link_groups(_find_report(text), RecordedObject(evidence.result)) or align_failure(evidence, text)


MAPPINGS = (ToolMapping(agent="opencode", tools=("task",), version=1, read=_read_task, align=_align_task),)
