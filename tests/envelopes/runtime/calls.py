"""The context of a call, for tools that are run without an executor."""

from __future__ import annotations

from envelopes import Limits, RunPolicy, Sandbox, ToolCall
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
