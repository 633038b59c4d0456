"""Outputs of Codex as the client sent them: rebuilt and cut texts, failures, code mode, subagents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.halves import read_halves
from envelopes.recordings.base import ReceiptRecord, ResultRecord
from tests.envelopes.recordings.samples import read_bytes
from tests.envelopes.recordings.test_recording_codex import ENDED, RUNNING, event, item, joined_halves, rollout
from tests.envelopes.session_lines import only

LATE = "command timed out after 10000 milliseconds\na\n"
SCRIPT = "Wall time 0.1 seconds\nOutput:\n"
SHOWN = {"output": "Total output lines: 2\n\na\nb\n", "metadata": {"exit_code": 3, "duration_seconds": 2.0}}
SENT = "Exit code: 3\nWall time: 2 seconds\nTotal output lines: 2\nOutput:\na\nb\n"


def answered(
    version: str, model: str, tool: str = "shell", *, patches: bool = False, output: str = ""
) -> ReceiptRecord:
    """The receipt of a call in a session of that release and model, which may have called the patch tool before."""
    kind = "custom_tool_call" if tool == "apply_patch" else "function_call"
    patch = item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="p")
    sample = rollout(
        ("session_meta", {"id": "a", "cli_version": version}),
        ("turn_context", {"turn_id": "t", "model": model}),
        *([patch] if patches else []),
        item(kind, name=tool, arguments="{}", call_id="c"),
        item(f"{kind}_output", call_id="c", output=output or json.dumps(SHOWN)),
    )
    return only(ReceiptRecord, sample.records)[-1]


@pytest.mark.parametrize(
    ("version", "model", "tool", "patches", "is_rebuilt"),
    [
        ("0.44.0", "gpt-5-codex", "shell", False, False),
        ("0.45.0", "gpt-5-codex", "shell", False, True),
        ("0.45.0", "gpt-5", "shell", False, False),
        ("0.80.0-alpha.2", "gpt-5.1", "container.exec", False, True),
        ("0.125.0", "gpt-5.3-codex", "apply_patch", False, True),
        ("0.125.0", "gpt-5-codex", "shell", False, False),  # a model that this release does not know
        ("0.125.0", "a-model", "shell", True, True),
        ("0.104.0", "gpt-5-codex", "exec_command", True, False),
        ("0.131.0", "gpt-5.5", "shell", True, False),
        ("0.131.0", "gpt-5.5", "apply_patch", False, True),
        ("0.132.0", "gpt-5.5", "apply_patch", True, False),
        ("", "gpt-5-codex", "shell", True, False),
    ],
)
def test_an_output_is_the_text_that_the_client_sent(
    version: str, model: str, tool: str, *, patches: bool, is_rebuilt: bool
) -> None:
    receipt = answered(version, model, tool, patches=patches)
    text = json.loads(receipt.content)
    expected = (SENT, "reconstructed") if is_rebuilt else (json.dumps(SHOWN), "recorded")
    assert (text, receipt.fidelity) == expected


@pytest.mark.parametrize("output", ['{"output": 1}', '{"output": "a", "metadata": {}}', "{", '{"output":"\\ud800'])
def test_other_json_is_sent_as_it_is(output: str) -> None:
    receipt = answered("0.104.0", "gpt-5-codex", output=output)
    assert (json.loads(receipt.content), receipt.fidelity) == (output, "recorded")


@pytest.mark.parametrize(
    ("version", "context", "beside", "size", "fidelity"),
    [
        ("0.104.0", {"truncation_policy": {"mode": "bytes", "limit": 10_000}}, {}, 12_000, "recorded"),
        ("0.104.0", {"truncation_policy": {"mode": "bytes", "limit": 10_000}}, {}, 12_001, "inflated"),
        ("0.104.0", {"truncation_policy": {"mode": "tokens", "limit": 10_000}}, {}, 48_000, "recorded"),
        ("0.104.0", {"truncation_policy": {"mode": "tokens", "limit": 10_000}}, {}, 48_001, "inflated"),
        ("0.72.0", {"model": "gpt-5"}, {}, 12_001, "inflated"),
        ("0.72.0", {"model": "gpt-5-codex"}, {}, 48_000, "recorded"),
        ("0.137.0", {"model": "gpt-5.5"}, {}, 48_001, "inflated"),
        ("0.171.0", {"model": "gpt-5.5"}, {"fallback_token_limit_override": 3_000}, 12_001, "inflated"),
        ("0.171.0", {"model": "gpt-5.5"}, {}, 100_000, "recorded"),
        ("0.52.0", {"model": "gpt-5"}, {}, 100_000, "recorded"),
    ],
)
@pytest.mark.parametrize("is_list", [False, True])
def test_an_output_that_the_history_cuts_when_it_is_sent_is_inflated(
    version: str, context: dict[str, Any], beside: dict[str, Any], size: int, fidelity: str, *, is_list: bool
) -> None:
    """The limit is that of the turn, that beside the output, or the default of a release that records none."""
    texts = ["é" * 40, "\n" * (size - 80)]
    output: Any = [{"type": "input_text", "text": text} for text in texts] if is_list else "".join(texts)
    answer = {"type": "function_call_output", "call_id": "c", "output": output}
    lines = [
        {"type": "session_meta", "payload": {"id": "a", "cli_version": version}},
        {"type": "turn_context", "payload": {"turn_id": "t", **context}},
        {"type": "response_item", "payload": answer, "metadata": beside},
    ]
    sample = read_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "rollout-a.jsonl")
    [receipt] = only(ReceiptRecord, sample.records)
    assert (receipt.fidelity, json.loads(receipt.content)) == (fidelity, output)


@pytest.mark.parametrize(
    ("receipt", "summary"),
    [
        (f"Script completed\n{SCRIPT}line 0\nline 1", "line 0"),
        (f"Script completed\n{SCRIPT}", "Script completed"),
        (f"Script running with cell ID 3\n{SCRIPT}line 0", "Script running with cell ID 3"),
    ],
)
def test_the_summary_of_a_program_is_what_it_printed_once_it_is_over(receipt: str, summary: str) -> None:
    content = json.dumps(receipt).encode()
    halves = read_halves(agent="codex", tool="exec", args=b'"x"', result=None, content=content, is_error=None)
    assert halves.projection.canonical.summary_text == summary


def test_what_a_program_of_code_mode_sends_beside_its_output_is_a_further_receipt() -> None:
    sample = rollout(
        item("custom_tool_call", name="exec", input="notify('one')", call_id="c"),
        item("custom_tool_call_output", call_id="c", output="Script completed\nWall time 0.1 seconds\nOutput:\n"),
        item("custom_tool_call_output", call_id="c", name="exec", output="one"),
    )
    receipts = only(ReceiptRecord, sample.records)
    assert [(json.loads(receipt.content)[:6], receipt.is_further) for receipt in receipts] == [
        ("Script", False),
        ("one", True),
    ]


def test_the_tools_that_a_search_found_are_the_text_of_its_receipt() -> None:
    found = [{"type": "function", "name": "mcp__docs__read"}]
    sample = rollout(
        item("tool_search_call", arguments={"query": "docs"}, call_id="c"),
        item("tool_search_output", call_id="c", tools=found),
    )
    [receipt] = only(ReceiptRecord, sample.records)
    assert json.loads(json.loads(receipt.content)) == found


def test_a_call_that_started_a_subagent_names_its_run() -> None:
    """By the record of the call, or by its answer in releases without one."""
    answered_call = rollout(
        item("function_call", name="spawn_agent", arguments="{}", call_id="c"),
        item("function_call_output", call_id="c", output='{"agent_id":"b","nickname":"Locke"}'),
    )
    assert [(result.call, result.child_run) for result in only(ResultRecord, answered_call.records)] == [("c", "b")]
    started = {"type": "CollabAgentToolCall", "id": "call_1", "tool": "spawn_agent", "receiver_thread_ids": ["b"]}
    asked = {**started, "id": "call_2", "tool": "send_input"}
    sample = rollout(*(event("item_completed", item=record) for record in (started, asked)))
    assert {call: result.child_run for call, result in sample.results.items()} == {"call_1": "b", "call_2": None}


FAILED = "tool_execution_failed"
SERVER = 'Wall time: 3.0 seconds\nOutput:\n[{"type":"text","text":"'
CALLED = "tool call error: tool call failed for `a/b`\\n\\n"


@pytest.mark.parametrize(
    ("tool", "receipt", "kind"),
    [
        ("exec_command", "exec command rejected by user", "write_denied"),
        ("exec_command", 'exec_command failed for `rm`: Rejected("rejected by user")', "write_denied"),
        ("exec_command", 'exec_command failed for `x`: CreateProcess { message: "Rejected(\\"No file\\")" }', FAILED),
        ("mcp__a__b", 'err: "tool call error: tool call failed for `a/b`\\n\\nCaused by:\\n    Unexpected"', FAILED),
        ("mcp__a__b", f"{SERVER}{CALLED}Caused by:\\n    timed out awaiting tools/call after 3s", "timeout"),
        ("mcp__a__b", f"{SERVER}{CALLED}Caused by:\\n    Unexpected response type", FAILED),
        (
            "mcp__a__b",
            "Wall time: 0.1 seconds\nOutput:err: key must be a string at line 1 column 2",
            "invalid_tool_input",
        ),
        ("list_mcp_resources", "resources/list failed: resources/list failed for `a`: Method not found", FAILED),
        ("view_image", "unable to locate image at `/a.png`: No such file or directory (os error 2)", FAILED),
        ("request_user_input", "request_user_input is unavailable in Default mode", "unknown_tool"),
        ("shell", "failed in sandbox None with execution error: command timed out", "command_timed_out"),
        ("apply_patch", "apply_patch verification failed: Failed to find expected lines", "invalid_tool_input"),
        ("shell", "failed to parse function arguments: missing field `command`", "invalid_tool_input"),
        ("shell", "aborted by user after 12.1s", "cancelled"),
        ("write_stdin", "write_stdin failed: stdin is closed for this session", "tool_execution_failed"),
        ("shell_command", "Wall time: 8.9 seconds\naborted by user", "cancelled"),
        ("shell", f"Exit code: 124\nWall time: 10 seconds\nOutput:\n{LATE}", "command_timed_out"),
        ("shell", json.dumps({"output": LATE, "metadata": {"exit_code": 124}}), "command_timed_out"),
        ("apply_patch", json.dumps({"output": "no\n", "metadata": {"exit_code": 1}}), "tool_execution_failed"),
        ("apply_patch", "Exit code: 1\nWall time: 0.2 seconds\nOutput:\nno\n", "tool_execution_failed"),
        ("exec", f"Script failed\n{SCRIPT}Script error:\nError: no", "tool_execution_failed"),
        ("exec", f"Script terminated\n{SCRIPT}", "cancelled"),
    ],
)
def test_refusals_and_failures_are_errors_of_their_kind(tool: str, receipt: str, kind: str) -> None:
    halves = read_halves(
        agent="codex", tool=tool, args=b"{}", result=None, content=json.dumps(receipt).encode(), is_error=None
    )
    error = halves.projection.canonical.error
    assert error is not None
    assert (error.kind, halves.reading.fidelity) == (kind, "parsed_from_receipt")


@pytest.mark.parametrize("as_blocks", [False, True])
def test_a_poll_whose_output_quotes_an_exit_does_not_end_its_command(*, as_blocks: bool) -> None:
    def output(text: str) -> object:
        return [{"type": "input_text", "text": text}] if as_blocks else text

    poll = '{"session_id": 7, "chars": ""}'
    sample = rollout(
        item("function_call", name="exec_command", arguments='{"cmd": "make"}', call_id="c"),
        item("function_call_output", call_id="c", output=output(RUNNING)),
        item("function_call", name="write_stdin", arguments=poll, call_id="p"),
        item("function_call_output", call_id="p", output=output(f"{RUNNING}[worker] Process exited with code 0\n")),
        item("function_call", name="write_stdin", arguments=poll, call_id="q"),
        item("function_call_output", call_id="q", output=output(f"{ENDED.replace('code 0', 'code 1')}Error 1\n")),
    )
    assert [call.call for call in sample.calls] == ["c"]
    result = joined_halves(sample, "c").projection.canonical.result
    assert isinstance(result, dict)
    assert result["exit_status"] == 1


def test_an_output_that_quotes_a_session_does_not_open_it() -> None:
    sample = rollout(
        item("function_call", name="exec_command", arguments='{"cmd": "cat notes"}', call_id="c"),
        item("function_call_output", call_id="c", output=f"{ENDED}Process running with session ID 7\nOutput:\n"),
        item("function_call", name="write_stdin", arguments='{"session_id": 7, "chars": ""}', call_id="p"),
        item("function_call_output", call_id="p", output="write_stdin failed: Unknown process id 7"),
    )
    assert [call.call for call in sample.calls] == ["c", "p"]
    receipts = only(ReceiptRecord, sample.records)
    assert [(receipt.call, receipt.is_further, receipt.is_running) for receipt in receipts] == [
        ("c", False, False),
        ("p", False, False),
    ]
