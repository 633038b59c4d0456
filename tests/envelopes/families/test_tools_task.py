"""Tests TaskList, TaskStatus, TaskOutput, TaskInput and TaskStop: input, canonical results and receipts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.alignment.mapping import Evidence
from envelopes.families.registry import builtin, samples
from envelopes.families.task import FAMILY
from envelopes.families.task.results import (
    ActiveTasks,
    FailureArtifact,
    InputOffered,
    StopRequested,
    TaskCommand,
    TaskDigest,
    TaskRead,
    TaskState,
)
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import render
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, JsonValue, ToolError
from envelopes.schema.tool import InvalidToolInput, ToolDefinition
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve

TOOLS = ("TaskInput", "TaskList", "TaskOutput", "TaskStatus", "TaskStop")
SORTS = ("success", "error", "large", "empty", "odd")
GALLERY = [(tool, sort) for tool in TOOLS for sort in SORTS]
TESTS, CHILD, PROMPT = (
    FAMILY.gallery[name].result.task  # type: ignore[union-attr]
    for name in ("TaskStatus/success", "TaskStatus/odd", "TaskInput/success")
)


def definition(tool: str) -> ToolDefinition:
    return builtin(tool)[1]


def projected(complete: CompleteOutput, policy: ProjectionPolicy = FAMILY.projection) -> Projection:
    return project(complete, FAMILY, policy, MemorySink())


def output(tool: str, result: msgspec.Struct) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text="done", result=result)


def canonical(tool: str, result: msgspec.Struct) -> dict[str, Any]:
    document = projected(output(tool, result)).canonical.to_json()
    assert isinstance(document["result"], dict)
    return document


def receipt_text(complete: CompleteOutput, limit: int = FAMILY.rendering.characters) -> str:
    return render(projected(complete).canonical, FAMILY, RenderPolicy(characters=limit)).text


def refusal(tool: str, arguments: Any) -> ToolError:
    with pytest.raises(InvalidToolInput) as raised:
        definition(tool).parse(arguments)
    return raised.value.error


@pytest.mark.parametrize(("tool", "sort"), GALLERY, ids=[f"{tool}-{sort}" for tool, sort in GALLERY])
def test_a_receipt_reads_as_its_golden(tool: str, sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{tool}/{sort}", receipt_text(samples(tool)[sort]))


@pytest.mark.parametrize(
    ("tool", "sort", "facts"),
    [
        ("TaskList", "success", ["2 active tasks\n", "task_7 [command_task] running: Run the test suite", "task_8"]),
        (
            "TaskList",
            "large",
            ["73 active tasks\n", "\n[showing first 50 of 73]\n", "Artifacts, for ReadArtifact path=…:\nartifacts/"],
        ),
        ("TaskStatus", "success", ["Task task_7 is running\n", "Kind: command_task", "Accepts input: no"]),
        ("TaskStatus", "odd", ["Child agent: agent_child_2", "Phase: working", "Looked through 40 of 112 files."]),
        (
            "TaskOutput",
            "success",
            ["Task task_7 is completed\n", "Exit status: 0", "\n\nOutput:\n128 passed in"],
        ),
        ("TaskOutput", "large", ["The wait for task task_12 timed out; it is running\n", "[   1/1800]", "[1800/1800]"]),
        (
            "TaskOutput",
            "empty",
            ["Task task_8 is not ready; it is running\n", "Wait on: TaskOutput task_8; end: "],
        ),
        ("TaskOutput", "odd", ["refused 3 requests", "Failure kind: rate_limited", "Caused by: HTTP 429", "40 of 112"]),
        ("TaskInput", "success", ["Input delivered to task task_8 (4 bytes)\n", "Target: tty"]),
        ("TaskInput", "odd", ["Input not accepted: task task_7 is completed"]),
        ("TaskStop", "success", ["Stop requested for task task_7\n", "Kind: command_task"]),
        ("TaskStop", "empty", ["Task task_9 cancelled\n"]),
        ("TaskStop", "odd", ["Force stop requested for task task_7\n"]),
        (
            "TaskStop",
            "error",
            ["Kind: task_not_running", "Same call again: will fail"],
        ),
        ("TaskStatus", "error", ["no task has the id task_404", "Kind: unknown_task", "Hint: call TaskList"]),
    ],
)
def test_a_receipt_states_what_the_model_needs_next(tool: str, sort: str, facts: list[str]) -> None:
    text = receipt_text(samples(tool)[sort])
    assert not [fact for fact in facts if fact not in text]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_examples_of_a_definition_are_accepted_and_its_counter_examples_are_not(tool: str) -> None:
    for arguments in definition(tool).examples:
        definition(tool).parse(arguments)
    for arguments in definition(tool).counter_examples:
        error = refusal(tool, arguments)
        assert (error.kind, error.retryable) == ("invalid_tool_input", False)
        assert error.recovery_hint


@pytest.mark.parametrize("tool", TOOLS)
def test_a_task_tool_belongs_to_the_core_agent_and_the_task_control_plane(tool: str) -> None:
    tool_definition = definition(tool)
    assert (tool_definition.capability, tool_definition.planes) == ("core_agent", ("task_control",))
    assert all(issubclass(result, FAMILY.results) for result in tool_definition.result)


@pytest.mark.parametrize(
    ("tool", "arguments", "details"),
    [
        ("TaskStatus", {"task_id": "  "}, {"field": "task_id"}),
        ("TaskOutput", {"task_id": "t", "timeout_ms": -1}, {"field": "timeout_ms"}),
        ("TaskOutput", {"task_id": "t", "retrieval_status": "success"}, {"field": "retrieval_status"}),
        (
            "TaskStop",
            {"shell_id": "t"},
            {"validation_error": "`shell_id` is called `task_id` here"},
        ),
        ("TaskInput", {"task_id": "t"}, {"parse_error": "missing field `input`"}),
        ("TaskList", {"all": True}, {"parse_error": "unknown field `all`"}),
    ],
)
def test_a_refused_input_says_where_it_is_wrong(tool: str, arguments: Any, details: dict[str, str]) -> None:
    stated = refusal(tool, arguments).details or {}
    assert stated["tool_name"] == tool
    assert {name: stated.get(name) for name in details} == details


def test_what_a_definition_takes_is_trimmed_and_filled_with_defaults() -> None:
    assert msgspec.to_builtins(definition("TaskOutput").parse({"task_id": " t\n", "block": None})) == {
        "task_id": "t",
        "block": True,
        "timeout_ms": 30_000,
    }
    assert msgspec.to_builtins(definition("TaskInput").parse({"task_id": "t", "input": " y\n"}))["input"] == " y\n"
    assert msgspec.to_builtins(definition("TaskInput").parse({"task_id": "t", "input": ""}))["input"] == ""


def test_a_log_is_referenced_by_its_index_even_when_all_of_it_is_shown() -> None:
    envelope = canonical("TaskOutput", TaskRead(task_id="t", status="running", output="one\n", log_path="t/out.log"))
    assert envelope["artifacts"] == [{"path": "t/out.log"}]
    assert envelope["result"]["task"] == {
        "task_id": "t",
        "status": "running",
        "output_preview": "one\n",
        "output_truncated": False,
        "output_artifact": 0,
    }


def test_a_log_that_is_kept_already_is_not_written_again() -> None:
    sink = MemorySink()
    complete = output("TaskOutput", TaskRead(task_id="t", output="line\n" * 4_000, log_path="t/out.log"))
    projection = project(complete, FAMILY, FAMILY.projection, sink)
    assert not sink.texts
    assert [(cut.pointer, cut.cut.total) for cut in projection.cuts] == [("/result/task/output_preview", 4_000)]
    assert receipt_text(complete).endswith("\n\nArtifacts, for ReadArtifact path=…:\nt/out.log")


@pytest.mark.parametrize(("size", "is_cut"), [(8_000, False), (8_001, True)])
def test_the_preview_of_an_output_has_8000_characters_of_head_and_tail(size: int, *, is_cut: bool) -> None:
    task = canonical("TaskOutput", TaskRead(task_id="t", output="x" * size))["result"]["task"]
    assert task["output_truncated"] is is_cut
    assert ("output_artifact" in task) is is_cut
    assert task["output_preview"].count("x") == 8_000


def test_the_report_of_a_child_agent_has_4000_characters() -> None:
    result = TaskRead(task_id="t", output="x" * 9_000, child_supervision=CHILD.child_supervision)
    task = canonical("TaskOutput", result)["result"]["task"]
    assert task["output_preview"].count("x") == 4_000
    assert task["child_supervision"]["followup_target"] == "agent_child_2"


def test_json_output_of_a_task_is_laid_out_within_half_of_the_receipt() -> None:
    """RFC-102."""
    text = receipt_text(output("TaskOutput", TaskRead(task_id="t1", output='{"a":1,"b":[]}\n')))
    assert text.endswith('Output (JSON, laid out for reading):\n{\n  "a": 1,\n  "b": []\n}')
    long = "[" + ",".join("[1]" for _ in range(1_900)) + "]"
    assert receipt_text(output("TaskOutput", TaskRead(task_id="t1", output=long))).endswith(f"Output:\n{long}")


@pytest.mark.parametrize(
    ("read", "is_kept"),
    [
        (TaskRead(output="128 passed\n", result_summary="128 passed"), False),
        (TaskRead(output="one\n128 passed\n", result_summary=" 128 passed "), False),
        (TaskRead(output="log\n", summary="Run the tests", result_summary="Run the tests"), False),
        (TaskRead(output="x" * 20_000, result_summary="x" * 20_000), False),
        (TaskRead(output="log\n", result_summary="128 passed"), True),
        (TaskRead(result_summary="128 passed"), True),
    ],
)
def test_a_result_summary_never_repeats_the_output(read: TaskRead, *, is_kept: bool) -> None:
    assert ("result_summary" in canonical("TaskOutput", read)["result"]["task"]) is is_kept
    assert receipt_text(output("TaskOutput", read)).count("128 passed") <= 1


@pytest.mark.parametrize(
    ("summary", "shown", "is_kept"),
    [
        ("All 128 tests passed. " * 18, "All 128 tests passed. " * 18, False),
        ("x" * 20_000, "x" * 20_000, False),
        ("All 128 tests passed. " * 18, "log\n" + "All 128 tests passed. " * 18, False),
        ("build", "a log of the build\n", True),
        ("build", "", True),
    ],
)
def test_a_summary_never_repeats_the_output(summary: str, shown: str, *, is_kept: bool) -> None:
    """RFC-107: where output, summary and report are one text, only the output is left."""
    read = TaskRead(output=shown, summary=summary, result_summary=summary)
    task = canonical("TaskOutput", read)["result"]["task"]
    assert ("summary" in task) is is_kept
    assert "result_summary" not in task


@pytest.mark.parametrize("sort", ["large", "empty"])
def test_a_wait_without_an_end_is_a_success_with_the_verdict_inside(sort: str) -> None:
    envelope = projected(samples("TaskOutput")[sort]).canonical
    assert (envelope.status, envelope.error) == ("success", None)
    assert envelope.result["retrieval_status"] in ("timeout", "not_ready")  # type: ignore[call-overload, index]


def test_a_refused_input_is_a_success_with_the_reason_in_it() -> None:
    envelope = projected(samples("TaskInput")["odd"]).canonical
    assert (envelope.status, envelope.error) == ("success", None)
    assert envelope.summary_text == "Input not accepted: task task_7 is completed"
    assert envelope.result["accepted_input"] is False  # type: ignore[call-overload, index]


def test_a_refusal_without_a_reason_names_the_state_of_the_task() -> None:
    text = receipt_text(output("TaskInput", InputOffered(task=TESTS, accepted_input=False)))
    assert text.startswith("Input not accepted: task task_7 is running\n")


def test_one_byte_is_no_plural() -> None:
    text = receipt_text(output("TaskInput", InputOffered(task=PROMPT, accepted_input=True, bytes_written=1)))
    assert text.startswith("Input delivered to task task_8 (1 byte)\n")
    unsaid = receipt_text(output("TaskInput", InputOffered(task=PROMPT, accepted_input=True)))
    assert unsaid.startswith("Input delivered to task task_8\n")


def test_a_list_of_tasks_has_50_rows_and_keeps_the_rest_as_an_artifact() -> None:
    sink = MemorySink()
    result: Any = project(samples("TaskList")["large"], FAMILY, FAMILY.projection, sink).canonical.result
    assert (len(result["tasks"]), result["tasks_omitted"], result["tasks_artifact"]) == (50, 23, 0)
    (text,) = sink.texts.values()
    assert len(text.splitlines()) == 73
    assert '"id": "task_73"' in text


def test_a_row_of_the_digest_has_the_identity_of_its_command_and_nothing_else_of_it() -> None:
    command = TaskCommand(cmd="make", workdir="/srv", result_summary="128 passed", exit_status=0, accepts_input=True)
    task = TaskDigest(
        id="t1", kind="command_task", status="running", updated_at="2026-11-02T09:00:00Z", command=command
    )
    (row,) = canonical("TaskList", ActiveTasks((task,)))["result"]["tasks"]
    assert list(row) == ["id", "kind", "status", "updated_at", "wait_policy", "command"]
    assert row["command"] == {"cmd": "make", "cmd_digest": hashlib.sha256(b"make").hexdigest()}


def test_a_row_is_one_line_whatever_its_summary_holds() -> None:
    rows = receipt_text(samples("TaskList")["odd"]).splitlines()
    assert rows[0] == "2 active tasks"
    assert rows[1] == "task_7 [command_task] running"
    assert rows[2].startswith("task_8 [command_task] running: Line one line two and so on")
    assert rows[2].endswith("…")


def test_a_status_never_holds_output() -> None:
    task = projected(samples("TaskStatus")["success"]).canonical.result["task"]  # type: ignore[call-overload, index]
    assert not [name for name in task if "output" in name]
    assert {"task_id", "kind", "status", "created_at", "updated_at", "wait_policy", "command"} <= set(task)


def test_an_unstated_field_is_left_out() -> None:
    task = projected(samples("TaskStatus")["empty"]).canonical.result["task"]  # type: ignore[call-overload, index]
    assert list(task) == ["task_id", "kind", "status", "created_at", "updated_at", "wait_policy"]


def test_a_foreign_stop_names_its_command_at_the_place_of_every_other_command() -> None:
    row = next(row for row in FAMILY.mappings if "TaskStop" in row.tools)
    recorded: JsonValue = {
        "message": "Stopped b43",
        "task_id": "b43",
        "task_type": "local_bash",
        "command": "npm run dev",
    }
    evidence = Evidence(agent="claude-code", tool="TaskStop", args={}, result=recorded, has_result=True)
    reading = row.read(evidence)
    document = projected(reading.complete).canonical.to_json()
    assert resolve(document, reading.links["/command"]) == "npm run dev"
    assert receipt_text(reading.complete) == (
        "Stop requested for task b43\nKind: local_bash\nCommand: npm run dev\n\nStopped b43"
    )


def test_a_text_of_an_unknown_shape_is_shown_as_it_was_recorded() -> None:
    assert receipt_text(output("TaskStop", RecordedText("What the agent said"))) == "done\n\nWhat the agent said"


def test_a_long_chain_of_causes_states_how_many_are_missing() -> None:
    failure = FailureArtifact(
        category="runtime",
        kind="panic",
        summary="The worker ended",
        source_chain=tuple(f"cause {number} " + "." * 90 for number in range(40)),
        metadata={"backtrace": "x" * 5_000},
    )
    complete = output("TaskOutput", TaskRead(task_id="t", status="failed", failure_artifact=failure))
    result: Any = projected(complete).canonical.result
    artifact = result["task"]["failure_artifact"]
    assert len(artifact["source_chain"]) + artifact["source_chain_omitted"] == 40
    assert artifact["metadata_omitted"] == 1
    assert f"[showing first {len(artifact['source_chain'])} of 40]" in receipt_text(complete)


TEXT = st.text(st.characters(exclude_categories=()), max_size=20) | st.builds(
    lambda part, times: part * times, st.sampled_from(["a line\n", "word ", "é", "x"]), st.integers(0, 1_500)
)
ID = st.text("abc_0123456789", min_size=1, max_size=12)
SUMMARY = st.none() | TEXT
SNAPSHOT = st.builds(
    lambda base, task_id, summary, status: msgspec.structs.replace(
        base, task_id=task_id, summary=summary, status=status
    ),
    st.sampled_from([TESTS, PROMPT, CHILD]),
    ID,
    SUMMARY,
    st.sampled_from(["queued", "running", "cancelling", "completed", "failed", "cancelled", "interrupted"]),
)
FAILURE = st.builds(
    lambda summary, chain, metadata: FailureArtifact(
        category="runtime", kind="panic", summary=summary, source_chain=tuple(chain), metadata=metadata
    ),
    TEXT,
    st.lists(TEXT, max_size=30),
    st.dictionaries(ID, TEXT | st.integers() | st.none(), max_size=5),
)
DIGEST = st.builds(
    lambda task_id, summary: TaskDigest(
        id=task_id, kind="command_task", status="running", summary=summary, updated_at="2026-05-27T09:14:32Z"
    ),
    ID,
    SUMMARY,
)
OUTPUTS = {
    "TaskList": st.builds(lambda tasks: ActiveTasks(tuple(tasks)), st.lists(DIGEST, max_size=70)),
    "TaskStatus": st.builds(TaskState, SNAPSHOT),
    "TaskOutput": st.builds(
        TaskRead,
        retrieval_status=st.sampled_from(["success", "timeout", "not_ready", None]),
        task_id=st.none() | ID,
        summary=SUMMARY,
        output=TEXT,
        log_path=st.none() | st.just("tasks/t/output.log"),
        result_summary=SUMMARY,
        failure_artifact=st.none() | FAILURE,
        child_supervision=st.none() | st.just(CHILD.child_supervision),
    ),
    "TaskInput": st.builds(
        InputOffered,
        task=SNAPSHOT,
        accepted_input=st.booleans(),
        refusal=SUMMARY,
        bytes_written=st.none() | st.integers(0),
        input_target=st.sampled_from([None, "stdin", "tty", "child"]),
    ),
    "TaskStop": st.builds(StopRequested, task=SNAPSHOT, force_stop_requested=st.booleans()),
}


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
def test_any_output_of_a_task_tool_keeps_the_invariants(tool: str, data: st.DataObject) -> None:
    complete = output(tool, data.draw(OUTPUTS[tool]))
    policy = ProjectionPolicy(
        preview=data.draw(st.integers(0, 8_000)),
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
    receipt = render(projection.canonical, FAMILY, RenderPolicy(characters=limit))
    assert len(receipt.text) <= limit
    for segment in receipt.segments:
        if segment.source is not None and segment.source.start is not None:
            text = resolve(document, segment.source.pointer)
            assert isinstance(text, str)
            assert text[segment.source.start : segment.source.end] == segment.text
