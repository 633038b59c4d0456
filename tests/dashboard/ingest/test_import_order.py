"""Sessions that copy, contain or repeat each other, in every order: the store ends the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dashboard.ingest.import_report import ImportProgress, ImportReport
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Message, Observation, Project, RecordedReceipt, Run, RunCall, Source
from tests.cases import extended_except
from tests.dashboard.factories import create_project
from tests.dashboard.sessions import SESSION, answers, asks, short_session, user, write

pytestmark = pytest.mark.django_db
FORK = "0f5f6d8e-0000-4000-8000-000000000002"
FORK_OF_FORK = "0f5f6d8e-0000-4000-8000-000000000003"


def pair(call: str, session: str) -> list[dict[str, Any] | bytes]:
    return [asks(call, session=session), answers(call, session=session)]


FAMILY: dict[str, list[dict[str, Any] | bytes]] = {
    SESSION: short_session(),
    FORK: [*short_session(), *pair("toolu_08", FORK)],
    FORK_OF_FORK: [*short_session(), *pair("toolu_08", FORK), *pair("toolu_09", FORK_OF_FORK)],
}


def ownership() -> list[tuple[str, str]]:
    return sorted(Call.objects.values_list("external_id", "run__external_id"))


def memberships() -> list[tuple[str, str, bool]]:
    return sorted(RunCall.objects.values_list("run__external_id", "call__external_id", "inherited"))


def counts_by_run() -> list[tuple[str, int, int]]:
    return sorted(Run.objects.values_list("external_id", "call_count", "own_call_count"))


@pytest.mark.parametrize(
    "order",
    extended_except(permutations(FAMILY), tuple(FAMILY)[::-1]),
    ids=lambda order: "-".join(name[-1] for name in order),
)
def test_forks_of_forks_belong_to_the_same_sessions_in_every_order(
    order: tuple[str, ...], project: Project, tmp_path: Path
) -> None:
    for session in order:
        import_paths(project, [write(tmp_path / f"{session}.jsonl", FAMILY[session])])
    assert ownership() == [
        ("toolu_01", SESSION),
        ("toolu_02", SESSION),
        ("toolu_03", SESSION),
        ("toolu_08", FORK),
        ("toolu_09", FORK_OF_FORK),
    ]
    assert counts_by_run() == [(SESSION, 3, 3), (FORK, 4, 1), (FORK_OF_FORK, 5, 1)]
    assert len(memberships()) == 12
    assert [run for run, _, inherited in memberships() if not inherited] == [SESSION] * 3 + [FORK, FORK_OF_FORK]
    assert (Observation.objects.count(), RecordedReceipt.objects.count()) == (13, 2 + 3 + 4)
    assert not Call.objects.filter(is_disagreeing=True).exists()


def copied(line: Any, key: str) -> Any:
    """A line of SESSION in the file of FORK."""
    return line if key == "sessionId" else {**line, "sessionId": FORK, "forkedFrom": {"sessionId": SESSION}}


@pytest.mark.parametrize("key", ["sessionId", "forkedFrom"])
@pytest.mark.parametrize("first", ["session", "fork"])
def test_a_copied_call_is_one_call_also_where_its_id_is_unique_in_its_session_only(
    first: str, key: str, project: Project, tmp_path: Path
) -> None:
    """The fork's copy is answered behind what was copied, and the next `call_1` is the fork's own."""
    history = [*pair("call_0", SESSION), asks("call_1")]
    forked = [*[copied(line, key) for line in history], answers("call_1", session=FORK), *pair("call_2", FORK)]
    session = write(tmp_path / f"{SESSION}.jsonl", [*history, answers("call_1")])
    fork = write(tmp_path / f"{FORK}.jsonl", [*forked, *pair("call_1", FORK)])
    for path in (session, fork) if first == "session" else (fork, session):
        import_paths(project, [path])
    assert ownership() == [("call_0", SESSION), ("call_1", SESSION), ("call_1", FORK), ("call_2", FORK)]
    assert counts_by_run() == [(SESSION, 2, 2), (FORK, 4, 2)]
    assert sorted(RecordedReceipt.objects.values_list("run__external_id", "line")) == [
        *[(SESSION, line) for line in (2, 4)],
        *[(FORK, line) for line in (2, 4, 6, 8)],
    ]
    assert not Call.objects.filter(is_disagreeing=True).exists()


@pytest.mark.postgresql("answers")
@pytest.mark.parametrize("first", ["calls", "answers"])
def test_answers_in_another_file_than_their_calls_belong_to_the_calls(
    first: str, project: Project, tmp_path: Path
) -> None:
    calls = write(tmp_path / f"{SESSION}.jsonl", [user("go", uuid="u1"), asks("toolu_01")])
    answered = write(
        tmp_path / f"{FORK}.jsonl", [user("on", uuid="u2", session=FORK), answers("toolu_01", session=FORK)]
    )
    for path in (calls, answered) if first == "calls" else (answered, calls):
        import_paths(project, [path])
    assert (ownership(), memberships()) == ([("toolu_01", SESSION)], [(SESSION, "toolu_01", False)])
    assert counts_by_run() == [(SESSION, 1, 1), (FORK, 0, 0)]
    assert (RunCall.objects.get().ordinal, Call.objects.get().status) == (2, "success")


AGENT_LINES: list[dict[str, Any] | bytes] = [
    {**line, "isSidechain": True, "agentId": "abc"} for line in (asks("toolu_11"), answers("toolu_11"))
]
PARENT_LINES: list[dict[str, Any] | bytes] = [
    asks("toolu_01", "Task", {"prompt": "look"}),
    {
        "type": "progress",
        "sessionId": SESSION,
        "parentToolUseID": "toolu_01",
        "data": {"type": "agent_progress", "agentId": "abc", "prompt": "look", "message": asks("toolu_11")},
    },
    answers("toolu_01", "done", {"status": "completed", "agentId": "abc", "content": []}),
]


@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_subagents_file_joins_its_parent_in_either_order(first: str, project: Project, tmp_path: Path) -> None:
    parent = write(tmp_path / f"{SESSION}.jsonl", PARENT_LINES)
    child = write(tmp_path / SESSION / "subagents" / "agent-abc.jsonl", AGENT_LINES)
    for path in (child, parent) if first == "child" else (parent, child):
        import_paths(project, [path])
    run = Run.objects.get(external_id=f"{SESSION}/abc")
    spawn = Call.objects.get(external_id="toolu_01")
    assert ownership() == [("toolu_01", SESSION), ("toolu_11", f"{SESSION}/abc")]
    assert (run.parent, run.parent_call, spawn.child_run) == (spawn.run, spawn.pk, run.pk)
    assert counts_by_run() == [(SESSION, 1, 1), (f"{SESSION}/abc", 1, 1)]
    assert (run.progress_call_count, Call.objects.get(external_id="toolu_11").origin) == (0, "message")


def as_stream(line: Any) -> dict[str, Any]:
    result = {"tool_use_result": line["toolUseResult"]} if "toolUseResult" in line else {}
    named = {"type": line["type"], "uuid": line["uuid"], "session_id": SESSION, "message": line["message"]}
    return {**named, "parent_tool_use_id": None, **result}


@pytest.mark.parametrize("first", ["stream", "file"])
def test_the_file_and_the_stream_of_one_session_are_one_run(first: str, project: Project, tmp_path: Path) -> None:
    init = {"type": "system", "subtype": "init", "session_id": SESSION, "uuid": "i1", "model": "claude-x"}
    stream = write(tmp_path / "out.jsonl", [init, *map(as_stream, short_session())])
    session = write(tmp_path / f"{SESSION}.jsonl", short_session())
    for path in (stream, session) if first == "stream" else (session, stream):
        import_paths(project, [path])
    assert counts_by_run() == [(SESSION, 3, 3)]
    assert (Observation.objects.count(), RecordedReceipt.objects.count(), Message.objects.count()) == (7, 2, 1)
    assert Call.objects.get(external_id="toolu_01").duration_ms == 2500


STREAMED: list[dict[str, Any] | bytes] = [
    {"type": "system", "subtype": "init", "session_id": SESSION, "uuid": "i1", "model": "claude-x"},
    as_stream(PARENT_LINES[0]),
    *[{**as_stream(line), "parent_tool_use_id": "toolu_01"} for line in AGENT_LINES],
    as_stream(PARENT_LINES[2]),
]


def in_two_parts(project: Project, path: Path, lines: list[dict[str, Any] | bytes]) -> None:
    """The subagent is at work when the stream is read first: nothing names it yet."""
    import_paths(project, [write(path, lines[:3])])
    import_paths(project, [write(path, lines)])


@pytest.mark.postgresql("child, stream in parts, stream", "parent, stream in parts, stream")
@pytest.mark.parametrize(
    "order",
    extended_except(
        permutations(["stream", "stream in parts", "parent", "child"], 3),
        ("child", "stream in parts", "stream"),
        ("parent", "stream in parts", "stream"),
        ("stream in parts", "child", "stream"),
    ),
    ids=", ".join,
)
def test_a_subagent_of_a_stream_and_of_its_own_file_is_one_run(
    order: tuple[str, ...], project: Project, tmp_path: Path
) -> None:
    parent, child = tmp_path / f"{SESSION}.jsonl", tmp_path / SESSION / "subagents" / "agent-abc.jsonl"
    imports: dict[str, Callable[[], object]] = {
        "stream": lambda: import_paths(project, [write(tmp_path / "out.jsonl", STREAMED)]),
        "stream in parts": lambda: in_two_parts(project, tmp_path / "parts.jsonl", STREAMED),
        "parent": lambda: import_paths(project, [write(parent, PARENT_LINES)]),
        "child": lambda: import_paths(project, [write(child, AGENT_LINES)]),
    }
    for name in order:
        imports[name]()
    spawn = Call.objects.get(external_id="toolu_01")
    run = Run.objects.get(external_id=f"{SESSION}/abc")
    assert counts_by_run() == [(SESSION, 1, 1), (f"{SESSION}/abc", 1, 1)]
    assert (run.parent_id, run.parent_call, spawn.child_run) == (spawn.run_id, spawn.pk, run.pk)
    assert Call.objects.get(external_id="toolu_11").run == run
    assert set(run.sources.all()) <= set(Source.objects.all())


def test_two_streams_of_one_session_without_ids_of_their_lines_lose_no_message(
    project: Project, tmp_path: Path
) -> None:
    """An older release that was asked twice: both outputs speak of one session, from line 1 on."""
    for name in ("first", "second"):
        line = {"type": "user", "session_id": SESSION, "message": {"role": "user", "content": f"the {name} question"}}
        import_paths(project, [write(tmp_path / f"{name}.jsonl", [line])])
    messages = sorted(message.data for message in Message.objects.all())
    assert messages == [b'"the first question"', b'"the second question"']


def test_a_subagent_whose_call_has_an_id_of_its_session_stays_two_runs(project: Project, tmp_path: Path) -> None:
    """`call_0` is no certain name: two runs are shown rather than one that may be wrong."""
    raw = [json.dumps(line).replace("toolu_01", "call_0").encode() for line in STREAMED]
    import_paths(project, [write(tmp_path / "out.jsonl", raw)])
    import_paths(project, [write(tmp_path / SESSION / "subagents" / "agent-abc.jsonl", AGENT_LINES)])
    assert [name for name, *_ in counts_by_run()] == [SESSION, f"{SESSION}/abc", f"{SESSION}/call_0"]


def test_the_same_file_in_two_projects_stays_apart(project: Project, tmp_path: Path) -> None:
    other = create_project("other")
    path = write(tmp_path / f"{SESSION}.jsonl", short_session())
    first, second = (import_paths(owner, [path]) for owner in (project, other))
    assert first.added == second.added
    assert set(first.run_ids).isdisjoint(second.run_ids)
    assert (project.calls.count(), other.calls.count(), Run.objects.count()) == (3, 3, 2)


def progress_of(agent: str, *, inside: str) -> dict[str, Any]:
    told = {"type": "agent_progress", "agentId": agent, "message": asks(f"toolu_{agent}")}
    return {"type": "progress", "sessionId": SESSION, "agentId": inside, "data": told}


@pytest.mark.postgresql
def test_runs_that_call_each_other_their_parent_are_stored_and_nothing_loops(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    first = [{**user("go", uuid=f"u-{name}"), "agentId": name} for name in "ab"]
    files = [write(folder / f"agent-{name}.jsonl", [line]) for name, line in zip("ab", first, strict=True)]
    import_paths(project, files)
    for path, line, other in zip(files, first, "ba", strict=True):
        write(path, [line, progress_of(other, inside=path.stem[-1])])
    report = import_paths(project, files)
    assert report.problems == []
    parents = dict(Run.objects.values_list("external_id", "parent__external_id"))
    assert parents == {SESSION: None, f"{SESSION}/a": SESSION, f"{SESSION}/b": f"{SESSION}/a"}


def test_an_import_that_another_one_overtakes_goes_on_behind_it(project: Project, tmp_path: Path) -> None:
    """Between two batches of the first import a second one reads the whole file."""
    long = [answers(f"toolu_{n}", f"{n}" * 3_000_000) for n in range(3)]
    path = write(tmp_path / f"{SESSION}.jsonl", [*short_session(), *long])
    overtaking: list[ImportReport] = []

    def overtake(_progress: ImportProgress) -> None:
        if not overtaking:
            overtaking.append(import_paths(project, [path]))

    report = import_paths(project, [path], progress=overtake)
    second = overtaking[0]
    assert report.lines == second.lines == {"accepted": 9, "rejected": 0, "blank": 0}
    assert report.seen == second.seen
    assert report.added + second.added == {"runs": 1, "calls": 6, "results": 5, "receipts": 5}
    source = Source.objects.get()
    assert sum(source.frames.values_list("size", flat=True)) == path.stat().st_size
    assert Call.objects.count() == 6


@pytest.mark.extended
@pytest.mark.rendering
def test_what_a_reader_remembers_stays_small_whatever_a_file_says(project: Project, tmp_path: Path) -> None:
    """300 summaries of sessions that never come, and ids, folders and agents of 100 KB each."""
    long = "x" * 100_000
    lines: list[dict[str, Any] | bytes] = [
        {"type": "summary", "leafUuid": f"u{n}", "summary": long} for n in range(300)
    ]
    lines += [{**user("hi", uuid=f"{n}{long}"), "cwd": long, "gitBranch": long} for n in range(70)]
    lines += [{**user("hi", uuid=f"s{n}"), "isSidechain": True, "agentId": f"{n}{long}"} for n in range(70)]
    report = import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", [*short_session(), *lines])])
    assert (report.problems, report.lines["accepted"]) == ([], 446)
    assert len(Source.objects.get().state) < 100_000


def test_a_call_that_is_answered_later_counts_as_answered_in_the_fork_that_copied_it(
    project: Project, tmp_path: Path
) -> None:
    begun = [*short_session(), asks("toolu_08")]
    forked = [*begun, *pair("toolu_09", FORK)]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", begun), write(tmp_path / f"{FORK}.jsonl", forked)])
    fork = Run.objects.get(external_id=FORK)
    assert (fork.call_count, fork.unanswered_count, fork.strip.count("u")) == (5, 2, 2)
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", [*begun, answers("toolu_08")])])
    revision = fork.revision
    fork.refresh_from_db()
    assert (fork.call_count, fork.unanswered_count, fork.strip.count("u")) == (5, 1, 1)
    assert fork.facets.get(kind="state", value="unanswered").count == 1
    assert fork.revision > revision
