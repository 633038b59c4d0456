"""Mistral Vibe's task, `response: … / turns_used: 3 / completed: True`, and its other tools that return a sentence."""

from __future__ import annotations

from envelopes.alignment.lenient_structs import RecordedObject, RecordedText
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.vibe_receipts import read_parsed, take_apart, vibe_mapping
from envelopes.families.agent.results import AgentRun

SENTENCES = (
    *("ask_user_question", "exit_plan_mode", "skill", "run_typescript", "search_tool_functions", "wait"),
    "unified_harness_scratchpad",
)


def _read_task(evidence: Evidence, receipt: str) -> Reading | None:
    fields = take_apart(receipt, "response", "turns_used", "completed")
    if fields is None:
        return None
    name, is_complete = RecordedObject(evidence.args).text("agent") or "", fields["completed"] == "True"
    status = "completed" if is_complete else "incomplete"
    result = AgentRun(status=status, description=RecordedObject(evidence.args).text("task"), text=fields["response"])
    return read_parsed(evidence, result, f"Agent {name} ended: {status}")


def _read_sentence(evidence: Evidence, receipt: str) -> Reading:
    summary = receipt[:1_000].strip().partition("\n")[0] or f"{evidence.tool} returned no text"
    return read_parsed(evidence, RecordedText(receipt), summary)


MAPPINGS = (
    vibe_mapping(("task",), _read_task),
    vibe_mapping(SENTENCES, _read_sentence),
)
