"""Gemini CLI's subagents. Releases call them by one tool, or each by its own name.

Subagent 'codebase_investigator' finished.
Termination Reason: GOAL
Result:
…

Early releases record nothing but this receipt. Later ones have `{agentName, state, result, terminateReason, …}` beside
it.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.families.agent.results import AgentRun

REPORT = re.compile(
    r"\ASubagent '(?P<name>[^'\n]+)' finished\.\nTermination Reason: (?P<terminateReason>[^\n]+)\nResult:\n"
)
LINKS = {"/result": "/result/text", "/terminateReason": "/result/status", "/state": "/result/status"}
TOOLS = ("delegate_to_agent", "invoke_agent", "codebase_investigator", "generalist", "cli_help", "browser_agent")


def _read_delegation(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    recorded = RecordedObject(evidence.result)
    if recorded.flag("isSubagentProgress"):
        status = recorded.text("terminateReason") or recorded.text("state")
        result = AgentRun(status=status, text=recorded.text("result") or "")
        summary = f"Agent {recorded.text('agentName')} ended: {status}"
        return reading(evidence, result, summary, links=LINKS, outputs=(OutputField("/result"),))
    receipt = evidence.receipt_text or ""
    head = REPORT.match(receipt)
    if evidence.result is not None or head is None:
        return read_untyped(evidence)
    result = AgentRun(status=head["terminateReason"], text=receipt[head.end() :])
    summary = f"Agent {head['name']} ended: {head['terminateReason']}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _align_delegation(evidence: Evidence, text: str) -> list[Span]:
    """Links the name of the agent to the argument, and the report to the recorded one."""
    head, recorded = REPORT.match(text), RecordedObject(evidence.result)
    if head is None:
        return align_failure(evidence, text)
    spans = []
    if head["name"] == RecordedObject(evidence.args).text("agent_name"):
        spans.append(Span(*head.span("name"), "/agent_name", 0, len(head["name"]), "args"))
    spans += link_groups(head, recorded)
    return spans + match_excerpt(text, recorded.text("result") or "", "/result", start=head.end())


MAPPINGS = (ToolMapping(agent="gemini-cli", tools=TOOLS, version=2, read=_read_delegation, align=_align_delegation),)
