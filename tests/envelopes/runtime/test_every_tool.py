"""One agent with every built-in tool: each does in its world what its definition promises (TOOLS-051)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes import FileStore, ToolLoop, ToolRequest, tools
from envelopes.plan.tool_loop import AnsweredRequest
from envelopes.runtime.agents import AgentPlaneTools
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.memory import MemoryTools
from envelopes.runtime.web import WebTools
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
from tests.envelopes.runtime.test_web import LOCAL, Engine, server

__all__ = ["server"]  # a fixture
PATCH = "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+one\n"


class Agent:
    """The world of one agent, and the answers that it got."""

    def __init__(self, folder: Path) -> None:
        self.root, self.library = folder / "work", folder / "library"
        for place in (self.root, self.library):
            place.mkdir()
        store = FileStore(folder / "artifacts")
        workspaces = Workspaces({"work": self.root, "library": self.library})
        self.commands = CommandTools(workspaces, folder / "running", store)
        self.items = WorkItemTools(self.root, folder / "items.db")
        self.memory = MemoryTools(folder / "memory.db")
        self.agents = AgentPlaneTools(
            folder / "agents.db",
            self.commands.tasks,
            program=lambda child: f"read: {child.initial_message}",
            workspaces=workspaces,
            work_items=self.items,
        )
        groups = (
            *(self.commands, FileTools(workspaces, store.open), workspaces, self.items, self.memory),
            *(WebTools(LOCAL, [Engine("own", hits=1)]), self.agents),
        )
        self.loop = ToolLoop([tool for group in groups for tool in group.tools()], store)
        self.state = self.loop.begin_turn()
        self.used: set[str] = set()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The canonical result of a call that succeeds."""
        answer: AnsweredRequest = self.loop.answer(ToolRequest("toolu_1", tool, arguments), self.state, "All done.")
        assert answer.settlement.end == "ok", answer.receipt.text
        assert answer.receipt.text
        self.used.add(tool)
        assert isinstance(answer.canonical.result, dict)
        return answer.canonical.result

    def close(self) -> None:
        self.loop.close()
        self.commands.close()
        self.items.close()
        self.memory.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    yield agent
    agent.close()


def test_every_tool_does_what_its_definition_promises(agent: Agent, server: str) -> None:
    files_and_commands(agent)
    tasks(agent)
    work_items(agent)
    agents_memory_and_web(agent, server)
    assert agent.used == set(tools())


def files_and_commands(agent: Agent) -> None:
    agent.call("ApplyPatch", patch=PATCH)
    assert (agent.root / "notes.txt").read_text() == "one\n"
    ran = agent.call("ExecCommand", cmd="cat notes.txt; seq 1 20000", login=False)
    assert (ran["exit_status"], ran["stdout_preview"][:4]) == (0, "one\n")
    path = agent.loop.artifacts.write("stdout", "first\nsecond\n").path
    assert agent.call("ReadArtifact", path=path, line=2)["text"] == "second\n"
    items = [{"cmd": "false", "login": False}, {"cmd": "touch made", "login": False}]
    batch = agent.call("ExecCommandBatch", items=items)
    assert (batch["failed_count"], batch["completed_count"], (agent.root / "made").exists()) == (1, 1, True)
    agent.call("UseWorkspace", workspace_id="library")
    agent.call("ExecCommand", cmd="touch here", login=False)
    assert (agent.library / "here").exists()
    agent.call("UseWorkspace", workspace_id="work")


def tasks(agent: Agent) -> None:
    started = agent.call(
        "ExecCommand", cmd="read line; echo got:$line; read rest", accepts_input=True, yield_time_ms=1, login=False
    )
    task_id = started["task_handle"]["task_id"]
    assert [task["id"] for task in agent.call("TaskList")["tasks"]] == [task_id]
    assert agent.call("TaskInput", task_id=task_id, input="hello\n")["accepted_input"]
    assert agent.call("TaskStatus", task_id=task_id)["task"]["status"] == "running"
    assert agent.call("TaskStop", task_id=task_id)["stop_requested"]
    ended = agent.call("TaskOutput", task_id=task_id, timeout_ms=60_000)
    assert (ended["retrieval_status"], ended["task"]["status"]) == ("success", "cancelled")
    assert agent.call("TaskList")["tasks"] == []


def work_items(agent: Agent) -> None:
    created = agent.call("CreateWorkItem", objective="Ship", plan="# Plan")["work_item"]
    item = created["id"]
    assert (agent.root / created["plan_artifact"]["path"]).read_text() == "# Plan\n"
    agent.call("UpdateWorkItem", work_item_id=item, todo_list=[{"text": "test", "state": "pending"}])
    assert agent.call("GetWorkItem", work_item_id=item, include_todo_list=True)["work_item"]["todo_list"] == [
        {"text": "test", "state": "pending"}
    ]
    assert agent.call("PickWorkItem", work_item_id=item)["current_work_item_id"] == item
    agent.call("WaitFor", reason="the tests", wake="external", resource="ci")
    agent.state = agent.loop.begin_turn()
    assert [view["id"] for view in agent.call("ListWorkItems", filter="current")["work_items"]] == [item]
    assert agent.call("AgentGet")["agent"]["current_work_item_id"] == item
    completed = agent.call("CompleteWorkItem", work_item_id=item)["work_item"]
    assert (completed["state"], completed["completion_report"]["text"]) == ("completed", "All done.")


def agents_memory_and_web(agent: Agent, server: str) -> None:
    task_id = agent.call("SpawnAgent", initial_message="the log")["task_handle"]["task_id"]
    read = agent.call("TaskOutput", task_id=task_id, timeout_ms=60_000)
    assert read["task"]["output_preview"] == "read: the log"
    agent.call("Enqueue", text="look again")
    message = agent.agents.take_follow_up()
    assert message is not None
    assert message.text == "look again"
    agent.memory.remember("brief:b1", "Totals", "They are right.")
    found = agent.call("MemorySearch", query="totals")["results"]
    assert agent.call("MemoryGet", source_ref=found[0]["source_ref"])["memory"]["content"] == "They are right."
    assert "One two" in agent.call("WebFetch", url=f"{server}/page")["text"]
    assert len(agent.call("WebSearch", query="receipts")["results"]) == 1
