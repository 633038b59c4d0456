"""The memory: words find it, handles read it, and each workspace has its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envelopes import FileStore
from envelopes.families.work_item.tools import CompleteWorkItemInput
from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.memory import MemoryTools, task_sources, work_item_sources
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
from tests.envelopes.runtime.calls import CONTEXT, run_tool


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


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("记录", ["brief:zh"]),
        ("会议记录在哪里", ["brief:zh"]),
        ("会", ["agent_memory:zh", "brief:zh"]),
        ("failing 记录", ["episode:e1", "brief:zh"]),
        ("議事録", ["brief:ja"]),
        ("ประชุม", ["brief:th"]),
        ("회의", ["brief:ko"]),
        ("没有", []),
    ],
)
def test_words_of_scripts_without_blanks_are_found_inside_a_sentence(
    memory: MemoryTools, query: str, found: list[str]
) -> None:
    memory.remember("brief:zh", "五月", "会议记录已完成")
    memory.remember("agent_memory:zh", "会计", "每月", is_of_agent=True)
    memory.remember("brief:ja", "五月", "昨日の議事録を書いた")
    memory.remember("brief:th", "May", "บันทึกการประชุมเสร็จแล้ว")
    memory.remember("brief:ko", "May", "회의록을 썼다")
    assert refs(call(memory, "MemorySearch", query=query)) == found


def test_the_snippet_of_a_long_sentence_begins_before_the_words(memory: MemoryTools) -> None:
    memory.remember("brief:zh", "五月", "甲" * 3_000 + "会议记录" + "乙" * 3_000)
    (hit,) = call(memory, "MemorySearch", query="记录").results
    assert hit.snippet.startswith("… " + "甲" * 38 + "会议记录")


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


def test_work_items_their_reports_and_ended_tasks_are_found_and_follow_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    workspaces = Workspaces({"ledger": tmp_path})
    items = WorkItemTools(tmp_path, tmp_path / "work.db", workspace_id="ledger")
    commands = CommandTools(workspaces, tmp_path / "running", FileStore(tmp_path / "artifacts"))
    sources = (partial(work_item_sources, items), partial(task_sources, commands.tasks, "r/1"))
    memory = MemoryTools(tmp_path / "memory.db", workspaces=workspaces, sources=sources)
    tools = (*workspaces.tools(), *items.tools(), *commands.tools(), *memory.tools())
    todos = [{"text": "Sum the columns", "state": "pending"}]
    run_tool(tools, "CreateWorkItem", {"objective": "Close May", "plan": "Ask the bank", "todo_list": todos})
    for cmd in ("sleep 0.2; echo balance; exit 3", "sleep 0.2; yes rate | head -c 300000"):
        run_tool(tools, "ExecCommand", {"cmd": cmd, "yield_time_ms": 0, "login": False})
    assert refs(call(memory, "MemorySearch", query="balance")) == [], "the task still runs"
    for task in commands.tasks.active():
        assert task.wait(30)
    for query in ("May", "bank", "columns"):
        assert refs(call(memory, "MemorySearch", query=query)) == ["work_item:wi_1"]
    run_tool(tools, "UpdateWorkItem", {"work_item_id": "wi_1", "todo_list": []})
    assert refs(call(memory, "MemorySearch", query="columns")) == []
    items.complete(CompleteWorkItemInput(work_item_id="wi_1"), replace(CONTEXT, assistant_text="All totals are right."))
    assert refs(call(memory, "MemorySearch", query="totals")) == ["brief:wi_1"]
    assert call(memory, "MemoryGet", source_ref="work_item:wi_1").memory.metadata["state"] == "completed"
    (hit,) = call(memory, "MemorySearch", query="balance").results
    assert (hit.source_ref, hit.metadata["status"]) == ("task:r-1.task_1", "failed")
    read = call(memory, "MemoryGet", source_ref=hit.source_ref).memory
    assert read.content == "failed, exit status 3\n\nbalance\n"
    long = call(memory, "MemoryGet", source_ref="task:r-1.task_2", max_chars=50_000).memory
    assert long.content.endswith("\n… 300,000 bytes of output in all")
    assert not long.truncated
    run_tool(tools, "UseWorkspace", {"path": "notes"})
    assert refs(call(memory, "MemorySearch", query="totals")) == []
    assert refs(call(memory, "MemorySearch", query="totals", include_all_workspaces=True)) == ["brief:wi_1"]
    for group in (commands, items, memory):
        group.close()


@given(st.text(min_size=1).filter(lambda text: bool(text.strip())))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_can_be_searched(memory: MemoryTools, query: str) -> None:
    assert call(memory, "MemorySearch", query=query).results is not None
