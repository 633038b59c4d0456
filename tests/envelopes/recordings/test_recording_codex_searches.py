"""Searches that the provider of Codex runs: calls without output, some of them without an id."""

from __future__ import annotations

import json
from typing import Any

from envelopes.recordings.base import ResultRecord
from tests.envelopes.recordings.test_recording_codex import event, item, rollout
from tests.envelopes.session_lines import only


def test_a_search_of_the_provider_is_a_call_without_output() -> None:
    action = {"type": "search", "query": "django 6"}
    sample = rollout(
        event("web_search_end", call_id="ws_1", query="django 6", action=action),
        item("web_search_call", status="completed", action=action),
        item("web_search_call", status="failed", action=action),
    )
    assert [(call.call, call.tool, json.loads(call.args)) for call in sample.calls] == [
        ("ws_1", "web_search", action),
        (sample.calls[1].call, "web_search", action),
    ]
    assert sample.calls[1].call.startswith("web_search-")
    results = [(result.result, result.fidelity, result.is_error) for result in only(ResultRecord, sample.records)]
    assert results == [(None, "absent", False), (None, "absent", True)]
    assert not sample.receipts


def test_a_search_without_an_id_is_the_same_call_wherever_its_line_is() -> None:
    """By its turn, its action, and its place among those alike."""

    def names(*payloads: tuple[str, dict[str, Any]]) -> list[str]:
        return [call.call for call in rollout(*payloads).calls]

    def turn(name: str) -> tuple[str, dict[str, Any]]:
        return "turn_context", {"turn_id": name}

    one, other = (item("web_search_call", action={"type": "search", "query": query}) for query in ("a", "b"))
    first, again, second, of_another_turn = names(turn("1"), one, one, other, turn("2"), one)
    assert len({first, again, second, of_another_turn}) == 4
    assert names(item("reasoning"), turn("0"), other, turn("1"), other, item("reasoning"), one)[1:] == [second, first]
    assert names(turn("2"), one) == [of_another_turn]
