"""Cline's subagents and teammates, `{text, iterations, finishReason, usage?}`, and what it asks or tells a person.

Those of tasks have their text in the receipt alone: the reports of subagents, the person's answer, or a sentence.
"""

from __future__ import annotations

from envelopes.alignment.cline_receipts import AGENT, align_sent, read_answer
from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.families.agent.results import AgentRun

SENTENCES = (
    *("ask_question", "ask_followup_question", "attempt_completion", "submit_and_exit", "plan_mode_respond"),
    *("plan_mode_response", "act_mode_respond", "new_task", "condense", "summarize_task", "new_rule", "report_bug"),
    *("skills", "use_skill", "generate_explanation", "use_subagents"),
)


def _read_agent(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    recorded, args = RecordedObject(evidence.result), RecordedObject(evidence.args)
    text = recorded.text("text")
    if text is None:
        return read_untyped(evidence)
    result = AgentRun(
        agent_id=recorded.text("agentId"),
        status=recorded.text("finishReason") or recorded.text("status"),
        description=args.text("task"),
        text=text,
    )
    summary = f"{result.agent_id or 'The subagent'} reported: {text[:1_000].strip().partition(chr(10))[0]}"
    return reading(evidence, result, summary, links={"/text": "/result/text"}, outputs=(OutputField("/text"),))


def _read_sentence(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    text = answer.receipt_text
    if evidence.has_result or text is None:
        return read_untyped(answer)
    summary = text[:1_000].strip().partition("\n")[0] or f"{evidence.tool} returned no text"
    return reading(evidence, RecordedText(text), summary, links={}, fidelity="parsed_from_receipt")


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("spawn_agent", "team_run_task"), version=1, read=_read_agent, align=align_sent),
    ToolMapping(agent=AGENT, tools=SENTENCES, version=1, read=_read_sentence, align=align_sent),
)
