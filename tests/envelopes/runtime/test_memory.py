"""The memory: words find it, handles read it, and each workspace has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.memory import MemoryTools
from tests.envelopes.runtime.calls import run_tool


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryTools]:
    memory = MemoryTools(tmp_path / "memory.db", now=lambda: 1_700_000_000.0)
    memory.remember("brief:b1", "Why receipts are text", "Models read text. A receipt is text with its sources.")
    memory.remember("episode:e1", "Release 0.2", "The receipt of a failing test was cut.", metadata={"run": "r1"})
    memory.remember("agent_memory:name", "Names", "Call it a receipt, never a response.", is_of_agent=True)
    yield memory
    memory.close()


def call(memory: MemoryTools, name: str, **arguments: Any) -> Any:
    return run_tool(memory.tools(), name, arguments)


def refs(found: Any) -> list[str]:
    return [result.source_ref for result in found.results]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("receipts", ["brief:b1"]),
        ("RECEIPT sources", ["brief:b1", "agent_memory:name", "episode:e1"]),
        ("failing", ["episode:e1"]),
        ("nothing here like it", ["agent_memory:name"]),
        ("unheard", []),
        ('"receipts" OR NOT (', ["brief:b1"]),
        ("***", []),
    ],
)
def test_words_find_memories_best_first(memory: MemoryTools, query: str, found: list[str]) -> None:
    assert refs(call(memory, "MemorySearch", query=query)) == found


def test_a_result_has_a_snippet_and_leads_to_the_whole(memory: MemoryTools) -> None:
    (hit,) = call(memory, "MemorySearch", query="failing").results
    assert (hit.kind, hit.scope_kind, hit.workspace_id, hit.metadata) == (
        "episode",
        "workspace",
        "workspace",
        {"run": "r1"},
    )
    assert hit.snippet == "The receipt of a failing test was cut."
    assert hit.score > 0
    whole = call(memory, "MemoryGet", source_ref=hit.source_ref).memory
    assert (whole.content, whole.truncated) == ("The receipt of a failing test was cut.", False)
    part = call(memory, "MemoryGet", source_ref=hit.source_ref, max_chars=11).memory
    assert (part.content, part.truncated) == ("The receipt", True)


def test_a_memory_that_is_stored_again_replaces_the_old_one(memory: MemoryTools) -> None:
    memory.remember("episode:e1", "Release 0.2", "The receipt was whole.")
    assert refs(call(memory, "MemorySearch", query="failing")) == []
    assert refs(call(memory, "MemorySearch", query="whole")) == ["episode:e1"]


def test_another_workspace_has_its_own_and_the_agent_s(memory: MemoryTools, tmp_path: Path) -> None:
    other = MemoryTools(tmp_path / "memory.db", workspace_id="other")
    assert refs(call(other, "MemorySearch", query="receipt")) == ["agent_memory:name"]
    assert len(refs(call(other, "MemorySearch", query="receipt", include_all_workspaces=True))) == 3
    assert refs(call(other, "MemorySearch", query="receipt", include_all_workspaces=True, limit=1)) == [
        "agent_memory:name"
    ]
    other.close()


def test_an_unknown_handle_is_an_error(memory: MemoryTools) -> None:
    with pytest.raises(ToolFailed, match="there is no memory brief:b9") as failure:
        call(memory, "MemoryGet", source_ref="brief:b9")
    assert failure.value.kind == "memory_source_not_found"
    with pytest.raises(ValueError, match="is no handle of a memory"):
        memory.remember("notes/b1", "x", "y")


@given(st.text(min_size=1).filter(lambda text: bool(text.strip())))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_can_be_searched(memory: MemoryTools, query: str) -> None:
    assert call(memory, "MemorySearch", query=query).results is not None
