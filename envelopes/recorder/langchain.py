"""LangChain: records the calls of tools through callbacks. Needs langchain-core.

    agent.invoke(messages, config={"callbacks": [ToolCallbacks(run)]})

A tool that a model called returns a `ToolMessage`: its content is the receipt, its artifact the other half. A tool
without an artifact has no other half, and none is made up from its text. A tool that code called itself has a result
and no receipt, because no model was sent it.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from msgspec import UNSET

from envelopes.recorder import LiveRun


class ToolCallbacks(BaseCallbackHandler):
    """Writes to one run; threads may share it."""

    run_inline = True  # in the order in which things happen, also where the chain is asynchronous

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._calls: dict[UUID, str] = {}

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **members: Any,
    ) -> None:
        args = inputs if inputs is not None else input_str
        call = members.get("tool_call_id") or str(run_id)
        self._calls[run_id] = self._run.call(str(serialized.get("name", "")), args, call=call)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_members: Any) -> None:
        call = self._calls.pop(run_id)
        if not isinstance(output, ToolMessage):
            self._run.result(call, output)
            return
        self._run.result(call, UNSET if output.artifact is None else output.artifact, is_error=output.status == "error")
        if isinstance(output.content, str):
            self._run.receipt(call, output.content)
        else:
            self._run.receipt(call, "", parts=output.content)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_members: Any) -> None:
        problem = {"kind": type(error).__name__, "message": str(error)}
        self._run.result(self._calls.pop(run_id), error=problem, status="error", is_error=True)
