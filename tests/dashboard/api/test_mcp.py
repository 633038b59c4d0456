"""The MCP server, over HTTP and on stdio: bounded answers, cited, masked, and a real client that reads them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.api.mcp_server import MOST_CHARACTERS, TOOLS
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Project, Run
from tests.cases import each
from tests.conftest import CHECKOUT
from tests.dashboard.api.native_records import failed_call, one_call, one_run
from tests.dashboard.api.sending import Sender

if TYPE_CHECKING:
    from mcp import types  # each function imports it for itself: it takes half a second of each worker of a run

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def agent(project: Project) -> Sender:
    long = one_call(9)
    long[1]["complete"] = {"text": "z" * 50_000 + f" {SECRET} end"}
    base = {"v": 1, "run": "r1", "call": "two"}
    texts = {name: "".join(f"{name} line {line}\n" for line in range(90)) for name in ("stdout", "stderr")}
    shown = [f"{text[: len(text) // 3]}[60 lines omitted]\n" for text in texts.values()]
    two = [
        base | {"type": "call", "tool": "ExecCommand", "args": {"cmd": "make"}},
        base | {"type": "result", "complete": {"exit_status": 0, **texts}},
        base | {"type": "receipt", "text": "".join(shown)},
    ]
    Sender(project).records([*one_run(2), *long, *two])
    derive_waiting(project)
    return Sender(project, "mcp")


def ask(agent: Sender, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    response = agent.post("/mcp", json.dumps(message).encode(), "application/json")
    assert response.status_code == 200
    document: dict[str, Any] = json.loads(response.content)
    assert document["id"] in (7, None)
    return document


def use(agent: Sender, name: str, **arguments: Any) -> types.CallToolResult:
    from mcp import types

    document = ask(agent, "tools/call", {"name": name, "arguments": arguments})
    return types.CallToolResult.model_validate(document["result"])


def text_of(result: types.CallToolResult) -> str:
    from mcp import types

    (part,) = result.content
    assert isinstance(part, types.TextContent)
    return part.text


def test_a_client_is_told_the_tools_and_their_arguments(agent: Sender) -> None:
    from mcp import types

    begun = types.InitializeResult.model_validate(ask(agent, "initialize", {"protocolVersion": "2025-06-18"})["result"])
    assert (begun.protocol_version, begun.server_info.name) == ("2025-06-18", "counterfoil")
    listed = types.ListToolsResult.model_validate(ask(agent, "tools/list")["result"])
    assert [tool.name for tool in listed.tools] == list(TOOLS)
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.tools)
    notified = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    assert agent.post("/mcp", notified, "application/json").status_code == 202
    assert agent.get("/mcp").status_code == 405


def test_a_short_list_of_runs_ends_before_the_next_one_begins(project: Project) -> None:
    Sender(project).records([record for number in range(5) for record in one_call(1, run=f"r{number}")])
    agent, found = Sender(project, "mcp"), []
    after: dict[str, str] | None = {}
    while after is not None:
        page = use(agent, "search_runs", limit=2, **after).structured_content
        assert page is not None
        found.append(sorted(run["external_id"] for run in page["items"]))
        after = {"after": page["next"]} if page["next"] else None
    assert [len(runs) for runs in found] == [2, 2, 1]
    assert len({run for runs in found for run in runs}) == 5


def test_an_agent_finds_a_call_and_reads_both_halves_in_windows(agent: Sender) -> None:
    call = str(Call.objects.get(external_id="c1").pk)
    found = use(agent, "search_calls", q="tool:Search", limit=2)
    assert found.structured_content is not None
    assert len(found.structured_content["items"]) == 2
    assert 'More: search_calls with q="tool:Search", after=' in text_of(found)
    assert "r1" in text_of(use(agent, "search_runs")) or "A run" in text_of(use(agent, "search_runs"))
    halves = text_of(use(agent, "call_halves", call=call, limit=20))
    assert f"[call {call}, receipt, characters 0 to 20 of 60]" in halves
    assert f'[More: call_halves with call="{call}", part="receipt", offset=20.]' in halves
    assert "written by" in text_of(use(agent, "variant_receipt", call=call, variant="receipt"))
    context = text_of(use(agent, "context_at_step", run=str(Run.objects.get().pk), position=2))
    assert "step 2: about" in context


def follow(agent: Sender, answer: types.CallToolResult) -> types.CallToolResult:
    """What the answer names as the rest of its last part, asked for literally."""
    *_, question = re.findall(r"More: (.*?)\.?\]?$", text_of(answer), re.MULTILINE)
    name, _, arguments = question.partition(" with ")
    pairs = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)', arguments)
    return use(agent, name, **{key: json.loads(value) for key, value in pairs})


def test_the_arguments_of_the_rest_lead_to_the_rest_of_the_same_answer(agent: Sender) -> None:
    """A window of the second output, one of a variant, and a sorted list with a filter."""
    call = str(Call.objects.get(external_id="two").pk)
    halves = use(agent, "call_halves", call=call)
    assert f'The rest: unseen_output with call="{call}", pointer="/stderr".' in text_of(halves)
    for name, arguments, path in (
        ("unseen_output", {"call": call, "pointer": "/stderr"}, "text"),
        ("variant_receipt", {"call": call, "variant": "outcome_json"}, "text.text"),
        ("call_halves", {"call": call, "part": "receipt"}, "receipt.text"),
    ):
        begun = use(agent, name, limit=9, **arguments)
        joined = text_at(begun, path) + text_at(follow(agent, begun), path)
        assert joined == text_at(use(agent, name, **arguments), path), name
    begun = use(agent, "search_calls", q="tool:Search", sort="tokens", limit=1)
    everything = use(agent, "search_calls", q="tool:Search", sort="tokens").structured_content
    more = follow(agent, begun).structured_content
    assert everything is not None
    assert more is not None
    assert more["items"] == everything["items"][1:]


def text_at(answer: types.CallToolResult, path: str) -> str:
    content: Any = answer.structured_content
    for name in path.split("."):
        content = content[name]
    return str(content)


def test_an_agent_reads_what_waits_and_what_was_never_recorded(project: Project) -> None:
    base = {"v": 1, "run": "r1", "call": "bare"}
    bare = [base | {"type": "call", "tool": "Bare", "args": {}}, base | {"type": "result", "status": "ok"}]
    Sender(project).records([*failed_call(), *bare])
    agent, calls = Sender(project, "mcp"), {call.tool: str(call.pk) for call in Call.objects.all()}
    found = text_of(use(agent, "search_calls", q="tool:ExecCommand"))
    note = "Note: 2 calls are being counted: until then filters and sorts may miss them."
    assert found == f"{note}\ncall {calls['ExecCommand']} · ExecCommand · not counted yet"
    assert text_of(use(agent, "search_calls", q="outcome:failed")) == f"{note}\nNothing matches."
    assert "2 not counted yet" in text_of(use(agent, "search_runs"))
    halves = text_of(use(agent, "call_halves", call=calls["ExecCommand"]))
    assert halves.startswith("ExecCommand · failed, exit 2")
    assert "the model saw 4 of 8 lines" in halves
    assert "2 calls are being counted. Until then the tokens here may be too few." in text_of(
        use(agent, "context_at_step", run=str(Run.objects.get().pk), position=1)
    )
    assert "[canonical: not recorded]" in text_of(use(agent, "call_halves", call=calls["Bare"]))
    assert "No result of this call was recorded" in text_of(use(agent, "variant_receipt", call=calls["Bare"]))


def test_every_variant_that_is_named_as_an_example_exists(agent: Sender) -> None:
    schema = TOOLS["variant_receipt"].input_schema
    listed = schema["properties"]["variant"]["description"].removeprefix("e.g. ").split(", ")
    call = str(Call.objects.get(external_id="c1").pk)
    assert not any(use(agent, "variant_receipt", call=call, variant=name).is_error for name in listed)


def test_no_answer_is_larger_than_its_window_and_none_shows_a_secret(agent: Sender) -> None:
    call = str(Call.objects.get(external_id="c9").pk)
    whole = text_of(use(agent, "call_halves", call=call, part="canonical", limit=MOST_CHARACTERS))
    assert MOST_CHARACTERS < len(whole) < MOST_CHARACTERS + 2_000
    for offset in (49_990, 50_080, 50_095):
        assert "IOSFODNN7" not in text_of(use(agent, "call_halves", call=call, part="canonical", offset=offset))


BAD: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", -32700),
    "batch": (b"[]", -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "odd id": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    "large id": (b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}', -32600),
    "half a character": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700),
    "half a character in a filter": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_calls","arguments":{"q":"\\udfff"}}}',
        -32700,
    ),
    "unknown": (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601),
    "no tool": (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
}


@each("name", BAD)
def test_a_message_that_cannot_be_read_is_an_error_of_the_protocol(agent: Sender, name: str) -> None:
    body, code = BAD[name]
    assert json.loads(agent.post("/mcp", body, "application/json").content)["error"]["code"] == code


@each("position", [0, -1, 99, 10**30, "1", True, None])
def test_a_position_that_no_step_has_is_a_result_with_its_reason(agent: Sender, position: object) -> None:
    result = use(agent, "context_at_step", run=str(Run.objects.get().pk), position=position)
    is_position = isinstance(position, int) and position > 1
    beyond = f"No call has position {position}: the run has 4 calls."
    assert result.is_error
    assert text_of(result) == beyond if is_position else text_of(result).startswith("position: Expected `int`")


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown field `query`. The arguments are q, sort, after, limit.": ("search_calls", {"query": "cut:yes"}),
    "q: Expected `str`, got `int`. Given: 5": ("search_calls", {"q": 5}),
    "after: Expected `str`, got `null`. Given: null": ("search_runs", {"after": None}),
    'limit: Expected `int`, got `str`. Given: "x"': ("search_calls", {"limit": "x"}),
    "limit: Expected `int` >= 1. Given: -3": ("search_calls", {"limit": -3}),
    "limit: Expected `int` <= 50. Given: 51": ("search_runs", {"limit": 51}),
    "missing required field `call`. The arguments are call, offset, limit, part.": ("call_halves", {}),
    "unknown field `x` - at `$.q`": ("search_calls", {"x` - at `$.q": 1}),
}


@each("reason", WRONG)
def test_an_argument_that_is_wrong_is_named_and_nothing_else_is_answered(agent: Sender, reason: str) -> None:
    name, arguments = WRONG[reason]
    result = use(agent, name, **arguments)
    assert (result.is_error, result.structured_content) == (True, None)
    assert reason in text_of(result)


def test_the_schema_of_each_tool_allows_its_arguments_alone(agent: Sender) -> None:
    for tool in ask(agent, "tools/list")["result"]["tools"]:
        schema = tool["inputSchema"]
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert all("description" in of_argument for of_argument in schema["properties"].values())


@each("key", ["nothing", "00000000-0000-0000-0000-000000000001"])
def test_what_a_model_asks_in_vain_is_a_result_with_its_reason(agent: Sender, key: str) -> None:
    result = use(agent, "call_halves", call=key)
    assert result.is_error
    assert "id" in text_of(result)


@pytest.mark.extended
def test_a_real_client_asks_the_server_on_stdio(tmp_path: Path) -> None:
    """The client of the mcp package, in a process of its own, because this one has an open transaction."""
    environment = os.environ | {"COUNTERFOIL_DATA": str(tmp_path / "data"), "PYTHONPATH": str(CHECKOUT)}
    environment.pop("DATABASE_URL", None)
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps(record) + "\n" for record in one_run(2)))
    manage = [sys.executable, str(CHECKOUT / "manage.py")]
    subprocess.run([*manage, "import_runs", str(records)], env=environment, check=True, capture_output=True)
    script = f"""
import asyncio, json, os
from mcp import ClientSession, StdioServerParameters, stdio_client
async def main():
    server = StdioServerParameters(command={sys.executable!r}, args={[manage[1], "mcp"]!r}, env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = await session.list_tools()
        found = await session.call_tool("search_calls", {{"q": "tool:Search"}})
        print(json.dumps([len(tools.tools), len(found.structured_content["items"])]))
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert json.loads(done.stdout or "null") == [len(TOOLS), 2], done.stderr
