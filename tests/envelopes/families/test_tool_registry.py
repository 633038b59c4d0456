"""Tests the registry of built-in tools: its members, who may call them, and that words and schemas agree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from envelopes.families.registry import build_inventory, builtin, is_mapped, load_inventory, may_call, tools
from envelopes.schema.tool import Capability, InvalidToolInput, Plane, Profile, ToolDefinition
from envelopes.text.outline import outline_text
from tests.cases import each, extended_except

# The tables of the tools page: capability and plane of each tool.
CAPABILITIES: dict[Capability, set[str]] = {
    "core_agent": {
        *("WaitFor", "AgentGet", "Enqueue", "TaskList", "TaskStatus", "TaskOutput", "TaskInput", "TaskStop"),
        *("CreateWorkItem", "UpdateWorkItem", "PickWorkItem", "GetWorkItem", "ListWorkItems", "CompleteWorkItem"),
        *("MemorySearch", "MemoryGet"),
    },
    "local_environment": {"ExecCommand", "ExecCommandBatch", "ApplyPatch", "UseWorkspace", "ReadArtifact"},
    "web": {"WebFetch", "WebSearch"},
    "agent_creation": {"SpawnAgent"},
}
PLANES: dict[Plane, set[str]] = {
    "work_item": {
        *("CreateWorkItem", "UpdateWorkItem", "PickWorkItem", "GetWorkItem", "ListWorkItems", "CompleteWorkItem"),
        "WaitFor",
    },
    "task_control": {
        "ReadArtifact",
        *("ExecCommand", "ExecCommandBatch", "TaskList", "TaskStatus", "TaskOutput", "TaskInput", "TaskStop"),
    },
    "agent": {"AgentGet", "WaitFor", "Enqueue", "SpawnAgent"},
    "workspace": {"ReadArtifact", "UseWorkspace", "ApplyPatch"},
    "memory": {"MemorySearch", "MemoryGet"},
    "web": {"WebFetch", "WebSearch"},
}
NAMES = sorted(set().union(*CAPABILITIES.values()))
TOOLS = sorted(tools().items())
STARTUP = {"cmd", "workdir", "shell", "login", "tty", "accepts_input", "yield_time_ms", "max_output_tokens"}
RESULT_ONLY = ("status", "task_handle", "disposition", "exit_status", "output_preview")

VALUES = (None, "", " ", "\n", "x", "brief:b1", "two words", True, False, -1, 0, 1, 51, 50_001, 1.5, [], {}, ["x"])


def definition(name: str) -> ToolDefinition:
    return builtin(name)[1]


def refused(name: str, arguments: Any) -> InvalidToolInput:
    with pytest.raises(InvalidToolInput) as raised:
        definition(name).parse(arguments)
    return raised.value


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object schema in a schema, itself included."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for member in schema.values():
            yield from objects(member)
    if isinstance(schema, list):
        for member in schema:
            yield from objects(member)


@cache
def built() -> dict[str, Any]:
    return build_inventory(previous=load_inventory())


def test_there_are_the_23_tools_of_the_page_and_the_one_that_opens_what_was_cut() -> None:
    assert len(NAMES) == 24
    assert list(tools()) == NAMES


def test_notifying_an_operator_is_no_tool() -> None:
    assert "NotifyOperator" not in tools()
    assert "NotifyOperator" not in outline_text(built())
    with pytest.raises(KeyError):
        builtin("NotifyOperator")


@pytest.mark.parametrize(("capability", "names"), CAPABILITIES.items())
def test_each_tool_has_the_capability_of_the_page(capability: Capability, names: set[str]) -> None:
    assert {name for name, tool in TOOLS if tool.capability == capability} == names


@pytest.mark.parametrize(("plane", "names"), PLANES.items())
def test_each_plane_lists_its_tools_and_a_tool_may_be_in_two(plane: Plane, names: set[str]) -> None:
    assert {name for name, tool in TOOLS if plane in tool.planes} == names


def test_a_runtime_may_name_capabilities_and_planes_of_its_own() -> None:
    own = msgspec.structs.replace(definition("WebSearch"), capability="vault", planes=("notes",))
    (listed,) = build_inventory([("vault", own)])["tools"]
    assert (listed["capability"], listed["planes"], listed["profiles"]) == (
        *("vault", ["notes"]),
        ["public_named", "private_child"],
    )


def test_the_pointers_of_a_definition_lead_to_fields_of_its_input() -> None:
    """`*` stands for each item of a list."""
    for name, tool in TOOLS:
        for pointer in (*tool.path_args, *tool.sensitive):
            schema = tool.input_schema()
            place: Any = schema
            for part in pointer.split("/")[1:]:
                place = schema["$defs"][place["$ref"].rpartition("/")[2]] if "$ref" in place else place
                place = place["items"] if part == "*" else place["properties"][part]
            assert place, (name, pointer)


def test_what_a_tool_declares_for_its_executor() -> None:
    declared = dict(TOOLS)
    assert {name for name, tool in TOOLS if tool.idempotent} == {"MemorySearch", "MemoryGet", "WebFetch", "WebSearch"}
    assert {name for name, tool in TOOLS if not tool.cancellable} == {"ApplyPatch"}
    assert {name for name, tool in TOOLS if not tool.effects} == {
        name for name, tool in TOOLS if tool.risk == "read-only"
    }
    assert declared["ExecCommandBatch"].path_args == ("/items/*/workdir",)
    assert not [name for name, tool in TOOLS if tool.parallel_safe or tool.sensitive]


def test_every_profile_may_call_every_tool_but_a_private_child_spawns_no_agent() -> None:
    profiles: tuple[Profile, ...] = ("public_named", "private_child")
    withheld = {(profile, name) for profile in profiles for name in NAMES if not may_call(profile, name)}
    assert withheld == {("private_child", "SpawnAgent")}
    with pytest.raises(KeyError):
        may_call("public_named", "NotifyOperator")


@pytest.mark.parametrize(("agent", "tool"), [("claude-code", "Bash"), ("claude-code", "mcp__ledger__post")])
def test_a_tool_is_known_by_its_row_or_by_the_convention_of_its_agent(agent: str, tool: str) -> None:
    assert is_mapped(agent, tool)
    assert not is_mapped("nobody", tool)
    assert not is_mapped(agent, "Unheard")


def test_a_tool_only_reads_runs_commands_or_writes_as_its_risk_says() -> None:
    assert {tool.risk for _, tool in TOOLS} == {"read-only", "writes", "commands"}
    assert not [name for name, tool in TOOLS if tool.risk == "read-only" and tool.is_mutation]
    assert {name for name, tool in TOOLS if tool.stability == "experimental"} == CAPABILITIES["web"]


@each("name", NAMES)
def test_a_schema_denies_unknown_fields_at_every_depth(name: str) -> None:
    schema = definition(name).input_schema()
    assert schema["type"] == "object"
    assert [part["additionalProperties"] for part in objects(schema)] == [False] * len(list(objects(schema)))
    example = definition(name).examples[0]
    details = refused(name, {**example, "no_such_field": 1}).error.details
    assert details == {"tool_name": name, "parse_error": "unknown field `no_such_field`"}


@each("name", NAMES)
def test_a_schema_has_the_fields_that_the_parser_takes(name: str) -> None:
    fields = msgspec.structs.fields(definition(name).input)
    schema = definition(name).input_schema()
    assert list(schema["properties"]) == [field.encode_name for field in fields]
    assert schema.get("required", []) == [field.encode_name for field in fields if field.required]


@each("name", NAMES)
def test_the_examples_of_a_tool_are_taken_and_its_counter_examples_refused(name: str) -> None:
    tool = definition(name)
    assert tool.examples
    assert tool.counter_examples
    for example in tool.examples:
        assert isinstance(tool.parse(example), tool.input)
    for example in tool.counter_examples:
        error = refused(name, example).error
        assert (error.kind, error.retryable, bool(error.recovery_hint)) == ("invalid_tool_input", False, True)
        assert name in error.message
        assert error.details is not None
        assert error.details["tool_name"] == name
        assert set(error.details) in ({"tool_name", "parse_error"}, {"tool_name", "field", "validation_error"})


@each("name", NAMES)
def test_a_published_schema_takes_what_its_examples_show_and_refuses_the_others(name: str) -> None:
    tool = definition(name)
    Draft202012Validator.check_schema(tool.input_schema())
    schema = Draft202012Validator(tool.input_schema())
    assert [example for example in tool.examples if not schema.is_valid(example)] == []
    assert [example for example in tool.counter_examples if schema.is_valid(example)] == []


@pytest.mark.parametrize("name", extended_except(NAMES, *NAMES[::4]))
@given(data=st.data())
def test_a_published_schema_takes_exactly_what_the_parser_takes(name: str, data: st.DataObject) -> None:
    tool = definition(name)
    schema = tool.input_schema()
    field = st.sampled_from([*schema["properties"], "no_such_field"])
    example = data.draw(st.sampled_from(tool.examples))
    arguments = {
        **example,
        **data.draw(st.dictionaries(field, st.sampled_from([*VALUES, *_enums(schema)]), max_size=3)),
    }
    try:
        tool.parse(arguments)
    except InvalidToolInput:
        assert not Draft202012Validator(schema).is_valid(arguments)
    else:
        assert Draft202012Validator(schema).is_valid(arguments)


@each("name", NAMES)
@each("arguments", [[], "text", None, 3])
def test_arguments_that_are_no_object_are_refused(name: str, arguments: Any) -> None:
    assert refused(name, arguments).error.kind == "invalid_tool_input"


@each("name", NAMES)
def test_a_field_of_the_result_is_refused_as_input_with_a_message_that_says_so(name: str) -> None:
    tool = definition(name)
    assert not set(tool.result_only) & set(tool.input_schema()["properties"])
    for field in tool.result_only:
        error = refused(name, {**tool.examples[0], field: "x"}).error
        assert f"`{field}` is result metadata" in error.message
        assert error.details is not None
        assert error.details["field"] == field


def test_a_command_starts_with_its_startup_fields_and_no_result_field() -> None:
    properties = set(definition("ExecCommand").input_schema()["properties"])
    assert properties >= STARTUP
    for field in RESULT_ONLY:
        assert "result metadata" in refused("ExecCommand", {"cmd": "ls", field: "x"}).error.message


@each("name", NAMES)
def test_every_property_is_named_in_the_description_or_described_itself(name: str) -> None:
    tool = definition(name)
    schema = tool.input_schema()
    unexplained = [
        field
        for part in objects(schema)
        for field, property_schema in part["properties"].items()
        if not any(_descriptions(property_schema)) and not re.search(rf"\b{field}\b", tool.description)
    ]
    assert not unexplained


@each("name", NAMES)
def test_a_description_names_no_field_and_no_tool_that_is_not_there(name: str) -> None:
    tool = definition(name)
    words = " ".join([tool.description, *_descriptions(tool.input_schema())])
    (listed,) = (listing for listing in built()["tools"] if listing["name"] == name)
    known = {*_words(listed["input_schema"]), *_words(listed["complete_result"]), *tool.result_only}
    assert not set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", words)) - known
    assert not set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", words)) - set(NAMES)


@each("name", NAMES)
def test_numbers_in_a_description_are_those_that_the_parser_keeps(name: str) -> None:
    tool = definition(name)
    for field, schema in tool.input_schema()["properties"].items():
        words = " ".join(_descriptions(schema))
        if default := re.search(r"\b(\d+) when omitted", words):
            assert int(default[1]) == schema["default"]
        if clamped := re.search(r"clamped to (\d+)\.\.(\d+)", words):
            assert (int(clamped[1]), int(clamped[2])) == tool.input.clamped[field]
    properties = tool.input_schema()["properties"]
    said_of = {field: " ".join(_descriptions(properties[field])) for field in tool.input.clamped}
    assert not [field for field, (_, most) in tool.input.clamped.items() if str(most) not in said_of[field]]


@each("name", NAMES)
def test_the_guidance_says_the_defaults_and_the_bounds_that_hold(name: str) -> None:
    """Checks the description of the tool too, which is apart from the fields that it describes (TOOLS-049)."""
    tool = definition(name)
    properties = tool.input_schema()["properties"]
    defaults = [field_schema.get("default") for field_schema in properties.values()]
    words = " ".join([tool.description, *_descriptions(properties)])
    for word in re.findall(r"(\w+)`? \(the default\)", words):
        assert word in defaults or properties[word]["default"] is True, word
    for field, number in re.findall(r"`(\w+)` \(default (\d+)\)", words):
        assert properties[field]["default"] == int(number), field
    bounds = {(int(least), int(most)) for least, most in re.findall(r"clamped to (\d+)\.\.(\d+)", words)}
    assert bounds <= set(tool.input.clamped.values())


def test_no_arguments_fit_both_one_command_and_a_batch() -> None:
    single, batch = (definition(name).input_schema() for name in ("ExecCommand", "ExecCommandBatch"))
    assert set(single["required"]) - set(batch["properties"]) == {"cmd"}
    assert set(batch["required"]) - set(single["properties"]) == {"items"}
    for arguments in ({"cmd": "ls", "items": [{"cmd": "ls"}]}, {"cmd": "ls", "stop_on_error": True}):
        refused("ExecCommand", arguments)
        refused("ExecCommandBatch", arguments)


@pytest.mark.parametrize("field", ["tty", "accepts_input", "duplicate_policy"])
def test_an_item_of_a_batch_has_no_field_that_only_one_command_has(field: str) -> None:
    properties = definition("ExecCommand").input_schema()["properties"]
    example = {"tty": True, "accepts_input": True, "duplicate_policy": "start_new"}[field]
    assert field in properties
    assert definition("ExecCommand").parse({"cmd": "ls", field: example})
    assert field in refused("ExecCommandBatch", {"items": [{"cmd": "ls", field: example}]}).error.message


def test_the_inventory_file_is_what_the_code_defines() -> None:
    assert load_inventory() == built(), "run `python manage.py tool_inventory`"
    call_command("tool_inventory", "--check", stdout=StringIO())


def test_the_inventory_says_of_each_tool_what_a_runtime_has_to_know() -> None:
    document = built()
    assert [tool["name"] for tool in document["tools"]] == NAMES
    listed = {tool["name"]: tool for tool in document["tools"]}
    assert listed["SpawnAgent"]["profiles"] == ["public_named"]
    assert listed["WaitFor"]["planes"] == ["work_item", "agent"]
    assert listed["ExecCommand"]["input_schema"] == definition("ExecCommand").input_schema()
    assert listed["MemoryGet"]["error_kinds"] == ["memory_source_not_found"]
    for name, tool in listed.items():
        family, defined = builtin(name)
        assert (tool["family"], tool["capability"]) == (family.name, defined.capability)
        assert tool["description"] == defined.description


def test_a_stale_inventory_is_reported_and_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "inventory.json"
    monkeypatch.setattr("dashboard.management.commands.tool_inventory.INVENTORY_PATH", file)
    with pytest.raises(CommandError, match="tool_inventory"):
        call_command("tool_inventory", "--check")
    assert not file.exists()
    output = StringIO()
    call_command("tool_inventory", stdout=output)
    assert "version 1.0" in output.getvalue()
    assert json.loads(file.read_text("utf-8"))["tools"] == built()["tools"]
    call_command("tool_inventory", "--check", stdout=output)
    assert "up to date" in output.getvalue()


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({}, "3.4"),
        ({"description": "Other words."}, "3.5"),
        ({"error_kinds": ("new_kind",)}, "3.5"),
        ({"profiles": ("public_named",)}, "4.0"),
        ({"conditions": {"required": ["provider"]}}, "4.0"),
        ({"conditions": {"if": {}, "then": {"not": {}}}}, "4.0"),
        ({"name": "WebRead"}, "4.0"),
        ({"input": definition("MemorySearch").input}, "4.0"),
    ],
)
def test_a_change_that_refuses_what_was_accepted_raises_the_major_version(change: dict[str, Any], version: str) -> None:
    before = {**build_inventory([("web", definition("WebSearch"))]), "version": "3.4"}
    changed = msgspec.structs.replace(definition("WebSearch"), **change)
    assert build_inventory([("web", changed)], before)["version"] == version


def test_one_more_tool_raises_the_minor_version() -> None:
    before = build_inventory([("web", definition("WebSearch"))])
    both = [("web", definition("WebSearch")), ("web", definition("WebFetch"))]
    assert (before["version"], build_inventory(both, before)["version"]) == ("1.0", "1.1")


def _descriptions(schema: Any) -> Iterator[str]:
    """The descriptions in a schema, at any depth."""
    match schema:
        case dict():
            yield from [words] if isinstance(words := schema.get("description"), str) else []
            for member in schema.values():
                yield from _descriptions(member)
        case list():
            for member in schema:
                yield from _descriptions(member)


def _enums(schema: Any) -> list[Any]:
    return [value for member in schema["properties"].values() for value in _words(member)]


def _words(schema: Any) -> Iterator[str]:
    """The names of members and of the values that they may have."""
    match schema:
        case dict():
            yield from schema.get("properties", {})
            yield from (str(word) for word in schema.get("enum", []))
            for member in schema.values():
                yield from _words(member)
        case list():
            for member in schema:
                yield from _words(member)
