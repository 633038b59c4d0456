"""Tests the examples of the families: how their JSON is read, and that our own code would write the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from envelopes.families import FAMILIES
from envelopes.families.agent.results import (
    agent_outcome,
    follow_up_outcome,
    no_agents_here,
    no_worktrees_here,
    spawn_outcome,
    wait_outcome,
)
from envelopes.families.base import load_examples
from envelopes.families.command.results import batch_outcome, command_outcome
from envelopes.families.file.results import patch_outcome
from envelopes.families.notification.results import notification_outcome
from envelopes.families.registry import builtin, samples
from envelopes.families.task.results import (
    active_outcome,
    input_outcome,
    read_outcome,
    state_outcome,
    stop_outcome,
    task_not_running,
    unknown_task,
)
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.schema.tool import InvalidToolInput
from tests.cases import each

OUTCOMES: dict[str, Callable[[Any], str]] = {
    "AgentGet": agent_outcome,
    "ApplyPatch": patch_outcome,
    "Enqueue": follow_up_outcome,
    "ExecCommand": command_outcome,
    "ExecCommandBatch": batch_outcome,
    "OperatorNotification": notification_outcome,
    "SpawnAgent": spawn_outcome,
    "TaskInput": input_outcome,
    "TaskList": active_outcome,
    "TaskOutput": read_outcome,
    "TaskStatus": state_outcome,
    "TaskStop": stop_outcome,
    "WaitFor": wait_outcome,
}
TESTS: Any = samples("TaskStatus")["success"].result.task  # type: ignore[union-attr]
EXAMPLES = {name: example for family in FAMILIES for name, example in family.gallery.items()}


class Listing(msgspec.Struct, frozen=True):
    rows: tuple[str, ...] = ()
    text: str = ""
    facts: dict[str, Any] = {}


def written(folder: Path, result: dict[str, Any], **document: Any) -> CompleteOutput:
    example = {"tool_name": "Find", "summary_text": "found", "result": {"Listing": result}}
    path = folder / "examples.json"
    path.write_text(json.dumps({"samples": [example], **document}), "utf-8")
    return load_examples(path, (Listing,)).samples[0]


@each(
    ("value", "expanded"),
    [
        ({"text": "plain {n}"}, Listing(text="plain {n}")),
        ({"text": {"$repeat": "{n:03} ", "n": [9, 11]}}, Listing(text="009 010 011 ")),
        ({"rows": {"$repeat": ["{n:3}/{n%2}"], "n": [1, 2]}}, Listing(rows=("  1/1", "  2/0"))),
        ({"facts": {"$repeat": {"a{n}": True}, "n": [1, 2]}}, Listing(facts={"a1": True, "a2": True})),
        ({"text": {"$join": ["a", {"$use": "end"}]}}, Listing(text="a.")),
        ({"$use": "base", "rows": ["x"]}, Listing(rows=("x",), text="from the part")),
        (
            {"rows": {"$repeat": [{"$repeat": "{n}{m}", "m": [1, 2]}], "n": [1, 2]}},
            Listing(rows=("1112", "2122")),
        ),
    ],
)
def test_an_example_is_expanded(tmp_path: Path, value: dict[str, Any], expanded: Listing) -> None:
    parts = {"end": ".", "base": {"rows": ["y"], "text": "from the part"}}
    assert written(tmp_path, value, parts=parts).result == expanded


def test_an_error_is_summarised_by_its_message(tmp_path: Path) -> None:
    path = tmp_path / "examples.json"
    error = {"kind": "missing_file", "message": "no such file", "retryable": False}
    path.write_text(json.dumps({"gallery": {"Read/error": {"error": error}}}), "utf-8")
    assert load_examples(path, ()).gallery["Read/error"] == CompleteOutput(
        tool_name="Read", status="error", summary_text="no such file", error=ToolError(**error)
    )


def test_an_example_that_does_not_fit_its_struct_is_refused(tmp_path: Path) -> None:
    with pytest.raises(msgspec.ValidationError, match="rows"):
        written(tmp_path, {"rows": 7})


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_every_family_has_examples_of_its_results(family: Any) -> None:
    assert family.samples
    assert {type(example.result) for example in family.samples} <= {*family.results, type(None)}


def test_examples_are_not_read_by_an_import() -> None:
    code = "from envelopes.families import FAMILIES; assert not any(vars(family) for family in FAMILIES)"
    subprocess.run([sys.executable, "-c", code], check=True)


@each(
    ("tool", "arguments"),
    [
        ("CreateWorkItem", {"objective": " "}),
        ("UpdateWorkItem", {"work_item_id": "wi_7"}),
        ("ListWorkItems", {"filter": "done"}),
        ("MemorySearch", {"query": " "}),
    ],
)
def test_an_example_of_refused_arguments_is_what_the_tool_answers(tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolInput) as refused:
        builtin(tool)[1].parse(arguments)
    assert samples(tool)["error"].error == refused.value.error


@each("name", [name for name, example in EXAMPLES.items() if example.tool_name in OUTCOMES and not example.error])
def test_an_example_has_the_summary_that_the_runtime_writes(name: str) -> None:
    example = EXAMPLES[name]
    if name != "ExecCommand/already_running":  # its summary is the runtime's own
        assert example.summary_text == OUTCOMES[example.tool_name](example.result)


@each(
    ("name", "error"),
    [
        ("SpawnAgent/error", no_agents_here("private_child")),
        ("SpawnAgent/odd", no_worktrees_here()),
        ("TaskStatus/error", unknown_task("task_404")),
        ("TaskStop/error", task_not_running(replace(TESTS, status="failed"))),
    ],
)
def test_an_example_has_the_error_that_the_runtime_writes(name: str, error: ToolError) -> None:
    assert EXAMPLES[name].error == error
