"""Sessions of Mistral Vibe: receipts are what it sent, and results are what the receipts state."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from envelopes.alignment.vibe_receipts import take_apart
from envelopes.halves import read_halves
from envelopes.recordings import mistral_vibe
from envelopes.recordings.base import (
    META,
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
)
from tests.envelopes.recordings.samples import FOLDER, Sample, lines_of, read_folder
from tests.envelopes.session_lines import only

[FACTS, FORMAT] = mistral_vibe.FORMATS
META_FILE = "meta.json"
RELEASES = ("2.7.6", "2.20.0")
FOLDERS: dict[str, list[Path]] = {
    release: sorted(path for path in (FOLDER / "mistral_vibe" / release).iterdir()) for release in RELEASES
}
SAMPLES: dict[str, list[Sample]] = {release: [read_folder(path) for path in FOLDERS[release]] for release in RELEASES}
NEWEST = max(SAMPLES["2.20.0"], key=lambda sample: len(sample.calls))
each_release = pytest.mark.parametrize("release", RELEASES)


def user(text: str, **members: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "injected": False, "message_id": "m1"} | members


def asked(*calls: str, tool: str = "bash", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": tool, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call, "function": function} for call in calls]}


def answered(call: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call, "name": "bash"}


def read_lines(*lines: dict[str, Any], path: str = "/srv/session_1/messages.jsonl") -> list[Record | LineProblem]:
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return list(FORMAT.read(lines_of(raw), SourcePath(path), {}))


def read_receipt(text: str, tool: str = "bash", **args: Any) -> Any:
    return read_halves(
        agent="mistral-vibe",
        tool=tool,
        args=json.dumps(args or {"command": "ls"}).encode(),
        result=None,
        content=json.dumps(text).encode(),
        is_error=None,
    )


@each_release
def test_receipts_are_what_it_sent(release: str) -> None:
    sent = json.loads((FOLDER / "mistral_vibe" / f"{release}.sent.json").read_bytes())
    hashes = {}
    for sample in SAMPLES[release]:
        for record in only(ReceiptRecord, sample.records):
            hashes[record.call] = hashlib.sha256(json.loads(record.content).encode()).hexdigest()
            assert record.fidelity == "recorded"
        assert not sample.problems
        assert not only(RemarkRecord, sample.records)
    assert hashes == sent


@pytest.mark.parametrize(
    ("tool", "words", "ends"),
    [
        ("bash", "exit 3", [3]),
        ("bash", "exit 1", [1]),
        ("bash", "echo hello", [0]),
        ("bash", "sleep 20", ["command_timed_out"]),
        ("bash", '"cmd"', ["invalid_tool_input"]),
        ("read_file", "missing.txt", ["missing_file"]),
        ("edit", "not there", ["context_not_found"]),
        ("write_file", "new.txt", [None]),
        ("web_fetch", ":9/", ["network_failed"]),
        ("no_such_tool", "", ["unknown_tool"]),
        ("task", "nope", ["tool_execution_failed"]),
        ("task", "explore", [None]),
    ],
)
def test_calls_end_as_their_receipts_state(tool: str, words: str, ends: list[Any]) -> None:
    assert NEWEST.ends(tool, words) == ends


def test_calls_that_nobody_permitted_are_refused() -> None:
    [refused] = [
        sample for sample in SAMPLES["2.20.0"] if any(b"refused" in (call.args or b"") for call in sample.calls)
    ]
    errors = [halves.projection.canonical.error for halves in refused.halves()]
    assert [error.kind if error else None for error in errors] == ["write_denied", "write_denied"]
    assert [result.is_error for result in only(ResultRecord, refused.records)] == [True, True]


def test_a_command_has_both_streams_and_a_long_one_is_cut() -> None:
    halves = dict(zip((call.args for call in NEWEST.calls), NEWEST.halves(), strict=True))
    [failed] = [read for args, read in halves.items() if b"echo out" in (args or b"")]
    result = failed.projection.canonical.result
    assert (result["stdout_preview"], result["stderr_preview"]) == ("out", "err")
    [long] = [read for args, read in halves.items() if b"seq 1 9000" in (args or b"")]
    assert [(cut.unit, cut.pointer) for cut in long.reading.source_cuts] == [("output", "")]


def test_a_value_that_looks_like_the_next_field_is_not_taken_apart() -> None:
    assert take_apart("a: 1\nb: 2", "a", "b") == {"a": "1", "b": "2"}
    assert take_apart("a: 1\nb: 2", "a", "c?", "b") == {"a": "1", "b": "2"}
    assert take_apart("a: 1\nb: 2\nb: 3", "a", "b") is None
    assert take_apart("b: 2\na: 1", "a", "b") is None
    halves = read_receipt("command: ls\nstdout: x\nstderr: y\nstderr: \nreturncode: 0")
    assert not halves.note
    assert halves.projection.canonical.error is None
    assert halves.projection.canonical.result["exit_status"] is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<user_cancellation>Tool execution interrupted by user.</user_cancellation>", "cancelled"),
        ("<user_cancellation>Tool execution interrupted - no response available</user_cancellation>", "cancelled"),
        ("<user_cancellation>Tool execution skipped by user.</user_cancellation>", "write_denied"),
        ("Tool 'bash' is permanently disabled", "write_denied"),
        ("<tool_error>bash failed: it broke</tool_error>", "tool_execution_failed"),
    ],
)
def test_sentences_of_failures_have_their_kinds(text: str, kind: str) -> None:
    assert read_receipt(text).projection.canonical.error.kind == kind


def test_a_limit_that_the_call_set_is_no_cut() -> None:
    text = "matches: a:1:x\nmatch_count: 1\nwas_truncated: True"
    assert read_receipt(text, "grep", pattern="x").is_cut
    assert not read_receipt(text, "grep", pattern="x", max_matches=1).is_cut


@each_release
def test_a_subagent_is_a_run_below_its_session(release: str) -> None:
    [sample] = [one for one in SAMPLES[release] if any(call.tool == "task" for call in one.calls)]
    [child] = [record for record in only(RunRecord, sample.records) if record.parent_run]
    assert child.parent_run == sample.path
    assert child.run.startswith(f"{sample.path}/explore_")
    assert [call.tool for call in sample.calls if call.run == child.run] == ["grep", "read_file"]


def test_the_facts_beside_a_session_are_those_of_its_run() -> None:
    [folder] = [path for path in FOLDERS["2.20.0"] if path.name == NEWEST.path]
    path, raw = SourcePath((folder / META_FILE).as_posix()), (folder / META_FILE).read_bytes()
    assert FACTS.sniff(raw, path)
    [run] = only(RunRecord, FACTS.read(lines_of(raw), path, {}))
    assert (run.run, run.title, run.cwd, run.model) == (NEWEST.path, "SCRIPT:main go", "/srv/demo/project", "loc")
    assert None not in (run.started_at, run.last_at)


@pytest.mark.parametrize(
    "raw", [b"{", b'{"session_id": "s1", "start_time": 5, "title": ["a"], "environment": 3}', b" "]
)
def test_facts_that_cannot_be_read_are_a_problem_or_left_out(raw: bytes) -> None:
    records = list(FACTS.read(lines_of(raw), SourcePath("/srv/session_1/meta.json"), {}))
    assert [type(record).__name__ for record in records][:1] == {b"{": ["LineProblem"], b" ": []}.get(
        raw, ["RunRecord"]
    )
    assert all(isinstance(record, LineProblem) for record in FACTS.read(lines_of(raw), SourcePath("meta.json"), {}))


def test_what_the_client_added_is_no_message_of_the_user() -> None:
    records = read_lines(user("one"), user("two", injected=True, message_id="m2"))
    assert [record.kind for record in only(MessageRecord, records)] == [None, META]


def test_a_thought_is_an_event() -> None:
    lines = [user("one"), {"role": "assistant", "content": "yes", "reasoning_content": "Let me see."}]
    [thought] = only(EventRecord, read_lines(*lines))
    assert (thought.kind, thought.message) == ("reasoning", "Let me see.")


def test_an_id_that_comes_again_names_another_call() -> None:
    lines = [user("one"), asked("c1"), answered("c1", "a"), asked("c1"), answered("c1", "b")]
    records = read_lines(*lines)
    assert [record.call for record in only(CallRecord, records)] == ["c1", "c1-4"]
    assert [record.call for record in only(ReceiptRecord, records)] == ["c1", "c1-4"]


def test_a_file_that_no_folder_names_is_a_problem() -> None:
    [problem] = read_lines(user("one"), path="messages.jsonl")
    assert isinstance(problem, LineProblem)
