"""The tools of a real MCP server: what it returns is in both halves, and nothing that it does holds up the runtime."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes import FileStore, InvalidToolInput, MemorySink, ToolFailed, ToolLoop, ToolRequest
from envelopes.plan.tool_answers import Tool
from envelopes.plan.tool_loop import AnsweredRequest
from envelopes.plan.workers import CallContext
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.mcp_tools import McpServer, McpToolDefinition, McpTools
from envelopes.transports import transport
from tests.cases import each
from tests.envelopes.runtime.calls import CALL

SERVER = Path(__file__).with_name("mcp_server.py")


def server(**settings: Any) -> McpServer:
    return McpServer("files", sys.executable, (str(SERVER),), start_s=120, **settings)


@pytest.fixture(scope="module")
def tools() -> Iterator[McpTools]:
    tools = McpTools(server(risks={"remove": "writes"}, trusts_annotations=True))
    yield tools
    tools.close()


def answer(tools: McpTools, tool: str, *others: Tool, **arguments: Any) -> AnsweredRequest:
    loop = ToolLoop((*tools.tools(), *others), MemorySink())
    try:
        return loop.answer(ToolRequest("toolu_1", tool, arguments), loop.begin_turn())
    finally:
        loop.close()


def definition(tools: McpTools, name: str) -> McpToolDefinition:
    (tool,) = [tool for tool in tools.tools() if tool.name == name]
    assert isinstance(tool.definition, McpToolDefinition)
    return tool.definition


@pytest.mark.extended
def test_content_and_structured_content_are_in_both_halves(tools: McpTools) -> None:
    found = answer(tools, "files.find", word="total")
    assert found.settlement.end == "ok"
    result = found.canonical.result
    assert isinstance(result, dict)
    assert result["structured_content"] == {"names": ["total-0", "total-1"]}
    assert "total-1" in result["content"][0]["text"]
    assert found.receipt.text.startswith("files.find returned 1 content block, ")
    assert "total-1" in found.receipt.text


@pytest.mark.extended
def test_an_error_of_the_server_s_tool_blocks_nothing(tools: McpTools) -> None:
    failed = answer(tools, "files.remove", name="a.txt")
    error = failed.canonical.error
    assert error is not None
    assert (error.kind, error.message) == ("external_tool_error", "a.txt is locked by another program")
    assert error.details == {"structured_content": {"code": "locked"}}
    assert "a.txt is locked by another program" in failed.receipt.text
    body = transport("anthropic").encode(failed.receipt, failed.canonical, failed.ids)
    assert body["is_error"] is True
    loop = ToolLoop(tools.tools(), MemorySink())
    state = loop.begin_turn()
    loop.answer(ToolRequest("t", "files.remove", {"name": "a.txt"}), state)
    loop.close()
    assert not state.blocked_tool_names


@pytest.mark.extended
def test_a_picture_is_kept_as_a_file_that_the_receipt_names(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    tools = McpTools(server(), store)
    reader = FileTools(tmp_path, store.open).tools()[1]
    drawn, smudged = answer(tools, "files.draw", reader), answer(tools, "files.smudge")
    tools.close()
    assert smudged.canonical.artifacts == ()
    assert isinstance(drawn.canonical.result, dict)
    (artifact,) = drawn.canonical.artifacts
    assert drawn.canonical.result["content"][0]["data_artifact"] == 0
    assert artifact.path in drawn.receipt.text
    with store.open(artifact.path) as picture:
        assert picture.read() == b"hello"


@pytest.mark.extended
def test_a_picture_is_named_and_its_data_left_out_without_a_store(tools: McpTools) -> None:
    drawn = answer(tools, "files.draw")
    assert drawn.canonical.result == {
        "content": [
            {"type": "image", "media_type": "image/png", "data_characters": 8},
            {"type": "text", "text": "a dot"},
        ]
    }
    assert "[image image/png]" in drawn.receipt.text


@pytest.mark.extended
def test_annotations_decide_the_risk_where_the_policy_trusts_them(tools: McpTools) -> None:
    risks = {tool.name: tool.definition.risk for tool in tools.tools()}
    assert risks["files.find"] == "read-only"
    assert risks["files.remove"] == "writes"
    assert risks["files.draw"] == "commands"
    found = definition(tools, "files.find").annotations
    assert (found.read_only_hint, found.open_world_hint, found.destructive_hint) == (True, False, None)


@pytest.mark.extended
@each(
    ("arguments", "reason"),
    [
        ({}, "`word` is missing"),
        ({"word": 3}, "`word` must be string"),
        ({"word": "x", "limit": True}, "`limit` must be integer"),
        ({"limit": "x"}, "`word` is missing; `limit` must be integer"),
    ],
)
def test_arguments_that_do_not_fit_the_schema_never_reach_the_server(
    tools: McpTools, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidToolInput) as invalid:
        definition(tools, "files.find").parse(arguments)
    assert invalid.value.error.message == f"input for files.find does not match the tool schema: {reason}"


def test_the_top_of_any_schema_is_checked() -> None:
    schema = {
        "type": "object",
        "properties": {"mode": {"enum": ["a", "b"]}, "any": {}, "odd": {"type": ["null", "strange"]}},
        "additionalProperties": False,
        "oneOf": [{}],
    }
    tool = McpToolDefinition(name="s.t", capability="c", planes=(), risk="commands", description="", schema=schema)
    assert tool.parse({"mode": "a", "any": 1, "odd": True}).arguments == {"mode": "a", "any": 1, "odd": True}
    for arguments, reason in (
        ([], "it must be an object"),
        ({"mode": "c"}, "`mode` is none of: a, b"),
        ({"more": 1}, "`more` is unknown"),
    ):
        with pytest.raises(InvalidToolInput, match=reason):
            tool.parse(arguments)
    assert "oneOf" not in tool.input_schema(has_conditions=False)
    assert tool.input_schema() == schema


@pytest.mark.extended
def test_an_error_of_the_protocol_is_a_failure_with_the_words_of_the_server(tools: McpTools) -> None:
    for code, kind in ((-32602, "invalid_tool_input"), (-32603, "tool_execution_failed")):
        error = answer(tools, "files.refuse", code=code).canonical.error
        assert error is not None
        assert (error.kind, error.message) == (kind, "no such volume")


@pytest.mark.extended
def test_a_call_is_cancelled_while_the_server_works(tools: McpTools) -> None:
    (sleeper,) = [tool for tool in tools.tools() if tool.name == "files.sleep"]
    context = CallContext(call=CALL, report=lambda _report: None)
    context.stop.set()  # the call has begun when the client looks at it for the first time
    with pytest.raises(ToolFailed, match="cancelled") as cancelled:
        sleeper.run(sleeper.definition.parse({}), context)
    assert cancelled.value.kind == "cancelled"
    assert answer(tools, "files.find", word="still there").settlement.end == "ok"


@pytest.mark.extended
def test_a_server_that_dies_is_unavailable_and_sees_little_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    log = tmp_path / "log.txt"
    tools = McpTools(server(log=log, variables={"GREETING": "hello"}))
    seen = answer(tools, "files.environment").receipt.text
    assert "GREETING" in seen
    assert "API_KEY" not in seen
    assert {tool.definition.risk for tool in tools.tools()} == {"commands"}
    for _ in range(2):
        error = answer(tools, "files.die").canonical.error
        assert error is not None
        assert (error.kind, error.message) == ("provider_unavailable", "the MCP server files has ended")
    tools.close()
    tools.close()
    assert "a note on standard error" in log.read_text()
    gone = answer(tools, "files.find", word="x").canonical.error
    assert gone is not None
    assert gone.kind == "provider_unavailable"


@pytest.mark.extended
@each(
    ("command", "args", "reason"),
    [("no-such-program", (), "could not be started"), ("sleep", ("60",), "did not answer within 0.5 s")],
)
def test_a_server_that_cannot_be_started_is_named(command: str, args: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ToolFailed, match=reason) as failed:
        McpTools(McpServer("files", command, args, start_s=0.5))
    assert failed.value.kind == "provider_unavailable"
