"""Each library's own objects, with a scripted model in place of a provider, give both halves of each call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes.recorder import LiveRecorder, LiveRun
from tests.envelopes.recorder.scripted_agents import (
    use_langchain,
    use_mcp_session,
    use_openai_agents,
    use_pydantic_ai,
)

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
    use_langchain(recorded.run)
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
    use_pydantic_ai(recorded.run)
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


@pytest.mark.parametrize("is_traced", [False, True])
def test_openai_agents_records_calls_how_they_ended_and_usage(recorded: Recorded, *, is_traced: bool) -> None:
    use_openai_agents(recorded.run, is_traced=is_traced)
    assert recorded.halves() == {
        "lines": (["a.txt", "two"], "['a.txt', 'two']"),
        "read": (None, "the text of a.txt"),
        "refuse": (None, "An error occurred while running the tool. Please try again."),
        "wait": (None, "Tool 'wait' timed out after 0.01 seconds."),
        "explain": (None, "It failed: not yours"),
    }
    ends = {record["call"]: (record.get("is_error"), record.get("status")) for record in recorded.records("result")}
    assert ends == {
        "call_1": (None, None),
        "call_2": (None, None),
        "call_3": (True, "error"),
        "call_4": (True, "timeout"),
        "call_5": (True, "error") if is_traced else (None, None),  # nothing else tells that it raised
    }
    fidelities = {record["call"]: record["fidelity"] for record in recorded.records("receipt")}
    assert fidelities == {"call_1": "reconstructed"} | dict.fromkeys(
        ("call_2", "call_3", "call_4", "call_5"), "recorded"
    )
    assert {record["call"]: record["args"] for record in recorded.records("call")}["call_1"] == {"path": "a.txt"}
    assert [record["input_tokens"] for record in recorded.records("usage")] == [120, 120, 120]


def test_an_mcp_session_records_the_whole_answer_and_what_was_meant_for_the_model(recorded: Recorded) -> None:
    use_mcp_session(recorded.run)
    halves = recorded.halves()
    result, receipt = halves["issues.create"]
    assert result["structuredContent"] == {"id": 7, "title": "A bug"}
    assert json.loads(receipt) == {"id": 7, "title": "A bug"}
    assert receipt == result["content"][0]["text"]
    result, receipt = halves["issues.fail"]
    assert (result["isError"], "fail" in receipt) == (True, True)
    assert [record["is_error"] for record in recorded.records("result")] == [False, True]
