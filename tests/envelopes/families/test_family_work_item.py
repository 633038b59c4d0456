from __future__ import annotations

import pytest

from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families.work_item import FAMILY
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import JsonValue
from envelopes.storage.sinks import MemorySink

TOOLS: dict[str, ToolMapping] = {tool: row for row in FAMILY.mappings for tool in row.tools}
TODOS = [
    {"content": "Read the log", "status": "completed", "activeForm": "Reading"},
    {"content": "Fix it", "status": "pending", "activeForm": "Fixing"},
]


def recorded(tool: str, result: JsonValue) -> Evidence:
    return Evidence(agent="claude-code", tool=tool, args={"taskId": "9"}, result=result, has_result=True)


def linked(tool: str, result: JsonValue, receipt: str) -> list[tuple[str, str]]:
    spans = TOOLS[tool].align(recorded(tool, result), receipt)
    return [(span.pointer, receipt[span.start : span.end]) for span in sorted(spans)]


def receipt_text(tool: str, result: JsonValue) -> str:
    complete = TOOLS[tool].read(recorded(tool, result)).complete
    return render(project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical, FAMILY, FAMILY.rendering).text


@pytest.mark.parametrize(
    ("tool", "result", "receipt", "expected"),
    [
        (
            "TaskCreate",
            {"task": {"id": "1", "subject": "Add settings: all"}},
            "Task #1 created successfully: Add settings: all",
            [("/task/id", "1"), ("/task/subject", "Add settings: all")],
        ),
        (
            "TaskUpdate",
            {"success": True, "taskId": "2", "updatedFields": ["status", "owner"]},
            "Updated task #2 status, owner",
            [("/taskId", "2"), ("/updatedFields/0", "status"), ("/updatedFields/1", "owner")],
        ),
        (
            "TaskUpdate",
            {"success": False, "taskId": "2", "error": "Task not found"},
            "Task not found",
            [("/error", "Task not found")],
        ),
        (
            "TaskGet",
            {"task": {"id": "3", "subject": "S", "description": "Two\nlines", "status": "pending"}},
            "Task #3: S\nStatus: pending\nDescription: Two\nlines\nBlocked by: #1",
            [
                ("/task/id", "3"),
                ("/task/subject", "S"),
                ("/task/status", "pending"),
                ("/task/description", "Two\nlines"),
            ],
        ),
        (
            "TaskList",
            {"tasks": [{"id": "1", "subject": "A", "status": "completed"}, {"id": "2", "subject": "B", "status": "x"}]},
            "#1 [completed] A (me)\n#2 [x] B [blocked by #1]",
            [
                ("/tasks/0/id", "1"),
                ("/tasks/0/status", "completed"),
                ("/tasks/0/subject", "A"),
                ("/tasks/1/id", "2"),
                ("/tasks/1/status", "x"),
                ("/tasks/1/subject", "B"),
            ],
        ),
        ("TodoWrite", {"oldTodos": [], "newTodos": TODOS}, "Todos have been modified successfully.", []),
        ("TaskGet", {"task": {"id": "3", "subject": "S"}}, "Task #3 was not found", []),
        (
            "TaskUpdate",
            {"success": True, "taskId": "2", "updatedFields": ["status", "owner"]},
            "Updated task #2 status, blockedBy",
            [("/taskId", "2"), ("/updatedFields/0", "status")],
        ),
        (
            "TaskList",
            {"tasks": [{"id": "1", "subject": "A", "status": "x"}, {"id": "2", "subject": "B", "status": "x"}]},
            "#1 [x] A\n#2 [y] B",
            [("/tasks/0/id", "1"), ("/tasks/0/status", "x"), ("/tasks/0/subject", "A")],
        ),
        ("TaskList", {"tasks": [{"id": "1", "subject": "A", "status": "x"}]}, "#1 [x] A and more", []),
        (
            "TaskList",
            {"tasks": [{"id": "1", "subject": "A", "status": ""}]},
            "#1 [] A",
            [("/tasks/0/id", "1"), ("/tasks/0/subject", "A")],
        ),
        (
            "TaskList",
            {"tasks": [{"id": "", "subject": "", "status": "x"}, {"id": "2", "subject": "B", "status": "x"}]},
            "# [x] \n#2 [x] B",
            [("/tasks/0/status", "x"), ("/tasks/1/id", "2"), ("/tasks/1/status", "x"), ("/tasks/1/subject", "B")],
        ),
    ],
)
def test_a_work_item_receipt_is_linked_to_the_recorded_field(
    tool: str, result: JsonValue, receipt: str, expected: list[tuple[str, str]]
) -> None:
    assert linked(tool, result, receipt) == expected


def test_a_subject_that_differs_gets_no_link_and_the_number_keeps_its_own() -> None:
    task = {"task": {"id": "1", "subject": "Add settings"}}

    assert linked("TaskCreate", task, "Task #1 created successfully: Add") == [("/task/id", "1")]


def test_our_receipt_counts_the_todos_and_lists_each_with_its_state() -> None:
    text = receipt_text("TodoWrite", {"oldTodos": [], "newTodos": TODOS})

    assert text == ("Todo list of 2: 1 completed, 0 in progress, 1 pending\n[completed] Read the log\n[pending] Fix it")


def test_an_update_names_the_fields_and_the_states() -> None:
    change = {"from": "pending", "to": "in_progress"}

    text = receipt_text(
        "TaskUpdate", {"success": True, "taskId": "1", "updatedFields": ["status"], "statusChange": change}
    )

    assert text == "Work item 1 updated: status\nWas: pending\nState: in_progress"


def test_an_item_that_does_not_exist_is_named_by_the_requested_id() -> None:
    reading = TOOLS["TaskGet"].read(recorded("TaskGet", {"task": None}))

    assert reading.complete.status == "success"
    assert reading.complete.summary_text == "No work item 9 was found"


def test_an_update_without_success_is_a_verdict_inside_a_success() -> None:
    text = receipt_text("TaskUpdate", {"success": False, "taskId": "7", "updatedFields": [], "error": "Task not found"})

    assert text == "Work item 7 not updated\n\nTask not found"


@pytest.mark.parametrize(
    ("tool", "result", "text"),
    [
        ("TodoWrite", {"newTodos": []}, "The todo list is empty"),
        (
            "TaskCreate",
            {"task": {"id": "1", "subject": "Fix it", "description": "Now", "blocks": ["2"], "blockedBy": ["3", "4"]}},
            "Work item created: 1\nWork item: 1\nObjective: Fix it\nBlocks: 2\nBlocked by: 3\nBlocked by: 4\n\n"
            "Description:\nNow",
        ),
        ("TaskCreate", {"task": {}}, "Work item created: (no id)"),
        ("TaskList", {"tasks": []}, "No work items"),
        ("TaskList", {"tasks": [{"subject": "A"}]}, "1 work item\nA"),
        (
            "TaskList",
            {"tasks": [{"id": "1", "subject": "A", "status": "pending", "owner": "ada"}]},
            "1 work item\n#1 [pending] A, owner ada",
        ),
        ("TaskList", {"tasks": [{"id": "1", "subject": "A"}, {"id": "2"}]}, "2 work items\n#1 A\n#2 "),
        ("TaskList", {"tasks": [{"subject": "A", "status": "pending"}]}, "1 work item\n[pending] A"),
    ],
)
def test_work_items_are_shown_with_what_was_recorded_of_them(tool: str, result: JsonValue, text: str) -> None:
    assert receipt_text(tool, result) == text


def test_the_links_of_a_list_lead_to_each_member_of_each_item_and_nowhere_else() -> None:
    links = TOOLS["TaskList"].read(recorded("TaskList", {"tasks": [{"id": "1"}, {"id": "2"}]})).links
    assert links["/tasks"] == "/result/work_items"
    assert links["/tasks/1/subject"] == "/result/work_items/1/objective"
    assert (
        dict(links)
        == {pointer: links[pointer] for pointer in links}
        == {pointer: links.get(pointer) for pointer in links}
    )
    assert links.get("/tasks/2/id", "nowhere") == "nowhere"
    assert len(links) == len(dict(links)) == 1 + 2 * 7
    for pointer in ("/tasks/2/id", "/tasks/-1/id", "/tasks/x/id", "/tasks/0/other", "/other/0/id"):
        assert pointer not in links
