"""Tests commands: reading a recording, projecting and rendering it, and aligning its receipt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.alignment.mapping import Evidence, FieldSlice, Reading, ToolMapping
from envelopes.alignment.spans import find_cut, to_segments
from envelopes.families.command import FAMILY
from envelopes.families.command.projection import split_budget
from envelopes.families.command.results import CommandResult, SavedOutput
from envelopes.halves import read_halves
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, JsonValue
from envelopes.storage.sinks import MemorySink
from tests.envelopes.recordings.samples import check_links

BY_TOOL: dict[str, ToolMapping] = {tool: row for row in reversed(FAMILY.mappings) for tool in row.tools}


def recorded(result: JsonValue, receipt: str | None = None, *, tool: str = "Bash", **more: Any) -> Evidence:
    return Evidence(
        agent="claude-code",
        tool=tool,
        args={"command": "make"},
        result=result,
        has_result=result is not None,
        receipt_text=receipt,
        **more,
    )


def streams(stdout: str = "", stderr: str = "", **more: JsonValue) -> dict[str, JsonValue]:
    return {"stdout": stdout, "stderr": stderr, "interrupted": False, "isImage": False, **more}


def read(evidence: Evidence) -> Reading:
    return BY_TOOL[evidence.tool].read(evidence)


def envelope(complete: CompleteOutput) -> CanonicalResult:
    return project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical


def outcome(evidence: Evidence) -> dict[str, Any]:
    result = envelope(read(evidence).complete).result
    assert isinstance(result, dict)
    return result


def receipt(complete: CompleteOutput, characters: int = 12_000) -> str:
    return render(envelope(complete), FAMILY, RenderPolicy(characters=characters)).text


def linked(evidence: Evidence) -> list[tuple[str, str]]:
    """The parts of the receipt that come from the result, each with its field."""
    text = evidence.receipt_text or ""
    segments = to_segments(text, BY_TOOL[evidence.tool].align(evidence, text))
    return [(segment.text, segment.source.pointer) for segment in segments if segment.source]


def test_a_finished_command_has_no_exit_code_and_no_words_about_one_where_none_was_recorded() -> None:
    reading = read(recorded(streams("ok\n")))
    assert reading.fidelity == "structured"
    assert envelope(reading.complete).result == {
        "disposition": "completed",
        "exit_status": None,
        "stdout_preview": "ok\n",
        "stderr_preview": None,
        "truncated": False,
    }
    assert receipt(reading.complete) == "stdout:\nok\n"


def test_a_failed_command_is_a_success_that_shows_its_exit_code() -> None:
    evidence = recorded("Error: Exit code 2\nmake: *** no rule\n", "Exit code 2\nmake: *** no rule\n", is_error=True)
    reading = read(evidence)
    assert (reading.complete.status, reading.fidelity) == ("success", "stringified")
    assert outcome(evidence)["exit_status"] == 2
    assert outcome(evidence)["combined_output_preview"] == "make: *** no rule\n"
    assert receipt(reading.complete).splitlines()[0] == "Process exited with code 2"
    assert reading.complete.summary_text == "exit 2: make: *** no rule"


def test_a_failed_command_shows_every_recorded_line_to_the_model() -> None:
    evidence = recorded("Error: Exit code 2\nno rule", "Exit code 2\nno rule", is_error=True)
    (field,) = read(evidence).outputs
    spans = BY_TOOL["Bash"].align(evidence, "Exit code 2\nno rule")
    assert linked(evidence) == [("Exit code 2\n", ""), ("no rule", "")]
    assert read(evidence).slices == (FieldSlice("", 7, 19, "/result/exit_status"),)
    assert find_cut("Error: Exit code 2\nno rule", spans, start=field.start).is_whole


def test_a_failed_command_that_printed_nothing_is_its_exit_code_alone() -> None:
    evidence = recorded("Error: Exit code 1", "Exit code 1", is_error=True)
    reading = read(evidence)
    assert (reading.links, reading.outputs, reading.slices) == ({"": "/result/exit_status"}, (), ())
    assert outcome(evidence)["exit_status"] == 1
    assert linked(evidence) == [("Exit code 1", "")]


def test_the_summary_of_a_command_that_timed_out_names_its_limit() -> None:
    text = "Exit code 143\nCommand timed out after 2m 0.0s\nhalf of it"
    complete = read(recorded(f"Error: {text}", text, is_error=True)).complete
    assert complete.error is not None
    assert (complete.error.kind, complete.error.message) == ("command_timed_out", text)
    assert complete.summary_text == "Command timed out after 2m 0.0s"


def test_a_command_that_prints_the_sentence_of_a_time_out_has_failed() -> None:
    text = "Exit code 1\nCommand timed out after 5s"
    evidence = recorded(f"Error: {text}", text, is_error=True)
    assert read(evidence).complete.status == "success"
    assert outcome(evidence)["exit_status"] == 1
    assert outcome(evidence)["combined_output_preview"] == "Command timed out after 5s"


def test_a_failed_command_without_a_result_is_read_from_its_receipt() -> None:
    evidence = recorded(None, "Exit code 1\nno such file", is_error=True)
    assert read(evidence).fidelity == "parsed_from_receipt"
    assert outcome(evidence)["exit_status"] == 1
    assert linked(evidence) == []


@pytest.mark.parametrize(
    ("result", "kind", "retryable"),
    [
        ("User rejected tool use", "write_denied", False),
        (
            "Error: The user doesn't want to proceed with this tool use. The tool use was rejected.",
            "write_denied",
            False,
        ),
        ("Sibling tool call errored", "cancelled", True),
        ("InputValidationError: [\n  {}\n]", "invalid_tool_input", False),
        ("Error: Pre-commit validation failed", "tool_execution_failed", False),
        (streams("half", interrupted=True), "cancelled", True),
    ],
)
def test_what_did_not_run_to_its_end_is_an_error(result: JsonValue, kind: str, *, retryable: bool) -> None:
    error = read(recorded(result, is_error=True)).complete.error
    assert error is not None
    assert (error.kind, error.retryable) == (kind, retryable)


def test_an_interrupted_command_keeps_what_it_had_written() -> None:
    error = read(recorded(streams("half", interrupted=True), is_error=True)).complete.error
    assert error is not None
    assert error.details == {"stdout": "half"}


def test_a_background_command_is_promoted_with_its_task() -> None:
    sentence = "Command running in background with ID: b76. Output is being written to: /tmp/b76.output"
    evidence = recorded(streams(backgroundTaskId="b76"), sentence)
    assert outcome(evidence) == {
        "disposition": "promoted_to_task",
        "task_handle": {"task_id": "b76", "kind": "command_task", "status": "running"},
        "initial_output_preview": None,
        "initial_output_truncated": False,
    }
    assert linked(evidence) == [("b76", "/backgroundTaskId")]
    assert outcome(recorded(None, sentence))["task_handle"]["task_id"] == "b76"


def test_the_receipt_of_a_background_command_has_its_state() -> None:
    result: JsonValue = {"shellId": "s1", "status": "completed", "exitCode": 0, "stdout": "done\n", "stderr": ""}
    text = "<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<stdout>\ndone\n</stdout>"
    evidence = recorded(result, text, tool="BashOutput")
    assert outcome(evidence)["exit_status"] == 0
    assert linked(evidence) == [("completed", "/status"), ("0", "/exitCode"), ("done", "/stdout")]


@pytest.mark.parametrize(
    ("result", "text", "links"),
    [
        (streams("a\nb\n"), "a\nb", [("a\nb", "/stdout")]),
        (streams("\n \n  a\n"), "  a", [("  a", "/stdout")]),
        (streams("a\n", " warn \n"), "a\nwarn", [("a", "/stdout"), ("warn", "/stderr")]),
        (streams("", "warn"), "warn", [("warn", "/stderr")]),
        (streams("a"), "a\nShell cwd was reset to /srv", [("a", "/stdout")]),
        (streams("a"), "a\n<system-reminder>a</system-reminder>", [("a", "/stdout")]),
        (streams("a\n", "warn"), "a", [("a", "/stdout")]),
        (streams("a\n", "warn"), "warn", [("warn", "/stderr")]),
        (streams("a\n", "warn"), "a\nwar", []),
        (streams("a"), "abc", []),
        (streams("a"), "b\na", []),
    ],
)
def test_streams_are_found_where_the_receipt_begins(result: JsonValue, text: str, links: list[tuple[str, str]]) -> None:
    assert linked(recorded(result, text)) == links


def test_a_kept_output_is_linked_by_its_preview_and_its_path() -> None:
    text = (
        "<persisted-output>\nOutput too large (31KB). Full output saved to: /tmp/out.txt\n\n"
        "Preview (first 2KB):\none\ntw\n...\n</persisted-output>"
    )
    evidence = recorded(
        streams("one\ntwo\nthree", persistedOutputPath="/tmp/out.txt", persistedOutputSize=31_000), text
    )
    assert linked(evidence) == [("/tmp/out.txt", "/persistedOutputPath"), ("one\ntw", "/stdout")]
    assert read(evidence).fidelity == "bounded"
    assert outcome(evidence)["truncated"] is True
    cut = find_cut("one\ntwo\nthree", BY_TOOL["Bash"].align(evidence, text)[:1])
    assert (cut.shown_count, cut.total) == (1, 3)


LOG = "a line of the log\n" * 290


@pytest.mark.parametrize(
    ("result", "is_error", "unit"),
    [
        (f"Error: Exit code 1\n{LOG}\n\n... [39012 characters truncated] ...\n\n{LOG}", True, "characters"),
        (f"Error: {LOG}\n\n... [39012 characters truncated] ...\n\n{LOG}", True, "characters"),
        (streams(f"{LOG}\n\n... [40 lines truncated] ..."), False, "lines"),
        (streams(LOG, persistedOutputPath="/t/1.txt", persistedOutputSize=99_000), False, "output"),
    ],
)
def test_a_cut_in_both_halves_is_one_by_the_source(result: JsonValue, *, is_error: bool, unit: str) -> None:
    evidence = recorded(result, str(result).removeprefix("Error: "), is_error=is_error)
    assert [cut.unit for cut in read(evidence).source_cuts] == [unit]
    assert read(evidence).fidelity == "bounded"


@pytest.mark.parametrize(
    "result",
    [
        "Error: Exit code 1\nexpected '\n\n... [40 lines truncated] ...\n\n' in the output",
        streams(f"{LOG}\n\n... [40 lines truncated] ...\n\nwas printed by a test"),
        streams("one\n\n... [40 lines truncated] ..."),
    ],
)
def test_a_command_that_prints_such_a_mark_is_not_cut(result: JsonValue) -> None:
    evidence = recorded(result, None, is_error=isinstance(result, str))
    assert read(evidence).source_cuts == ()
    assert read(evidence).fidelity != "bounded"


def test_a_receipt_cut_in_the_middle_is_linked_at_both_ends() -> None:
    result = streams("1\n2\n3\n4\n5", "w")
    assert linked(recorded(result, "1\n\n... [3 lines truncated] ...\n\n5\nw")) == [
        ("1", "/stdout"),
        ("5", "/stdout"),
        ("w", "/stderr"),
    ]
    assert linked(recorded(result, "1\n\n... [3 lines truncated] ...\n\nelsewhere")) == []


def test_a_large_output_is_cut_with_a_record_and_an_artifact() -> None:
    complete = read(recorded(streams("line\n" * 40_000, "warn\n"))).complete
    sink = MemorySink()
    projection = project(complete, FAMILY, FAMILY.projection, sink)
    result = projection.canonical.result
    assert isinstance(result, dict)
    assert (result["truncated"], result["stdout_truncated"], result["stdout_artifact"]) == (True, True, 0)
    assert "stderr_truncated" not in result
    assert sink.texts[projection.canonical.artifacts[0].path] == "line\n" * 40_000
    assert projection.cuts[0].cut.total == 40_000


@pytest.mark.parametrize("characters", [12_000, 1_000, 300, 40])
def test_a_receipt_never_passes_its_policy(characters: int) -> None:
    long = CommandResult(stdout="out\n" * 9_000, stderr="e" * 90_000, combined="c\n" * 9_000)
    complete = CompleteOutput(tool_name="Bash", status="success", summary_text="done", result=long)
    assert len(receipt(complete, characters)) <= characters


def test_streams_share_a_budget_and_a_short_one_leaves_the_rest() -> None:
    assert split_budget([10, 500, 900], 600) == [10, 295, 295]


@pytest.mark.parametrize("result", [None, [], 7, {}, {"stdout": 3, "stderr": None}, "plain", ["a", {"b": 1}]])
def test_any_recorded_value_is_read_and_rendered(result: JsonValue) -> None:
    evidence = recorded(result, "text")
    assert receipt(read(evidence).complete)
    assert isinstance(linked(evidence), list)


def test_an_image_is_named_and_not_spelled_out() -> None:
    result = outcome(recorded(streams("data:image/png;base64," + "A" * 5_000, isImage=True)))
    assert result["image"] is True
    assert len(result["stdout_preview"]) < 250


@pytest.mark.parametrize(
    ("result", "receipt", "status", "text"),
    [
        ("Error: No shell found", "No shell found", "error", "No shell found"),
        ("", "", "success", "no output"),
        ({"unheard": ["of"]}, "x", "success", "unheard:\n  - of"),
        (None, None, "success", "no result was recorded"),
    ],
)
def test_a_look_at_a_command_that_left_no_streams_shows_what_it_left(
    result: JsonValue, receipt: str | None, status: str, text: str
) -> None:
    complete = read(recorded(result, receipt, tool="BashOutput")).complete
    assert complete.status == status
    assert text in (complete.summary_text, outcome_text(complete))


def outcome_text(complete: CompleteOutput) -> str:
    return complete.result.combined if isinstance(complete.result, CommandResult) else ""


def test_a_look_at_a_command_that_failed_is_linked_to_the_recorded_sentence() -> None:
    evidence = recorded("Error: No shell found", "No shell found", tool="BashOutput")
    assert linked(evidence) == [("No shell found", "")]


def test_a_field_of_a_background_command_that_is_missing_or_otherwise_printed_is_not_linked() -> None:
    text = "<status>running</status>\n\n<stdout>\nsome\n</stdout>"
    evidence = recorded({"status": "running", "stdout": "other", "stderr": ["x"]}, text, tool="BashOutput")
    assert linked(evidence) == [("running", "/status")]


def test_without_a_result_a_kept_output_is_read_from_its_preview_in_the_receipt() -> None:
    preview = (
        "<persisted-output>\nOutput too large (31KB). Full output saved to: /tmp/out.txt\n\n"
        "Preview (first 2KB):\none\ntw\n...\n</persisted-output>"
    )
    reading = read(recorded(None, preview))
    assert reading.fidelity == "parsed_from_receipt"
    assert reading.complete.result == CommandResult(
        combined="one\ntw", saved_output=SavedOutput(path="/tmp/out.txt"), cut_by_source=True
    )


@pytest.mark.parametrize(
    ("agent", "tool", "receipt", "summary"),
    [
        (
            "codex",
            "exec_command",
            "Chunk ID: 1d7024\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nnot permitted: ps\n",
            "exit 1: not permitted: ps",
        ),
        (
            "mini-swe-agent",
            "bash",
            "<returncode>2</returncode>\n<output>\nmake: no rule\n</output>",
            "exit 2: make: no rule",
        ),
        (
            "gemini-cli",
            "run_shell_command",
            "Command: make\nDirectory: (root)\nOutput: make: no rule\nError: (none)\nExit Code: 2",
            "exit 2: make: no rule",
        ),
        (
            "mini-swe-agent",
            "bash",
            "<returncode>2</returncode>\n<output>\n</output>",
            "command exited with status 2",
        ),
        (
            "mini-swe-agent",
            "bash",
            "<returncode>0</returncode>\n<output>\nbuilt\n</output>",
            "built",
        ),
        ("mini-swe-agent", "bash", "<returncode>0</returncode>\n<output>\n</output>", "no output"),
    ],
)
def test_the_summary_of_a_command_has_what_it_printed(agent: str, tool: str, receipt: str, summary: str) -> None:
    mapping = next(row for row in FAMILY.mappings if row.agent == agent and tool in row.tools)
    evidence = Evidence(
        agent=agent, tool=tool, args={"command": "make"}, result=None, has_result=False, receipt_text=receipt
    )
    assert mapping.read(evidence).complete.summary_text == summary


NUMBERED = "".join(f'line "{number:02}" of \x1b[1mthe\x1b[0m output\n' for number in range(90))
TEN = len(NUMBERED) // 9
LONG_LINE = "".join(str(number) for number in range(9_000))
STOPPED = "command timed out after 10000 milliseconds\n"
CUT_TO_20 = f"{NUMBERED[:TEN]}…2000 tokens truncated…{NUMBERED[-TEN:]}"
OMITTED = f"{NUMBERED[:TEN]}\n[... omitted 70 of 90 lines ...]\n\n{NUMBERED[-TEN:]}"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("output", "total", "shown", "ranges"),
    [
        (NUMBERED, None, NUMBERED, [(0, 90)]),
        (NUMBERED, 90, CUT_TO_20, [(0, 10), (80, 90)]),
        (NUMBERED, 90, OMITTED, [(0, 10), (80, 90)]),
        (NUMBERED, 91, STOPPED + CUT_TO_20, [(0, 10), (80, 90)]),
        (NUMBERED, None, STOPPED + NUMBERED, [(0, 90)]),
        (STOPPED + NUMBERED, None, STOPPED + NUMBERED, [(0, 91)]),
        (
            f"a\n{LONG_LINE}\nz\n",
            None,
            f"a\n{LONG_LINE[:99]}…700 tokens truncated…{LONG_LINE[-99:]}\nz\n",
            [(0, 1), (2, 3)],
        ),
        (NUMBERED, 90, f"another{CUT_TO_20}", []),
        (NUMBERED, None, f"another\n{NUMBERED}", []),
    ],
)
def test_codex_shows_the_ends_of_an_output_that_it_cut(
    output: str, total: int | None, shown: str, ranges: list[tuple[int, int]], form: str
) -> None:
    """The number of lines is in the header, or before the output in the JSON of early releases."""
    if form == "json":
        counted = shown if total is None else f"Total output lines: {total}\n\n{shown}"
        receipt = json.dumps({"output": counted, "metadata": {"exit_code": 124}}, ensure_ascii=False)
    else:
        counted = "" if total is None else f"Total output lines: {total}\n"
        receipt = f"Exit code: 124\nWall time: 0.1 seconds\n{counted}Output:\n{shown}"
    result = {"exit_code": 124, "aggregated_output": output, "stdout": "", "stderr": ""}
    content = json.dumps(receipt).encode()
    halves = read_halves(
        agent="codex", tool="shell", args=b"{}", result=json.dumps(result).encode(), content=content, is_error=None
    )
    check_links(halves)
    assert [range_ for cut in halves.outputs for range_ in cut.cut.shown] == ranges
    error = halves.projection.canonical.error
    is_stopped = shown.startswith(STOPPED) and not output.startswith(STOPPED)
    assert (error and error.kind) == ("command_timed_out" if is_stopped else None)
