"""The results of the built-in tools in an executor's record: each tool's own family reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes import builtin, read_halves, tools
from envelopes.families.registry import samples
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.plan.tool_answers import result_data
from envelopes.storage.sinks import MemorySink
from tests.cases import each

COMPLETED = {"disposition": "completed", "exit_status": 0, "stdout": "3 passed\n", "stderr": ""}
FOUND = {"query": "q", "provider": "own", "fetched_at": "2026-01-05T10:00:00Z"}


@pytest.mark.parametrize(
    ("tool", "result", "family", "summary"),
    [
        ("ExecCommand", COMPLETED, "command", "command exited with status 0"),
        ("WebSearch", FOUND, "web", "0 results for q"),
        ("ExecCommand", {"code": "POLICY_DENIED", "message": "no"}, "command", "no"),
        ("WebSearch", {"another": "shape"}, "external", "WebSearch returned a result"),
        ("ExecCommand", None, "external", "ExecCommand: no result was recorded"),
    ],
)
def test_a_result_is_read_by_the_family_of_its_tool(
    tool: str, result: dict[str, Any] | None, family: str, summary: str
) -> None:
    """Another executor may have another tool of that name: its results, and missing ones, are those of any tool."""
    halves = read_halves(
        agent="audit",
        tool=tool,
        args=b"{}",
        result=None if result is None else json.dumps(result).encode(),
        content=None,
        is_error=None if result is None else "code" in result,
    )
    assert (halves.family, halves.projection.canonical.summary_text) == (family, summary)
    assert halves.note == ""


@each("tool", list(tools()))
def test_the_summary_of_every_built_in_result_is_that_of_its_family(tool: str) -> None:
    result = json.dumps(result_data(samples(tool)["success"])).encode()
    halves = read_halves(agent="audit", tool=tool, args=b"{}", result=result, content=None, is_error=False)
    assert halves.family == builtin(tool)[0].name
    assert "returned a result" not in halves.projection.canonical.summary_text


@pytest.mark.parametrize(
    ("result", "family"),
    [
        (COMPLETED, "command"),
        ({"stdout": "3 passed\n"}, "command"),
        (COMPLETED | {"host": "ci-1"}, "external"),
        ({"output": "3 passed\n"}, "external"),
        ({}, "external"),
        ("3 passed", "external"),
        ({"kind": "sandbox_lost", "message": "the sandbox ended"}, "external"),
    ],
)
def test_a_native_result_is_read_by_the_family_only_with_members_of_its_struct_and_no_others(
    result: object, family: str
) -> None:
    halves = read_halves(
        agent="native",
        tool="ExecCommand",
        args=b'{"cmd": "make test"}',
        result=json.dumps(result).encode(),
        content=b'"3 passed"',
        is_error=False,
    )
    assert (halves.family, halves.note) == (family, "")


CUT_TEXTS = {
    "ExecCommand": "/stdout",
    "MemoryGet": "/memory/content",
    "ReadArtifact": "/text",
    "SpawnAgent": "/initial_output",
    "TaskOutput": "/output",
    "TaskStatus": "/task/child_observability/last_result",
    "WebFetch": "/text",
}


@each("tool", list(tools()))
def test_the_cut_of_a_receipt_that_this_library_wrote_is_found_in_its_record(tool: str) -> None:
    """The lines are those of the projection. Cuts of lists, and of the second text of a result, are not found."""
    complete, owner = samples(tool)["large"], builtin(tool)[0]
    projection = project(complete, owner, owner.projection, MemorySink())
    receipt = render(projection.canonical, owner, owner.rendering)
    halves = read_halves(
        agent="audit",
        tool=tool,
        args=b"{}",
        result=json.dumps(result_data(complete)).encode(),
        content=json.dumps(receipt.text).encode(),
        is_error=False,
    )
    found = {output.field.pointer: output.cut.shown for output in halves.outputs}
    assert all(shown in [cut.cut.shown for cut in projection.cuts] for shown in found.values())
    assert list(found) == [pointer for name, pointer in CUT_TEXTS.items() if name == tool]
    assert halves.is_cut == bool(found)
