"""Runs tools without an executor.

CONTEXT     the context of a call
run_tool    parses the arguments, runs the tool, and renders its receipt, so that every result fits its family
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envelopes import Limits, MemorySink, RunPolicy, Sandbox, ToolCall, builtin, project, render
from envelopes.plan.tool_answers import Tool
from envelopes.plan.workers import CallContext

CALL = ToolCall(
    call_id="c1",
    run_id="r1",
    step_id="s1",
    tool="ExecCommand",
    args={},
    attempt=1,
    cancellable=True,
    created_at="2026-01-05T10:00:00Z",
    executor_version="1",
    tool_registry_version="1",
    risk_level="commands",
    policy=RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=True), limits=Limits()),
)
CONTEXT = CallContext(call=CALL, report=lambda _report: None)


def run_tool(tools: Iterable[Tool], name: str, arguments: dict[str, Any]) -> Any:
    """The result of the tool of that name."""
    (tool,) = [tool for tool in tools if tool.name == name]
    output = tool.run(tool.definition.parse(arguments), CONTEXT)
    output.check()
    family, definition = builtin(name)
    assert isinstance(output.result, definition.result)
    assert render(project(output, family, family.projection, MemorySink()).canonical, family, family.rendering).text
    return output.result
