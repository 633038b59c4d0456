"""Tests WaitFor, AgentGet, Enqueue and SpawnAgent: their input, their canonical results and their receipts."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.agent import FAMILY
from envelopes.families.agent.results import (
    ActiveChild,
    AgentIdentity,
    AgentRead,
    FollowUp,
    Pending,
    Spawned,
    WaitRecorded,
)
from envelopes.families.base import text_size
from envelopes.families.registry import builtin, may_call, samples, tools
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import render
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, TaskHandle, ToolError
from envelopes.schema.tool import ALL_PROFILES, InvalidToolInput, ToolDefinition
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve
from tests.cases import each

TOOLS = ("AgentGet", "Enqueue", "SpawnAgent", "WaitFor")
SORTS = ("success", "error", "large", "empty", "odd")
GALLERY = [(tool, sort) for tool in TOOLS for sort in SORTS]
EXAMPLE_AGENT: Any = FAMILY.gallery["AgentGet/success"].result.agent  # type: ignore[union-attr]
EXAMPLE_CHILD: Any = FAMILY.gallery["SpawnAgent/success"].result
EXAMPLE_WAIT: Any = FAMILY.gallery["WaitFor/success"].result


def definition(tool: str) -> ToolDefinition:
    return builtin(tool)[1]


def projected(complete: CompleteOutput, policy: ProjectionPolicy = FAMILY.projection) -> Projection:
    return project(complete, FAMILY, policy, MemorySink())


def output(tool: str, result: msgspec.Struct) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text="done", result=result)


def result_of(complete: CompleteOutput) -> dict[str, Any]:
    result = projected(complete).canonical.result
    assert isinstance(result, dict)
    return result


def receipt_text(complete: CompleteOutput) -> str:
    return render(projected(complete).canonical, FAMILY, FAMILY.rendering).text


def refusal(tool: str, arguments: Any) -> ToolError:
    with pytest.raises(InvalidToolInput) as raised:
        definition(tool).parse(arguments)
    return raised.value.error


def parsed(tool: str, arguments: Any) -> dict[str, Any]:
    members = msgspec.to_builtins(definition(tool).parse(arguments))
    assert isinstance(members, dict)
    return members


@pytest.mark.parametrize(("tool", "sort"), GALLERY, ids=[f"{tool}-{sort}" for tool, sort in GALLERY])
def test_a_receipt_reads_as_its_golden(tool: str, sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{tool}/{sort}", receipt_text(samples(tool)[sort]))


@pytest.mark.parametrize(
    ("tool", "sort", "facts"),
    [
        (
            "WaitFor",
            "success",
            [
                "Waiting for the result of a task\n",
                "Condition: wait_12\n",
                "Resource: task_7\n",
                "Work item: work_4\n",
                "Replaced waits: wait_9, wait_11",
            ],
        ),
        ("WaitFor", "empty", ["Waiting for the operator\n", "Condition: wait_13"]),
        ("WaitFor", "large", ["Replaced waits: wait_1, wait_2, ", ", wait_10 +290 more"]),
        ("WaitFor", "odd", ["Waiting for something outside\n", "Resource: https://ci.example/builds/77?tab=log&raw=1"]),
        (
            "WaitFor",
            "error",
            [
                "Kind: invalid_tool_input",
                "`resource` is required when wake is task_result",
                "Hint: give the id",
                "Same call again: will fail",
            ],
        ),
        (
            "AgentGet",
            "success",
            [
                "Agent agent_main is awake\n",
                "Profile: public_named\n",
                "Lifecycle: running\n",
                "Focus: work_4\n",
                "Workspace: ledger\n",
                "Active tasks: 2\n",
                "Waits: 1\n- wait_12 task active the tests still run\n",
                "Children: 1\n- agent_child_2 working task_9\n",
            ],
        ),
        (
            "AgentGet",
            "large",
            ["Waits: 23\n", "Children: 40\n", "+30 more\n", "Artifacts, for ReadArtifact path"],
        ),
        ("AgentGet", "odd", ["Parent: agent_main\n", "- hook_1 Line one Active tasks: 99\n", "\nActive tasks: 2\n"]),
        ("AgentGet", "error", ["Kind: tool_execution_failed", "Same call again: may work"]),
        ("Enqueue", "success", ["Enqueued follow-up (next)"]),
        ("Enqueue", "large", ["Enqueued follow-up (background)"]),
        ("Enqueue", "odd", ["Enqueued follow-up (normal)"]),
        ("SpawnAgent", "success", ["Agent spawned: agent_child_2\n", "Task: task_9\n", "Worktree: /worktrees/"]),
        (
            "SpawnAgent",
            "large",
            [
                "Initial output:\nLooked at file 1 of 400.\n",
                "file 400 of 400.\n",
                "ReadArtifact",
            ],
        ),
        ("SpawnAgent", "error", ["Kind: unsupported_agent_profile_capability", "Required capability: agent_creation"]),
        ("SpawnAgent", "odd", ["Kind: unsupported_runtime_capability", "Field: workspace_mode"]),
    ],
)
def test_a_receipt_states_what_the_model_needs_next(tool: str, sort: str, facts: list[str]) -> None:
    text = receipt_text(samples(tool)[sort])
    assert not [fact for fact in facts if fact not in text]


@pytest.mark.parametrize(
    ("tool", "receipt"), [("SpawnAgent", "Agent spawned: reviewer"), ("Enqueue", "Enqueued follow-up (interject)")]
)
def test_a_confirmation_with_nothing_more_to_say_is_one_line(tool: str, receipt: str) -> None:
    assert receipt_text(samples(tool)["empty"]) == receipt


@pytest.mark.parametrize("tool", TOOLS)
def test_the_examples_of_a_definition_are_accepted_and_its_counter_examples_are_not(tool: str) -> None:
    for arguments in definition(tool).examples:
        definition(tool).parse(arguments)
    for arguments in definition(tool).counter_examples:
        error = refusal(tool, arguments)
        assert (error.kind, error.retryable) == ("invalid_tool_input", False)
        assert error.recovery_hint


@pytest.mark.parametrize(
    ("tool", "capability", "planes"),
    [
        ("WaitFor", "core_agent", ("work_item", "agent")),
        ("AgentGet", "core_agent", ("agent",)),
        ("Enqueue", "core_agent", ("agent",)),
        ("SpawnAgent", "agent_creation", ("agent",)),
    ],
)
def test_each_tool_has_its_capability_and_its_planes(tool: str, capability: str, planes: tuple[str, ...]) -> None:
    assert (definition(tool).capability, definition(tool).planes) == (capability, planes)
    assert definition(tool).profiles == ALL_PROFILES
    assert may_call("public_named", tool)
    assert may_call("private_child", tool) is (capability != "agent_creation")


def test_the_core_agent_has_its_tools_and_agent_creation_one() -> None:
    by_capability: dict[str, set[str]] = {}
    for name, tool in tools().items():
        by_capability.setdefault(tool.capability, set()).add(name)
    assert by_capability["agent_creation"] == {"SpawnAgent"}
    assert by_capability["core_agent"] == {
        *("WaitFor", "AgentGet", "Enqueue", "MemorySearch", "MemoryGet"),
        *("TaskList", "TaskStatus", "TaskOutput", "TaskInput", "TaskStop"),
        *("CreateWorkItem", "UpdateWorkItem", "PickWorkItem", "GetWorkItem", "ListWorkItems", "CompleteWorkItem"),
    }
    assert all(may_call(profile, name) for profile in ALL_PROFILES for name in by_capability["core_agent"])


@pytest.mark.parametrize("wake", ["task_result", "external"])
@pytest.mark.parametrize("resource", [{}, {"resource": None}, {"resource": " \n"}])
def test_a_wait_for_something_has_to_name_it(wake: str, resource: dict[str, Any]) -> None:
    error = refusal("WaitFor", {"reason": "later", "wake": wake, **resource})
    assert error.details == {
        "tool_name": "WaitFor",
        "field": "resource",
        "validation_error": f"is required when wake is {wake}",
    }


def test_a_wait_for_the_operator_names_nothing() -> None:
    assert parsed("WaitFor", {"reason": " Which? ", "wake": "operator_input"}) == {
        "reason": "Which?",
        "wake": "operator_input",
        "resource": None,
    }


@pytest.mark.parametrize(
    ("given", "priority"),
    [
        ({}, "next"),
        ({"priority": None}, "next"),
        ({"priority": "interrupt"}, "interject"),
        ({"priority": "normal"}, "normal"),
    ],
)
def test_a_follow_up_is_next_unless_it_says_otherwise(given: dict[str, Any], priority: str) -> None:
    assert parsed("Enqueue", {"text": " Look again ", **given}) == {"text": "Look again", "priority": priority}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"preset": "public_named"}, "agent_id"),
        ({"preset": "public_named", "agent_id": "two words"}, "agent_id"),
        ({"preset": "public_named", "agent_id": "größe"}, "agent_id"),
        ({"preset": "public_named", "agent_id": "reviewer", "workspace_mode": "worktree"}, "workspace_mode"),
        ({"initial_message": "Go", "agent_id": "reviewer"}, "agent_id"),
        ({}, "initial_message"),
        ({"preset": None, "initial_message": " "}, "initial_message"),
    ],
)
def test_the_presets_of_a_new_agent_take_different_fields(arguments: dict[str, Any], field: str) -> None:
    error = refusal("SpawnAgent", arguments)
    assert (error.kind, (error.details or {})["field"]) == ("invalid_tool_input", field)


def test_a_new_agent_is_a_private_child_that_inherits_by_default() -> None:
    members = parsed("SpawnAgent", {"initial_message": "Go", "preset": None, "workspace_mode": None})
    assert (members["preset"], members["workspace_mode"]) == ("private_child", "inherit")


MESSAGES = [{}, {"initial_message": None}, {"initial_message": " "}, {"initial_message": "Go"}]
PRESETS = [{}, {"preset": None}, {"preset": "private_child"}, {"preset": "public_named"}]
IDS = [{}, {"agent_id": None}, {"agent_id": "reviewer"}]
MODES = [{}, {"workspace_mode": None}, {"workspace_mode": "inherit"}, {"workspace_mode": "worktree"}]
WAITS = [
    {"wake": wake, **members}
    for wake in ("operator_input", "task_result", "external")
    for members in ({}, {"resource": "x"}, {"resource": " "})
]
ASKED = [
    *(("SpawnAgent", {**a, **b, **c, **d}) for a, b, c, d in product(MESSAGES, PRESETS, IDS, MODES)),
    *(("WaitFor", {"reason": "later", **members}) for members in WAITS),
]


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Checks arguments against the part of JSON Schema that the conditions of the definitions use."""
    types: dict[str, Any] = {"string": str, "null": type(None), "object": dict}
    if "type" in schema and not isinstance(value, types[schema["type"]]):
        return False
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), value) is not None
    if not isinstance(value, dict):
        return True
    members = schema.get("properties", {})
    if not all(name in value for name in schema.get("required", ())):
        return False
    if not all(fits(members[name], member) for name, member in value.items() if name in members):
        return False
    if "if" not in schema:
        return True
    return fits(schema.get("then" if fits(schema["if"], value) else "else", {}), value)


@each(("tool", "arguments"), ASKED)
def test_the_published_conditions_accept_what_the_parser_accepts(tool: str, arguments: dict[str, Any]) -> None:
    schema = definition(tool).input_schema()
    conditions = {name: schema[name] for name in ("if", "then", "else") if name in schema}
    try:
        definition(tool).parse(arguments)
    except InvalidToolInput:
        assert not fits(conditions, arguments)
    else:
        assert fits(conditions, arguments)


def test_a_supervised_child_has_a_handle_and_a_named_agent_only_an_id() -> None:
    assert result_of(samples("SpawnAgent")["success"])["task_handle"]["task_id"] == "task_9"
    assert result_of(samples("SpawnAgent")["empty"]) == {"agent_id": "reviewer"}


@pytest.mark.parametrize(("size", "is_cut"), [(4_000, False), (4_001, True)])
def test_the_first_words_of_a_child_have_4000_characters(size: int, *, is_cut: bool) -> None:
    spawned = Spawned(agent_id="a", task_handle=TaskHandle(task_id="t", kind="k"), initial_output="x" * size)
    result = result_of(output("SpawnAgent", spawned))
    assert result["initial_output_preview"].count("x") == 4_000
    assert result["initial_output_truncated"] is is_cut
    assert ("initial_output_artifact" in result) is is_cut


def test_a_wait_keeps_the_fields_of_its_condition() -> None:
    result = result_of(samples("WaitFor")["success"])
    assert {"scope", "reason", "wake", "resource", "work_item_id", "wait_condition", "work_item"} < set(result)
    assert result["wait_condition"]["wake_sources"] == ["task_7"]
    assert result["cancelled_wait_condition_ids"] == ["wait_9", "wait_11"]


def test_a_follow_up_says_that_it_is_enqueued() -> None:
    result = result_of(samples("Enqueue")["success"])
    assert result == {"enqueued": True, "priority": "next", "follow_up_text": "Look at the test results again."}


def test_the_receipt_of_a_follow_up_does_not_repeat_it() -> None:
    assert receipt_text(output("Enqueue", FollowUp(priority="next", text="z" * 201))) == "Enqueued follow-up (next)"


def test_the_summary_of_an_agent_has_6000_characters_and_lists_of_ten() -> None:
    sink = MemorySink()
    result: Any = project(samples("AgentGet")["large"], FAMILY, FAMILY.projection, sink).canonical.result
    agent = result["agent"]
    assert text_size(agent) <= 6_000
    assert (len(agent["active_children"]), agent["active_children_omitted"]) == (10, 30)
    assert (len(agent["wait_conditions"]), agent["wait_conditions_omitted"]) == (10, 13)
    assert len(agent["notifications"]) + agent["notifications_omitted"] == 15
    assert result["agent_artifact"] == 0
    assert "guidance/chapter_30.md" in next(iter(sink.texts.values()))


def test_an_agent_that_fits_is_kept_whole_and_leaves_no_artifact() -> None:
    projection = projected(samples("AgentGet")["success"])
    assert (projection.cuts, projection.canonical.artifacts) == ((), ())
    assert result_of(samples("AgentGet")["success"])["agent"]["counts"] == {"pending_messages": 1, "open_work_items": 3}


TEXT = st.text(st.characters(exclude_categories=()), max_size=20) | st.builds(
    lambda part, times: part * times, st.sampled_from(["a line\n", "word ", "é", "x"]), st.integers(0, 1_500)
)
ID = st.text("abc_0123456789", min_size=1, max_size=12)
PENDING = st.builds(Pending, id=ID, status=st.none() | st.just("open"), text=st.none() | TEXT)
AGENT = st.builds(
    msgspec.structs.replace,
    st.just(EXAMPLE_AGENT),
    identity=st.builds(AgentIdentity, agent_id=ID, profile=st.just("public_named"), name=st.none() | TEXT),
    state=TEXT,
    model=st.none() | TEXT,
    counts=st.dictionaries(TEXT, st.integers(), max_size=12),
    active_children=st.lists(st.builds(ActiveChild, agent_id=ID, status=st.none() | TEXT), max_size=15).map(tuple),
    notifications=st.lists(PENDING, max_size=15).map(tuple),
    skills=st.lists(TEXT, max_size=15).map(tuple),
)
OUTPUTS: dict[str, st.SearchStrategy[msgspec.Struct]] = {
    "AgentGet": st.builds(AgentRead, AGENT),
    "Enqueue": st.builds(FollowUp, priority=st.sampled_from(["interject", "next", "normal", "background"]), text=TEXT),
    "SpawnAgent": st.builds(
        Spawned,
        agent_id=ID,
        task_handle=st.none() | st.builds(TaskHandle, task_id=ID, kind=ID),
        child_supervision=st.none() | st.just(EXAMPLE_CHILD.child_supervision),
        initial_output=TEXT,
    ),
    "WaitFor": st.builds(
        WaitRecorded,
        scope=st.sampled_from(["agent", "work_item"]),
        reason=TEXT,
        wake=st.sampled_from(["operator_input", "task_result", "external"]),
        resource=st.none() | TEXT,
        wait_condition=st.builds(msgspec.structs.replace, st.just(EXAMPLE_WAIT.wait_condition), waiting_for=TEXT),
        work_item=st.none() | st.just(EXAMPLE_WAIT.work_item),
        cancelled_wait_condition_ids=st.lists(ID, max_size=30).map(tuple),
    ),
}


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
def test_any_output_of_an_agent_tool_keeps_the_invariants(tool: str, data: st.DataObject) -> None:
    complete = output(tool, data.draw(OUTPUTS[tool]))
    policy = ProjectionPolicy(
        preview=data.draw(st.integers(0, 4_000)),
        details=data.draw(st.integers(0, 1_000)),
        rows=data.draw(st.integers(0, 60)),
    )
    limit = data.draw(st.integers(0, 1_000) | st.just(FAMILY.rendering.characters))
    projection = projected(complete, policy)
    assert projection == projected(complete, policy)
    document = projection.canonical.to_json()
    assert CanonicalResult.from_json(document).to_json() == document
    for cut in projection.cuts:
        resolve(document, cut.pointer)
    if isinstance(projection.canonical.result, dict):
        assert text_size(projection.canonical.result.get("agent")) <= 6_000
    receipt = render(projection.canonical, FAMILY, RenderPolicy(characters=limit))
    assert len(receipt.text) <= limit
    for segment in receipt.segments:
        if segment.source is not None and segment.source.start is not None:
            text = resolve(document, segment.source.pointer)
            assert isinstance(text, str)
            assert text[segment.source.start : segment.source.end] == segment.text
