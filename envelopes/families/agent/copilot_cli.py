"""Subagents of the GitHub Copilot CLI, whose report is in the receipt alone.

task         the report; or `Agent started in background with agent_id: bg. …`, of one that works beside the agent
read_agent   Agent completed. agent_id: bg, agent_type: explore, status: completed, … / the report
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import Span, match_once
from envelopes.families.agent.results import AgentRun

AGENT = "copilot-cli"
DETAIL = "detailedContent"
LAUNCHED = re.compile(r"Agent started in background with agent_id: (?P<id>[^\s,]+?)\. ")
REPORT = re.compile(r"Agent [^\n]*?agent_id: (?P<id>[^\s,]+), [^\n]*?\bstatus: (?P<status>\w+)[^\n]*\n\n")


def _read_agent(evidence: Evidence) -> Reading:
    receipt = evidence.receipt_text
    if failure := read_failure(evidence):
        return failure
    if receipt is None or find_output_preview(receipt):
        return read_untyped(evidence)
    args = RecordedObject(evidence.args)
    if launched := LAUNCHED.match(receipt):
        result = AgentRun(agent_id=launched["id"], description=args.text("description"), launched=True)
        summary = f"Agent {launched['id']} started in the background"
    elif report := REPORT.match(receipt):
        result = AgentRun(agent_id=report["id"], status=report["status"], text=receipt[report.end() :])
        summary = f"Agent {report['id']}: {report['status']}"
    else:
        result = AgentRun(description=args.text("description"), text=receipt)
        summary = f"Agent {args.text('name') or args.text('agent_type') or ''} reported"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _read_sentence(evidence: Evidence) -> Reading:
    receipt = evidence.receipt_text
    if failure := read_failure(evidence):
        return failure
    if receipt is None:
        return read_untyped(evidence)
    summary = receipt[:1_000].strip().partition("\n")[0]
    return reading(evidence, RecordedText(receipt), summary, links={}, fidelity="parsed_from_receipt")


def _align_agent(evidence: Evidence, text: str) -> list[Span]:
    """Links the report where the record has it too."""
    detail = RecordedObject(evidence.result).text(DETAIL) or ""
    span = match_once(text, detail, f"/{DETAIL}") if detail else None
    return [span] if span else align_failure(evidence, text)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("task", "read_agent"), version=1, read=_read_agent, align=_align_agent),
    ToolMapping(
        agent=AGENT,
        tools=("list_agents", "write_agent", "skill"),
        version=1,
        read=_read_sentence,
        align=align_failure,
    ),
)
