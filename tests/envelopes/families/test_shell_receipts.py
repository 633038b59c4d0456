"""Commands of the Gemini CLI and of Qwen Code: how they ended, what they printed, and what of it the model got."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.families.command.results import explain_exit
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import JsonValue
from tests.envelopes.recordings.samples import check_links

HEAD = "Command: make\nDirectory: (root)\nOutput: "
PGID = "\nProcess Group PGID: (none)"
TIMED_OUT = "Command timed out after 2000ms before it could complete."
BELOW = " Below is the output before it timed out:\n"
NUMBERS = "\n".join(str(number) for number in range(1, 2_001))
SAVED = "/home/dev/.qwen/tmp/run_shell_command_1.output"
TOO_LARGE = (
    f"Tool output was too large and has been truncated.\nThe full output has been saved to: {SAVED}\n"
    "To read the complete output, use the read_file tool with the absolute file path above.\n\n"
    "Truncated part of the output:\n"
)
MARK = "\n\n---\n... [CONTENT TRUNCATED] ...\n---\n\n"


def sections(exit_code: int | str = "(none)", signal: int | str = "(none)") -> str:
    return f"\nError: (none)\nExit Code: {exit_code}\nSignal: {signal}{PGID}"


def record(output: str, code: int | None, **more: JsonValue) -> dict[str, JsonValue]:
    """What Qwen Code 0.24 records of a command."""
    ended = "completed" if code == 0 else "failed"
    shared = {"type": "shell_result", "version": 1, "signal": None, "outcome": ended, "outputFiles": []}
    return {**shared, "exitCode": code, "output": output, "text": "a view", "error": None, "truncated": False, **more}


def read(receipt: str, result: JsonValue = None, *, agent: str = "qwen-code", command: str = "make") -> Halves:
    halves = read_halves(
        agent=agent,
        tool="run_shell_command",
        args=json.dumps({"command": command}).encode(),
        result=None if result is None else json.dumps(result).encode(),
        content=json.dumps(receipt).encode(),
        is_error=isinstance(result, dict) and result.get("exitCode") != 0,
    )
    check_links(halves)
    return halves


def end_of(halves: Halves) -> tuple[Any, Any]:
    """The exit status or the kind of the error, and the output."""
    canonical = halves.projection.canonical
    if canonical.error:
        return canonical.error.kind, (canonical.error.details or {}).get("output")
    assert isinstance(canonical.result, dict)
    return canonical.result["exit_status"], canonical.result.get("combined_output_preview")


def shown_lines(halves: Halves) -> list[tuple[int, int]]:
    return [range_ for output in halves.known_outputs for range_ in output.cut.shown]


@pytest.mark.parametrize(
    ("receipt", "result", "end", "output"),
    [
        (f"{HEAD}hello{sections(0)}", record("hello", 0), 0, "hello"),
        (f"{HEAD}oops{sections(1)}", record("oops", 1), 1, "oops"),
        (f"{HEAD}x\nExit Code: 0{sections(3)}", record("x\nExit Code: 0", 3), 3, "x\nExit Code: 0"),
        (f"{HEAD}a{sections(signal=15)}", record("a", None, signal=15), "tool_execution_failed", "a"),
        (
            f"{TIMED_OUT}{BELOW}begin",
            record("begin", None, signal=15, outcome="timed_out", error=TIMED_OUT),
            "command_timed_out",
            "begin",
        ),
        (
            "Command was cancelled by user before it could complete. There was no output before it was cancelled.",
            record("", None, outcome="cancelled"),
            "cancelled",
            None,
        ),
        ("spawn failed", record("", None, error="spawn failed"), "tool_execution_failed", None),
    ],
)
def test_the_record_of_a_command_has_its_end(
    receipt: str, result: JsonValue, end: int | str, output: str | None
) -> None:
    halves = read(receipt, result)
    assert end_of(halves) == (end, output)
    assert halves.reading.fidelity == "structured"
    assert not halves.is_cut
    assert halves.receipt is not None
    linked = [part.text for part in halves.receipt.segments if part.source and part.source.pointer == "/output"]
    assert linked == ([output] if output else [])


@pytest.mark.parametrize("code", [0, 3])
def test_the_lines_of_a_recorded_output_that_a_preview_lacks_are_cut(code: int) -> None:
    """The second part begins within a line, before which the agent writes three dots."""
    receipt = f"{TOO_LARGE}{HEAD}{NUMBERS[:291]}{MARK}...98\n1999\n2000{sections(code)}"
    halves = read(receipt, record(NUMBERS, code, outputFiles=[SAVED]))
    assert end_of(halves)[0] == code
    assert halves.is_cut
    assert shown_lines(halves) == [(0, 100), (1998, 2000)]


def test_a_record_that_lacks_the_middle_of_an_output_is_bounded() -> None:
    mark = "\n[... truncated for saved session preview; original length: 8892 characters ...]\n"
    kept = f"{NUMBERS[:3000]}{mark}{NUMBERS[-3000:]}"
    receipt = f"{TOO_LARGE}{HEAD}{NUMBERS[:291]}{MARK}2000{sections(0)}"
    halves = read(receipt, record(kept, 0, truncated=True))
    assert halves.reading.fidelity == "bounded"
    assert halves.is_cut
    unknown = read(f"{TOO_LARGE}another form of a receipt", record(kept, 0, truncated=True))
    assert not unknown.known_outputs


@pytest.mark.parametrize("agent", ["gemini-cli", "qwen-code"])
@pytest.mark.parametrize(
    ("reason", "below", "kind"),
    [
        (TIMED_OUT, BELOW, "command_timed_out"),
        (TIMED_OUT, " There was no output before it timed out.", "command_timed_out"),
        (
            "Command was automatically cancelled because it exceeded the timeout of 0.5 minutes without output.",
            " Below is the output before it was cancelled:\n",
            "command_timed_out",
        ),
        (
            "Command was cancelled by user before it could complete.",
            " Below is the output before it was cancelled:\n",
            "cancelled",
        ),
    ],
)
def test_a_command_that_was_stopped_has_the_output_before_that(agent: str, reason: str, below: str, kind: str) -> None:
    output = "begin\nExit Code: 0" if "Below" in below else None
    receipt = f"{reason}{below}{output or ''}"
    for result in (output, None):
        halves = read(receipt, result, agent=agent)
        assert end_of(halves) == (kind, output)
        assert halves.projection.canonical.error is not None
        assert halves.projection.canonical.error.message == reason
    assert not halves.is_cut


def test_a_command_that_prints_such_a_sentence_ended_by_itself() -> None:
    assert end_of(read(f"{HEAD}{TIMED_OUT}{BELOW}a{sections(0)}")) == (0, f"{TIMED_OUT}{BELOW}a")


@pytest.mark.parametrize("hook", ["\n\nthe hook says so", "\n\n<hook_context>the hook says so</hook_context>"])
@pytest.mark.parametrize(
    ("output", "is_known", "ended", "end"),
    [
        ("bad", True, sections(3), 3),
        ("bad", False, sections(3), 3),
        ("", False, sections(3), 3),
        ("bad", True, sections(signal=15), "tool_execution_failed"),
        ("bad", True, "\nExit Code: 3\nProcess Group PGID: 11200", 3),
        (f"x{sections(0)}\n\nmore", True, sections(3), 3),
        (f"x{sections(0)}\n\nmore", False, sections(3), None),
    ],
)
def test_the_end_of_a_command_is_found_before_what_a_hook_said(
    output: str, ended: str, end: int | str | None, hook: str, *, is_known: bool
) -> None:
    """It is unknown where the output may be one of two and is not recorded."""
    halves = read(f"{HEAD}{output or '(empty)'}{ended}{hook}", output if is_known else None)
    assert end_of(halves)[0] == end
    if end is not None:
        assert end_of(halves)[1] == (output or None)


def test_an_output_that_could_not_be_saved_is_cut() -> None:
    note = "\n[Note: Could not save full output to file]"
    receipt = f"{HEAD}{NUMBERS[:291]}\n... [CONTENT TRUNCATED] ...\n1999\n2000{sections(3)}{note}"
    halves = read(receipt, NUMBERS)
    assert (end_of(halves)[0], halves.is_cut, shown_lines(halves)) == (3, True, [(0, 100), (1998, 2000)])
    unrecorded = read(receipt)
    assert (end_of(unrecorded)[0], unrecorded.is_cut) == (3, True)
    printed = read(f"{HEAD}a\n... [CONTENT TRUNCATED] ...\nb{note}{sections(0)}")
    assert (end_of(printed)[0], printed.is_cut) == (0, False)


def test_a_preview_that_lacks_the_beginning_of_a_long_line_has_its_end() -> None:
    receipt = f"{TOO_LARGE}Command: make{MARK}...{'a' * 900}{sections(0)}"
    halves = read(receipt)
    assert (end_of(halves), halves.is_cut) == ((0, "a" * 900), True)
    linked = read(receipt, record("a" * 9_000, 0)).receipt
    assert linked is not None
    assert [len(part.text) for part in linked.segments if part.source and part.source.pointer == "/output"] == [900]


@pytest.mark.parametrize(("status", "words"), [(1, "No matches found"), (2, None)])
def test_a_search_that_found_nothing_has_not_failed(status: int, words: str | None) -> None:
    result = read(f"{HEAD}(empty){sections(status)}", command="grep zzz b.txt").projection.canonical.result
    assert isinstance(result, dict)
    assert result.get("interpretation") == words


def test_a_command_that_was_held_back_was_refused() -> None:
    """The agent records a success."""
    sentence = "Command injection detected: command substitution syntax ($(), backticks, <() or >())"
    for receipt in (sentence, f"<untrusted_context>\n{sentence}\n</untrusted_context>"):
        assert end_of(read(receipt, agent="gemini-cli"))[0] == "write_denied"
    printed = f"Output: {sentence}\nProcess Group PGID: 7"
    assert end_of(read(printed, agent="gemini-cli")) == (None, sentence)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git diff --quiet a b", "Files differ"),
        ("git -C /w --no-pager diff --exit-code HEAD -- a", "Files differ"),
        ("git diff-index --quiet HEAD", "Files differ"),
        ("git diff --no-index a b", "Files differ"),
        ("git diff", None),
        ("git diff -- --quiet", None),
        ("git log diff --quiet", None),
        ("make && git diff --quiet", None),
        ("git", None),
    ],
)
def test_git_answers_by_an_exit_status_where_it_was_asked_to(command: str, words: str | None) -> None:
    assert explain_exit(command, 1, "") == words
    assert explain_exit(command, 128, "") is None
