"""Chats of the Gemini CLI: documents, and files of lines whose messages come again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.halves import Halves, read_halves
from envelopes.recordings.base import EventRecord, MessageRecord, ReceiptRecord, RunRecord, UsageRecord
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

CHATS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("gemini_cli/*.json"))
DIFF = "Index: a.py\n===\n--- a.py\tCurrent\n+++ a.py\tProposed\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"


def chat_lines(*objects: dict[str, Any]) -> bytes:
    header = {"sessionId": "s1", "projectHash": "p", "startTime": "2026-06-01T10:00:00Z"}
    return b"".join(json.dumps(line).encode() + b"\n" for line in (header, *objects))


def tool_call(call: str = "read_file-1", **fields: Any) -> dict[str, Any]:
    answer = [{"functionResponse": {"id": call, "name": "read_file", "response": {"output": "one\ntwo"}}}]
    return {
        "id": call,
        "name": "read_file",
        "args": {"file_path": "a.py"},
        "status": "success",
        "result": answer,
    } | fields


def halves_of(tool: str, args: Any, receipt: Any, *, result: Any = None, is_error: bool = False) -> Halves:
    return read_halves(
        agent="gemini-cli",
        tool=tool,
        args=json.dumps(args).encode(),
        result=None if result is None else json.dumps(result).encode(),
        content=json.dumps(receipt).encode(),
        is_error=is_error,
    )


def links_of(halves: Halves) -> list[tuple[str, str, str]]:
    assert halves.receipt is not None
    segments = halves.receipt.segments
    return [(part.text, part.source.document, part.source.pointer) for part in segments if part.source]


def result_of(halves: Halves) -> dict[str, Any]:
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize("path", CHATS)
def test_calls_results_and_receipts_are_those_of_the_document(path: str) -> None:
    sample = read_sample(path)
    document = json.loads((FOLDER / path).read_bytes())
    calls = [call for message in document["messages"] for call in message.get("toolCalls", ())]
    outputs = {call["id"]: call["result"][0]["functionResponse"]["response"]["output"] for call in calls}
    records = {
        call["id"]
        for call in calls
        if isinstance(shown := call.get("resultDisplay"), dict)
        or (call["name"] == "run_shell_command" and shown and f"\nOutput: {shown}\nError: " in outputs[call["id"]])
    }
    assert [(call.call, call.tool, json.loads(call.args)) for call in sample.calls] == [
        (call["id"], call["name"], call["args"]) for call in calls
    ]
    assert {call: json.loads(receipt.content) for call, receipt in sample.receipts.items()} == outputs
    assert set(sample.results) == records
    assert not sample.problems


@pytest.mark.parametrize("path", CHATS)
def test_receipts_are_slices_of_their_lines(path: str) -> None:
    sample = read_sample(path)
    lines = sample.raw.splitlines(keepends=True)
    for receipt in only(ReceiptRecord, sample.records):
        assert receipt.content in lines[receipt.line - 1]


def test_a_document_on_one_line_orders_its_records_by_position() -> None:
    path = CHATS[0]
    spread = read_sample(path)
    compact = read_bytes(json.dumps(json.loads(spread.raw)).encode(), "chat.json")
    assert [call.call for call in compact.calls] == [call.call for call in spread.calls]
    places = [record.place for record in only(MessageRecord, compact.records)]
    assert places == sorted(set(places))
    assert {call.line for call in compact.calls} == {1}


def test_the_run_has_its_title_its_model_and_the_weight_of_its_requests() -> None:
    sample = read_sample("gemini_cli/session-2026-01-16T11-01-file-ops-37b7abef.json")
    runs = only(RunRecord, sample.records)
    assert {run.run for run in runs} == {"37b7abef-713d-4522-85f0-8ff15a4e6d17"}
    assert [run.title for run in runs if run.title] == ["show tools"]
    assert any(run.model and run.model.startswith("gemini") for run in runs)
    document = json.loads(sample.raw)
    inputs = [message["tokens"]["input"] for message in document["messages"] if message.get("tokens")]
    assert [usage.context_tokens for usage in only(UsageRecord, sample.records)] == inputs


def test_a_message_that_comes_again_adds_what_is_new_of_it() -> None:
    first = {"id": "m1", "type": "gemini", "content": "Reading.", "timestamp": "2026-06-01T10:00:01Z"}
    raw = chat_lines(
        {"id": "m0", "type": "user", "content": [{"text": "read a.py"}]},
        first,
        first | {"toolCalls": [tool_call()]},
        {"$set": {"summary": "Reads a file"}},
        first | {"toolCalls": [tool_call(), tool_call("read_file-2", status="error")]},
    )
    sample = read_bytes(raw, "session.jsonl")
    assert sample.format.name == "gemini-cli-jsonl"
    assert [message.content for message in only(MessageRecord, sample.records)] == [
        b'[{"text": "read a.py"}]',
        b'"Reading."',
    ]
    assert {call.call for call in sample.calls} == {"read_file-1", "read_file-2"}
    assert [run.title for run in only(RunRecord, sample.records) if run.title] == ["read a.py", "Reads a file"]
    assert read_in_parts(raw, "session.jsonl", 2) == list(sample.records)


def test_a_rewind_names_the_lines_that_left_the_conversation() -> None:
    raw = chat_lines(
        {"id": "m0", "type": "user", "content": "one"},
        {"id": "m1", "type": "gemini", "content": "two"},
        {"$rewindTo": "m0"},
        {"type": "warning", "id": "w", "content": "low disk"},
    )
    rewind, warning = only(EventRecord, read_bytes(raw, "session.jsonl").records)
    assert (rewind.kind, json.loads(rewind.payload)) == ("rewind", {"left": [2, 4], "returned": None})
    assert (warning.kind, warning.message) == ("warning", "low disk")


def test_a_receipt_with_other_parts_is_the_whole_list() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    mixed = tool_call("c", result=[*tool_call()["result"], image])
    sample = chat(mixed)
    assert json.loads(sample.receipts["c"].content) == mixed["result"]


def chat(*calls: dict[str, Any]) -> Sample:
    document = {
        "sessionId": "s",
        "projectHash": "p",
        "messages": [{"id": "m", "type": "gemini", "content": "", "toolCalls": list(calls)}],
    }
    return read_bytes(json.dumps(document, indent=1).encode(), "chat.json")


def test_an_edit_with_a_recorded_difference_has_both_halves() -> None:
    display = {"fileName": "a.py", "filePath": "/w/a.py", "fileDiff": DIFF, "originalContent": "one\ntwo\n"}
    answer = [{"functionResponse": {"response": {"output": "Successfully modified file: /w/a.py (1 replacements)."}}}]
    sample = chat(tool_call("e", name="replace", result=answer, resultDisplay=display))
    assert json.loads(sample.results["e"].result or b"") == display
    (halves,) = sample.halves()
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert (result["additions"], result["deletions"], result["changed_paths"]) == (1, 1, ["/w/a.py"])
    assert halves.receipt is not None
    assert [segment.text for segment in halves.receipt.segments if segment.source] == ["/w/a.py"]


def test_a_display_for_a_person_is_no_result() -> None:
    sample = chat(tool_call("c", resultDisplay="Listed 5 item(s)."))
    assert not sample.results
    (halves,) = sample.halves()
    assert halves.reading.fidelity == "parsed_from_receipt"


def test_a_command_is_read_from_its_receipt() -> None:
    receipt = (
        "Command: make test\nDirectory: (root)\nOutput: a\nExit Code: 9\nb\nError: (none)\nExit Code: 2\nSignal: 0\n"
        "Background PIDs: (none)\nProcess Group PGID: 7"
    )
    halves = halves_of("run_shell_command", {"command": "make test"}, receipt)
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert (result["exit_status"], result["combined_output_preview"]) == (2, "a\nExit Code: 9\nb")
    assert halves.receipt is not None
    assert [segment.text for segment in halves.receipt.segments if segment.source] == ["make test"]


def test_an_output_may_end_like_the_sections_behind_it() -> None:
    display = "building\nExit Code: 2"
    result = [{"functionResponse": {"response": {"output": f"Output: {display}\nProcess Group PGID: 7"}}}]
    for shown, end in ((display, None), ("building", 2)):
        sample = chat(tool_call("c", name="run_shell_command", result=result, resultDisplay=shown))
        [halves] = sample.halves()
        assert result_of(halves)["exit_status"] == end
        assert not halves.is_cut


@pytest.mark.parametrize("display", [{"resultDisplay": "partial"}, {}])
@pytest.mark.parametrize(("signal", "kind"), [("9", "tool_execution_failed"), ("SIGTERM", "tool_execution_failed")])
def test_a_command_that_was_ended_by_a_signal_failed(signal: str, kind: str, display: dict[str, str]) -> None:
    result = [{"functionResponse": {"response": {"output": f"Output: partial\nSignal: {signal}"}}}]
    [halves] = chat(tool_call("c", name="run_shell_command", result=result, **display)).halves()
    error = halves.projection.canonical.error
    assert error is not None
    assert (error.kind, error.details) == (kind, {"output": "partial"})
    assert signal in error.message


def test_a_long_line_of_a_file_that_was_broken_off_is_cut() -> None:
    receipt = f"Showing lines 1-2 of 2 total lines.\n\n---\n\none\n{'x' * 2_000}... [truncated]"
    [cut] = halves_of("read_file", {"file_path": "a.py"}, receipt).reading.source_cuts
    assert (cut.unit, cut.count) == ("line ends", 1)


def test_a_read_that_stopped_at_the_limit_of_the_tool_is_cut() -> None:
    receipt = "[File content truncated: showing lines 1-2 of 9 total lines. Use offset and limit.]\none\ntwo"
    halves = halves_of("read_file", {"file_path": "a.py"}, receipt)
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert (result["content_preview"], result["start_line"], result["total_lines"]) == ("one\ntwo", 1, 9)
    assert halves.is_cut
    assert not halves_of("read_file", {"file_path": "a.py", "limit": 2}, receipt).is_cut


@pytest.mark.parametrize(
    ("receipt", "kind"),
    [
        ("[Operation Cancelled] Reason: User denied execution.", "write_denied"),
        ("[Operation Cancelled] Reason: User cancelled tool execution.", "cancelled"),
        ("[Operation Cancelled] Reason: Operation cancelled by user", "cancelled"),
        (
            "Command was cancelled by user before it could complete. There was no output before it was cancelled.",
            "cancelled",
        ),
        ("File not found: /w/a.py", "missing_file"),
        ("params must have required property 'file_path'", "invalid_tool_input"),
        ("something else went wrong", "tool_execution_failed"),
    ],
)
def test_failures_are_errors_of_their_kind(receipt: str, kind: str) -> None:
    error = halves_of("read_file", {"file_path": "a.py"}, receipt, is_error=True).projection.canonical.error
    assert error is not None
    assert error.kind == kind


def test_a_damaged_part_is_named_and_the_rest_is_read() -> None:
    document = {
        "sessionId": "s",
        "projectHash": "p",
        "messages": [7, {"id": "m", "type": "gemini", "toolCalls": [{"name": "x"}, tool_call("c")]}],
    }
    sample = read_bytes(json.dumps(document).encode(), "chat.json")
    assert [(problem.path, problem.part) for problem in sample.problems] == [
        ("$.messages[0]", True),
        ("$.messages[1].toolCalls[0]", True),
    ]
    assert [call.call for call in sample.calls] == ["c"]
    (refused,) = read_bytes(json.dumps(document, indent=1).encode()[:-9], "chat.json").problems
    assert (refused.line, refused.part, refused.lines > 1) == (1, False, True)


def test_the_report_of_a_subagent_is_read_from_the_receipt() -> None:
    receipt = "Subagent 'scout' finished.\nTermination Reason: GOAL\nResult:\nAll is well.\nNo more."
    halves = halves_of("delegate_to_agent", {"agent_name": "scout", "objective": "Look."}, receipt)
    assert (halves.family, halves.reading.fidelity) == ("agent", "parsed_from_receipt")
    assert halves.projection.canonical.summary_text == "Agent scout ended: GOAL"
    assert halves.receipt is not None
    assert [(part.text, part.source.pointer) for part in halves.receipt.segments if part.source] == [
        ("scout", "/agent_name")
    ]
    other = halves_of("delegate_to_agent", {"agent_name": "scout"}, "another wording")
    assert (other.family, other.note) == ("agent", "")


SAVED = "Output too large. Showing first 20 and last 40 characters. For full output see: /t/1.txt\n{}"
MASKED = "<tool_output_masked>\n{}\n\nOutput too large. Full output available at: /t/1.txt\n</tool_output_masked>"


@pytest.mark.parametrize(("receipt", "is_cut"), [(SAVED, True), (MASKED, False)])
def test_the_end_of_a_command_is_read_from_the_preview_of_its_output(receipt: str, *, is_cut: bool) -> None:
    """What took the place of an output later is no cut: the model had the output."""
    shown = "Output: one\n\n... [380 lines omitted] ...\n\ntwo\nExit Code: 2\nProcess Group PGID: 7"
    halves = halves_of("run_shell_command", {"command": "make"}, receipt.format(shown))
    result = result_of(halves)
    assert (result["exit_status"], result["saved_output"]["path"]) == (2, "/t/1.txt")
    assert result["combined_output_preview"] == "one\n\n... [380 lines omitted] ...\n\ntwo"
    assert halves.is_cut == is_cut


@pytest.mark.parametrize("tool", ["read_file", "grep_search", "glob", "google_web_search", "web_fetch"])
def test_a_preview_is_not_read_as_the_output(tool: str) -> None:
    halves = halves_of(tool, {"query": "q", "pattern": "q"}, MASKED.format('{\n  "output": "one\\ntw'))
    assert set(result_of(halves)) == {"text"}
    assert not halves.is_cut


def test_a_command_in_the_background_is_a_task() -> None:
    receipt = "Command moved to background (PID: 4242). Output hidden. Press Ctrl+B to view."
    result = result_of(halves_of("run_shell_command", {"command": "make watch"}, receipt))
    assert (result["disposition"], result["task_handle"]["task_id"]) == ("promoted_to_task", "4242")


MATCHES = (
    'Found 2 matches for pattern "add" in path "."{}:\n---\nFile: a.py\nL3- # it\nL4: add(x)\n---\nFile: b.py\n'
    "L9: add(y)\n---"
)
NAMES = 'Found 2 files with matches for pattern "add" in path ".":\na.py\nb.py'
LIMITED = " (results limited to 2 matches for performance)"


@pytest.mark.parametrize(
    ("args", "receipt", "expected"),
    [
        ({}, MATCHES.format(""), ("content", 2, [])),
        ({}, MATCHES.format(LIMITED), ("content", 2, ["matches"])),
        ({"total_max_matches": 2}, MATCHES.format(LIMITED), ("content", 2, [])),
        ({}, NAMES, ("files_with_matches", None, [])),
    ],
)
def test_a_search_says_what_it_found_and_whether_it_stopped(
    args: dict[str, Any], receipt: str, expected: tuple[str, int | None, list[str]]
) -> None:
    halves = halves_of("grep_search", {"pattern": "add", **args}, receipt)
    result = result_of(halves)
    cuts = halves.reading.source_cuts
    assert (result["mode"], result.get("match_count"), [cut.unit for cut in cuts]) == expected
    assert all(cut.is_limit for cut in cuts)
    assert links_of(halves) == [("add", "args", "/pattern")]


def test_lines_of_a_search_are_linked_to_those_that_the_person_was_shown() -> None:
    found = [
        {"filePath": "a.py", "lineNumber": 4, "line": "add(x)  "},
        {"filePath": "b.py", "lineNumber": 9, "line": "add(y)"},
    ]
    halves = halves_of("grep_search", {"pattern": "add"}, MATCHES.format(""), result={"summary": "2", "matches": found})
    assert links_of(halves)[1:] == [
        ("add(x)", "complete", "/matches/0/line"),
        ("add(y)", "complete", "/matches/1/line"),
    ]
    files = {"summary": "Listed 2 item(s).", "files": ["[DIR] src", "a.py (12 bytes)"]}
    halves = halves_of(
        "list_directory", {"dir_path": "."}, "Directory listing for .:\n[DIR] src\na.py (12 bytes)", result=files
    )
    assert [pointer for _, _, pointer in links_of(halves)] == ["/files/0", "/files/1"]


def test_the_recorded_end_of_a_subagent_has_its_report() -> None:
    progress = {
        "isSubagentProgress": True,
        "agentName": "scout",
        "state": "completed",
        "result": "All\nis well.",
        "terminateReason": "GOAL",
    }
    receipt = "Subagent 'scout' finished.\nTermination Reason: GOAL\nResult:\nAll\nis well."
    halves = halves_of("invoke_agent", {"agent_name": "scout"}, receipt, result=progress)
    assert (halves.family, halves.reading.fidelity, result_of(halves)["text"]) == (
        "agent",
        "structured",
        "All\nis well.",
    )
    assert links_of(halves) == [
        ("scout", "args", "/agent_name"),
        ("GOAL", "complete", "/terminateReason"),
        ("All\nis well.", "complete", "/result"),
    ]
    assert [(cut.field.pointer, cut.cut.is_whole) for cut in halves.outputs] == [("/result", True)]


def test_a_recorded_todo_list_is_the_result() -> None:
    todos = {"todos": [{"description": "Build", "status": "in_progress"}]}
    receipt = "Successfully updated the todo list. The current list is now:\n1. [in_progress] Build"
    halves = halves_of("write_todos", todos, receipt, result=todos)
    assert (halves.family, halves.reading.fidelity) == ("work_item", "structured")
    assert links_of(halves) == [("Build", "complete", "/todos/0/description")]


def test_an_answer_from_the_web_names_its_sources() -> None:
    receipt = 'Web search results for "zstd frames":\n\nA frame has a header.[1]\n\nSources:\n[1] RFC 8878 (https://example.org/a)'
    halves = halves_of("google_web_search", {"query": "zstd frames"}, receipt)
    result = result_of(halves)
    assert (halves.family, result["text"]) == ("web", "A frame has a header.[1]")
    assert result["results"] == [{"title": "RFC 8878", "url": "https://example.org/a"}]
    assert links_of(halves) == [("zstd frames", "args", "/query")]
    page = halves_of("web_fetch", {"prompt": "Read https://example.org/a"}, "It is about frames.")
    assert (page.family, result_of(page)["text"]) == ("web", "It is about frames.")


def test_images_beside_a_response_are_parts_of_the_receipt() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    response = {"id": "c", "name": "read_file", "response": {"output": "Binary content provided (1 item(s))."}}
    for parts in ([{"functionResponse": response | {"parts": [image]}}], [{"functionResponse": response}, image]):
        (halves,) = chat(tool_call("c", result=parts)).halves()
        assert halves.receipt is not None
        text, shown = halves.receipt.parts
        assert (text.text, getattr(shown, "media_type", None)) == (response["response"]["output"], "image/png")


def test_a_new_file_without_content_has_no_hunks() -> None:
    path = "/home/dev/project/new.txt"
    diff = f"Index: new.txt\n{'=' * 67}\n--- new.txt\tOriginal\n+++ new.txt\tWritten\n"
    halves = read_halves(
        agent="gemini-cli",
        tool="write_file",
        args=json.dumps({"file_path": path, "content": ""}).encode(),
        result=json.dumps({"fileDiff": diff, "fileName": "new.txt", "filePath": path}).encode(),
        content=json.dumps(f"Successfully created and wrote to new file: {path}.").encode(),
        is_error=False,
    )
    assert (halves.note, halves.projection.canonical.summary_text) == ("", f"created {path}")
