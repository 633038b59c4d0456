"""The seeds' examples and tables hold word for word, except where an E- rule of decisions.md differs."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from envelopes.codecs import call as calls
from envelopes.codecs import content_blocks, holon
from envelopes.families.command.results import COMMAND_TASK, CommandResult
from envelopes.families.registry import builtin, may_call, tools
from envelopes.pipeline.project import project
from envelopes.schema.call import EVENT_TYPES, ToolCall, ToolResult
from envelopes.schema.outcome import (
    DENIAL_GATES,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    outcome_to_model_content,
)
from envelopes.schema.receipt import Segment, text_receipt
from envelopes.schema.result import ArtifactRef, CanonicalResult, CompleteOutput, TaskHandle
from envelopes.schema.settlement import CODES
from envelopes.schema.tool import ToolDefinition
from envelopes.text.preview import head_tail
from envelopes.text.untrusted_json import Untrusted
from tests.cases import each
from tests.envelopes import seed_texts as seeds
from tests.envelopes.built_in import failure, output, projected, receipt_of, refusal
from tests.envelopes.settled import TOOL_CALL, TOOL_RESULT

OUTSIDE = json.loads(seeds.OUTSIDE)["error"]
LONG = "".join(f"line {number}\n" for number in range(2_000))


class Named:
    """A sink that stores nothing and returns the path that an example's runtime uses."""

    def __init__(self, **paths: str) -> None:
        self.paths = paths

    def write(self, role: str, _text: str) -> ArtifactRef:
        return ArtifactRef(self.paths[role])


def ran(sink: Named, **fields: Any) -> dict[str, Any]:
    complete = output("ExecCommand", CommandResult(exit_status=0, **fields), "command exited with status 0")
    family = builtin("ExecCommand")[0]
    return project(complete, family, family.projection, sink).canonical.to_json()


def shortened(result: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """These members in the order of the example, with `...` for a preview as there."""
    return {name: "..." if name.endswith("_preview") else result[name] for name in names}


def with_blank_lines(receipt: str) -> str:
    """E-17: our copy has lost the line before `stdout:` and the like."""
    return re.sub(r"\n(stdout|Initial output):\n", r"\n\n\1:\n", receipt)


@each("text", [seeds.ENVELOPE, seeds.INVALID_INPUT, seeds.COMPLETED, seeds.PROMOTED, seeds.OUTSIDE])
def test_each_envelope_of_the_rfc_is_read_and_written_unchanged(text: str) -> None:
    document = json.loads(text)
    assert json.dumps(CanonicalResult.from_json(document).to_json()) == json.dumps(document)


# What our receipt of a promoted command adds to the RFC's.
NEXT_CALLS = "Wait: TaskOutput task_123; end: TaskStop task_123\n"


def test_a_command_without_its_command_is_refused_as_the_rfc_says() -> None:
    example = json.loads(seeds.INVALID_INPUT)
    canonical = projected(failure("ExecCommand", refusal("ExecCommand", {}), example["summary_text"])).canonical
    assert json.dumps(canonical.to_json()) == json.dumps(example)
    assert receipt_of(canonical).text == (
        'ExecCommand not run: `cmd` is missing. Example: {"cmd": "cargo test"}\n'
        "Kind: invalid_tool_input\n"
        "Hint: provide input for ExecCommand that matches the published tool schema\n"
        "Same call again: will fail"
    )


def test_a_finished_and_a_promoted_command_are_the_examples_of_the_rfc() -> None:
    finished = output(
        "ExecCommand", CommandResult(exit_status=0, stdout="short output preview"), "command exited with status 0"
    )
    canonical = projected(finished).canonical
    assert json.dumps(canonical.to_json()) == json.dumps(json.loads(seeds.COMPLETED))
    assert receipt_of(canonical).text == with_blank_lines(seeds.SHORT)
    # E-7 adds the task's status where it is known; the example does not know it.
    task = TaskHandle(task_id="task_123", kind=COMMAND_TASK, status=None)
    promoted = CommandResult(disposition="promoted_to_task", task=task, stdout="short output preview")
    canonical = projected(output("ExecCommand", promoted, "command promoted to managed task")).canonical
    assert json.dumps(canonical.to_json()) == json.dumps(json.loads(seeds.PROMOTED))
    assert receipt_of(canonical).text.replace(NEXT_CALLS, "") == with_blank_lines(seeds.SHORT_PROMOTED)


def test_the_receipts_that_the_rfc_prefers_are_those_of_our_commands() -> None:
    listed = "src/runtime/turn.rs\nsrc/runtime/lifecycle.rs"
    canonical = projected(output("ExecCommand", CommandResult(exit_status=0, stdout=listed))).canonical
    assert receipt_of(canonical).text == with_blank_lines(seeds.LISTED)
    task = TaskHandle(task_id="task_123", kind=COMMAND_TASK)
    serving = CommandResult(disposition="promoted_to_task", task=task, stdout="Starting server on :3000")
    text = receipt_of(projected(output("ExecCommand", serving)).canonical).text
    assert text.replace(NEXT_CALLS, "") == with_blank_lines(seeds.SERVING)


def test_the_fields_of_a_complete_output_are_those_of_the_rfc() -> None:
    named = re.findall(r"^(\w+): (Option)?", seeds.COMPLETE_OUTPUT, re.MULTILINE)
    optional_by_name = {field.name: field.default is None for field in msgspec.structs.fields(CompleteOutput)}
    assert list(optional_by_name.items()) == [(name, bool(optional)) for name, optional in named]


def test_a_reference_is_a_path_and_nothing_else() -> None:
    assert msgspec.to_builtins(ArtifactRef("/path/to/output.log")) == json.loads(seeds.REFERENCE)


def test_two_streams_are_distinguished_by_their_indexes_as_in_the_rfc() -> None:
    example = json.loads(seeds.TWO_STREAMS)
    sink = Named(stdout="/path/to/stdout.log", stderr="/path/to/stderr.log")
    document = ran(sink, stdout=LONG, stderr=LONG)
    assert shortened(document["result"], list(example["result"])) == example["result"]
    assert document["artifacts"] == example["artifacts"]


def test_one_text_for_both_streams_has_one_index_as_in_the_rfc() -> None:
    example = json.loads(seeds.ONE_STREAM)
    document = ran(Named(combined_output="/path/to/output.log"), combined=LONG)
    assert shortened(document["result"], list(example["result"])) == example["result"]
    assert document["artifacts"] == example["artifacts"]


def test_artifacts_inside_a_result_are_another_codecs_form() -> None:
    """E-4: ours are at the top level; Holon's form beside the indexes is read and written (E-6)."""
    example = json.loads(seeds.NESTED)
    sink = Named(stdout="/path/to/stdout.log", stderr="/path/to/stderr.log")
    document = ran(sink, stdout=LONG, stderr=LONG)
    assert "artifacts" not in document["result"]
    canonical = CanonicalResult.from_json(document)
    nested: Any = holon.encode(canonical)["result"]
    assert shortened(nested, list(example)) == example
    assert holon.decode(holon.encode(canonical)) == canonical


def test_a_command_has_structured_previews_and_no_single_output() -> None:
    example = json.loads(seeds.STRUCTURED)
    result = ran(Named(stdout="/path/to/stdout.log"), stdout=LONG, stderr="warning")["result"]
    assert shortened(result, list(example)) == example
    assert "output" not in result


def test_a_cut_reads_as_in_the_rfc_and_says_of_how_many() -> None:
    """The lint rule `marker_without_size` asks for the total, which the RFC's example leaves out."""
    shown = head_tail(LONG, 400)
    assert shown.cut is not None
    first, last = shown.cut.ends
    example = seeds.HEAD_AND_TAIL.replace("first N and last M", f"first {first} and last {last} of 2000")
    head, tail = ("".join(LONG.splitlines(keepends=True)[part]) for part in (slice(first), slice(-last, None)))
    assert shown.text == example.replace("<first lines>\n", head).replace("<last lines>", tail)


def test_an_error_outside_of_the_root_is_the_example_of_the_rfc() -> None:
    error = msgspec.convert(OUTSIDE, type(refusal("ExecCommand", {})))
    canonical = projected(failure("ExecCommand", error, OUTSIDE["message"])).canonical
    assert json.dumps(canonical.to_json()) == json.dumps(json.loads(seeds.OUTSIDE))


@each(
    ("kind", "names", "example"),
    [(ToolCall, seeds.TOOL_CALL_MEMBERS, TOOL_CALL), (ToolResult, seeds.TOOL_RESULT_MEMBERS, TOOL_RESULT)],
)
def test_a_shape_has_the_members_that_call_lists(kind: Any, names: str, example: str) -> None:
    """A member may be missing when it has a question mark there, or is not in the specification."""
    document = json.loads(example)
    required = {name for name in names.split() if not name.endswith("?")}
    # CALL-053: `data` may be missing from a result, and not from one that is ok as the example is.
    required |= {"data"} if document.get("ok") else set()
    for name in (member.rstrip("?") for member in names.split()):
        without = {key: value for key, value in document.items() if key != name}
        if name in required:
            with pytest.raises(Untrusted, match=rf"\b{name}\b"):
                calls.decode(without, kind)
        else:
            assert calls.encode(calls.decode(without, kind)) == without
    assert set(document) <= {name.rstrip("?") for name in names.split()}


def test_a_call_of_ours_writes_the_members_that_call_lists_and_three_of_its_own() -> None:
    listed = [name.rstrip("?") for name in seeds.TOOL_CALL_MEMBERS.split()]
    whole = json.loads(TOOL_CALL) | dict.fromkeys(("argsHash", "loopId", "plannerVersion", "providerCallId"), "x")
    whole |= {"deadlineAt": "2025-12-16T18:12:30Z", "redactions": ["/a"]}
    whole |= {"coercions": [{"pointer": "/a", "before": "1", "after": 1}]}
    written = calls.encode(calls.decode(whole, ToolCall))
    assert sorted(written) == sorted([*listed, "providerCallId", "coercions", "redactions"])


def test_the_codes_and_the_events_are_those_of_call() -> None:
    assert set(seeds.CODES.split()) == set(CODES.values()) | {"CANCELLED"}
    listed = re.findall(r"^\s*(run\.\w+|step\.\w+)", seeds.EVENTS, re.MULTILINE)
    assert tuple(listed) == EVENT_TYPES


OUTCOMES: dict[str, ToolOutcome] = {
    "ToolExecutionResult": ToolExecutionResult("c1", "T", {"rows": [1]}, 5),
    "ToolTimeout": ToolTimeout("c1", "T", 1_765_908_721.5, 1_200),
    "ToolFailure": ToolFailure("c1", "T", "no disk"),
    "ToolArtifactReference": ToolArtifactReference("c1", "T", "artifacts/a/result.txt", "rows", 13_000),
}


@each("row", seeds.MODEL_SEES.splitlines())
def test_the_model_sees_what_the_outcome_page_says(row: str) -> None:
    """`...` matches any value, or the rest of a string after its fixed beginning."""
    name, _, content = row.partition(" ")
    reason = re.fullmatch(r'ToolDenied\("?(\w+)"?\)', name)
    outcome = OUTCOMES[name] if reason is None else ToolDenied("c1", "T", reason[1], "because")
    seen = outcome_to_model_content(outcome)
    if content == "json.dumps(outcome.output)":
        assert isinstance(outcome, ToolExecutionResult)
        assert seen == json.dumps(outcome.output)
        return
    pattern = re.escape(content).replace(re.escape('..."'), '[^"]*"').replace(re.escape(" ..."), " (true|false)")
    assert re.fullmatch(pattern, seen), (pattern, seen)


def test_the_reasons_of_a_denial_are_the_six_of_the_outcome_page() -> None:
    assert set(re.findall(r'^"(\w+)"', seeds.REASONS, re.MULTILINE)) == set(DENIAL_GATES)


def seed_tools() -> dict[str, ToolDefinition]:
    """The built-in tools without the one that the seeds lack (E-27)."""
    return {name: tool for name, tool in tools().items() if name != "ReadArtifact"}


def test_the_families_of_the_tools_page_are_capabilities() -> None:
    """E-16: the Task tools, in no family there, are CoreAgent's; a profile may be given less."""
    planes = dict(re.findall(r"### (\w+)[\w ]* plane\n((?:\|.*\n?)+)", seeds.PLANES))
    work_items = set(re.findall(r"`(\w+WorkItems?)`", planes["WorkItem"]))
    tasks = set(re.findall(r"`(Task\w+)`", planes["Task"]))
    for row in seeds.FAMILIES.splitlines():
        family, listed, authority = (cell.strip() for cell in row.strip("|").split("|"))
        names = set(re.findall(r"`(\w+)`", listed)) | (work_items if "WorkItem tools" in listed else set())
        capability = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", family.strip("`")).lower()
        expected = names | (tasks if capability == "core_agent" else set())
        assert {name for name, tool in seed_tools().items() if tool.capability == capability} == expected
        assert authority.endswith("profiles")
        assert all(len(tools()[name].profiles) == 2 and may_call("public_named", name) for name in names)


def test_the_planes_of_the_tools_page_list_our_tools() -> None:
    planes = dict(re.findall(r"### ([\w ]+) plane\n((?:\|.*\n?)+)", seeds.PLANES))
    ours = {"WorkItem": "work_item", "Task control": "task_control"}
    for name, rows in planes.items():
        plane = ours.get(name, name.lower())
        listed = set(re.findall(r"^\| `(\w+)`", rows, re.MULTILINE))
        assert {tool for tool, definition in seed_tools().items() if plane in definition.planes} == listed
    named = {tool for rows in planes.values() for tool in re.findall(r"^\| `(\w+)`", rows, re.MULTILINE)}
    assert named == set(seed_tools())


def test_a_definition_has_the_parts_that_the_tools_page_names() -> None:
    """E-16: `family` is our capability, and `parameters` is called `input_schema`."""
    ours = {"family": "capability", "parameters": "input_schema"}
    named = re.findall(r"(family)|\{ (name), (description), (parameters) \}", seeds.DEFINITION)
    for part in {part for parts in named for part in parts if part}:
        for tool in tools().values():
            stated = getattr(tool, ours.get(part, part))
            assert stated() if callable(stated) else stated
    for tool in tools().values():
        schema = tool.input_schema()
        assert (schema["type"], set(schema["properties"])) == ("object", set(tool.input.__struct_fields__))


def test_startup_input_and_result_metadata_of_a_command_are_those_of_the_tools_page() -> None:
    """E-16: the page's list lacks duplicate_policy."""
    properties = set(builtin("ExecCommand")[1].input_schema()["properties"])
    assert properties == {*seeds.STARTUP_INPUT.split(), "duplicate_policy"}
    for field in seeds.RESULT_METADATA.split():
        details = refusal("ExecCommand", {"cmd": "ls", field: "x"}).details or {}
        assert "result metadata" in details["validation_error"]
    result = json.loads(seeds.PROMOTED)["result"]
    assert set(seeds.COMMAND_FIELDS.split()) <= set(result)


def test_a_receipt_as_content_blocks_is_what_the_tools_page_calls_canonical() -> None:
    """E-1: the page's `content` array is a codec of ours, the RFC's envelope is what is stored."""
    blocks = content_blocks.ReceiptBlocks(
        text_receipt((Segment("Process exited with code 0", "headline"),)), (ArtifactRef("artifacts/a/stdout.txt"),)
    )
    document = content_blocks.encode(blocks)
    assert list(document) == ["content", "artifacts"]
    assert document["content"] == [{"type": "text", "text": "Process exited with code 0"}]
