"""Recorded failures: which evidence is a failure, and the error that it becomes."""

from __future__ import annotations

import msgspec
import pytest

from envelopes.alignment.failures import MESSAGE_CHARACTERS, align_failure, read_failure, tool_error
from envelopes.alignment.mapping import Evidence
from envelopes.halves import read_halves
from envelopes.schema.result import JsonValue, ToolError

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
WRAPPED = "<tool_use_error>gone</tool_use_error>"


def recorded(result: JsonValue, receipt: str | None = None, *, is_error: bool | None = None) -> Evidence:
    return Evidence(
        agent="claude-code",
        tool="Glob",
        args={},
        result=result,
        has_result=result is not None,
        receipt_text=receipt,
        is_error=is_error,
    )


@pytest.mark.parametrize(
    ("evidence", "message", "fidelity"),
    [
        (recorded("Error: gone", WRAPPED, is_error=True), "gone", "stringified"),
        (recorded("Error: gone", WRAPPED), "gone", "stringified"),
        (recorded("gone", "gone", is_error=True), "gone", "stringified"),
        (recorded("User rejected tool use", REJECTED), "User rejected tool use", "stringified"),
        (recorded(None, WRAPPED + "\n<system-reminder>x</system-reminder>"), "gone", "parsed_from_receipt"),
        (recorded(None, REJECTED), REJECTED, "parsed_from_receipt"),
        (recorded(None, "gone", is_error=True), "gone", "parsed_from_receipt"),
        (recorded([{"type": "text", "text": "gone"}], "gone", is_error=True), "gone", "structured"),
    ],
)
def test_a_failure_is_recognised_by_its_flag_or_by_its_sentence(
    evidence: Evidence, message: str, fidelity: str
) -> None:
    failure = read_failure(evidence)
    assert failure is not None
    assert failure.complete.error is not None
    assert (failure.complete.error.message, failure.fidelity) == (message, fidelity)


@pytest.mark.parametrize(
    "evidence",
    [
        recorded("Error: gone", "Error: gone", is_error=False),
        recorded("a page about errors", "a page about errors"),
        recorded({"filenames": []}, "No files found"),
        recorded(None, "File does not exist in the list of results"),
        recorded(None, None),
    ],
)
def test_a_text_other_than_a_failure_is_left_to_the_family(evidence: Evidence) -> None:
    assert read_failure(evidence) is None


def test_the_words_of_the_user_are_the_hint_of_a_rejection() -> None:
    failure = read_failure(
        recorded(f"Error: {REJECTED} To tell you how to proceed, the user said:\nuse make", is_error=True)
    )
    assert failure is not None
    assert failure.complete.error is not None
    assert (failure.complete.error.kind, failure.complete.error.recovery_hint) == ("write_denied", "use make")


def test_a_long_message_is_shortened_and_whole_in_the_details() -> None:
    output = "line of a log\n" * 1_000
    failure = read_failure(recorded(f"Error: {output}", is_error=True))
    assert failure is not None
    assert failure.complete.error is not None
    assert failure.complete.error.details == {"text": output}
    assert "[output truncated: showing first" in failure.complete.error.message
    assert len(failure.complete.error.message) < MESSAGE_CHARACTERS + 200


@pytest.mark.parametrize(
    ("result", "text", "places"),
    [
        ("Error: gone", WRAPPED, [(16, 20, 7, 11)]),
        ("Error: gone", "gone", [(0, 4, 7, 11)]),
        ("Error: gone", "Error: gone", [(0, 11, 0, 11)]),
        ("Error: gone", "gone fishing", []),
        ("User rejected tool use", REJECTED, []),
        ({"error": "gone"}, "gone", []),
    ],
)
def test_the_recorded_sentence_is_found_in_the_receipt(
    result: JsonValue, text: str, places: list[tuple[int, int, int, int]]
) -> None:
    spans = align_failure(recorded(result, text, is_error=True), text)
    assert [(span.start, span.end, span.value_start, span.value_end) for span in spans] == places


@pytest.mark.parametrize(
    ("more", "details", "retryable"),
    [
        ({}, None, False),
        ({"details": {"line": 3}, "retryable": True}, {"line": 3}, True),
        ({"details": "x"}, None, False),
    ],
)
def test_a_coded_error_is_taken_member_by_member(more: JsonValue, details: JsonValue, *, retryable: bool) -> None:
    assert isinstance(more, dict)
    failure = read_failure(recorded({"code": "NO_FILE", "message": "gone", **more}, "gone", is_error=True))
    assert failure is not None
    assert failure.complete.error == ToolError(kind="no_file", message="gone", details=details, retryable=retryable)
    assert failure.links["/code"] == "/error/kind"


def test_a_coded_error_has_the_kind_and_the_hint_that_an_executor_recorded() -> None:
    more = {"kind": "rate_limited", "recoveryHint": "ask later"}
    failure = read_failure(recorded({"code": "INTERNAL_ERROR", "message": "busy", **more}, "busy", is_error=True))
    assert failure is not None
    assert failure.complete.error == ToolError(
        kind="rate_limited", message="busy", recovery_hint="ask later", retryable=False
    )
    assert (failure.links["/kind"], "/code" in failure.links) == ("/error/kind", False)
    assert failure.links["/recoveryHint"] == "/error/recovery_hint"


def test_a_code_without_a_message_is_no_coded_error() -> None:
    failure = read_failure(recorded({"code": "NO_FILE", "message": ""}, "gone", is_error=True))
    assert failure is not None
    assert failure.complete.error is not None
    message = "the agent recorded a failure and no message"  # that of the receipt is in the other half
    assert (failure.complete.error.kind, failure.complete.error.message) == ("tool_execution_failed", message)


@pytest.mark.parametrize(
    ("text", "kind", "retryable"),
    [
        ("Permission for this action was denied by the Claude Code auto mode classifier.", "write_denied", False),
        ("claude-x[1m] is temporarily unavailable, so auto mode cannot determine the safety of", "write_denied", True),
        ("Auto mode could not evaluate this action and is blocking it for safety", "write_denied", True),
        ("Permission for this action was denied by the server", "tool_execution_failed", False),
        ("The model is temporarily unavailable", "tool_execution_failed", False),
    ],
)
def test_what_auto_mode_held_back_was_refused(text: str, kind: str, *, retryable: bool) -> None:
    error = tool_error("claude-code", text)
    assert (error.kind, error.retryable) == (kind, retryable)


LISTED = 'Error: InputValidationError: [\n  {\n    "code": "invalid_type",\n    "path": ["command"]\n  }\n]'
TOLD = "InputValidationError: Bash failed due to the following issues:"


@pytest.mark.parametrize(
    ("result", "receipt", "summary"),
    [
        (LISTED, f"<tool_use_error>{TOLD}\nOne is missing\nAn unexpected one was provided</tool_use_error>")
        + (f"{TOLD} One is missing; An unexpected one was provided",),
        (LISTED, "[Old tool result content cleared]", "InputValidationError: ["),
        (LISTED, LISTED.removeprefix("Error: "), "InputValidationError: ["),
        ("Error: InputValidationError: JSON parse failed (15 bytes)", f"<tool_use_error>{TOLD}\nx</tool_use_error>")
        + ("InputValidationError: JSON parse failed (15 bytes)",),
    ],
)
def test_the_summary_of_refused_arguments_is_what_the_model_was_told(result: str, receipt: str, summary: str) -> None:
    failure = read_failure(recorded(result, receipt, is_error=True))
    assert failure is not None
    assert failure.complete.summary_text == summary


FOLDERS = "the allowed working directories for this session: '/home/dev/project'."


@pytest.mark.parametrize(
    "text",
    [
        "Claude requested permissions to write to /home/dev/project/w.txt, but you haven't granted it yet.",
        "Claude requested permissions to use WebFetch, but you haven't granted it yet.",
        f"touch in '/etc/x' was blocked. For security, Claude Code may only create or modify files in {FOLDERS}",
        f"Output redirection to '/etc/x' was blocked. For security, Claude Code may only write to files in {FOLDERS}",
        "Output redirection to '/etc/x' was blocked by a deny rule.",
        "touch in '/etc/x' needs approval. The path is outside the working directories for this session ('/home/dev').",
    ],
)
def test_a_call_that_nobody_permitted_was_refused(text: str) -> None:
    """A command may print the sentence too, so that it needs the flag of the agent."""
    assert tool_error("claude-code", text).kind == "write_denied"
    assert read_failure(recorded(text, text)) is None


def test_a_server_that_blocks_by_a_rule_of_its_own_has_failed() -> None:
    error = tool_error("claude-code", "Request in 'zone' was blocked by a deny rule.")
    assert error.kind == "tool_execution_failed"


def test_a_refusal_that_the_source_states_keeps_its_words() -> None:
    skip = ToolError(kind="denied_by_hook", message="", retryable=False)
    evidence = msgspec.structs.replace(recorded("Error: not here", "not here", is_error=True), skip=skip)
    failure = read_failure(evidence)
    assert failure is not None
    assert failure.complete.error == ToolError(kind="denied_by_hook", message="not here", retryable=False)


WRAPPER = """MCP tool 'slow' reported tool error for function call: {"name":"slow","args":{}} with response: """


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('Qwen Code requires permission to use "edit", but that permission was declined.', "write_denied"),
        ('Tool "run_shell_command" is denied by permission rules. Matching deny rule: "Bash(rm *)".', "write_denied"),
        ('This "run_shell_command" invocation was denied by permission rules.', "write_denied"),
        ("Command 'rm b.txt' is blocked by configuration", "write_denied"),
        ("Command timed out after 2000ms before it could complete.", "command_timed_out"),
        ("MCP error -32001: Request timed out", "timeout"),
        ("MCP error -32000: Connection closed", "tool_execution_failed"),
        (
            f'{WRAPPER}[{{"functionResponse":{{"name":"slow","response":{{"error":{{"message":"MCP error -32001: '
            'Request timed out","isError":true}}}}]',
            "timeout",
        ),
        (
            f'{WRAPPER}[{{"functionResponse":{{"name":"slow","response":{{"content":[{{"type":"text","text":"Request '
            'timed out"}],"isError":true}}}]',
            "tool_execution_failed",
        ),
        ("params/todos/0 must NOT have additional properties", "invalid_tool_input"),
        ("params must NOT have additional properties", "invalid_tool_input"),
    ],
)
def test_the_sentences_of_the_gemini_cli_and_of_qwen_code(text: str, kind: str) -> None:
    """None of them is a failure by itself: an output may begin with it."""
    for agent in ("gemini-cli", "qwen-code"):
        assert tool_error(agent, text).kind == kind
        evidence = Evidence(agent=agent, tool="x", args={}, receipt_text=text)
        assert read_failure(evidence) is None


@pytest.mark.parametrize(
    ("own", "text", "kind"),
    [
        ("execution_denied", "hook says no", "write_denied"),
        ("execution_denied", "File not found: says the hook", "write_denied"),
        ("tool_not_registered", 'Tool "todo_write" is a built-in tool that is disabled by default.', "unknown_tool"),
        ("invalid_tool_params", "Command cannot be empty.", "invalid_tool_input"),
        ("invalid_tool_params", "Command 'rm b.txt' is blocked by configuration", "write_denied"),
        ("mcp_tool_error", "Request timed out", "timeout"),
        ("edit_no_change", "No changes to apply.", "tool_execution_failed"),
    ],
)
def test_the_type_of_an_error_decides_before_its_sentence(own: str, text: str, kind: str) -> None:
    evidence = Evidence(
        agent="qwen-code", tool="x", args={}, result={"errorType": own}, has_result=True, receipt_text=text
    )
    failure = read_failure(msgspec.structs.replace(evidence, is_error=True))
    assert failure is not None
    assert failure.complete.error is not None
    assert (failure.complete.error.kind, failure.complete.error.message) == (kind, text)
    assert (failure.fidelity, failure.links) == ("parsed_from_receipt", {"/errorType": "/error/kind"})
    assert read_failure(evidence) is None


@pytest.mark.parametrize(
    ("result", "message", "details"),
    [
        ({"stdout": "one\ntwo", "code": 2}, "", {"stdout": "one\ntwo", "code": 2}),
        ({"stderr": "no such file", "code": 2}, "no such file", {"stderr": "no such file", "code": 2}),
        ([1, 2], "", {"result": [1, 2]}),
        (
            {"content": [{"type": "text", "text": "gone"}], "structuredContent": {"id": 7}},
            "gone",
            {"content": [{"type": "text", "text": "gone"}], "structuredContent": {"id": 7}},
        ),
        ({"content": [{"type": "text", "text": "gone"}], "isError": True}, "gone", None),
        ({"code": -32001, "message": "gone"}, "gone", None),
    ],
)
def test_a_structured_result_of_a_failed_call_stays_beside_its_message(
    result: JsonValue, message: str, details: JsonValue
) -> None:
    failure = read_failure(recorded(result, "what the model got", is_error=True))
    assert failure is not None
    error = failure.complete.error
    assert error is not None
    assert (error.message, error.details) == (message or "the agent recorded a failure and no message", details)


def test_lines_of_a_failed_call_that_the_receipt_lacks_are_cut() -> None:
    output = "\n".join(f"line {number} of the log" for number in range(50))
    halves = read_halves(
        agent="native",
        tool="deploy",
        args=b"{}",
        result=msgspec.json.encode({"stdout": output, "code": 2}),
        content=msgspec.json.encode(output[:400] + "\n[cut]"),
        is_error=True,
    )
    [field] = halves.known_outputs
    assert (field.field.pointer, halves.is_cut, 0 < field.cut.shown_count < 50) == ("/stdout", True, True)
