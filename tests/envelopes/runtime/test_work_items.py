"""Work items over SQLite: what each tool stores, what waits change, and that a second process finds it all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes import MemorySink, ModelMessage, Sandbox, ToolLoop, ToolRequest
from envelopes.families.work_item.results import WorkItemView
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.work_items import WorkItemTools
from tests.envelopes.plan.simulation import make_plan, make_policy, step
from tests.envelopes.runtime.calls import run_tool


def open_items(folder: Path) -> WorkItemTools:
    seconds = itertools.count(1_700_000_000)
    return WorkItemTools(folder, folder / "work.db", now=lambda: float(next(seconds)))


@pytest.fixture
def items(tmp_path: Path) -> Iterator[WorkItemTools]:
    items = open_items(tmp_path)
    yield items
    items.close()


def call(items: WorkItemTools, name: str, **arguments: Any) -> Any:
    return run_tool(items.tools(), name, arguments)


def ids(page: Any) -> list[str]:
    return [view.id for view in page.work_items]


def test_a_plan_is_a_file_that_others_change(items: WorkItemTools, tmp_path: Path) -> None:
    created: WorkItemView = call(
        items, "CreateWorkItem", objective="Ship", plan="# Plan", plan_status="draft"
    ).work_item
    assert (created.id, created.state, created.focus, created.readiness) == ("wi_1", "open", "queued", "runnable")
    assert created.plan_artifact is not None
    path = tmp_path / created.plan_artifact.path
    assert path.read_text() == "# Plan\n"
    path.write_text("# Plan\n\n1. Test\n")
    read = call(items, "GetWorkItem", work_item_id="wi_1").work_item
    assert read.plan_artifact.text == "# Plan\n\n1. Test\n"
    assert read.todo_list is None
    path.unlink()
    assert call(items, "GetWorkItem", work_item_id="wi_1").work_item.plan_artifact is None


def test_the_file_of_a_plan_replaces_no_other_file(items: WorkItemTools, tmp_path: Path) -> None:
    (tmp_path / "work-items").mkdir()
    (tmp_path / "work-items" / "wi_1.md").write_text("mine\n")
    (tmp_path / "work-items" / "wi_1-2.md").symlink_to("/nonexistent/file")
    created = call(items, "CreateWorkItem", objective="Ship", plan="# Plan").work_item
    assert (created.plan_artifact.path, created.plan_artifact.text) == ("work-items/wi_1-3.md", "# Plan\n")
    assert (tmp_path / "work-items" / "wi_1.md").read_text() == "mine\n"


def test_a_plan_stays_in_the_workspace(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    items = open_items(workspace)
    created = call(items, "CreateWorkItem", objective="Ship", plan="# Plan").work_item
    (outside / "key").write_text("key")
    (workspace / created.plan_artifact.path).unlink()
    (workspace / created.plan_artifact.path).symlink_to(outside / "key")
    assert call(items, "GetWorkItem", work_item_id="wi_1").work_item.plan_artifact is None
    (workspace / "work-items").rename(workspace / "old")
    (workspace / "work-items").symlink_to(outside)
    with pytest.raises(ToolFailed, match="leads out of the workspace") as failure:
        call(items, "CreateWorkItem", objective="Ship", plan="# Plan")
    assert failure.value.kind == "path_escape"
    assert [path.name for path in outside.iterdir()] == ["key"]
    assert ids(call(items, "ListWorkItems")) == ["wi_1"], "an item whose plan was refused is not there"
    items.close()


@pytest.mark.parametrize(
    ("sandbox", "link", "refused"),
    [
        (Sandbox(enabled=True, allowed_roots=("/notes",)), None, "execution_root_violation"),
        (Sandbox(enabled=True, deny_patterns=("*.md",)), None, "policy_denied"),
        (Sandbox(enabled=True, deny_patterns=("secrets",)), "secrets", "policy_denied"),
        (Sandbox(enabled=True, allowed_roots=("/work-items",)), None, None),
    ],
)
def test_the_file_of_a_plan_passes_the_sandbox(
    tmp_path: Path, sandbox: Sandbox, link: str | None, refused: str | None
) -> None:
    if link is not None:
        (tmp_path / link).mkdir()
        (tmp_path / "work-items").symlink_to(link)
    items = open_items(tmp_path)
    plan = make_plan(
        step("planned", "CreateWorkItem", {"objective": "Ship", "plan": "# Plan"}, onError="skip"),
        step("plain", "CreateWorkItem", {"objective": "Ship"}),
    )
    recorder = MemoryRecorder()
    Executor(items.tools(), make_policy(sandbox=sandbox)).run(plan, recorder)
    kinds = [None if result.error is None else result.error.kind for result in recorder.results]
    assert kinds == [refused, None]
    assert len(list(tmp_path.rglob("wi_*.md"))) == (refused is None)
    items.close()


def test_an_update_sets_what_it_names_and_nothing_else(items: WorkItemTools) -> None:
    todos = [{"text": "a", "state": "pending"}]
    call(items, "CreateWorkItem", objective="Ship", todo_list=todos)
    change = call(items, "UpdateWorkItem", work_item_id="wi_1", plan_status="ready")
    assert change.changed_fields == ("plan_status",)
    assert (change.work_item.objective, change.work_item.plan_status) == ("Ship", "ready")
    assert [todo.text for todo in change.work_item.todo_list] == ["a"]
    change = call(items, "UpdateWorkItem", work_item_id="wi_1", todo_list=[], objective="Ship it")
    assert change.changed_fields == ("objective", "todo_list")
    assert (change.work_item.objective, change.work_item.todo_list) == ("Ship it", ())


def test_a_pick_moves_the_focus_and_warns_of_work_that_is_left(items: WorkItemTools) -> None:
    for objective in ("one", "two"):
        call(items, "CreateWorkItem", objective=objective)
    first = call(items, "PickWorkItem", work_item_id="wi_1")
    assert (first.transition.switch_kind, first.transition.warnings) == ("explicit_focus_pick", ())
    assert call(items, "PickWorkItem", work_item_id="wi_1").transition.switch_kind == "same_work_item"
    second = call(items, "PickWorkItem", work_item_id="wi_2")
    assert (second.previous_work_item.id, second.transition.switch_kind) == ("wi_1", "explicit_focus_override")
    assert [warning.code for warning in second.transition.warnings] == ["left_runnable_work"]
    third = call(items, "PickWorkItem", work_item_id="wi_1", reason="it is urgent")
    assert (third.transition.warnings, third.current_work_item.is_current) == ((), True)


def test_a_wait_blocks_its_item_until_it_is_resolved(items: WorkItemTools) -> None:
    agent = call(items, "WaitFor", reason="Which name?", wake="operator_input")
    assert (agent.scope, agent.work_item, agent.wait_condition.id) == ("agent", None, "wait_1")
    call(items, "CreateWorkItem", objective="one")
    call(items, "PickWorkItem", work_item_id="wi_1")
    wait = call(items, "WaitFor", reason="the tests run", wake="task_result", resource="task_7")
    assert (wait.scope, wait.work_item.readiness, wait.cancelled_wait_condition_ids) == ("work_item", "blocked", ())
    view = call(items, "GetWorkItem", work_item_id="wi_1").work_item
    assert (view.focus, view.readiness, view.blocked_by) == ("current", "blocked", "the tests run")
    replaced = call(items, "WaitFor", reason="Which name?", wake="operator_input")
    assert replaced.cancelled_wait_condition_ids == ("wait_2",)
    assert ids(call(items, "ListWorkItems", filter="waiting_for_operator")) == ["wi_1"]
    assert items.resolve_waits("task_7") == ()
    assert items.resolve_waits() == ("wait_1", "wait_3")
    assert call(items, "GetWorkItem", work_item_id="wi_1").work_item.readiness == "runnable"


def test_a_completed_item_stays_so_and_names_what_was_left(items: WorkItemTools) -> None:
    todos = [{"text": f"todo {number}", "state": "pending"} for number in range(7)]
    call(items, "CreateWorkItem", objective="one", todo_list=[*todos, {"text": "b", "state": "in_progress"}])
    call(items, "PickWorkItem", work_item_id="wi_1")
    change = call(items, "CompleteWorkItem", work_item_id="wi_1")
    (warning,) = change.warnings
    assert (change.completed_transition, warning.pending_count, warning.in_progress_count) == (True, 7, 1)
    assert len(warning.sample) == 5
    assert (change.work_item.state, change.work_item.focus, change.work_item.is_current) == (
        "completed",
        "completed",
        False,
    )
    again = call(items, "CompleteWorkItem", work_item_id="wi_1")
    assert (again.completed_transition, again.warnings) == (False, ())
    for name, more in (("UpdateWorkItem", {"objective": "x"}), ("PickWorkItem", {})):
        with pytest.raises(ToolFailed, match="work item wi_1 is completed and cannot be"):
            call(items, name, work_item_id="wi_1", **more)


def test_what_the_model_writes_beside_the_call_is_the_report_of_the_item(items: WorkItemTools) -> None:
    call(items, "CreateWorkItem", objective="one")
    rounds = [
        ModelMessage("I begin.", (ToolRequest("t1", "PickWorkItem", {"work_item_id": "wi_1"}),)),
        ModelMessage(" All totals are right. ", (ToolRequest("t2", "CompleteWorkItem", {"work_item_id": "wi_1"}),)),
        ModelMessage("Done."),
    ]
    loop = ToolLoop(items.tools(), MemorySink())
    turn = loop.run_turn(lambda _answers: rounds.pop(0))
    loop.close()
    assert (turn.end, turn.text) == ("answered", "Done.")
    report = call(items, "GetWorkItem", work_item_id="wi_1").work_item.completion_report
    assert (report.text, report.source) == ("All totals are right.", "assistant_text")


@pytest.mark.parametrize("work_item_id", ["wi_9", "wi_", "7", "wi_٣", f"wi_{'9' * 30}"])
@pytest.mark.parametrize("name", ["GetWorkItem", "PickWorkItem", "CompleteWorkItem", "UpdateWorkItem"])
def test_an_unknown_item_is_an_error(items: WorkItemTools, name: str, work_item_id: str) -> None:
    more = {"objective": "x"} if name == "UpdateWorkItem" else {}
    with pytest.raises(ToolFailed) as failure:
        call(items, name, work_item_id=work_item_id, **more)
    assert failure.value.kind == "unknown_work_item"


def test_a_list_has_the_last_changed_first_within_its_limit(items: WorkItemTools) -> None:
    for number in range(5):
        call(items, "CreateWorkItem", objective=f"item {number}", todo_list=[])
    call(items, "UpdateWorkItem", work_item_id="wi_2", plan_status="needs_input")
    call(items, "CompleteWorkItem", work_item_id="wi_4")
    call(items, "PickWorkItem", work_item_id="wi_5")
    pages = {
        name: ids(call(items, "ListWorkItems", filter=name))
        for name in ("all", "open", "completed", "current", "queued")
    }
    assert pages == {
        "all": ["wi_4", "wi_2", "wi_5", "wi_3", "wi_1"],
        "open": ["wi_2", "wi_5", "wi_3", "wi_1"],
        "completed": ["wi_4"],
        "current": ["wi_5"],
        "queued": ["wi_3", "wi_1"],
    }
    few = call(items, "ListWorkItems", limit=2, include_todo_list=True)
    assert (ids(few), few.returned, few.total_matching, few.context.current_work_item_id) == (
        ["wi_4", "wi_2"],
        2,
        5,
        "wi_5",
    )
    assert few.work_items[0].todo_list == ()


def test_a_list_goes_on_after_the_item_that_its_receipt_names(items: WorkItemTools) -> None:
    for number in range(5):
        call(items, "CreateWorkItem", objective=f"item {number}")
    call(items, "PickWorkItem", work_item_id="wi_3")
    seen: list[str] = []
    page = call(items, "ListWorkItems", limit=2)
    while ids(page):
        assert (page.skipped, page.total_matching, page.returned) == (len(seen), 5, len(ids(page)))
        seen += ids(page)
        page = call(items, "ListWorkItems", limit=2, after=seen[-1])
    assert seen == ["wi_5", "wi_4", "wi_3", "wi_2", "wi_1"]
    assert ids(call(items, "ListWorkItems", filter="queued", after="wi_4")) == ["wi_2", "wi_1"]
    with pytest.raises(ToolFailed, match="no work item has the id wi_99"):
        call(items, "ListWorkItems", after="wi_99")


@pytest.mark.parametrize(
    ("tool", "more"),
    [("CompleteWorkItem", {}), ("PickWorkItem", {}), ("UpdateWorkItem", {"plan_status": "needs_input"})],
)
def test_a_list_goes_on_after_an_item_that_was_changed_meanwhile(
    items: WorkItemTools, tool: str, more: dict[str, Any]
) -> None:
    for number in range(6):
        call(items, "CreateWorkItem", objective=f"item {number}")
    assert ids(call(items, "ListWorkItems", filter="queued", limit=2)) == ["wi_6", "wi_5"]
    call(items, tool, work_item_id="wi_5", **more)
    page = call(items, "ListWorkItems", filter="queued", limit=2, after="wi_5")
    assert (ids(page), page.skipped, page.total_matching) == (["wi_4", "wi_3"], 1, 5)
    assert ids(call(items, "ListWorkItems", filter="queued", after="wi_3")) == ["wi_2", "wi_1"]


def test_a_second_process_finds_what_the_first_stored(tmp_path: Path) -> None:
    first, second = open_items(tmp_path), open_items(tmp_path)
    call(first, "CreateWorkItem", objective="one")
    call(first, "PickWorkItem", work_item_id="wi_1")
    assert call(second, "ListWorkItems").context.current_work_item_id == "wi_1"
    first.close()
    second.close()


def test_a_failure_stores_nothing(items: WorkItemTools, tmp_path: Path) -> None:
    (tmp_path / "work-items").write_text("a file where the folder of plans would be")
    with pytest.raises(OSError, match="exists"):
        call(items, "CreateWorkItem", objective="one", plan="# Plan")
    assert ids(call(items, "ListWorkItems")) == []
