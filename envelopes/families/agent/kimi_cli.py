"""Kimi CLI's subagents, its questions to the person, and its other tools that return a sentence.

Agent    agent_id: a1 / resumed: false / actual_subagent_type: coder / status: completed / / [summary] / the report
         task_id: agent-1 / kind: agent / status: starting / … / agent_id: a1 / …, in the background
Task     the report, before 1.25
"""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import AGENT, OUTPUT, align_return, read_failed, read_output, read_return
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.agent.results import AgentRun

FIELD = re.compile(r"^(?P<name>agent_id|status): (?P<value>[^\n]*)$", re.MULTILINE)
SUMMARY = "\n[summary]\n"
SENTENCES = (
    *("AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "SendDMail", "CreateSubagent", "ReadMediaFile", "Think"),
)


def _read_agent(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    description = RecordedObject(evidence.args).text("description")
    head, separator, report = returned.output.partition(SUMMARY)
    is_launched = returned.message.startswith("Background task started")
    fields = {field["name"]: field["value"] for field in FIELD.finditer(head if separator or is_launched else "")}
    result = AgentRun(
        agent_id=fields.get("agent_id"),
        status=fields.get("status"),
        description=description,
        launched=is_launched,
        text="" if is_launched else report if separator else returned.output,
    )
    name = fields.get("agent_id") or description or ""
    summary = f"Agent {name} {'started in the background' if is_launched else 'reported'}"
    return read_output(evidence, returned, result, summary, links={OUTPUT: "/result/text"} if result.text else {})


def _read_sentence(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    text = returned.output or returned.message
    summary = (returned.message or text)[:1_000].strip().partition("\n")[0] or "no output"
    links = {OUTPUT if returned.output else "/message": "/result/text"}
    return read_output(evidence, returned, RecordedText(text), summary, links=links)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("Agent", "Task"), version=1, read=_read_agent, align=align_return),
    ToolMapping(agent=AGENT, tools=SENTENCES, version=1, read=_read_sentence, align=align_return),
)
