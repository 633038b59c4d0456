"""Agents of real libraries, recorded into the real server: both halves of their calls, read back through its API.

The exporter of OpenTelemetry has a file of its own, test_real_exporter.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes.recorder import LiveRecorder, LiveRun
from envelopes.recorder.spool import REJECTED
from tests.envelopes.recorder.scripted_agents import (
    use_langchain,
    use_mcp_session,
    use_openai_agents,
    use_pydantic_ai,
)
from tests.faults.imports import environment, manage, migrated_store, rows, wait_until
from tests.faults.server import RunningServer, running_server, sign_in

pytestmark = pytest.mark.extended  # the libraries take seconds to import

# By the tool: words of the recorded result and of the receipt. None is a half that the library does not give.
Halves = dict[str, tuple[str | None, str | None]]
AGENTS: dict[str, tuple[Callable[[LiveRun], None], Halves]] = {
    "langchain": (
        use_langchain,
        {
            "search": ('{"hits":[1,2,3]}', "3 hits for x"),
            "shout": (None, "too loud"),
            "add": ("3", None),
            "fail": ("a.txt", None),
        },
    ),
    "pydantic-ai": (
        use_pydantic_ai,
        {
            "weather": ('{"city":"Bern","degrees":3}', '{"city":"Bern","degrees":3}'),
            "flaky": ("try again later", "try again later"),
        },
    ),
    "openai-agents": (
        use_openai_agents,
        {
            "lines": ('["a.txt","two"]', "['a.txt', 'two']"),
            "read": (None, "the text of a.txt"),
            "refuse": (None, "An error occurred"),
            "wait": (None, "timed out after"),
            "explain": (None, "It failed: not yours"),
        },
    ),
    "mcp": (
        use_mcp_session,
        {"issues.create": ('{"id":7,"title":"A bug"}', '"title": "A bug"'), "issues.fail": ("fail", "fail")},
    ),
}
HTTP_CLIENT = """
import asyncio, json, sys
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
async def main():
    address, token = sys.argv[1:]
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
    async with Client(streamable_http_client(address, http_client=http)) as client:
        tools = await client.list_tools()
        found = await client.call_tool("search_calls", {"q": "tool:search"})
        (call,) = found.structured_content["items"]
        halves = await client.call_tool("call_halves", {"call": call["call"]})
        parsed = await client.call_tool("search_calls", {"q": "agent:openai-agents tool:read"})
        read = await client.call_tool("call_halves", {"call": parsed.structured_content["items"][0]["call"]})
        parts = {name: halves.structured_content[name]["text"] for name in ("canonical", "receipt")}
        print(json.dumps([len(tools.tools), parts, read.content[0].text]))
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[RunningServer]:
    """With a run of each library."""
    folder = tmp_path_factory.mktemp("agents")
    store = migrated_store(folder / "store")
    for scope in ("ingest", "read", "mcp"):
        tokens[scope] = json.loads(manage(store, "create_token", scope, "--scope", scope, "--json").stdout)["token"]
    with running_server(store, sign_in(store), folder / "log") as running:
        for name, (use, _) in AGENTS.items():
            recorder = LiveRecorder(folder / name, f"http://127.0.0.1:{running.port}", tokens["ingest"])
            with recorder.run(name, agent=name) as run:
                use(run)
            assert recorder.close(60)
            assert not (folder / name / REJECTED).exists()
        assert wait_until(lambda: not rows(store, "SELECT 1 FROM dashboard_call WHERE derivation = '' LIMIT 1"))
        yield running


@pytest.mark.parametrize("name", AGENTS)
def test_both_halves_of_each_call_are_read_back(name: str, server: RunningServer, tokens: dict[str, str]) -> None:

    def get(address: str) -> Any:
        answer = server.request("GET", address, headers=bearer(tokens["read"]))
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    calls = {call["tool"]: call["call"] for call in get(f"/api/v1/calls?q=agent:{name}")["items"]}
    _, expected = AGENTS[name]
    assert set(calls) == set(expected)
    for tool, words in expected.items():
        halves = get(f"/api/v1/calls/{calls[tool]}/halves")
        for half, text in zip(("canonical", "receipt"), words, strict=True):
            is_parsed = half == "canonical" and halves["call"]["result_fidelity"] == "parsed_from_receipt"
            shown = halves[half]["text"] if halves[half] is not None and not is_parsed else None
            assert shown is None if text is None else text in (shown or ""), (tool, half, shown)


def test_tools_that_raised_or_took_too_long_have_failed(server: RunningServer, tokens: dict[str, str]) -> None:
    answer = server.request("GET", "/api/v1/calls?q=-outcome:succeeded", headers=bearer(tokens["read"]))
    outcomes = {(call["tool"], call["outcome"]) for call in json.loads(answer.body)["items"]}
    failed = {(tool, "failed") for tool in ("shout", "fail", "flaky", "refuse", "issues.fail")}
    assert outcomes == failed | {("wait", "timed_out")}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_client_of_mcp_reads_them_over_http(server: RunningServer, tokens: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", HTTP_CLIENT, f"http://127.0.0.1:{server.port}/mcp", tokens["mcp"]]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), timeout=300)
    tools, halves, read = json.loads(done.stdout or '[0, {}, ""]')
    assert tools == 6, done.stderr
    assert '{"hits":[1,2,3]}' in halves["canonical"]
    assert halves["receipt"] == "3 hits for x"
    assert "No result was recorded: canonical is what the receipt states" in read
