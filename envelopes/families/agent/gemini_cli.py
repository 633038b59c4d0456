"""Gemini CLI's delegate_to_agent: nothing but the receipt has the report of the subagent.

Subagent 'codebase_investigator' finished.
Termination Reason: GOAL
Result:
…
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.agent.results import AgentRun

REPORT = re.compile(r"\ASubagent '(?P<name>[^'\n]+)' finished\.\nTermination Reason: (?P<reason>[^\n]+)\nResult:\n")


def _read_delegation(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text or ""
    head = REPORT.match(receipt)
    if evidence.result is not None or head is None:
        return read_untyped(evidence)
    result = AgentRun(status=head["reason"], text=receipt[head.end() :])
    summary = f"Agent {head['name']} ended: {head['reason']}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _align_delegation(evidence: Evidence, text: str) -> list[Span]:
    """Links the name of the agent to the argument."""
    head, name = REPORT.match(text), RecordedObject(evidence.args).text("agent_name")
    if head is None or head["name"] != name:
        return align_failure(evidence, text)
    return [Span(*head.span("name"), "/agent_name", 0, len(head["name"]), "args")]


MAPPINGS = (
    ToolMapping(
        agent="gemini-cli", tools=("delegate_to_agent",), version=1, read=_read_delegation, align=_align_delegation
    ),
)
