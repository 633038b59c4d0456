"""SpawnAgent, AgentGet and Enqueue: child agents that really run, their tasks, and messages for later turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes import Limits, MemorySink, ModelMessage, RunPolicy, Sandbox, Tool, ToolFailed, ToolRequest, builtin
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.schema import read_plan
from envelopes.plan.tool_loop import ToolLoop, TurnBudget
from envelopes.plan.workers import CallContext
from envelopes.runtime.agents import MOST_CHILDREN, AgentPlaneTools
from envelopes.runtime.children import ChildAgent, run_loop, run_plan
from envelopes.runtime.tasks import TaskTable, TaskTools
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
from tests.envelopes.built_in import output, receipt_text
from tests.envelopes.runtime.calls import CALL, run_tool
from tests.envelopes.runtime.test_workspaces import git

POLICY = RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=False), limits=Limits())
SOON = 60_000


class Family:
    """A parent with its tasks; children run `program`."""

    def __init__(self, folder: Path, program: Callable[[ChildAgent], str] | None, **settings: Any) -> None:
        self.tasks = TaskTable()
        self.agents = AgentPlaneTools(folder / "agents.db", self.tasks, program=program, **settings)

    def call(self, name: str, **arguments: Any) -> Any:
        tools = (*self.agents.tools(), *TaskTools(self.tasks).tools())
        return run_tool(tools, name, arguments)

    def report(self, task_id: str) -> Any:
        return self.call("TaskOutput", task_id=task_id, timeout_ms=SOON)


def wait_for_stop(child: ChildAgent) -> str:
    stopped = threading.Event()
    child.stop_with(stopped.set)
    stopped.wait(60)
    return "stopped"


@pytest.fixture
def search() -> Tool:
    family, definition = builtin("WebSearch")

    def run(call: Any, _context: Any) -> dict[str, Any]:
        return {"query": call.query, "provider": "own", "fetched_at": "2026-01-05T10:00:00Z"}

    return Tool(definition, run, family)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Family]:
    """A parent whose children run until they are stopped."""
    family = Family(tmp_path, wait_for_stop)
    yield family
    family.agents.close()


def test_a_child_runs_a_script_in_a_turn_loop_of_its_own(tmp_path: Path, search: Tool) -> None:
    recorder = MemoryRecorder()

    def program(child: ChildAgent) -> str:
        def model(answers: list[Any]) -> ModelMessage:
            if not answers:
                return ModelMessage("I search.", (ToolRequest("t1", "WebSearch", {"query": child.initial_message}),))
            return ModelMessage(f"{child.agent_id} found {answers[0].settlement.end}")

        return run_loop(child, ToolLoop([search], MemorySink(), recorder, title=child.initial_message), model)

    parent = Family(tmp_path, program)
    spawned = parent.call("SpawnAgent", initial_message="Find every use of the old registry")
    assert (spawned.agent_id, spawned.task_handle.task_id) == ("agent_main.1", "task_1")
    assert spawned.child_supervision.followup_target == "task_1"
    read = parent.report("task_1")
    assert (read.retrieval_status, read.status, read.output) == ("success", "completed", "agent_main.1 found ok")
    assert [call.args for call in recorder.calls] == [{"query": "Find every use of the old registry"}]
    assert (recorder.header.title, recorder.header.end) == ("Find every use of the old registry", "finished")


def test_a_child_runs_a_plan_of_its_own(tmp_path: Path, search: Tool) -> None:
    def program(child: ChildAgent) -> str:
        steps = [{"id": "look", "tool": child.initial_message, "args": {"query": "x"}}]
        plan = read_plan({"version": "1.0", "goal": "g", "riskLevel": "read-only", "steps": steps})
        return run_plan(child, Executor([search], POLICY), plan)

    parent = Family(tmp_path, program)
    parent.call("SpawnAgent", initial_message="WebSearch")
    parent.call("SpawnAgent", initial_message="Nothing")
    assert parent.report("task_1").output == "look: ok, 0 results for x"
    failed = parent.report("task_2")
    assert (failed.status, failed.failure_artifact.kind, failed.output) == ("failed", "child_failed", "")


def test_a_plan_that_fails_and_a_turn_without_an_answer_are_failed_children(tmp_path: Path) -> None:
    family, definition = builtin("WebSearch")

    def refuse(_call: Any, _context: Any) -> Any:
        raise ToolFailed("provider_unavailable", "no provider")

    tool = Tool(definition, refuse, family)

    def program(child: ChildAgent) -> str:
        if child.initial_message == "plan":
            steps = [{"id": "look", "tool": "WebSearch", "args": {"query": "x"}}]
            plan = read_plan({"version": "1.0", "goal": "g", "riskLevel": "read-only", "steps": steps})
            return run_plan(child, Executor([tool], POLICY), plan)
        loop = ToolLoop([tool], MemorySink(), budget=TurnBudget(most_rounds=2))
        return run_loop(child, loop, lambda _answers: [ToolRequest("t", "WebSearch", {"query": "x"})])

    parent = Family(tmp_path, program)
    for message in ("plan", "turn"):
        parent.call("SpawnAgent", initial_message=message)
    summaries = [parent.report(task_id).failure_artifact.summary for task_id in ("task_1", "task_2")]
    assert summaries == [
        "the plan of agent_main.1 did not succeed (finished)\nlook: error",
        "the turn of agent_main.2 ended without an answer: rounds",
    ]


def test_a_child_that_waits_has_failed_since_nothing_can_wake_it(tmp_path: Path) -> None:
    """TOOLS-017: a wait yields, and a program of one turn has no turn to yield to."""

    def program(child: ChildAgent) -> str:
        tools = WorkItemTools(tmp_path, tmp_path / "items.db").tools()
        wait = ToolRequest("t", "WaitFor", {"reason": "a decision", "wake": "operator_input"})
        loop = ToolLoop(tools, MemorySink())
        return run_loop(child, loop, lambda _answers: ModelMessage("I ask first.", (wait,)))

    parent = Family(tmp_path, program)
    parent.call("SpawnAgent", initial_message="ask")
    read = parent.report("task_1")
    assert (read.status, read.output) == ("failed", "")
    assert read.failure_artifact.summary == (
        "agent_main.1 waits, and its program ends with its turn: nothing can wake it; give it no tool that ends a "
        "turn, such as WaitFor. It wrote last: I ask first."
    )


def test_a_child_gets_what_its_parent_sends(tmp_path: Path) -> None:
    parent = Family(tmp_path, lambda child: f"got {child.receive(60)} and {child.receive()}")
    parent.call("SpawnAgent", initial_message="listen")
    offered = parent.call("TaskInput", task_id="task_1", input="more")
    assert (offered.accepted_input, offered.input_target, offered.bytes_written) == (True, "child", 4)
    assert parent.report("task_1").output == "got more and None"
    refused = parent.call("TaskInput", task_id="task_1", input="late")
    assert (refused.accepted_input, refused.refusal) == (False, "the child has ended")


def test_a_child_is_listed_stopped_and_read(waiting: Family) -> None:
    waiting.call("SpawnAgent", initial_message="wait")
    (listed,) = waiting.call("TaskList").tasks
    assert (listed.id, listed.kind, listed.summary) == ("task_1", "child_agent_task", "wait")
    (child,) = waiting.call("AgentGet").agent.active_children
    assert (child.agent_id, child.status, child.task_id) == ("agent_main.1", "running", "task_1")
    reading = waiting.call("TaskOutput", task_id="task_1", block=False)
    assert (reading.retrieval_status, reading.output) == ("not_ready", "")
    waiting.call("TaskStop", task_id="task_1")
    read = waiting.report("task_1")
    assert (read.status, read.output) == ("cancelled", "stopped")
    assert waiting.call("TaskStatus", task_id="task_1").task.child_agent_id == "agent_main.1"
    assert waiting.call("AgentGet").agent.active_children == ()
    with pytest.raises(ToolFailed, match="cannot be stopped"):
        waiting.call("TaskStop", task_id="task_1")


def test_a_cancelled_wait_leaves_the_child_at_work(waiting: Family) -> None:
    waiting.call("SpawnAgent", initial_message="wait")
    context = CallContext(call=CALL, report=lambda _report: None)
    context.stop.set()
    with pytest.raises(ToolFailed, match="cancelled; task_1 goes on"):
        waiting.tasks.get("task_1").wait_during(60, context)
    assert waiting.call("TaskStatus", task_id="task_1").task.status == "running"


def test_a_child_that_ignores_its_end_is_left(tmp_path: Path) -> None:
    released = threading.Event()
    parent = Family(tmp_path, lambda _child: str(released.wait(60)))
    parent.call("SpawnAgent", initial_message="hang")
    assert parent.call("TaskStop", task_id="task_1").task.status == "cancelling"
    forced = parent.call("TaskStop", task_id="task_1")
    assert (forced.task.status, forced.force_stop_requested) == ("cancelled", True)
    released.set()


def test_a_stop_before_the_program_names_its_end_is_not_lost() -> None:
    child = ChildAgent("c", "p", "m", Path())
    child.stop()
    ended: list[str] = []
    child.stop_with(lambda: ended.append("ended"))
    assert (ended, child.is_stopped) == (["ended"], True)


def test_a_cancelled_loop_reports_what_it_has(search: Tool) -> None:
    child = ChildAgent("c", "p", "m", Path())
    loop = ToolLoop([search], MemorySink())

    def model(_answers: list[Any]) -> ModelMessage:
        child.stop()
        return ModelMessage("half", (ToolRequest("t", "WebSearch", {"query": "x"}),))

    assert run_loop(child, loop, model) == "half"


@pytest.mark.parametrize(("program", "cleanup", "stays"), [("touch", "kept", True), ("look", "removed", False)])
def test_a_child_works_in_a_worktree_which_stays_if_it_was_changed(
    tmp_path: Path, repository: Path, program: str, cleanup: str, *, stays: bool
) -> None:
    workspaces = Workspaces({"repository": repository}, folder=tmp_path / "worktrees")

    def run(child: ChildAgent) -> str:
        if program == "touch":
            (child.root / "new.txt").write_text("x")
        return str(child.root)

    parent = Family(tmp_path, run, workspaces=workspaces)
    spawned = parent.call("SpawnAgent", initial_message="try", workspace_mode="worktree")
    assert spawned.child_supervision.workspace_mode == "worktree"
    read = parent.report("task_1")
    assert read.output == spawned.child_supervision.worktree.path != str(repository)
    assert (read.child_supervision.cleanup_status or "").startswith(cleanup)
    text = receipt_text(output("TaskOutput", read))
    assert f"Worktree: {read.output}\nBranch: isolated/agent-main-1\nWorktree was: {cleanup}" in text
    assert Path(read.output).is_dir() is stays
    assert list(repository.iterdir()) == [repository / ".git"]
    workspaces.close()


def test_a_named_agent_is_created_idle_with_its_first_message(tmp_path: Path) -> None:
    parent = Family(tmp_path, None, templates=("reviewer", "tester"))
    spawned = parent.call(
        "SpawnAgent", preset="public_named", agent_id="rev-1", initial_message="Look", template="reviewer"
    )
    assert (spawned.agent_id, spawned.task_handle) == ("rev-1", None)
    again = Family(tmp_path, None).agents  # another process finds it
    assert again.named_agents() == ("rev-1",)
    first = again.take_follow_up("rev-1")
    assert first is not None
    assert (first.text, again.take_follow_up("rev-1")) == ("Look", None)
    for agent_id in ("rev-1", "agent_main"):
        with pytest.raises(ToolFailed, match="already"):
            parent.call("SpawnAgent", preset="public_named", agent_id=agent_id)
    assert again.named_agents() == ("rev-1",)
    parent.call("SpawnAgent", preset="public_named", agent_id="rev-2")
    assert (again.named_agents(), again.take_follow_up("rev-2")) == (("rev-1", "rev-2"), None)


def test_follow_ups_come_by_priority_and_then_by_age(tmp_path: Path) -> None:
    agents = Family(tmp_path, None)
    for text, priority in (("a", None), ("b", "background"), ("c", "interrupt"), ("d", "next"), ("e", "normal")):
        assert agents.call("Enqueue", text=text, priority=priority).text == text
    assert agents.call("AgentGet").agent.counts == {"queued_follow_ups": 5}
    taken = [Family(tmp_path, None).agents.take_follow_up() for _ in range(6)]
    assert [(message.priority, message.text) if message else None for message in taken] == [
        ("interject", "c"),
        ("next", "a"),
        ("next", "d"),
        ("normal", "e"),
        ("background", "b"),
        None,
    ]


@pytest.mark.parametrize(
    ("settings", "arguments", "kind"),
    [
        ({"profile": "private_child"}, {"initial_message": "x"}, "unsupported_agent_profile_capability"),
        ({}, {"initial_message": "x"}, "unsupported_runtime_capability"),
        ({"templates": ("tester",)}, {"initial_message": "x", "template": "testr"}, "invalid_tool_input"),
        ({"program": wait_for_stop}, {"initial_message": "x", "workspace_mode": "worktree"}, None),
    ],
)
def test_a_child_that_cannot_be_spawned_is_refused(
    tmp_path: Path, settings: dict[str, Any], arguments: dict[str, Any], kind: str | None
) -> None:
    agents = AgentPlaneTools(tmp_path / "agents.db", tasks := TaskTable(), **settings)
    with pytest.raises(ToolFailed) as refused:
        run_tool(agents.tools(), "SpawnAgent", arguments)
    assert refused.value.kind == (kind or "unsupported_runtime_capability")
    assert not tasks.active()


def test_too_many_children_are_refused_until_one_ends(waiting: Family) -> None:
    for _ in range(MOST_CHILDREN):
        waiting.call("SpawnAgent", initial_message="wait")
    with pytest.raises(ToolFailed) as refused:
        waiting.call("SpawnAgent", initial_message="one more")
    assert refused.value.to_error().retryable
    waiting.call("TaskStop", task_id="task_3")
    waiting.report("task_3")
    assert waiting.call("SpawnAgent", initial_message="one more").agent_id == f"agent_main.{MOST_CHILDREN + 1}"


def test_the_agent_reads_how_it_stands(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    items = WorkItemTools(home, tmp_path / "work.db")
    run_tool(items.tools(), "WaitFor", {"reason": "Which name?", "wake": "operator_input"})
    run_tool(items.tools(), "CreateWorkItem", {"objective": "Ship"})
    run_tool(items.tools(), "PickWorkItem", {"work_item_id": "wi_1"})
    run_tool(items.tools(), "WaitFor", {"reason": "tests", "wake": "task_result", "resource": "task_1"})
    parent = Family(tmp_path, None, workspaces=Workspaces({"home": home}), work_items=items, model="m-1")
    agent = parent.call("AgentGet").agent
    assert (agent.identity.agent_id, agent.model, agent.current_work_item_id) == ("agent_main", "m-1", "wi_1")
    assert (agent.workspace.workspace_id, agent.execution.cwd) == ("home", str(home))
    waits = [(wait.kind, wait.work_item_id, wait.subject_ref) for wait in agent.wait_conditions]
    assert waits == [("operator", None, None), ("task", "wi_1", "task_1")]
    items.close()
