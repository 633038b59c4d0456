"""OpenAI Agents SDK: records the calls of tools and the usage of requests through hooks. Needs openai-agents.

    await Runner.run(agent, "…", hooks=ToolHooks(run))

A text that a tool returns is what the model is sent, so it is the receipt; the SDK has no other half of it. Of any
other value the result is recorded, and as receipt the text that the SDK makes of it (`str`), marked as reconstructed.

Hooks are not told that a tool raised: they get the text that the model is sent instead. A call has failed where that is
the SDK's own sentence, or where the trace has the error; with tracing off, one with a text of your own counts as a
result.
"""

from __future__ import annotations

import json
from typing import Any

from agents import (
    Agent,
    FunctionSpanData,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    Tool,
    default_tool_error_function,
)
from agents.tool import default_tool_timeout_error_message
from agents.tracing import get_current_span
from msgspec import UNSET

from envelopes.recorder import LiveRun


class ToolHooks(RunHooks[Any]):
    """Writes to one run."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        arguments = getattr(context, "tool_arguments", None)
        try:
            args = json.loads(arguments) if arguments else None
        except ValueError:
            args = arguments
        self._run.call(tool.name, args, call=_call_id(context), agent=agent.name)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        call = _call_id(context)
        is_text = isinstance(result, str)
        ended = _find_failure(context, tool, result)
        self._run.result(call, UNSET if is_text else result, is_error=True if ended else None, status=ended)
        self._run.receipt(call, str(result), fidelity="recorded" if is_text else "reconstructed")

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        usage = response.usage
        if usage.input_tokens and response.response_id:
            cached = usage.input_tokens_details.cached_tokens or 0
            self._run.record(
                "usage",
                request=response.response_id,
                input_tokens=usage.input_tokens - cached,
                cache_read_tokens=cached,
                output_tokens=usage.output_tokens,
            )


def _find_failure(context: RunContextWrapper[Any], tool: Tool, result: object) -> str | None:
    """The status of a tool that raised or was stopped at its time limit; None for any other."""
    seconds = getattr(tool, "timeout_seconds", None)
    if seconds and result == default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=seconds):
        return "timeout"
    span = get_current_span()
    is_traced = span is not None and isinstance(span.span_data, FunctionSpanData) and span.error is not None
    return "error" if is_traced or result == default_tool_error_function(context, Exception()) else None


def _call_id(context: RunContextWrapper[Any]) -> str:
    """Tools that run elsewhere have a context without an id; each of those calls is one of its own."""
    return getattr(context, "tool_call_id", None) or f"unnamed-{id(context)}"
