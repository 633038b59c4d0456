"""Tests ExecCommand and ExecCommandBatch: their input, their canonical results and their receipts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from envelopes.families.command.results import (
    COMMAND_TASK,
    SKIPPED,
    BatchItem,
    BatchResult,
    CommandResult,
    RunningCommand,
    batch_outcome,
    command_outcome,
)
from envelopes.families.command.tools import ExecCommandInput
from envelopes.families.registry import builtin, may_call, samples
from envelopes.schema.result import TaskHandle, ToolError
from envelopes.storage.sinks import MemorySink
from tests.envelopes.built_in import (
    described_names,
    failure,
    output,
    projected,
    receipt_of,
    receipt_text,
    refusal,
    result_of,
)

TOOLS = ("ExecCommand", "ExecCommandBatch")
GOLDENS = [(tool, sort) for tool in TOOLS for sort in samples(tool)]
LOG = "".join(f"line {number}\n" for number in range(1, 4_001))


NEXT_CALLS = "Wait: TaskOutput task_123; end: TaskStop task_123\n"


def ran(**fields: Any) -> CommandResult:
    return CommandResult(**{"exit_status": 0, **fields})


def command(**fields: Any) -> dict[str, Any]:
    return result_of(output("ExecCommand", ran(**fields)))


def batch(*items: BatchItem, **more: Any) -> BatchResult:
    return BatchResult(items=items, **more)


@pytest.mark.parametrize(("tool", "sort"), GOLDENS, ids=[f"{tool}-{sort}" for tool, sort in GOLDENS])
def test_a_receipt_reads_as_its_golden(tool: str, sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{tool}/{sort}", receipt_text(samples(tool)[sort]))


@pytest.mark.parametrize(("sort", "variant"), [("large", "tail_first"), ("odd", "json_aware")])
def test_a_variant_reads_as_its_golden(sort: str, variant: str, golden: Callable[[str, str], None]) -> None:
    golden(f"ExecCommand/{sort}.{variant}", receipt_text(samples("ExecCommand")[sort], variant))


@pytest.mark.parametrize(
    ("tool", "sort", "facts"),
    [
        ("ExecCommand", "success", ["Process exited with code 0\n\nstdout:\nsrc/runtime/turn.rs\n"]),
        ("ExecCommand", "large", ["code 101\n", "running 1201 tests", "showing first ", "FAILED", "(whole stdout)"]),
        ("ExecCommand", "empty", ["Process exited with code 0\n\nOutput: (none)"]),
        ("ExecCommand", "odd", ['  "checks": [\n', "stderr (without terminal codes):\nwarning: token"]),
        ("ExecCommand", "promoted_silent", ["end: TaskStop task_124\n\nInitial output:\n(none captured)"]),
        (
            "ExecCommand",
            "already_running",
            ["Command is already running", "Task: task_123", "Workdir: web"],
        ),
        (
            "ExecCommand",
            "error",
            ["Kind: execution_root_violation", "Workdir: ../other-repo", "Same call again: will fail"],
        ),
        ("ExecCommandBatch", "success", ["Batch completed 2/2 commands\n\n[1] cargo fmt --check\nexit=0"]),
        ("ExecCommandBatch", "large", ["10/12 commands, 2 failed", "\n[12] cargo test", "exit=101", "stdout of [5])"]),
        ("ExecCommandBatch", "odd", ["rejected=execution_root_violation: the", "failed=command_timed_out: killed"]),
        ("ExecCommandBatch", "odd", ["[4] cargo doc\nskipped=stop_on_error", '  "target": "staging"\n']),
        (
            "ExecCommandBatch",
            "error",
            [
                "`items` has 13 commands, the most is 12; send the rest",
                "Kind: invalid_tool_input",
                "Hint: provide items, 1 to 12",
            ],
        ),
    ],
)
def test_a_receipt_states_its_facts(tool: str, sort: str, facts: list[str]) -> None:
    text = receipt_text(samples(tool)[sort])
    assert not [fact for fact in facts if fact not in text]


def test_a_finished_command_has_the_shape_and_the_receipt_of_the_rfc() -> None:
    complete = output("ExecCommand", ran(stdout="short output preview"), "command exited with status 0")
    canonical = projected(complete).canonical
    assert canonical.to_json() == {
        "tool_name": "ExecCommand",
        "status": "success",
        "summary_text": "command exited with status 0",
        "result": {
            "disposition": "completed",
            "exit_status": 0,
            "stdout_preview": "short output preview",
            "stderr_preview": None,
            "truncated": False,
        },
        "error": None,
    }
    assert receipt_of(canonical).text == "Process exited with code 0\n\nstdout:\nshort output preview"


def test_a_promoted_command_has_the_shape_and_the_receipt_of_the_rfc() -> None:
    task = TaskHandle(task_id="task_123", kind=COMMAND_TASK, status=None)
    promoted = CommandResult(disposition="promoted_to_task", task=task, stdout="short output preview")
    canonical = projected(output("ExecCommand", promoted)).canonical
    assert canonical.result == {
        "disposition": "promoted_to_task",
        "task_handle": {"task_id": "task_123", "kind": "command_task"},
        "initial_output_preview": "short output preview",
        "initial_output_truncated": False,
    }
    assert receipt_of(canonical).text == (
        f"Command promoted to background task\nTask: task_123\n{NEXT_CALLS}\nInitial output:\nshort output preview"
    )


def test_the_error_of_the_rfc_keeps_its_shape_and_its_receipt_has_what_the_model_may_act_on() -> None:
    message = "requested working directory is outside the current execution root"
    error = ToolError(
        kind="execution_root_violation",
        message=message,
        details={"workdir": "../other-repo"},
        recovery_hint="omit workdir or use a relative path inside the active workspace",
        retryable=False,
    )
    canonical = projected(failure("ExecCommand", error, message)).canonical
    assert canonical.to_json() == {
        "tool_name": "ExecCommand",
        "status": "error",
        "summary_text": "requested working directory is outside the current execution root",
        "result": None,
        "error": {
            "kind": "execution_root_violation",
            "message": "requested working directory is outside the current execution root",
            "details": {"workdir": "../other-repo"},
            "recovery_hint": "omit workdir or use a relative path inside the active workspace",
            "retryable": False,
        },
    }
    assert receipt_of(canonical).text == (
        "ExecCommand not run: requested working directory is outside the current execution root\n"
        "Kind: execution_root_violation\n"
        "Workdir: ../other-repo\n"
        "Hint: omit workdir or use a relative path inside the active workspace\n"
        "Same call again: will fail"
    )


@pytest.mark.parametrize(
    ("result", "summary"),
    [
        (ran(exit_status=3), "command exited with status 3"),
        (ran(exit_status=None, stdout='{\n  "name": "a"\n}'), '"name": "a"'),
        (ran(exit_status=None, stdout="\x1b[31m---\x1b[0m\n", stderr="\x1b[1mwarning\x1b[0m: x"), "warning: x"),
        (ran(exit_status=None), "no output"),
        (ran(interrupted=True), "command was interrupted before it finished"),
        (ran(disposition="promoted_to_task"), "command promoted to managed task"),
        (ran(disposition="already_running"), "command is still running"),
    ],
)
def test_a_summary_names_the_end_of_the_command(result: CommandResult, summary: str) -> None:
    assert command_outcome(result) == summary


def test_a_command_that_runs_already_names_its_task_and_where() -> None:
    running = RunningCommand(
        task=TaskHandle(task_id="t1", kind=COMMAND_TASK), cmd="make watch", workdir="web", instructions="i" * 3_000
    )
    result = result_of(output("ExecCommand", running))
    assert (result["disposition"], result["command"], result["workdir"]) == ("already_running", "make watch", "web")
    assert result["task_handle"] == {"task_id": "t1", "kind": "command_task", "status": "running"}
    assert (len(result["command_digest"]), result["instructions_artifact"]) == (64, 0)
    assert "summary" not in result


def test_each_cut_stream_has_its_flag_and_the_index_of_its_whole_text() -> None:
    sink = MemorySink()
    canonical = projected(output("ExecCommand", ran(stdout=LOG, stderr=LOG.upper())), sink).canonical
    result = canonical.result
    assert isinstance(result, dict)
    texts = [sink.texts[artifact.path] for artifact in canonical.artifacts]
    assert (texts[result["stdout_artifact"]], texts[result["stderr_artifact"]]) == (LOG, LOG.upper())
    assert (result["truncated"], result["stdout_truncated"], result["stderr_truncated"]) == (True, True, True)
    text = receipt_of(canonical).text
    assert f"{canonical.artifacts[0].path} (whole stdout)\n{canonical.artifacts[1].path} (whole stderr)" in text


def test_only_the_cut_stream_is_flagged() -> None:
    result = command(stdout=LOG, stderr="warn\n")
    flags = {name for name in result if name.endswith(("_truncated", "_artifact"))}
    assert flags == {"stdout_truncated", "stdout_artifact"}


def test_output_that_was_recorded_as_one_text_has_one_index() -> None:
    sink = MemorySink()
    canonical = projected(output("ExecCommand", ran(combined=LOG)), sink).canonical
    assert isinstance(canonical.result, dict)
    assert (canonical.result["combined_output_truncated"], canonical.result["combined_output_artifact"]) == (True, 0)
    assert [sink.texts[artifact.path] for artifact in canonical.artifacts] == [LOG]


def test_a_promoted_command_reports_that_its_first_output_was_cut() -> None:
    task = TaskHandle(task_id="t1", kind=COMMAND_TASK)
    result = result_of(output("ExecCommand", CommandResult(disposition="promoted_to_task", task=task, stdout=LOG)))
    assert (result["initial_output_truncated"], result["initial_output_artifact"]) == (True, 0)
    assert "showing first" in result["initial_output_preview"]


def test_what_a_command_says_about_its_text_holds_no_text() -> None:
    cmd = "TOKEN=hunter2 ./run " + "x" * 5_000
    result = command(cmd=cmd)
    diagnostics = result["command_diagnostics"]
    counts = (diagnostics["cmd_char_count"], diagnostics["cmd_estimated_tokens"], len(diagnostics["cmd_preview"]))
    assert counts == (5_020, 1_255, 240)
    flags = ("exceeds_soft_threshold", "contains_heredoc", "contains_inline_script")
    assert [diagnostics[name] for name in flags] == [True, False, False]
    assert diagnostics["cmd_digest"] == hashlib.sha256(cmd.encode()).hexdigest()
    assert "hunter2" not in json.dumps(result)
    note = "code 0\nNote: the command text has 5020 characters; keep"
    assert note in receipt_text(output("ExecCommand", ran(cmd=cmd)))


def ran_silently(exit_status: int) -> dict[str, Any]:
    status = {"disposition": "completed", "exit_status": exit_status}
    return {**status, "stdout_preview": None, "stderr_preview": None, "truncated": False}


def test_a_batch_nests_the_result_of_each_command() -> None:
    items = (
        BatchItem(cmd="make", status="completed", result=ran(stdout="ok\n"), duration_ms=7),
        BatchItem(cmd="make test", status="failed", result=ran(exit_status=2)),
        BatchItem(cmd="rm /", status="rejected", error_kind="policy_denied", error_message="no"),
        BatchItem(cmd="ls", status="skipped", error_kind=SKIPPED),
    )
    result = result_of(output("ExecCommandBatch", batch(*items, stop_on_error=True)))
    digests = [item.pop("cmd_digest") for item in result["items"]]
    assert len(set(digests)) == 4
    assert result == {
        "item_count": 4,
        "completed_count": 1,
        "failed_count": 1,
        "rejected_count": 1,
        "skipped_count": 1,
        "stop_on_error": True,
        "items": [
            {
                "index": 1,
                "cmd": "make",
                "status": "completed",
                "result": {
                    "disposition": "completed",
                    "exit_status": 0,
                    "stdout_preview": "ok\n",
                    "stderr_preview": None,
                    "truncated": False,
                },
                "duration_ms": 7,
            },
            {
                "index": 2,
                "cmd": "make test",
                "status": "failed",
                "result": ran_silently(2),
            },
            {"index": 3, "cmd": "rm /", "status": "rejected", "error_kind": "policy_denied", "error_message": "no"},
            {"index": 4, "cmd": "ls", "status": "skipped", "error_kind": "skipped_after_previous_error"},
        ],
        "effective_max_output_tokens": 8_000,
        "output_char_budget": 3,
    }
    assert batch_outcome(batch(*items)) == "batch completed 1/4 commands, 1 failed, 1 rejected, 1 skipped"


def test_a_nested_artifact_is_named_with_its_command() -> None:
    sink = MemorySink()
    items = (
        BatchItem(cmd="a", status="completed", result=ran()),
        BatchItem(cmd="b", status="failed", result=ran(stdout=LOG)),
    )
    canonical = projected(output("ExecCommandBatch", batch(*items)), sink).canonical
    assert isinstance(canonical.result, dict)
    index = canonical.result["items"][1]["result"]["stdout_artifact"]
    path = canonical.artifacts[index].path
    assert sink.texts[path] == LOG
    assert receipt_of(canonical).text.endswith(f"Artifacts, for ReadArtifact path=…:\n{path} (whole stdout of [2])")


def test_a_batch_of_more_than_it_may_hold_says_how_many_are_not_shown() -> None:
    items = [BatchItem(cmd=f"echo {number}", status="completed", result=ran()) for number in range(15)]
    projection = projected(output("ExecCommandBatch", batch(*items)))
    assert isinstance(projection.canonical.result, dict)
    assert (projection.canonical.result["item_count"], projection.canonical.result["items_omitted"]) == (15, 3)
    assert projection.cuts[0].pointer == "/result/items"
    assert receipt_of(projection.canonical).text.endswith("[showing first 12 of 15 commands]")


def test_two_schemas_share_no_field_that_only_one_may_have() -> None:
    single, many = (builtin(tool)[1].input_schema() for tool in TOOLS)
    item = many["$defs"]["BatchCommandInput"]
    only_single = {"tty", "accepts_input", "duplicate_policy"}
    assert set(single["properties"]) == only_single | set(item["properties"])
    assert set(many["properties"]) == {"items", "stop_on_error"}
    assert not set(many["properties"]) & set(single["properties"])
    assert {schema["additionalProperties"] for schema in (single, many, item)} == {False}


def test_startup_fields_and_result_fields_are_apart() -> None:
    startup = {"cmd", "workdir", "shell", "login", "tty", "accepts_input", "yield_time_ms", "max_output_tokens"}
    definition = builtin("ExecCommand")[1]
    fields = set(definition.input_schema()["properties"])
    assert fields == startup | {"duplicate_policy"}
    assert {"status", "task_handle", "disposition", "exit_status", "output_preview"} <= set(definition.result_only)
    assert not fields & set(definition.result_only)


@pytest.mark.parametrize("tool", [*TOOLS, "ApplyPatch", "UseWorkspace"])
def test_each_tool_of_the_local_environment_is_open_to_all_profiles(tool: str) -> None:
    assert builtin(tool)[1].capability == "local_environment"
    assert may_call("public_named", tool)
    assert may_call("private_child", tool)


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("ExecCommand", {"command": "ls"}, "`command` is called `cmd` here"),
        ("ExecCommand", {"cmd": "ls", "status": "running"}, "`status` is result metadata"),
        ("ExecCommand", {"cmd": "ls", "task_handle": {}}, "`task_handle` is result metadata"),
        ("ExecCommand", {"cmd": "ls", "disposition": "completed"}, "`disposition` is result metadata"),
        ("ExecCommand", {"cmd": "ls", "exit_status": 0}, "`exit_status` is result metadata"),
        ("ExecCommand", {"cmd": "ls", "output_preview": ""}, "`output_preview` is result metadata"),
        ("ExecCommand", {"cmd": "ls", "items": []}, "`items` is unknown"),
        ("ExecCommand", {"cmd": "ls", "stop_on_error": True}, "`stop_on_error` is unknown"),
        ("ExecCommand", {"cmd": "ls", "cwd": "."}, "`cwd` is unknown"),
        ("ExecCommand", {"cmd": "ls", "yield_time_ms": -1}, "yield_time_ms"),
        ("ExecCommand", {"cmd": "ls", "duplicate_policy": "queue"}, "duplicate_policy"),
        ("ExecCommand", {}, "`cmd` is missing"),
        ("ExecCommandBatch", {"items": []}, "too few commands, the least is 1"),
        ("ExecCommandBatch", {"items": [{"cmd": "ls"}] * 13}, "has 13 commands, the most is 12"),
        ("ExecCommandBatch", {"items": [{"cmd": "top", "tty": True}]}, "`items[0].tty` is unknown"),
        ("ExecCommandBatch", {"items": [{"cmd": "top", "accepts_input": True}]}, "`items[0].accepts_input` is unknown"),
        ("ExecCommandBatch", {"items": [{"cmd": "x", "duplicate_policy": "reuse"}]}, "duplicate_policy` is unknown"),
        ("ExecCommandBatch", {"cmd": "ls"}, "`cmd` is unknown"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_its_reason(tool: str, arguments: Any, reason: str) -> None:
    error = refusal(tool, arguments)
    assert (error.kind, error.retryable) == ("invalid_tool_input", False)
    assert tool in error.message
    assert reason in receipt_text(failure(tool, error))
    assert error.recovery_hint


def test_a_blank_command_is_refused_and_no_command_is_trimmed() -> None:
    assert (refusal("ExecCommand", {"cmd": " \n"}).details or {})["field"] == "cmd"
    parsed = builtin("ExecCommand")[1].parse({"cmd": " cat <<E\nE\n"})
    assert isinstance(parsed, ExecCommandInput)
    assert parsed.cmd == " cat <<E\nE\n"


def test_startup_options_have_the_defaults_of_the_contract() -> None:
    parsed = builtin("ExecCommand")[1].parse({"cmd": "ls", "yield_time_ms": None, "login": None})
    assert isinstance(parsed, ExecCommandInput)
    assert (parsed.login, parsed.tty, parsed.duplicate_policy, parsed.yield_time_ms) == (
        True,
        False,
        "reuse_running",
        10_000,
    )
    interactive = builtin("ExecCommand")[1].parse({"cmd": "python", "tty": True})
    assert isinstance(interactive, ExecCommandInput)
    assert (parsed.takes_input, interactive.takes_input) == (False, True)


@pytest.mark.parametrize(
    ("tool", "absent"), [("ExecCommand", set()), ("ExecCommandBatch", {"accepts_input", "duplicate_policy"})]
)
def test_the_description_shows_what_the_schema_takes_and_refuses(tool: str, absent: set[str]) -> None:
    definition = builtin(tool)[1]
    for word, examples in (("Valid", definition.examples), ("Invalid", definition.counter_examples)):
        shown_examples = [line for line in definition.description.splitlines() if line.startswith(f"{word}: ")]
        assert [json.loads(line.partition(": ")[2]) for line in shown_examples] == list(examples)
    for example in definition.examples:
        assert definition.parse(example)
    for example in definition.counter_examples:
        assert refusal(tool, example)
    assert described_names(tool) == absent


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            CommandResult(disposition="already_running", task=TaskHandle(task_id="t1", kind=COMMAND_TASK), stdout="a"),
            "Command is still running in the background\nTask: t1\n\nInitial output:\na",
        ),
        (CommandResult(interrupted=True), "Command was interrupted before it finished\n\nOutput: (none)"),
        (
            RunningCommand(task=TaskHandle(task_id="t1", kind=COMMAND_TASK)),
            "Command is already running; no second one was started\nTask: t1\nStatus: running\n\nNo output yet.",
        ),
    ],
)
def test_a_command_that_has_not_ended_by_itself_says_so_first(result: Any, text: str) -> None:
    assert receipt_text(output("ExecCommand", result)) == text
