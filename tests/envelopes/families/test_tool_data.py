"""Tests the data of tools against their output schemas: CALL's `data`, in both directions and for every tool."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from envelopes.codecs import call as calls
from envelopes.families.registry import builtin, load_inventory, samples, tools
from envelopes.schema.call import InvalidCall, ToolResult, check_data
from envelopes.schema.tool import InvalidToolOutput
from tests.cases import each
from tests.envelopes.complete_outputs import outputs
from tests.envelopes.settled import AT, STORED, call, settled

TOOLS = sorted(tools())
RETURNED = [(tool, sort) for tool in TOOLS for sort, example in samples(tool).items() if example.result is not None]
# One member of each tool's data with a value of another type.
BROKEN: dict[str, tuple[str, Any]] = {
    "AgentGet": ("agent", 1),
    "ApplyPatch": ("changed_files", {}),
    "CompleteWorkItem": ("work_item", None),
    "CreateWorkItem": ("warnings", [{"kind": "odd"}]),
    "Enqueue": ("priority", "soon"),
    "ReadArtifact": ("total_lines", "many"),
    "ExecCommand": ("exit_status", "0"),
    "ExecCommandBatch": ("items", [{"cmd": "ls", "status": "odd"}]),
    "GetWorkItem": ("context", []),
    "ListWorkItems": ("limit", 2.5),
    "MemoryGet": ("memory", {"kind": "brief"}),
    "MemorySearch": ("results", [1]),
    "PickWorkItem": ("transition", None),
    "SpawnAgent": ("agent_id", None),
    "TaskInput": ("accepted_input", "yes"),
    "TaskList": ("tasks", [{}]),
    "TaskOutput": ("exit_status", "0"),
    "TaskStatus": ("task", []),
    "TaskStop": ("force_stop_requested", 1),
    "UpdateWorkItem": ("changed_fields", [1]),
    "UseWorkspace": ("mode", "shared"),
    "WaitFor": ("wake", "never"),
    "WebFetch": ("status", "200"),
    "WebSearch": ("mode", "both"),
}


def data_of(result: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(msgspec.json.encode(result))
    return data


@cache
def schema_of(tool: str) -> Draft202012Validator:
    return Draft202012Validator(builtin(tool)[1].output_schema())


def returned(tool: str, data: dict[str, Any] | None, **more: Any) -> ToolResult:
    known = {"call_id": "c1", "run_id": "r1", "step_id": "s1", "attempt": 1, "status": "ok", "ok": True}
    return ToolResult(tool=tool, data=data, started_at=AT, ended_at=AT, duration_ms=1, **{**known, **more})


@pytest.mark.extended
@each(("tool", "sort"), RETURNED)
def test_what_a_tool_returns_is_taken_by_its_schema_and_read_as_the_same_struct(tool: str, sort: str) -> None:
    result, definition = samples(tool)[sort].result, builtin(tool)[1]
    data = data_of(result)
    schema_of(tool).validate(data)
    assert definition.read_data(data) == result
    check_data(returned(tool, data), definition)


@each("tool", TOOLS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])  # of `each`
@given(data=st.data())
def test_any_data_of_a_tool_is_read_again(tool: str, data: st.DataObject) -> None:
    complete = data.draw(outputs(tool).filter(lambda complete: complete.result is not None))
    try:
        written = data_of(complete.result)
    except (UnicodeEncodeError, OverflowError):  # msgspec writes no lone surrogate and no huge integer
        written = msgspec.to_builtins(complete.result)
    assert builtin(tool)[1].read_data(written) == complete.result


@each("tool", TOOLS)
def test_data_of_another_type_is_refused_by_the_schema_and_by_the_reader(tool: str) -> None:
    definition, (member, value) = builtin(tool)[1], BROKEN[tool]
    data = data_of(samples(tool)["success"].result) | {member: value}
    assert not schema_of(tool).is_valid(data)
    with pytest.raises(InvalidToolOutput, match=rf"^{tool}: .*`\$\.{member}"):
        definition.read_data(data)
    with pytest.raises(InvalidCall, match=rf"^data: {tool}: "):
        check_data(returned(tool, data), definition)


@each("data", [None, 5, "text", [{}], [[1], 2]])
@each("tool", TOOLS)
def test_data_that_is_no_object_is_refused(tool: str, data: object) -> None:
    assert not schema_of(tool).is_valid(data)
    with pytest.raises(InvalidToolOutput, match=rf"^{tool}: Expected `object`"):
        builtin(tool)[1].read_data(data)


def test_a_member_that_a_schema_does_not_know_is_passed_over_and_a_missing_one_is_not() -> None:
    definition = builtin("WebFetch")[1]
    data = data_of(samples("WebFetch")["success"].result)
    assert definition.read_data(data | {"etag": "x"}) == samples("WebFetch")["success"].result
    del data["url"]
    with pytest.raises(InvalidToolOutput, match="missing required field `url`"):
        definition.read_data(data)


def test_of_two_forms_the_one_that_knows_the_members_is_taken() -> None:
    definition = builtin("ExecCommand")[1]
    running = samples("ExecCommand")["already_running"].result
    assert definition.read_data(data_of(running)) == running
    assert type(definition.read_data({"exit_status": 0})) is definition.result[0]


def test_a_result_is_written_only_with_data_that_its_tool_returns() -> None:
    definition = builtin("UseWorkspace")[1]
    made = call(tool="UseWorkspace", args={"path": "/srv"})
    good = data_of(samples("UseWorkspace")["success"].result)
    assert calls.to_result(made, settled("fits", data=good), definition).data == good
    with pytest.raises(InvalidCall, match=r"^data: UseWorkspace: Object missing required field"):
        calls.to_result(made, settled("fits", data={"path": "/srv"}), definition)
    assert calls.to_result(made, settled("tool_error"), definition).data is None


@given(STORED)
def test_data_by_reference_was_checked_before_it_was_kept(stored_output: Any) -> None:
    check_data(returned("WebFetch", None, data_ref=stored_output), builtin("WebFetch")[1])


def test_a_result_is_not_checked_against_another_tools_schema() -> None:
    with pytest.raises(InvalidCall, match="^tool: 'WebFetch' is not 'WebSearch'"):
        check_data(returned("WebFetch", {}), builtin("WebSearch")[1])


def test_the_inventory_publishes_the_same_schema() -> None:
    published = {tool["name"]: tool["complete_result"] for tool in (load_inventory() or {})["tools"]}
    assert published == {name: json.loads(json.dumps(tool.output_schema())) for name, tool in tools().items()}
