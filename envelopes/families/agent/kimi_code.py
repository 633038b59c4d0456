"""Kimi Code's subagents, and its other tools that return a sentence.

Agent         agent_id: agent-0 / actual_subagent_type: coder / status: completed / … / / [summary] / the report
AgentSwarm    <agent_swarm_result> / <summary>completed: 2</summary> / <subagent agent_id="agent-1" …>…</subagent>
"""

from __future__ import annotations

import re

from envelopes.alignment.kimi_code_receipts import OUTPUT, read_success, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.agent.kimi_cli import FIELD, SUMMARY
from envelopes.families.agent.results import AgentRun

SWARM = re.compile(r"<summary>(?P<words>[^<\n]*)</summary>")
HINT = re.compile(r"\n\nresume_hint: [^\n]*\Z")
SENTENCES = (
    *("AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "Skill", "CronCreate", "CronDelete", "CronList"),
    *("CreateGoal", "GetGoal", "UpdateGoal", "SetGoalBudget", "ReadMediaFile", "SelectTools", "NotifyUser"),
)


def _read_agent(evidence: Evidence, answer: ToolReturn) -> Reading:
    head, separator, report = answer.output.partition(SUMMARY)
    fields = {field["name"]: field["value"] for field in FIELD.finditer(head)}
    is_launched = not separator and fields.get("status") == "running"
    name = fields.get("agent_id") or RecordedObject(evidence.args).text("description") or ""
    result = AgentRun(
        agent_id=fields.get("agent_id"),
        status=fields.get("status"),
        description=RecordedObject(evidence.args).text("description"),
        launched=is_launched,
        text="" if is_launched else HINT.sub("", report) if separator else answer.output,
    )
    summary = f"Agent {name} {'started in the background' if is_launched else 'reported'}"
    return read_success(evidence, answer, result, summary, links={OUTPUT: "/result/text"} if result.text else {})


def _read_swarm(evidence: Evidence, answer: ToolReturn) -> Reading:
    counted = SWARM.search(answer.output)
    result = AgentRun(
        description=RecordedObject(evidence.args).text("description"),
        status=counted["words"] if counted else None,
        text=answer.output,
    )
    summary = f"Agents ended: {result.status}" if result.status else "Agents reported"
    return read_success(evidence, answer, result, summary, links={OUTPUT: "/result/text"})


def _read_sentence(evidence: Evidence, answer: ToolReturn) -> Reading:
    summary = answer.output[:1_000].strip().partition("\n")[0] or answer.message or "no output"
    return read_success(evidence, answer, RecordedText(answer.output), summary, links={OUTPUT: "/result/text"})


MAPPINGS = (
    tool_mapping(("Agent",), _read_agent),
    tool_mapping(("AgentSwarm",), _read_swarm),
    tool_mapping(SENTENCES, _read_sentence),
)
