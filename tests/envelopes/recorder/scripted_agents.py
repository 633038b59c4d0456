"""Agents of four libraries with scripted models and real tool calls, recorded by the library's adapter.

Each function records its calls in the run that it gets. The libraries take seconds to import.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from envelopes.recorder import LiveRun
from tests.envelopes.recorder.event_loop import run_apart


def use_langchain(run: LiveRun) -> None:
    """`search` has an artifact, `shout` and `fail` raise, and `add` is called by code, not by a model."""
    from langchain_core.tools import ToolException, tool

    from envelopes.recorder.langchain import ToolCallbacks

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, dict[str, Any]]:
        """Searches."""
        return f"3 hits for {query}", {"hits": [1, 2, 3]}

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @tool
    def shout(text: str) -> str:
        """Shouts."""
        raise ToolException("too loud")

    shout.handle_tool_error = True

    @tool
    def fail(path: str) -> str:
        """Fails."""
        raise FileNotFoundError(path)

    config: Any = {"callbacks": [ToolCallbacks(run)]}
    search.invoke({"name": "search", "args": {"query": "x"}, "id": "call_1", "type": "tool_call"}, config)
    shout.invoke({"name": "shout", "args": {"text": "x"}, "id": "call_2", "type": "tool_call"}, config)
    add.invoke({"a": 1, "b": 2}, config)
    with suppress(FileNotFoundError):
        fail.invoke({"name": "fail", "args": {"path": "a.txt"}, "id": "call_3", "type": "tool_call"}, config)


def use_pydantic_ai(run: LiveRun) -> None:
    """`weather` returns a value with metadata, `flaky` asks the model to try again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pydantic_ai import Agent, ModelRetry, ToolReturn
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

    from envelopes.recorder.pydantic_ai import record_messages

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            calls = [ToolCallPart("weather", {"city": "Bern"}, "call_1"), ToolCallPart("flaky", {}, "call_2")]
            return ModelResponse(parts=calls)
        return ModelResponse(parts=[TextPart("It is 3 degrees.")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    def weather(city: str) -> Any:
        return ToolReturn(return_value={"city": city, "degrees": 3}, metadata={"station": 42})

    @agent.tool_plain
    def flaky() -> str:
        raise ModelRetry("try again later")

    result = run_apart(agent.run("How warm is it?"))
    record_messages(run, result.new_messages())


def use_openai_agents(run: LiveRun, *, is_traced: bool = False) -> None:
    """`lines` returns a list, of which the library makes the text, `read` returns a text.

    `refuse` and `wait` fail, and the model is sent the library's sentences; of `explain` it is sent another text.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool, set_trace_processors
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from envelopes.recorder.openai_agents import ToolHooks

    def call(name: str, arguments: str, key: str) -> Any:
        return ResponseFunctionToolCall(name=name, arguments=arguments, call_id=key, type="function_call")

    text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
    message = ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")
    turns: list[list[Any]] = [
        [call("lines", '{"path": "a.txt"}', "call_1"), call("read", '{"path": "a.txt"}', "call_2")],
        [call("refuse", "{}", "call_3"), call("wait", "{}", "call_4"), call("explain", "{}", "call_5")],
        [message],
    ]

    class Scripted(Model):
        async def get_response(self, *_args: Any, **_options: Any) -> ModelResponse:
            usage = Usage(requests=1, input_tokens=120, output_tokens=9, total_tokens=129)
            return ModelResponse(output=turns.pop(0), usage=usage, response_id=f"resp_{len(turns)}")

        def stream_response(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
            raise NotImplementedError

    @function_tool
    def lines(path: str) -> list[str]:
        return [path, "two"]

    @function_tool
    def read(path: str) -> str:
        return f"the text of {path}"

    @function_tool
    def refuse() -> str:
        raise PermissionError("not yours")

    @function_tool(timeout=0.01)
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    @function_tool(failure_error_function=lambda _context, error: f"It failed: {error}")
    def explain() -> str:
        raise PermissionError("not yours")

    agent = Agent(name="Reader", model=Scripted(), tools=[lines, read, refuse, wait, explain])
    set_trace_processors([])  # nothing is sent
    config = RunConfig(tracing_disabled=not is_traced)
    run_apart(Runner.run(agent, "Read it.", hooks=ToolHooks(run), run_config=config))


def use_mcp_session(run: LiveRun) -> None:
    """A client and a server of the mcp package: `create` returns structured content, `fail` an error."""
    from mcp import Client
    from mcp.server import MCPServer

    from envelopes.recorder.mcp_session import RecordedSession

    server = MCPServer("issues")

    @server.tool()
    def create(title: str) -> dict[str, Any]:
        return {"id": 7, "title": title}

    @server.tool()
    def fail() -> str:
        raise ValueError("no such project")

    async def use() -> None:
        async with Client(server) as client:
            session = RecordedSession(run, client, server="issues")
            assert [tool.name for tool in (await session.list_tools()).tools] == ["create", "fail"]
            await session.call_tool("create", {"title": "A bug"})
            await session.call_tool("fail", {})

    run_apart(use())
