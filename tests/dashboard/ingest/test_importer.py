"""Imports files: no row is stored twice, none is lost, and every line is counted."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.importer import import_paths
from dashboard.models import (
    Artifact,
    Call,
    Event,
    Message,
    Observation,
    Problem,
    Project,
    RecordedReceipt,
    Run,
    RunCall,
    Source,
)
from tests.dashboard.sessions import SESSION, answers, asks, encoded, short_session, user, write

pytestmark = pytest.mark.django_db


def take(project: Project, *paths: Path) -> ImportReport:
    return import_paths(project, list(paths))


def counts() -> dict[str, int]:
    models = (Run, Call, RunCall, Observation, RecordedReceipt, Message, Event, Problem)
    return {model.__name__: model.objects.count() for model in models}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write(tmp_path / f"{SESSION}.jsonl", short_session())


def test_a_session_becomes_a_run_with_its_calls(project: Project, session: Path) -> None:
    report = take(project, session)
    assert report.added == {"runs": 1, "calls": 3, "results": 2, "receipts": 2, "events": 0}
    run = Run.objects.get()
    assert (run.external_id, run.call_count, run.unanswered_count, run.failed_count) == (SESSION, 3, 1, 0)
    bash = Call.objects.get(external_id="toolu_01")
    assert (bash.family, bash.status, bash.step, bash.duration_ms) == ("command", "success", "msg_1", 2500)
    assert (bash.output_lines, bash.seen_lines, bash.unseen_lines, bash.is_cut) == (2, 2, 0, False)
    assert (bash.asked, bash.first_line) == ("command=ls", "a")
    assert Call.objects.get(external_id="toolu_03").status == "unknown"


def test_importing_twice_adds_nothing(project: Project, session: Path) -> None:
    first = take(project, session)
    before = counts()
    second = take(project, session)
    assert sum(second.added.values()) == 0
    assert (second.seen, second.lines, second.run_ids) == (first.seen, first.lines, first.run_ids)
    assert counts() == before


def test_a_copy_under_another_name_adds_nothing(project: Project, session: Path, tmp_path: Path) -> None:
    take(project, session)
    before = counts()
    copy = tmp_path / "elsewhere" / "copy.jsonl"
    copy.parent.mkdir()
    copy.write_bytes(session.read_bytes())
    assert sum(take(project, copy).added.values()) == 0
    assert counts() == before


def test_a_file_that_grew_adds_what_is_new_and_reads_only_that(project: Project, session: Path) -> None:
    take(project, session)
    with session.open("ab") as file:
        file.write(encoded(answers("toolu_03", "done", at="2026-03-01T09:00:10.000Z")) + b"\n")
    report = take(project, session)
    assert report.added == {"runs": 0, "calls": 0, "results": 1, "receipts": 1, "events": 0}
    assert sum(report.lines.values()) == 7
    assert Call.objects.get(external_id="toolu_03").status == "success"
    assert Run.objects.get().unanswered_count == 0


@pytest.mark.extended
@pytest.mark.rendering
def test_a_file_cut_at_any_byte_imports_its_whole_lines_and_the_rest_later(project: Project, tmp_path: Path) -> None:
    """A plan and a repeated line are counted once, in whichever import they are read."""
    lines = [*short_session(), asks("toolu_04", "TodoWrite", {"todos": []}), *short_session()[:2]]
    whole = b"".join(encoded(line) + b"\n" for line in lines)
    ends = [at for at, byte in enumerate(whole, 1) if byte == 10]
    take(project, write(tmp_path / "whole" / f"{SESSION}.jsonl", lines))
    expected, seen = counts(), Source.objects.get().seen
    cuts = sorted(
        {1, 7, *ends, *(end - 1 for end in ends), *(end + 3 for end in ends[:-1]), *range(40, len(whole), 211)}
    )
    for cut in cuts:
        Project.objects.filter(slug="cut").delete()
        other = Project.objects.create(slug="cut", name="cut")
        path = tmp_path / f"cut{cut}" / f"{SESSION}.jsonl"
        path.parent.mkdir()
        path.write_bytes(whole[:cut])
        first = take(other, path)
        assert sum(first.lines.values()) == whole[:cut].count(b"\n") + (not whole[:cut].endswith(b"\n")), cut
        assert len(first.problems) == (not whole[:cut].endswith(b"\n") and first.lines["rejected"]), cut
        path.write_bytes(whole)
        second = take(other, path)
        assert sum(second.lines.values()) == len(ends), cut
        assert (second.lines["rejected"], second.problems) == (0, []), cut
        calls = Call.objects.filter(project=other)
        assert calls.count() == expected["Call"], cut
        assert Observation.objects.filter(call__project=other).count() == expected["Observation"], cut
        assert Message.objects.filter(run__project=other).count() == expected["Message"], cut
        assert bytes(Source.objects.get(project=other).seen) == bytes(seen), cut


def test_an_incomplete_last_line_is_reported(project: Project, session: Path) -> None:
    whole = session.read_bytes()
    session.write_bytes(whole[:-40])
    report = take(project, session)
    assert report.lines == {"accepted": 5, "rejected": 1, "blank": 0}
    assert report.problems[0]["line"] == 6
    assert report.problems[0]["reason"].startswith("incomplete last line")
    assert Problem.objects.get().is_incomplete
    session.write_bytes(whole)
    assert take(project, session).problems == []
    assert not Problem.objects.exists()


BAD_LINES = {
    "no json": (b"{nope}", "$"),
    "not utf-8": (b'{"type":"user","x":"\xff"}', "$"),
    "an array": (b"[1, 2]", "$"),
    "too deep": (b'{"type":' + b"[" * 5000 + b"]" * 5000 + b"}", "$"),
    "a bare number": (b"7", "$"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_a_problem_and_its_neighbours_are_kept(name: str, project: Project, tmp_path: Path) -> None:
    raw, path = BAD_LINES[name]
    lines = short_session()
    report = take(project, write(tmp_path / f"{SESSION}.jsonl", [*lines[:3], raw, b"", *lines[3:]]))
    assert report.lines == {"accepted": 6, "rejected": 1, "blank": 1}
    assert report.added["calls"] == 3
    problem = Problem.objects.get()
    assert (problem.line, problem.path, bytes(problem.raw).rstrip(b"\n")) == (4, path, raw)
    assert problem.reason


ODD_RECEIPTS = {
    "NUL": b'"a\\u0000b"',
    "white space": b'"  a\\r\\n\\tb \\n\\n"',
    "a lone surrogate": b'"a\\ud800b"',
    "a huge integer": b'[{"type":"text","text":"x"},{"type":"odd","n":123456789012345678901234567890}]',
    "duplicate keys": b'[{"type":"text","text":"x","text":"y"}]',
    "NaN": b'[{"type":"odd","n":NaN}]',
    "one and one point nought": b'[{"type":"odd","n":[1, 1.0, 1.00, 1e400]}]',
}


@pytest.mark.parametrize("name", ODD_RECEIPTS)
def test_odd_json_is_stored_byte_for_byte(name: str, project: Project, tmp_path: Path) -> None:
    raw = ODD_RECEIPTS[name]
    line = encoded(answers("toolu_01", "MARK")).replace(b'"MARK"', raw)
    report = take(project, write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), line]))
    assert report.problems == []
    assert bytes(RecordedReceipt.objects.get().observation.data) == raw  # type: ignore[union-attr]


def test_an_odd_tool_name_and_odd_stamps_do_not_stop_the_import(project: Project, tmp_path: Path) -> None:
    lines = [
        asks("toolu_01", "x\x00\ud800" + "y" * 10_000, at="0001-01-01T00:00:00+14:00"),
        answers("toolu_01", at="not a date"),
    ]
    raw = [json.dumps(line).encode() for line in lines]
    report = take(project, write(tmp_path / f"{SESSION}.jsonl", list(raw)))
    assert report.added["calls"] == 1
    call = Call.objects.get()
    assert (len(call.tool), call.family, call.duration_ms) == (200, "external", None)


def test_a_result_before_its_call_is_joined(project: Project, tmp_path: Path) -> None:
    take(project, write(tmp_path / f"{SESSION}.jsonl", [answers("toolu_01"), asks("toolu_01")]))
    call = Call.objects.get()
    assert (call.tool, call.family, call.status, call.run.call_count) == ("Bash", "command", "success", 1)


def test_a_result_in_a_later_part_of_the_file_is_joined(project: Project, tmp_path: Path) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", [answers("toolu_01")])
    take(project, path)
    assert (Call.objects.get().tool, Call.objects.get().origin, RunCall.objects.get().ordinal) == ("", "answer", 1)
    assert (Run.objects.get().call_count, Run.objects.get().own_call_count) == (1, 0)
    with path.open("ab") as file:
        file.write(encoded(asks("toolu_01")) + b"\n")
    take(project, path)
    call = Call.objects.get()
    assert (call.tool, call.family, call.status, call.summary != "") == ("Bash", "command", "success", True)
    assert (call.origin, RunCall.objects.get().ordinal, Run.objects.get().own_call_count) == ("message", 2, 1)


def test_what_only_says_of_a_call_that_it_was_compacted_is_no_call(project: Project, tmp_path: Path) -> None:
    gone = {"compactedToolIds": ["toolu_elsewhere"]}
    boundary = {
        "type": "system",
        "sessionId": SESSION,
        "subtype": "microcompact_boundary",
        "microcompactMetadata": gone,
    }
    report = take(project, write(tmp_path / f"{SESSION}.jsonl", [*short_session(), boundary]))
    assert (report.added["calls"], report.added["events"], Call.objects.count()) == (3, 1, 3)


FORK = "0f5f6d8e-0000-4000-8000-000000000002"


@pytest.mark.parametrize("is_rewritten", [True, False])
def test_a_fork_that_copies_history_doubles_nothing(is_rewritten: bool, project: Project, tmp_path: Path) -> None:  # noqa: FBT001
    history = short_session(FORK if is_rewritten else SESSION)
    new = [asks("toolu_09", session=FORK), answers("toolu_09", session=FORK)]
    take(project, write(tmp_path / f"{SESSION}.jsonl", short_session()))
    report = take(project, write(tmp_path / f"{FORK}.jsonl", [*history, *new]))
    assert report.added == {"runs": 1, "calls": 1, "results": 1, "receipts": 1, "events": 0}
    assert Call.objects.count() == 4
    fork = Run.objects.get(external_id=FORK)
    assert (fork.call_count, fork.own_call_count) == (4, 1)
    assert set(fork.members.filter(inherited=True).values_list("call__external_id", flat=True)) == {
        "toolu_01",
        "toolu_02",
        "toolu_03",
    }
    assert Run.objects.get(external_id=SESSION).own_call_count == 3


def test_the_same_key_with_other_content_is_a_new_observation_and_a_flag(project: Project, tmp_path: Path) -> None:
    lines = [asks("toolu_01"), answers("toolu_01"), answers("toolu_01", "something else")]
    take(project, write(tmp_path / f"{SESSION}.jsonl", lines))
    call = Call.objects.get()
    assert call.is_disagreeing
    assert RecordedReceipt.objects.count() == 1
    assert [bytes(row.data) for row in call.observations.filter(surface="receipt").order_by("line")] == [
        b'"a\\nb"',
        b'"something else"',
    ]


@pytest.mark.parametrize("is_error", [False, True])
@pytest.mark.parametrize("imports", [1, 2])
def test_the_flag_of_a_call_is_that_of_the_result_in_view_and_never_of_another(
    project: Project, tmp_path: Path, *, is_error: bool, imports: int
) -> None:
    first = answers("toolu_01", "one", {"stdout": "one"}, is_error=is_error)
    second = answers("toolu_01", "two", {"stdout": "two"}, is_error=not is_error)
    lines = [asks("toolu_01"), first, second]
    for end in (3,) if imports == 1 else (2, 3):
        take(project, write(tmp_path / f"{SESSION}.jsonl", lines[:end]))
    call = Call.objects.get()
    selected = call.observations.get(surface="result", selected=True)
    assert b'"one"' in bytes(selected.data)
    assert (call.source_error, call.is_disagreeing) == (is_error, True)
    assert call.outcome == ("failed" if is_error else "succeeded")


@pytest.mark.parametrize("second", ['{"command":"ls"}', '{"command": "pwd"}'])
def test_a_call_that_is_written_twice_keeps_both_arguments(second: str, project: Project, tmp_path: Path) -> None:
    """Other spacing is no contradiction; only other content is."""
    again = encoded(asks("toolu_01")).replace(b'{"command": "ls"}', second.encode())
    take(project, write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), again]))
    stored = Observation.objects.filter(surface="args").order_by("line")
    assert [(row.data.decode(), row.selected) for row in stored] == [('{"command": "ls"}', True), (second, False)]
    assert Call.objects.get().is_disagreeing == ("pwd" in second)


def test_a_cut_is_counted_in_lines(project: Project, tmp_path: Path) -> None:
    stdout = "\n".join(f"line {number}" for number in range(1, 101))
    seen = "\n".join(f"line {number}" for number in range(1, 21))
    notice = "Output too large (9KB). Full output saved to: /tmp/x.txt\n\nPreview (first 2KB):"
    receipt = f"<persisted-output>\n{notice}\n{seen}\n...\n</persisted-output>"
    result = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    take(project, write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01", receipt, result)]))
    call = Call.objects.get()
    assert (call.output_lines, call.seen_lines, call.is_cut) == (100, 20, True)
    assert (call.unseen_lines, call.run.cut_count) == (80, 1)


def persisted(path: str) -> list[dict[str, object] | bytes]:
    result = {"stdout": "a", "stderr": "", "persistedOutputPath": path, "persistedOutputSize": 9}
    return [asks("toolu_01"), answers("toolu_01", "a", result)]


def test_an_output_saved_beside_the_recording_is_stored(project: Project, tmp_path: Path) -> None:
    beside = tmp_path / SESSION / "tool-results" / "toolu_01.txt"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(b"one\ntwo\nthree")
    take(project, write(tmp_path / f"{SESSION}.jsonl", persisted(f"/home/dev/x/{SESSION}/tool-results/toolu_01.txt")))
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.size, artifact.lines) == ("present", 13, 3)
    assert (Path(settings.ARTIFACTS) / artifact.sha256[:2] / artifact.sha256).read_bytes() == b"one\ntwo\nthree"


@pytest.mark.parametrize("name", ["link.txt", "../outside.txt", "..", "folder", "gone.txt", "a\x00b"])
def test_an_irregular_file_beside_the_recording_stays_missing(name: str, project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    results = tmp_path / SESSION / "tool-results"
    (results / "folder").mkdir(parents=True)
    (results / "link.txt").symlink_to(tmp_path / "outside.txt")
    take(project, write(tmp_path / f"{SESSION}.jsonl", persisted(f"/home/dev/{SESSION}/tool-results/{name}")))
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.sha256) == ("missing", "")


def test_a_subagents_file_is_a_child_run(project: Project, tmp_path: Path) -> None:
    task = answers(
        "toolu_01", [{"type": "text", "text": "done"}], {"status": "completed", "agentId": "abc", "content": []}
    )
    write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01", "Task", {"prompt": "look"}), task])
    child = [{**line, "isSidechain": True, "agentId": "abc"} for line in (asks("toolu_11"), answers("toolu_11"))]
    write(tmp_path / SESSION / "subagents" / "agent-abc.jsonl", list(child))
    take(project, tmp_path)
    run = Run.objects.get(external_id=f"{SESSION}/abc")
    assert run.parent == Run.objects.get(external_id=SESSION)
    assert Call.objects.get(external_id="toolu_01").child_run == run.pk
    assert Call.objects.get(external_id="toolu_11").run == run


AUDIT = Path(__file__).resolve().parents[2] / "envelopes" / "recordings" / "audit"


def test_the_audit_layout_of_a_plan_executor_is_imported_whole(project: Project) -> None:
    report = take(project, AUDIT)
    assert report.problems == []
    refused, made = Call.objects.filter(external_id__in=["c1", "c2"]).order_by("external_id")
    assert (refused.status, refused.error_kind, refused.retryable, refused.attempt) == ("error", "conflict", True, 1)
    assert (made.status, made.attempt, made.tool_ms, made.run) == ("success", 2, 310, refused.run)
    effects = made.observations.get(surface="timing")
    assert json.loads(bytes(effects.data))["effects"] == {"created": [{"path": "Inbox/Done.md", "kind": "file"}]}


def test_an_unknown_file_is_one_problem_and_the_others_are_read(project: Project, session: Path) -> None:
    other = session.with_name("notes.jsonl")
    other.write_text("these are my notes\n")
    report = take(project, session, other, other)
    assert report.added["calls"] == 3
    assert [problem["file"] for problem in report.problems] == [str(other)] * 2
    assert Problem.objects.count() == 1


def test_a_forgotten_run_takes_with_it_what_only_it_refers_to(project: Project, session: Path, tmp_path: Path) -> None:
    take(project, session, write(tmp_path / f"{FORK}.jsonl", [*short_session(FORK), asks("toolu_09", session=FORK)]))
    delete_run(Run.objects.get(external_id=SESSION))
    assert set(Call.objects.values_list("external_id", flat=True)) == {"toolu_01", "toolu_02", "toolu_03", "toolu_09"}
    assert set(Call.objects.values_list("run__external_id", flat=True)) == {FORK}
    delete_run(Run.objects.get())
    assert counts() == dict.fromkeys(counts(), 0)
    assert not Source.objects.exists()


@pytest.mark.parametrize("last", [b'{"stdout":NaN}', b'{"stdout":"\\ud800"}'])
def test_a_whole_last_line_is_read_however_lenient_its_json(last: bytes, project: Project, tmp_path: Path) -> None:
    line = encoded(answers("toolu_01", "a", "@")).replace(b'"@"', last)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line)
    assert take(project, path).lines == {"accepted": 1, "rejected": 0, "blank": 0}
    assert bytes(Observation.objects.get(surface="result").data) == last


@pytest.mark.extended
@pytest.mark.rendering
def test_a_long_line_is_read_and_a_last_line_without_newline_too(project: Project, tmp_path: Path) -> None:
    big = "x" * 12_000_000
    path = write(
        tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01", big, {"stdout": big, "stderr": ""})]
    )
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    report = take(project, path)
    assert report.lines == {"accepted": 2, "rejected": 0, "blank": 0}
    assert Call.objects.get().receipt_characters == 12_000_000
    with path.open("ab") as file:
        file.write(b"\n" + encoded(user("thanks", uuid="u9")) + b"\n")
    assert take(project, path).lines == {"accepted": 3, "rejected": 0, "blank": 0}


def test_files_of_a_folder_that_no_reader_takes_are_named_with_the_reason(project: Project, session: Path) -> None:
    folder = session.parent
    (folder / SESSION / "tool-results").mkdir(parents=True)
    for name in ("chat.json", "notes.txt", f"{SESSION}/tool-results/toolu_01.txt"):
        (folder / name).write_text("{}")
    report = take(project, folder)
    reason = "not imported: neither a .jsonl file, nor a run.json, nor a document of a known format"
    assert report.to_json()["problems"] == [
        {"file": str(folder / name), "line": 0, "path": "$", "reason": reason} for name in ("chat.json", "notes.txt")
    ]
    assert (report.files, report.lines["accepted"], Problem.objects.count()) == (1, 6, 0)


@pytest.mark.parametrize("content", [None, b"", b"no json\n", b'{"a": 1}\n'])
def test_the_exit_status_is_1_when_nothing_was_imported(db: None, tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "chat.json").write_text("{}")
    if content is not None:
        (tmp_path / f"{SESSION}.jsonl").write_bytes(content)
    printed = io.StringIO()
    with pytest.raises(CommandError, match="nothing was imported"):
        call_command("import_runs", "--json", str(tmp_path), stdout=printed)
    files = [problem["file"] for problem in json.loads(printed.getvalue())["problems"]]
    assert str(tmp_path / "chat.json") in files
    write(tmp_path / f"{SESSION}.jsonl", short_session())
    for _ in range(2):  # what is stored already counts as imported
        call_command("import_runs", str(tmp_path), stdout=io.StringIO(), stderr=io.StringIO())
