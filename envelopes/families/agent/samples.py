"""Outputs that show the family: success, empty, large, error."""

from __future__ import annotations

from envelopes.families.agent.results import AgentRun, Answer, Answers
from envelopes.schema.result import CompleteOutput, ToolError

SAMPLES = (
    CompleteOutput(
        tool_name="Task",
        status="success",
        summary_text="Agent a485154 completed",
        result=AgentRun(
            agent_id="a485154",
            status="completed",
            text="The registry is in src/agents/registry.py.",
            total_tokens=72_916,
            total_tool_uses=24,
            duration_ms=66_297,
        ),
    ),
    CompleteOutput(
        tool_name="Task",
        status="success",
        summary_text="Agent a1f7e5b completed",
        result=AgentRun(
            agent_id="a1f7e5b",
            status="completed",
            text="\n".join(f"Finding {number}: nothing to change here." for number in range(600)),
        ),
    ),
    CompleteOutput(
        tool_name="Task",
        status="success",
        summary_text="Agent a9614d3 was started in the background",
        result=AgentRun(agent_id="a9614d3", status="async_launched", launched=True, output_file="tasks/a9614d3.output"),
    ),
    CompleteOutput(
        tool_name="AskUserQuestion",
        status="success",
        summary_text="The user answered 1 of 1 question",
        result=Answers((Answer(question="Which method?", header="Method", answer="Pre-built"),)),
    ),
    CompleteOutput(
        tool_name="AskUserQuestion",
        status="success",
        summary_text="The user answered 0 of 0 questions",
        result=Answers(),
    ),
    CompleteOutput(
        tool_name="ExitPlanMode",
        status="error",
        summary_text="The user declined the plan",
        error=ToolError(
            kind="write_denied",
            message="The user declined the plan",
            recovery_hint="Call the formula homebrew-tap.",
            retryable=False,
        ),
    ),
)
