"""Each library's own objects, with a scripted model in place of a provider, give both halves of each call."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes.recorder import LiveRecorder, LiveRun
from tests.envelopes.recorder.event_loop import run_apart

pytestmark = pytest.mark.extended  # the libraries take seconds to import


class Recorded:
    """A run and, afterwards, its records."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recorder = LiveRecorder(folder, is_synced=False)
        self.run = LiveRun(self._recorder, "r1")

    def records(self, kind: str) -> list[dict[str, Any]]:
        lines = [line for path in sorted(self._folder.glob("*-*-*.jsonl")) for line in path.read_bytes().splitlines()]
        return [record for record in map(json.loads, lines) if record["type"] == kind]

    def halves(self) -> dict[str, tuple[Any, Any]]:
        """Result and receipt by the name of the tool; None for one that is absent."""
        results = {record["call"]: record.get("complete", record.get("error")) for record in self.records("result")}
        receipts = {record["call"]: record.get("text", record.get("parts")) for record in self.records("receipt")}
        calls = {record["call"]: record["tool"] for record in self.records("call")}
        return {tool: (results.get(call), receipts.get(call)) for call, tool in calls.items()}

    def close(self) -> None:
        self._recorder.close()


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    recorded = Recorded(tmp_path)
    yield recorded
    recorded.close()


def test_langchain_keeps_artifact_and_content_apart(recorded: Recorded) -> None:
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

    config: Any = {"callbacks": [ToolCallbacks(recorded.run)]}
    search.invoke({"name": "search", "args": {"query": "x"}, "id": "call_1", "type": "tool_call"}, config)
    shout.invoke({"name": "shout", "args": {"text": "x"}, "id": "call_2", "type": "tool_call"}, config)
    add.invoke({"a": 1, "b": 2}, config)  # code called it, no model
    with pytest.raises(FileNotFoundError):
        fail.invoke({"name": "fail", "args": {"path": "a.txt"}, "id": "call_3", "type": "tool_call"}, config)
    assert recorded.halves() == {
        "search": ({"hits": [1, 2, 3]}, "3 hits for x"),
        "shout": (None, "too loud"),
        "add": (3, None),
        "fail": ({"kind": "FileNotFoundError", "message": "a.txt"}, None),
    }
    assert [call["call"] for call in recorded.records("call")][:2] == ["call_1", "call_2"]
    assert [record.get("is_error") for record in recorded.records("result")] == [False, True, None, True]
    assert recorded.records("call")[0]["args"] == {"query": "x"}


def test_pydantic_ai_keeps_the_return_its_metadata_and_the_text_for_the_model(recorded: Recorded) -> None:
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
    record_messages(recorded.run, result.new_messages())
    halves = recorded.halves()
    assert halves["weather"] == ({"city": "Bern", "degrees": 3}, '{"city":"Bern","degrees":3}')
    assert halves["flaky"][0] == {"kind": "retried", "message": "try again later"}
    assert "try again later" in halves["flaky"][1]
    assert recorded.records("result")[0]["metadata"] == {"station": 42}
    assert {record["fidelity"] for record in recorded.records("receipt")} == {"reconstructed"}
    assert [(record["role"], record["text"]) for record in recorded.records("message")] == [
        ("user", "How warm is it?"),
        ("assistant", "It is 3 degrees."),
    ]
    assert recorded.records("usage")


def test_openai_agents_records_calls_and_usage(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from envelopes.recorder.openai_agents import ToolHooks

    def call(name: str, arguments: str, key: str) -> Any:
        return ResponseFunctionToolCall(name=name, arguments=arguments, call_id=key, type="function_call")

    text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
    message = ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")
    turns: list[list[Any]] = [
        [call("lines", '{"path": "a.txt"}', "call_1"), call("read", '{"path": "a.txt"}', "call_2")],
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

    agent = Agent(name="Reader", model=Scripted(), tools=[lines, read])
    config = RunConfig(tracing_disabled=True)
    run_apart(Runner.run(agent, "Read it.", hooks=ToolHooks(recorded.run), run_config=config))
    assert recorded.halves() == {
        "lines": (["a.txt", "two"], "['a.txt', 'two']"),
        "read": (None, "the text of a.txt"),
    }
    fidelities = {record["call"]: record["fidelity"] for record in recorded.records("receipt")}
    assert fidelities == {"call_1": "reconstructed", "call_2": "recorded"}
    assert {record["call"]: record["args"] for record in recorded.records("call")}["call_1"] == {"path": "a.txt"}
    assert [record["input_tokens"] for record in recorded.records("usage")] == [120, 120]


def test_an_mcp_session_records_the_whole_answer_and_what_was_meant_for_the_model(recorded: Recorded) -> None:
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
            session = RecordedSession(recorded.run, client, server="issues")
            assert [tool.name for tool in (await session.list_tools()).tools] == ["create", "fail"]
            await session.call_tool("create", {"title": "A bug"})
            await session.call_tool("fail", {})

    run_apart(use())
    halves = recorded.halves()
    result, receipt = halves["issues.create"]
    assert result["structuredContent"] == {"id": 7, "title": "A bug"}
    assert json.loads(receipt) == {"id": 7, "title": "A bug"}
    assert receipt == result["content"][0]["text"]
    result, receipt = halves["issues.fail"]
    assert (result["isError"], "fail" in receipt) == (True, True)
    assert [record["is_error"] for record in recorded.records("result")] == [False, True]
