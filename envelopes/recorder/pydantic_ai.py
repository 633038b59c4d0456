"""Pydantic AI: records the messages of a run, with both halves of each call of a tool.

    result = agent.run_sync("…")
    record_messages(run, result.new_messages())

A tool's return is the result; its `metadata`, which the model is never sent, is kept with it. The receipt is the text
that Pydantic AI makes of the return for a model (`model_response_str`), and is marked as reconstructed: what the
provider was sent in the end is not among the messages. The messages are read by their parts' kinds, so that this
module imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envelopes.recorder import LiveRun

ROLES = {"system-prompt": "system", "user-prompt": "user", "text": "assistant", "thinking": "thinking"}
FAILED = ("failed", "retried", "interrupted", "denied")


def record_messages(run: LiveRun, messages: Sequence[Any]) -> None:
    """Records these messages, which are not recorded yet: `new_messages()` after each run of the agent."""
    for message in messages:
        at = message.timestamp.isoformat() if getattr(message, "timestamp", None) else None
        for part in message.parts:
            _record_part(run, part, at)
        usage = getattr(message, "usage", None)
        if usage is not None and usage.input_tokens:
            request = message.provider_response_id or f"{message.run_id} {at}"
            # Pydantic AI counts cached tokens among the input; native records count them apart.
            cached = usage.cache_read_tokens + usage.cache_write_tokens
            run.record(
                "usage",
                request=request,
                at=at,
                usage=usage,
                input_tokens=max(0, usage.input_tokens - cached),
                cache_read_tokens=usage.cache_read_tokens,
                cache_creation_tokens=usage.cache_write_tokens,
                output_tokens=usage.output_tokens,
            )


def _record_part(run: LiveRun, part: Any, at: str | None) -> None:
    if part.part_kind == "tool-call":
        run.record("call", call=part.tool_call_id, tool=part.tool_name, args=part.args_as_dict(), at=at)
    elif part.part_kind == "tool-return":
        at = part.timestamp.isoformat()
        is_error = part.outcome in FAILED
        value = {"error": {"kind": part.outcome, "message": part.content}} if is_error else {"complete": part.content}
        run.record(
            "result", call=part.tool_call_id, is_error=is_error, metadata=part.metadata, ended_at=at, at=at, **value
        )
        run.receipt(part.tool_call_id, part.model_response_str(), fidelity="reconstructed")
    elif part.part_kind in ROLES:
        content = part.content
        parts = {} if isinstance(content, str) else {"content": content}
        run.record("message", role=ROLES[part.part_kind], at=at, text=None if parts else content, **parts)
