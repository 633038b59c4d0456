"""MCP: records the calls of tools that a client session makes.

    session = RecordedSession(run, session, server="linear")
    await session.call_tool("create_issue", {"title": "…"})

The result is the whole answer, `structuredContent` and `_meta` included. The receipt is the text of its `content`,
which the server meant for the model, and is marked as reconstructed: what a host sends the model is the host's choice.
"""

from __future__ import annotations

from typing import Any

from envelopes.recorder import LiveRun


class RecordedSession:
    """A client session of the `mcp` package whose calls of tools are recorded; all else is passed on."""

    def __init__(self, run: LiveRun, session: Any, *, server: str) -> None:
        self._run = run
        self._session = session
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Calls a tool as `ClientSession.call_tool` does. An exception is recorded as the call's error, and raised."""
        call = self._run.call(f"{self._server}.{name}", arguments or {})
        with self._run.failing(call):
            answer = await self._session.call_tool(name, arguments, **options)
        body = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._run.result(call, body, is_error=bool(body.get("isError")))
        content = body.get("content", [])
        if all(block.get("type") == "text" for block in content):
            text = "\n".join(block["text"] for block in content)
            self._run.receipt(call, text, fidelity="reconstructed")
        else:
            self._run.receipt(call, "", parts=content, fidelity="reconstructed")
        return answer
