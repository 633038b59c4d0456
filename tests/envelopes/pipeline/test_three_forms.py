"""Complete output, canonical result and receipt: three forms of one call, each from the one before (RFC-050)."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envelopes.families import FAMILIES
from envelopes.families.base import Projected
from envelopes.families.registry import builtin, samples, tools
from envelopes.families.task.results import FailureArtifact, TaskRead
from envelopes.pipeline.compaction import compact, recap
from envelopes.pipeline.droppable_parts import find_droppable
from envelopes.pipeline.project import project
from envelopes.pipeline.render import lint_input, render
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import SUMMARY_CHARACTERS, CanonicalResult, CompleteOutput, InvalidOutput, ToolError
from envelopes.schema.tool import InvalidToolInput
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve
from envelopes.variants import variants_for
from tests.cases import each
from tests.envelopes.built_in import ceiling, output, projected, receipt_of, receipt_text, refusal
from tests.source import imports, modules, tree

TOOLS = sorted(tools())
SUCCEEDED = [
    (tool, sort) for tool in TOOLS for sort in samples(tool) if samples(tool)[sort].error is None and sort != "odd"
]
# Tools that cut their large sample. To find them here would project every sample in each process that collects this.
LARGE = (
    *("AgentGet", "ApplyPatch", "CompleteWorkItem", "CreateWorkItem", "Enqueue", "ExecCommand"),
    *("ExecCommandBatch", "GetWorkItem", "ListWorkItems", "MemoryGet", "MemorySearch", "PickWorkItem"),
    *("ReadArtifact", "SpawnAgent", "TaskInput", "TaskList", "TaskOutput", "TaskStatus", "TaskStop"),
    *("UpdateWorkItem", "WaitFor", "WebFetch", "WebSearch"),
)
# What only a line of fixed length shortens asks no policy.
POLICED = [tool for tool in LARGE if tool not in ("TaskInput", "TaskStop")]
# Tools that confirm what was done: ten lines say it (RFC-047), and there is nothing to cut.
CONFIRMING = (
    *("ApplyPatch", "CompleteWorkItem", "CreateWorkItem", "Enqueue", "PickWorkItem", "SpawnAgent", "TaskInput"),
    *("TaskStop", "UpdateWorkItem", "UseWorkspace", "WaitFor"),
)
# What another tool takes as an argument, as it is called there and where a tool hands it out.
HANDED_ON = ("task_id", "source_ref", "work_item_id", "delegation_id")
LISTED = ("/tasks/0/id", "/work_items/0/id", "/work_item/id", "/current_work_item/id")


def spoken(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def members(value: Any) -> Iterable[tuple[str, Any]]:
    """Every member by its name, at any depth."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield name, child
            yield from members(child)
    if isinstance(value, list):
        for child in value:
            yield from members(child)


def handed_on(result: Any) -> set[str]:
    """The values in a result that a later call would pass to another tool."""
    handles = {value for name, value in members(result) if name in HANDED_ON and isinstance(value, str)}
    for pointer in LISTED:
        try:
            handles.add(str(resolve(result, pointer)))
        except KeyError:
            continue
    return handles


@each(("tool", "sort"), SUCCEEDED)
def test_what_the_next_call_needs_is_verbatim_in_the_receipt(tool: str, sort: str) -> None:
    canonical = projected(samples(tool)[sort]).canonical
    text = receipt_of(canonical).text
    assert not [value for value in handed_on(canonical.result) if value not in text]


def test_tools_that_start_find_or_list_something_hand_it_on() -> None:
    """Ensures that the test above checks something for each of them."""
    handing = {tool for tool in TOOLS if handed_on(projected(samples(tool)["success"]).canonical.result)}
    assert handing >= {
        "TaskList",
        "TaskStatus",
        "TaskOutput",
        "SpawnAgent",
        "MemorySearch",
        "CreateWorkItem",
        "WaitFor",
    }
    assert handed_on(projected(samples("ExecCommand")["promoted"]).canonical.result) == {"task_123"}


@each("tool", TOOLS)
def test_a_refused_input_becomes_the_error_of_its_envelope_unchanged(tool: str) -> None:
    error = refusal(tool, {"no_such_field": 1})
    assert isinstance(error, ToolError)
    complete = CompleteOutput(tool_name=tool, status="error", summary_text=error.message, error=error)
    document = projected(complete).canonical.to_json()
    assert document["error"] == msgspec.to_builtins(error)
    assert list(document["error"]) == ["kind", "message", "details", "recovery_hint", "retryable"]  # type: ignore[arg-type]
    assert document["result"] is None


@each("tool", TOOLS)
def test_the_error_alone_is_not_what_the_model_reads(tool: str) -> None:
    """RFC-039: the error is a part of the envelope, and the receipt contains more than its message."""
    complete = samples(tool)["error"]
    assert complete.error is not None
    text = receipt_text(complete)
    assert text.startswith((f"{tool} failed: ", f"{tool} not run: "))
    assert msgspec.json.encode(complete.error).decode() not in text


@each(("tool", "sort"), SUCCEEDED)
def test_one_stored_envelope_serves_every_use(tool: str, sort: str) -> None:
    """RFC-017: the stored JSON is enough for receipts, variants, compaction, recap and lint."""
    family, _ = builtin(tool)
    made = projected(samples(tool)[sort]).canonical
    stored = CanonicalResult.from_json(json.loads(json.dumps(made.to_json())))
    assert stored == made
    assert receipt_of(stored) == receipt_of(made)
    assert compact(stored, 300) == compact(made, 300)
    assert recap(stored) == recap(made)
    for variant in variants_for(family):
        first, second = (render(canonical, family, variant.policy, variant=variant) for canonical in (stored, made))
        assert first == second


@each("tool", TOOLS)
def test_a_summary_is_one_short_line_and_survives_into_transcript_and_compaction(tool: str) -> None:
    for complete in samples(tool).values():
        canonical = projected(complete).canonical
        assert 0 < len(canonical.summary_text) <= SUMMARY_CHARACTERS
        assert "\n" not in canonical.summary_text
        assert not canonical.summary_text.lstrip().startswith(("{", "["))
        assert compact(canonical, 1).canonical.summary_text == canonical.summary_text
        assert canonical.summary_text in recap(canonical).text.splitlines()[0]


@pytest.mark.parametrize("sort", ["success", "error"])
def test_a_long_summary_of_an_author_is_shortened_to_one_line_and_says_so(sort: str) -> None:
    """RFC-029: the envelope keeps the limit whatever a tool's author passes."""
    complete = msgspec.structs.replace(samples("ExecCommand")[sort], summary_text="line\n" * 100)
    canonical = projected(complete).canonical
    assert len(canonical.summary_text) == SUMMARY_CHARACTERS
    assert canonical.summary_text.startswith("line line ")
    assert canonical.summary_text.endswith("…")


def test_the_tools_that_cut_their_large_sample_are_listed() -> None:
    assert [tool for tool in TOOLS if projected(samples(tool)["large"]).cuts] == list(LARGE)


@each("tool", LARGE)
def test_the_complete_output_holds_everything_the_canonical_less_and_the_receipt_is_neither(tool: str) -> None:
    complete = samples(tool)["large"]
    canonical = projected(complete).canonical
    whole, bounded, text = spoken(complete.result), spoken(canonical.result), receipt_text(complete)
    assert len(bounded) < len(whole)
    assert len(text) <= ceiling(canonical, 12_000)
    assert text not in (whole, bounded)


@each("tool", POLICED)
def test_a_projector_keeps_to_the_policy_that_it_is_given(tool: str) -> None:
    """RFC-067: a policy other than the family's default is used."""
    tight = ProjectionPolicy(preview=300, details=100, rows=2)
    usual, less = (projected(samples(tool)["large"], policy=policy).canonical for policy in (None, tight))
    assert len(spoken(less.result)) < len(spoken(usual.result)) * 9 // 10
    assert (less.tool_name, less.status, less.summary_text) == (usual.tool_name, usual.status, usual.summary_text)


@each("tool", CONFIRMING)
@each("sort", ["success", "empty"])
def test_a_confirmation_is_a_few_lines_of_text(tool: str, sort: str) -> None:
    text = receipt_text(samples(tool)[sort])
    assert len(text.splitlines()) <= 10
    assert len(text) <= 300
    assert not set(text) & set("{}\\")


@each("tool", CONFIRMING)
@each("sort", ["success", "empty"])
def test_a_confirmation_has_no_member_about_a_cut(tool: str, sort: str) -> None:
    """RFC-093: it has neither a flag that is false nor an index of nothing."""
    canonical = projected(samples(tool)[sort]).canonical
    ending = ("truncated", "_artifact", "_omitted")
    assert not [name for name, member in members(canonical.result) if name.endswith(ending) and isinstance(member, int)]
    assert not canonical.artifacts


@pytest.mark.parametrize(
    ("tool", "field"), [("ExecCommand", "stdout"), ("TaskOutput", "output"), ("MemoryGet", "content")]
)
def test_both_bounded_forms_are_made_of_all_of_the_output(tool: str, field: str) -> None:
    """RFC-065: both contain the end, and the cut counts the whole output."""
    log = "".join(f"line {number} of the log\n" for number in range(5_000))
    complete = samples(tool)["success"]
    canonical = projected(msgspec.structs.replace(complete, result=with_text(complete.result, field, log))).canonical
    for form in (spoken(canonical.result), receipt_of(canonical).text):
        assert "line 4999 of the log" in form
        assert "of 5000 lines]" in form


def with_text(result: Any, field: str, text: str) -> Any:
    if field in result.__struct_fields__:
        return msgspec.structs.replace(result, **{field: text})
    return msgspec.structs.replace(result, memory=msgspec.structs.replace(result.memory, **{field: text}))


def test_a_complete_output_holds_the_full_text_and_says_where_a_durable_log_is() -> None:
    text = "line of a log\n" * 5_000
    read = msgspec.structs.replace(samples("TaskOutput")["success"].result, output=text, log_path="tasks/7/output.log")
    complete = msgspec.structs.replace(samples("TaskOutput")["success"], result=read)
    assert getattr(complete.result, "output") == text  # noqa: B009
    sink = MemorySink()
    canonical = projected(complete, sink).canonical
    assert [artifact.path for artifact in canonical.artifacts] == ["tasks/7/output.log"]
    assert not sink.texts
    assert text not in spoken(canonical)


def test_the_forms_have_these_fields_and_no_other() -> None:
    shared = ("tool_name", "status", "summary_text", "result", "error")
    assert CompleteOutput.__struct_fields__ == shared
    assert CanonicalResult.__struct_fields__ == (*shared, "artifacts")
    assert Receipt.__struct_fields__ == ("parts",)
    required = {"tool_name": "Ask", "status": "success", "summary_text": "done"}
    assert CompleteOutput(**required).result is None  # type: ignore[arg-type]
    for name in required:
        with pytest.raises(TypeError):
            CompleteOutput(**{key: value for key, value in required.items() if key != name})  # type: ignore[arg-type]


class OfNobody(msgspec.Struct, frozen=True):
    text: str


@each("tool", TOOLS)
@each("raw", [{"text": "x"}, "text", None, OfNobody("x")])
def test_a_result_without_a_type_of_its_family_is_refused(tool: str, raw: Any) -> None:
    """RFC-004, RFC-053: neither raw JSON nor another family's struct is a complete result."""
    complete = CompleteOutput(tool_name=tool, status="success", summary_text="done", result=raw)
    with pytest.raises(InvalidOutput, match="neither a result" if raw is None else "is no result of "):
        projected(complete)


def test_only_renderers_write_receipts() -> None:
    """RFC-054: modules that make complete outputs or project them make no segment."""
    in_families = [path for path in modules("envelopes/families") if len(path.parts) == 4]
    making = [path for path in in_families if path.stem not in ("__init__", "receipts")]
    assert len(making) > 20
    assert not [
        str(path) for path in making if _called(path) & {"Segment", "text_receipt"} or "Receipt" in _names(path)
    ]
    assert not [str(path) for path in making if any(".families.segments" in name for name in imports(path))]


def test_errors_never_reach_a_family_and_a_family_never_makes_an_envelope() -> None:
    """RFC-068: the shared pipeline owns envelope and errors, the projector the inner result."""

    def unreachable(*_: Any) -> Projected:
        raise AssertionError("a projector was asked about an error")

    for family in FAMILIES:
        deaf = msgspec.structs.replace(family, project=unreachable)
        error = ToolError(kind="network_failed", message="no route", retryable=True)
        complete = CompleteOutput(tool_name="Ask", status="error", summary_text="failed", error=error)
        assert project(complete, deaf, ProjectionPolicy(), MemorySink()).canonical.error == error
    assert Projected.__struct_fields__ == ("result", "artifacts", "cuts", "sealed", "promised")


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_a_family_has_a_receipt_and_a_projector_of_its_own(family: Any) -> None:
    assert next(iter(family.renderers)) == "receipt"
    assert callable(family.renderers["receipt"])
    assert callable(family.project)
    others = [other for other in FAMILIES if other is not family]
    assert not [other.name for other in others if other.project is family.project]
    assert not [other.name for other in others if other.renderers["receipt"] is family.renderers["receipt"]]


def test_one_output_at_a_time_is_projected_and_none_touches_the_next() -> None:
    """RFC-073: the same output gives the same halves whatever was projected before it, in whatever sink."""
    sink = MemorySink()
    first = [projected(samples(tool)["large"], sink) for tool in TOOLS]
    again = [projected(samples(tool)["large"], sink) for tool in reversed(TOOLS)]
    assert first == again[::-1]


@each("tool", TOOLS)
def test_both_halves_of_one_output_come_back_together(tool: str) -> None:
    family, _ = builtin(tool)
    projection = projected(samples(tool)["large"])
    receipt = render(projection.canonical, family, family.rendering)
    pair = lint_input(projection, receipt)
    assert (pair.canonical, pair.receipt) == (projection.canonical, receipt)
    assert [cut.pointer for cut in pair.cuts] == [cut.pointer for cut in projection.cuts]


def test_references_resolve_to_outputs_failures_reports_and_logs() -> None:
    """RFC-118: a reference is a path; the member with its index names its role (RFC-120, RFC-121)."""
    references: dict[str, set[str]] = {}
    for tool in TOOLS:
        for complete in samples(tool).values():
            canonical = projected(complete).canonical
            for name, index in members(canonical.result):
                if name.endswith("_artifact") and isinstance(index, int):
                    assert canonical.artifacts[index].path
                    references.setdefault(tool, set()).add(name)
            document = canonical.to_json()
            assert all(list(artifact) == ["path"] for artifact in document.get("artifacts", ()))  # type: ignore[union-attr]
    assert references["ExecCommand"] >= {"stdout_artifact"}
    assert references["TaskOutput"] >= {"output_artifact"}
    assert references["TaskList"] == {"tasks_artifact"}
    assert references["ApplyPatch"] == {"changed_files_artifact", "diagnostics_artifact"}
    assert references["TaskStatus"] == {"last_result_artifact"}


def test_a_long_failure_is_referenced_beside_our_own_record_of_it() -> None:
    record = FailureArtifact(category="provider", kind="rate_limited", summary="slow down")
    read = TaskRead(task_id="task_7", failure="at line 1\n" * 1_000, failure_artifact=record)
    canonical = projected(output("TaskOutput", read)).canonical
    task = resolve(canonical.result, "/task")
    assert isinstance(task, dict)
    assert task["failure_text_artifact"] == 0
    assert task["failure_artifact"]["kind"] == "rate_limited"
    assert canonical.artifacts[0].path.endswith("/failure.txt")


def test_handles_survive_where_previews_go() -> None:
    promoted = projected(samples("ExecCommand")["promoted"]).canonical
    assert find_droppable(compact(promoted, 1).canonical.result, "").has_handle


def test_an_input_error_is_raised_with_its_payload() -> None:
    with pytest.raises(InvalidToolInput) as raised:
        builtin("ExecCommand")[1].parse({})
    assert raised.value.error.kind == "invalid_tool_input"
    assert raised.value.error.retryable is False


def test_half_of_a_character_is_a_wrong_input_like_any_other() -> None:
    for arguments in ("\ud800", {"\ud800": 1}, {"status": "\ud800"}):
        with pytest.raises(InvalidToolInput):
            builtin("ListWorkItems")[1].parse(arguments)


def _called(path: Path) -> set[str]:
    return {
        node.func.id for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def _names(path: Path) -> set[str]:
    return {name.rpartition(".")[2] for name in imports(path)}
