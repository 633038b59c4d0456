"""Sessions of Kimi CLI: what it sent to its model is the receipt, both halves are right, and what left the context."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from typing import Any

import pytest

from envelopes.halves import Halves, read_halves
from envelopes.recordings import kimi_cli
from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    PARTIAL_COMPACTION,
    REWIND,
    SYSTEM_PROMPT,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
    UsageRecord,
)
from tests.envelopes.recordings.event_files import Files
from tests.envelopes.recordings.samples import FOLDER, FolderFiles, lines_of, read_folder
from tests.envelopes.session_lines import only

[FORMAT] = kimi_cli.FORMATS
RELEASES = ("0.60", "1.20.0", "1.50.0")
FOLDERS = {release: next((FOLDER / "kimi_cli" / release).iterdir()) for release in RELEASES}
SAMPLES = {release: read_folder(folder) for release, folder in FOLDERS.items()}
NEWEST = SAMPLES["1.50.0"]
each_release = pytest.mark.parametrize("release", RELEASES)


def asked(*calls: str, tool: str = "Shell", **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments or {"command": "ls"})}
    return {"role": "assistant", "content": [], "tool_calls": [{"id": call, "function": function} for call in calls]}


def answered(call: str, *texts: str) -> dict[str, Any]:
    return {"role": "tool", "content": [{"type": "text", "text": text} for text in texts], "tool_call_id": call}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": 1795857415.5, "message": {"type": kind, "payload": payload}}


def called(call: str, **arguments: Any) -> dict[str, Any]:
    return event("ToolCall", id=call, function={"name": "Shell", "arguments": json.dumps(arguments)})


def returned(call: str, output: str) -> dict[str, Any]:
    return event("ToolResult", tool_call_id=call, return_value={"is_error": False, "output": output, "message": "Ok."})


BEGIN = {"role": "_checkpoint", "id": 0}
SUMMARY = user("<system>Previous context has been compacted. Here is the compaction output:</system>short")


def read_files(**files: list[dict[str, Any]]) -> list[Record | LineProblem]:
    content = {
        f"{name}.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines) for name, lines in files.items()
    }
    return [
        record
        for name, raw in content.items()
        for record in FORMAT.read(lines_of(raw), SourcePath(f"/srv/s1/{name}", folder=Files(content)), {})
    ]


def read_answer(message: str, output: Any = "", *, tool: str = "Shell", is_error: bool = False, **args: Any) -> Halves:
    """The halves of one call whose receipt is made as the client makes it."""
    texts = [f"<system>{'ERROR: ' if is_error else ''}{message}</system>"] if message else []
    texts += [output] if isinstance(output, str) else [block["text"] for block in output]
    result = {"is_error": is_error, "output": output, "message": message, "display": [], "extras": None}
    return read_halves(
        agent="kimi-cli",
        tool=tool,
        args=json.dumps(args).encode(),
        result=json.dumps(result).encode(),
        content=json.dumps([{"type": "text", "text": text} for text in texts if text]).encode(),
        is_error=is_error,
    )


@each_release
def test_receipts_are_what_it_sent(release: str) -> None:
    sent = json.loads((FOLDER / "kimi_cli" / f"{release}.sent.json").read_bytes())
    receipts = only(ReceiptRecord, SAMPLES[release].records)
    hashes = {}
    for record in receipts:
        content = json.loads(record.content)
        text = content if isinstance(content, str) else "\n".join(block["text"] for block in content)
        call = record.call if record.call in sent else record.call.rpartition("-")[0]
        hashes[call] = hashlib.sha256(text.encode()).hexdigest()
    assert hashes == sent
    assert {record.fidelity for record in receipts} == {"recorded"}
    assert not SAMPLES[release].problems
    assert not only(RemarkRecord, SAMPLES[release].records)


@pytest.mark.parametrize(
    ("tool", "words", "ends"),
    [
        ("Shell", "exit 3", [3]),
        ("Shell", "sleep 30", ["command_timed_out"]),
        ("Shell", "echo hello", [0]),
        ("ReadFile", "notes.txt", [None, None]),
        ("ReadFile", "missing.txt", ["missing_file"]),
        ("ReadFile", '"path": 5}', ["invalid_tool_input"]),
        ("StrReplaceFile", "nowhere", ["context_not_found"]),
        ("StrReplaceFile", "BETA", [None]),
        ("NoSuchTool", "", ["unknown_tool"]),
        ("Glob", "**", ["tool_execution_failed"]),
        ("TaskOutput", "nope", ["tool_execution_failed"]),
        ("lookup", "bad", ["tool_execution_failed"]),
        ("lookup", '"a"', [None]),
    ],
)
def test_calls_end_as_their_return_values_state(tool: str, words: str, ends: list[Any]) -> None:
    assert NEWEST.ends(tool, words) == ends


def test_a_context_alone_gives_the_results_of_its_receipts() -> None:
    [folder] = (FOLDER / "kimi_cli" / "1.20.0").iterdir()
    raw = (folder / "context_1.jsonl").read_bytes()
    records = list(FORMAT.read(lines_of(raw), SourcePath("/srv/s1/context_1.jsonl"), {}))
    receipts = {record.call: record.content for record in only(ReceiptRecord, records)}
    ends = []
    for call in only(CallRecord, records)[:3]:
        content = receipts[call.call]
        halves = read_halves(
            agent="kimi-cli", tool=call.tool, args=call.args, result=None, content=content, is_error=None
        )
        canonical = halves.projection.canonical
        assert halves.reading.fidelity == "parsed_from_receipt"
        ends.append(canonical.error.kind if canonical.error else canonical.result["exit_status"])
    assert ends == [0, 3, "command_timed_out"]


LINES = "".join(f"{number}\n" for number in range(1, 10_185)) + "[...truncated]\n"
NUMBERED = "     1\tone\n     2\ttwo\n"
MORE = [("lines", 7, True)]
CUT = "Command executed successfully. Output is truncated to fit in the message."


@pytest.mark.parametrize(
    ("tool", "message", "output", "cuts"),
    [
        ("Shell", CUT, "x" * 1_986 + "[...truncated]\nend\n", [("line ends", 1, False)]),
        ("Shell", CUT, "y" * 50_000 + LINES, [("output", None, False)]),
        ("Shell", "Command executed successfully.", "an output that ends in [...truncated]\n", []),
        (
            "ReadFile",
            "2 lines read from file starting from line 1. Total lines in file: 9. Max 1000 lines reached."
            " Lines [1, 2] were truncated.",
            NUMBERED,
            [("line ends", 2, False), ("lines", 7, True)],
        ),
        ("ReadFile", "2 lines read from file starting from line 1. Total lines in file: 9.", NUMBERED, MORE),
        ("ReadFile", "2 lines read from file starting from line 1.", NUMBERED, [("lines", None, True)]),
        ("ReadFile", "2 lines read from file starting from line 1. End of file reached.", NUMBERED, []),
        ("Grep", "Results truncated to 2 lines (total: 9). Use offset=2 to see more.", "a\nb", [("files", 7, True)]),
        (
            "Glob",
            "Found 1200 matches for pattern `*`. Only the first 1000 matches are returned.",
            "a\nb",
            [("files", 1198, True)],
        ),
    ],
)
def test_what_the_client_cut_is_a_cut(tool: str, message: str, output: str, cuts: list[Any]) -> None:
    halves = read_answer(message, output, tool=tool, path="f")
    assert [(cut.unit, cut.count, cut.is_limit) for cut in halves.reading.source_cuts] == cuts


def test_the_end_of_a_long_answer_of_a_server_is_cut() -> None:
    texts = ["a line\nand the beg", "\n\n[Output truncated: exceeded 100000 character limit. Use pagination.]"]
    halves = read_answer("", [{"type": "text", "text": text} for text in texts], tool="lookup")
    [cut] = halves.reading.source_cuts
    assert (cut.pointer, cut.unit, cut.start) == ("/output/0/text", "output", 2)
    assert [output.field.pointer for output in halves.outputs] == ["/output/0/text"]
    assert not read_answer("", [{"type": "text", "text": texts[0]}] * 2, tool="lookup").is_cut


def test_a_limit_that_the_call_set_is_no_cut() -> None:
    message = "Results truncated to 2 lines (total: 9). Use offset=2 to see more."
    assert not read_answer(message, "a\nb", tool="Grep", head_limit=2).is_cut
    message = "2 lines read from file starting from line 1. Total lines in file: 9."
    assert not read_answer(message, NUMBERED, tool="ReadFile", path="f", n_lines=2).is_cut
    message += " Max 102400 bytes reached."
    assert read_answer(message, NUMBERED, tool="ReadFile", path="f", n_lines=5).is_cut


@pytest.mark.parametrize(
    ("message", "kind", "hint"),
    [
        ("The tool call is rejected by the user. User feedback: use make", "write_denied", "use make"),
        ("The tool call is rejected by the user. Stop what you are doing.", "write_denied", None),
        ("Blocked by PreToolUse hook", "denied_by_hook", None),
        ("Timeout while calling MCP tool `lookup`. You may explain", "timeout", None),
        ("Failed to fetch URL due to network error: no route.", "network_failed", None),
        ("Failed to fetch URL. Status: 404.", "tool_execution_failed", None),
    ],
)
def test_sentences_of_failures_have_their_kinds(message: str, kind: str, hint: str | None) -> None:
    error = read_answer(message, is_error=True).projection.canonical.error
    assert error is not None
    assert (error.kind, error.recovery_hint) == (kind, hint)


def test_a_reminder_about_repeated_calls_is_no_output() -> None:
    reminder = "\n\n<system-reminder>\nYou are repeating the exact same tool call.\n</system-reminder>"
    halves = read_answer("Command executed successfully.", f"same\n{reminder}", command="echo same")
    assert halves.projection.canonical.result["combined_output_preview"] == "same\n"
    assert halves.receipt.text.endswith("</system-reminder>")


def test_a_change_has_the_lines_that_the_client_showed() -> None:
    block = {"type": "diff", "path": "f", "old_text": "a\nb\nc", "new_text": "a\nB\nc", "old_start": 4, "new_start": 4}
    result = {"is_error": False, "output": "", "message": "File successfully edited.", "display": [block]}
    raw = json.dumps(result).encode()
    halves = read_halves(
        agent="kimi-cli", tool="StrReplaceFile", args=b'{"path":"f"}', result=raw, content=None, is_error=False
    )
    assert halves.projection.canonical.result["diff_preview"] == "@@ -4,3 +4,3 @@\n a\n-b\n+B\n c\n"


def test_usage_is_that_of_each_request() -> None:
    usage = {record.request: record for record in only(UsageRecord, NEWEST.records)}
    assert len(usage) == 40  # of 41 requests: that of the compaction has none
    first = usage["chatcmpl-0000"]
    status = next(
        line["message"]["payload"]
        for line in map(json.loads, (FOLDERS["1.50.0"] / "wire.jsonl").read_bytes().splitlines())
        if line.get("message", {}).get("payload", {}).get("message_id") == "chatcmpl-0000"
    )
    assert first.context_tokens == status["context_tokens"]
    assert (first.output_tokens, first.position) == (20, 8)


def test_early_releases_have_the_tokens_of_a_request_in_the_context_alone() -> None:
    usage = only(UsageRecord, SAMPLES["0.60"].records)
    assert (len(usage), {record.output_tokens for record in usage}) == (28, {20})
    lines = [BEGIN, *({"role": "_usage", "token_count": tokens} for tokens in (70, 90))]  # the first was interrupted
    lines += [asked("c1"), {"role": "_usage", "token_count": 110}, {"role": "_usage", "token_count": 120}]
    [record] = only(UsageRecord, read_files(context=lines, wire=[event("StatusUpdate", context_usage=0.1)]))
    assert (record.input_tokens, record.output_tokens) == (90, 20)
    status = event("StatusUpdate", token_usage={"input_other": 90, "output": 20}, message_id="m1")
    assert [one.request for one in only(UsageRecord, read_files(context=lines, wire=[status]))] == ["m1"]


@each_release
def test_a_subagent_is_a_run_below_its_call(release: str) -> None:
    runs = {record.run: record for record in only(RunRecord, SAMPLES[release].records) if record.parent_call}
    [child] = runs
    [call] = [one for one in SAMPLES[release].calls if one.tool in ("Agent", "Task")]
    assert (runs[child].parent_run, runs[child].parent_call) == (FOLDERS[release].name, call.call)
    assert [one.tool for one in SAMPLES[release].calls if one.run == child] == ["Shell", "ReadFile"]
    assert child in {record.child_run for record in only(ResultRecord, SAMPLES[release].records)}
    assert {record.run for record in only(ReceiptRecord, SAMPLES[release].records)} == {FOLDERS[release].name, child}


def test_a_compaction_keeps_the_lines_that_the_next_context_repeats() -> None:
    usage = {"role": "_usage", "token_count": 9}
    old = [BEGIN, user("one"), asked("c1"), answered("c1", "a"), usage, asked("c2"), answered("c2", "b")]
    new = [BEGIN, SUMMARY, *old[5:], usage, asked("c3"), answered("c3", "c")]
    records = read_files(context=new, context_1=old)
    [compaction] = only(EventRecord, records)
    assert (compaction.kind, compaction.position) == (PARTIAL_COMPACTION, 100_002)
    assert json.loads(compaction.payload) == {"kept": [100_002, 6, 7]}
    assert [record.kind for record in only(MessageRecord, records) if record.kind] == [COMPACTION_SUMMARY]
    assert len(only(ReceiptRecord, records)) == len(only(CallRecord, records)) == 3
    assert only(EventRecord, read_files(context=new))[0].kind == COMPACTION


def test_a_mail_takes_what_followed_its_checkpoint_out_of_the_context() -> None:
    old = [BEGIN, user("one"), asked("c1"), answered("c1", "a"), asked("c2", tool="SendDMail"), answered("c2", "sent")]
    new = [*old[:2], user("<system>You just got a D-Mail"), asked("c3"), answered("c3", "c")]
    records = read_files(context=new, context_1=old)
    [rewind] = only(EventRecord, records)
    assert (rewind.kind, json.loads(rewind.payload)["left"]) == (REWIND, [3, 7])
    # The answer of a D-Mail that was sent goes to no model.
    assert [record.call[:2] for record in only(ReceiptRecord, records)] == ["c3", "c1"]


def test_the_answer_of_a_mail_that_was_not_sent_is_a_receipt() -> None:
    lines = [BEGIN, asked("c1", tool="SendDMail"), answered("c1", "not sent"), asked("c2")]
    assert [record.line for record in only(ReceiptRecord, read_files(context=lines))] == [3]


def test_a_line_that_an_earlier_context_had_keeps_its_first_place() -> None:
    first = [BEGIN, user("one"), asked("c1"), answered("c1", "a"), user("two")]
    second = [*first[:4], user("three"), asked("c2"), answered("c2", "b")]
    third = [BEGIN, SUMMARY, *first[2:4], *second[5:], asked("c3")]
    [*_, compaction] = only(EventRecord, read_files(context_1=first, context_2=second, context=third))
    assert json.loads(compaction.payload) == {"kept": [200_002, 3, 4, 100_006, 100_007]}


def test_ids_that_count_name_other_calls_in_each_context() -> None:
    old = [BEGIN, user("one"), asked("Shell:0", command="a"), answered("Shell:0", "a")]
    new = [BEGIN, SUMMARY, user("two"), asked("Shell:0", command="b"), answered("Shell:0", "b"), asked("Shell:1")]
    again = [*new, asked("Shell:0", command="a"), answered("Shell:0", "c")]
    wire = [
        called("Shell:0", command="a"),
        returned("Shell:0", "a"),
        called("Shell:0", command="b"),
        returned("Shell:0", "b"),
        called("Shell:0", command="a"),
        returned("Shell:0", "c"),
    ]
    records = read_files(context_1=old, context=again, wire=wire)
    receipts = {record.call: json.loads(record.content) for record in only(ReceiptRecord, records)}
    results = {record.call: json.loads(record.result)["output"] for record in only(ResultRecord, records)}
    assert receipts == results
    assert len(receipts) == 3


def test_events_have_the_place_of_the_call_before_them() -> None:
    """A call that no context has yet is behind all others, because the earliest place of a call counts."""
    context = [BEGIN, user("one"), asked("c1"), answered("c1", "a"), asked("c2"), answered("c2", "b")]
    wire = [called(call, command="ls") for call in ("c1", "c2", "c3")]
    wire.insert(2, event("StepInterrupted"))
    records = read_files(context=context, wire=wire)
    [interrupted] = only(EventRecord, records)
    assert (interrupted.kind, interrupted.level) == ("StepInterrupted", "warn")
    assert [record.position for record in only(CallRecord, records)] == [3, 5, 3, 5, 99_999]
    assert interrupted.position == 5


def test_the_prompt_is_standing_and_notes_of_the_client_are_no_messages_of_a_person() -> None:
    records = only(MessageRecord, NEWEST.records)
    prompts = [(one.run, one.role) for one in records if one.kind == SYSTEM_PROMPT]
    runs = {one.run for one in records}
    assert sorted(prompts) == [(run, "system") for run in sorted(runs)]
    others = [one for one in records if one.kind != SYSTEM_PROMPT]
    persons = {json.loads(one.content) for one in others if one.role == "user" and one.kind is None}
    assert persons == {"Look around and work.", "SUBTASK: count the words", "Go on."}
    titles = [record.title for record in only(RunRecord, NEWEST.records) if record.title]
    assert titles == ["Look around and work.", "SUBTASK: count the words"]


@pytest.mark.parametrize("size", [1, 7])
@each_release
def test_a_file_that_grows_gives_the_records_of_the_whole(release: str, size: int) -> None:
    for path in FOLDERS[release].rglob("*.jsonl"):
        place = SourcePath(path.as_posix(), folder=FolderFiles(path.parent))
        parts: list[Record | LineProblem] = []
        state: dict[str, object] = {}
        lines = lines_of(path.read_bytes())
        while part := list(islice(lines, size)):
            parts += FORMAT.read(iter(part), place, state)
            state = json.loads(json.dumps(state))
        assert parts == list(FORMAT.read(lines_of(path.read_bytes()), place, {}))


def test_a_file_without_the_folder_of_its_session_is_refused() -> None:
    raw = json.dumps(BEGIN).encode()
    [problem] = FORMAT.read(lines_of(raw), SourcePath("context.jsonl"), {})
    assert "import it with that folder" in problem.reason


def test_a_session_before_the_folders_is_named_by_its_file() -> None:
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in (BEGIN, user("one")))
    records = FORMAT.read(lines_of(raw), SourcePath("/srv/sessions/d5/s9.jsonl"), {})
    assert {record.run for record in records} == {"s9"}


def test_an_image_may_not_have_gone_out() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    answer = {"role": "tool", "content": [{"type": "text", "text": "<image>"}, image], "tool_call_id": "c1"}
    records = read_files(context=[BEGIN, asked("c1"), answer])
    assert [record.fidelity for record in only(ReceiptRecord, records)] == ["reconstructed"]


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"role": "assistant", "tool_calls": 5}\n', b"[" * 99_999 + b"\n"])
def test_damaged_files_beside_one_are_read_as_if_they_were_not_there(damaged: bytes) -> None:
    lines = [BEGIN, user("one"), asked("c1"), answered("c1", "a")]
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    event_line = b'{"message": {"type": "SubagentEvent", "payload": {"event": {"type": "TurnBegin"}}}}\n'
    names = ("context.jsonl", "context_1.jsonl", "context_sub_1.jsonl", "wire.jsonl")
    for name in names:
        folder = Files(dict.fromkeys(names, damaged + event_line) | {name: raw})
        records = list(FORMAT.read(lines_of(raw), SourcePath(f"/srv/s1/{name}", folder=folder), {}))
        kinds = [type(record) for record in records if not isinstance(record, RunRecord | EventRecord)]
        assert kinds == ([LineProblem] * 4 if name == "wire.jsonl" else [MessageRecord, CallRecord, ReceiptRecord])
