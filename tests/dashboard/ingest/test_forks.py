"""What one run's recording reports of a call holds for that run alone: forks, and receipts that were superseded."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import (
    Call,
    Observation,
    Project,
    RecordedReceipt,
    Run,
)
from dashboard.runs.overview import load_overview
from tests.cases import extended_except
from tests.dashboard.conftest import BUNDLED
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import receipt_text
from tests.dashboard.sessions import SESSION, answers, asks, user, write
from tests.dashboard.stored_rows import stored_rows

pytestmark = pytest.mark.django_db
Line = dict[str, Any]

FORK = "0f5f6d8e-0000-4000-8000-000000000002"
OTHER = "0f5f6d8e-0000-4000-8000-000000000003"
TEXT = "\n".join(f"line {number}" for number in range(1, 101))
RESULT = {"stdout": TEXT, "stderr": "", "interrupted": False, "isImage": False}
NOTICE = "Output too large (9KB). Full output saved to: /tmp/x.txt\n\nPreview (first 2KB):"
SHORTER = f"<persisted-output>\n{NOTICE}\n" + "\n".join(TEXT.split("\n")[:20]) + "\n...\n</persisted-output>"
LATER = "2026-03-01T10:00:00.000Z"


def history(session: str = SESSION) -> list[Line]:
    return [
        user("list it", uuid="u1", session=session),
        asks("toolu_01", session=session),
        answers("toolu_01", TEXT, RESULT, session=session),
        asks("toolu_02", session=session),
        answers("toolu_02", session=session),
    ]


def copied(lines: list[Line], session: str = FORK) -> list[Line]:
    """The lines as newer releases copy them into a fork."""
    return [{**line, "sessionId": session, "forkedFrom": {"sessionId": SESSION}} for line in lines]


def replaced(call: str, text: str, session: str) -> Line:
    """The model gets `text` in place of the call's receipt from here on."""
    part = {"kind": "tool-result", "toolUseId": call, "replacement": text}
    return {"type": "content-replacement", "sessionId": session, "timestamp": LATER, "replacements": [part]}


def cleared(call: str, session: str) -> Line:
    named = {"compactedToolIds": [call]}
    fields = {"sessionId": session, "timestamp": LATER, "uuid": f"m-{call}", "microcompactMetadata": named}
    return {"type": "system", "subtype": "microcompact_boundary", **fields}


def own(call: str, session: str) -> list[Line]:
    return [
        user("go on", uuid=f"u-{call}", session=session, at=LATER),
        asks(call, session=session, at=LATER),
        answers(call, session=session, at=LATER),
    ]


def take(project: Project, folder: Path, files: dict[str, list[Line]], order: tuple[str, ...] = ()) -> None:
    for name in order or tuple(files):
        import_paths(project, [write(folder / f"{name}.jsonl", [*files[name]])])


def run_of(session: str) -> Run:
    return Run.objects.get(external_id=session)


def entries(client: Client, session: str) -> list[tuple[str, str]]:
    """The kind and the words of each entry of a run's Model view."""
    page = parse_page(client.get(f"/runs/{run_of(session).pk}/context"))
    return [(entry["data-kind"], entry.text) for entry in page.select("[data-item]")]


def open_call(client: Client, call: str, session: str = "") -> Page:
    query = f"?run={run_of(session).pk}" if session else ""
    return parse_page(client.get(f"/calls/{Call.objects.get(external_id=call).pk}/{query}"))


# Supersession belongs to a run and a receipt

DIVERGED = {
    "in the fork": {SESSION: history(), FORK: [*copied(history()), replaced("toolu_01", SHORTER, FORK)]},
    "in the original": {SESSION: [*history(), replaced("toolu_01", SHORTER, SESSION)], FORK: copied(history())},
}


@pytest.mark.parametrize(
    "order",
    [(SESSION, FORK), pytest.param((FORK, SESSION), marks=pytest.mark.extended)],
    ids=["original first", "fork first"],
)
@pytest.mark.parametrize("where", extended_except(DIVERGED, "in the fork"))
def test_a_replacement_is_reported_for_the_run_in_which_it_happened(
    where: str, order: tuple[str, ...], project: Project, tmp_path: Path, operator_client: Client
) -> None:
    take(project, tmp_path, DIVERGED[where], order)
    changed, unchanged = (FORK, SESSION) if where == "in the fork" else (SESSION, FORK)
    stored = RecordedReceipt.objects.filter(call__external_id="toolu_01").order_by("seq")
    columns = ("line", "superseded_line", "is_cut", "seen_lines")
    assert list(stored.filter(run=run_of(unchanged)).values_list(*columns)) == [(3, None, False, 100)]
    assert list(stored.filter(run=run_of(changed)).values_list(*columns)) == [(3, 6, False, 100), (6, None, True, 20)]
    assert (run_of(unchanged).cut_count, run_of(changed).cut_count) == (0, 1)
    assert run_of(changed).receipt_characters == len(SHORTER) + 3
    assert run_of(unchanged).receipt_characters == len(TEXT) + 3
    assert run_of(changed).token_count < run_of(unchanged).token_count

    assert [kind for kind, _ in entries(operator_client, unchanged)].count("replacement") == 0
    assert not any("cleared from the context" in words for _, words in entries(operator_client, unchanged))
    assert [kind for kind, _ in entries(operator_client, changed)].count("replacement") == 1

    assert receipt_text(open_call(operator_client, "toolu_01", unchanged)) == TEXT
    assert receipt_text(open_call(operator_client, "toolu_01", changed)) == SHORTER
    default = TEXT if unchanged == SESSION else SHORTER
    assert receipt_text(open_call(operator_client, "toolu_01")) == default
    rows = parse_page(operator_client.get(f"/runs/{run_of(unchanged).pk}/")).select(".call-row")
    assert not any("replaced later" in row.text for row in rows)
    rows = parse_page(operator_client.get(f"/runs/{run_of(changed).pk}/")).select(".call-row")
    for session, count in ((changed, 1), (unchanged, 0)):
        address = f"/runs/{run_of(session).pk}/"
        outcomes = [row["data-outcome"] for row in parse_page(operator_client.get(address)).select("a[data-outcome]")]
        assert outcomes.count("cut") == count
        assert len(parse_page(operator_client.get(f"{address}?q=cut:yes")).select("a[data-outcome]")) == count
        bands = [band.outcome for band in load_overview(run_of(session)).bands]
        assert bands.count("cut") == count
    [row] = [row.text for row in rows if "replaced later" in row.text]
    assert "20 of 100" in row or "20 / 100" in row


def test_what_was_cleared_in_a_fork_is_still_there_in_the_original(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    """The fork is shorter than the original: line 4 of the one says nothing of line 30 of the other."""
    before = [user(f"message {number}", uuid=f"b{number}") for number in range(30)]
    files = {SESSION: [*before, *history()], FORK: [*copied(history()), cleared("toolu_01", FORK)]}
    take(project, tmp_path, files)
    assert not any("cleared" in words for _, words in entries(operator_client, SESSION))
    receipt = next(words for kind, words in entries(operator_client, FORK) if kind == "receipt")
    assert "cleared from the context at line 6: microcompact" in receipt
    assert "Cleared from the context at line 6" in open_call(operator_client, "toolu_01", FORK).text
    assert "Cleared from the context" not in open_call(operator_client, "toolu_01").text


def test_the_entries_of_a_fork_lead_to_the_call_as_the_fork_has_it(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    take(project, tmp_path, DIVERGED["in the fork"])
    page = parse_page(operator_client.get(f"/runs/{run_of(FORK).pk}/context"))
    links = [link["href"] for link in page.all_by_role("link", "both halves")]
    assert [receipt_text(parse_page(operator_client.get(link))) for link in links] == [TEXT, "a\nb", SHORTER]


def test_a_call_that_only_a_fork_answered_has_no_receipt_in_the_original(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    begun = history()[:4]
    take(project, tmp_path, {SESSION: begun, FORK: [*copied(begun), answers("toolu_02", "by the fork", session=FORK)]})
    words = [words for kind, words in entries(operator_client, SESSION) if kind == "call"]
    assert ["no receipt recorded" in text for text in words] == [False, True]
    assert not any("by the fork" in text for _, text in entries(operator_client, SESSION))
    assert [kind for kind, _ in entries(operator_client, FORK)].count("receipt") == 2
    assert "No receipt of this call was recorded in this run" in open_call(operator_client, "toolu_02").text
    assert "No receipt of this call" not in open_call(operator_client, "toolu_02", FORK).text


# Each receipt has its own numbers


@pytest.mark.parametrize("parts", extended_except([1, 2, 6], 2))
def test_each_receipt_has_its_own_cut_tokens_and_characters(parts: int, project: Project, tmp_path: Path) -> None:
    lines = [*history(), replaced("toolu_01", SHORTER, SESSION)]
    path = tmp_path / f"{SESSION}.jsonl"
    for part in range(parts, 0, -1):
        import_paths(project, [write(path, [*lines[: len(lines) // part]])])
    import_paths(project, [write(path, [*lines])])
    first, second = RecordedReceipt.objects.filter(call__external_id="toolu_01").order_by("seq")
    assert (first.characters, first.lines, first.seen_lines, first.is_cut) == (len(TEXT), 100, 100, False)
    assert (second.characters, second.lines, second.seen_lines, second.is_cut) == (len(SHORTER), 26, 20, True)
    assert first.tokens > second.tokens > 0
    call = first.call
    assert (call.receipt_characters, call.tokens, call.is_cut) == (second.characters, second.tokens, True)


# Any order of files and parts gives equal rows

FILES = {
    SESSION: [*history(), *own("toolu_11", SESSION), cleared("toolu_02", SESSION)],
    FORK: [*copied(history()), replaced("toolu_01", SHORTER, FORK), *own("toolu_12", FORK)],
    OTHER: [*copied(history(), OTHER), replaced("toolu_01", "[nothing]", OTHER), *own("toolu_13", OTHER)],
}


def delete_all_runs() -> None:
    for run in list(Run.objects.all()):
        delete_run(run)
    assert not any(stored_rows().values())


@pytest.mark.extended
def test_any_order_of_a_session_and_its_forks_gives_equal_rows(project: Project, tmp_path: Path) -> None:
    first, *others = permutations(FILES)
    take(project, tmp_path / "first", FILES, first)
    expected = stored_rows()
    for number, order in enumerate(others):
        delete_all_runs()
        take(project, tmp_path / f"{number}", FILES, order)
        assert stored_rows() == expected, order


@pytest.mark.extended
def test_files_that_grew_give_the_same_rows_as_whole_ones(project: Project, tmp_path: Path) -> None:
    take(project, tmp_path / "whole", FILES)
    expected = stored_rows()
    for cut in (1, 3, 5, 6, 7):
        delete_all_runs()
        begun = {name: lines[:cut] for name, lines in FILES.items()}
        take(project, tmp_path / f"{cut}", begun, (FORK, OTHER, SESSION))
        take(project, tmp_path / f"{cut}", FILES)
        assert stored_rows() == expected, cut


def rewritten(lines: list[Line], session: str = FORK) -> list[Line]:
    """The lines as older releases copied them: under the new session's id."""
    return [{**line, "sessionId": session} for line in lines]


AGENT = {"isSidechain": True, "agentId": "abc"}
IN_AGENT = [{**line, **AGENT} for line in (user("look", uuid="c1"), *own("toolu_21", SESSION))]
PROGRESS = {"type": "agent_progress", "agentId": "abc", "prompt": "look"}
IN_PARENT = [
    asks("toolu_20", "Task", {"prompt": "look"}),
    *[
        {"type": "progress", "sessionId": SESSION, "parentToolUseID": "toolu_20", "data": {**PROGRESS, "message": line}}
        for line in own("toolu_21", SESSION)[1:]
    ],
    answers("toolu_20", "done", {"status": "completed", "agentId": "abc", "content": []}),
]
FAMILIES = {
    "rewritten": {
        SESSION: history(),
        FORK: [*rewritten(history()), *own("toolu_12", FORK)],
        OTHER: [*rewritten([*history(), *own("toolu_12", FORK)], OTHER), cleared("toolu_12", OTHER)],
    },
    "without the original": {
        FORK: [*copied(history()), *own("toolu_12", FORK)],
        OTHER: [*copied(history(), OTHER), replaced("toolu_01", SHORTER, OTHER)],
    },
    "other receipts": {
        SESSION: history(),
        FORK: [*copied(history()[:4]), answers("toolu_02", "another text", session=FORK), *own("toolu_12", FORK)],
    },
    "a subagent": {SESSION: IN_PARENT, f"{SESSION}/subagents/agent-abc": IN_AGENT},
    "parts of one session": {
        "turn-1": history(),
        "turn-2": [cleared("toolu_02", SESSION), replaced("toolu_01", SHORTER, SESSION)],
    },
    "two logs of one session": {
        SESSION: [*history(), *own("toolu_31", OTHER)],
        OTHER: own("toolu_31", OTHER),
    },
}


@pytest.mark.parametrize("family", extended_except(FAMILIES, "parts of one session", "two logs of one session"))
def test_any_order_of_recordings_that_share_calls_gives_equal_rows(
    family: str, project: Project, tmp_path: Path
) -> None:
    files = FAMILIES[family]
    half = {name: lines[: len(lines) // 2] for name, lines in files.items()}
    take(project, tmp_path / "first", files)
    expected = stored_rows()
    for number, order in enumerate(permutations(files)):
        delete_all_runs()
        take(project, tmp_path / f"{number}", half, order[::-1])
        take(project, tmp_path / f"{number}", files, order)
        assert stored_rows() == expected, order


# Which run is the original, and what counts as copied


@pytest.mark.parametrize("order", [(SESSION, FORK), (FORK, SESSION)], ids=["original first", "fork first"])
@pytest.mark.parametrize("original", extended_except([SESSION, FORK], FORK))
def test_the_session_that_ended_first_is_the_original_of_one_that_rewrote_its_lines(
    original: str, order: tuple[str, ...], project: Project, tmp_path: Path, operator_client: Client
) -> None:
    """Whatever their ids and the order of import."""
    fork = FORK if original == SESSION else SESSION
    files = {original: rewritten(history(), original), fork: [*rewritten(history(), fork), *own("toolu_12", fork)]}
    take(project, tmp_path, files, order)
    assert set(run_of(original).members.values_list("inherited", flat=True)) == {False}
    assert list(run_of(fork).members.order_by("ordinal").values_list("inherited", flat=True)) == [True, True, False]
    assert (run_of(original).own_call_count, run_of(fork).own_call_count) == (2, 1)
    sources = set(Observation.objects.filter(call__run=run_of(original)).values_list("source__path", flat=True))
    assert sources == {str(tmp_path / f"{original}.jsonl")}
    copies = ["copied from another run's history" in words for kind, words in entries(operator_client, original)]
    assert not any(copies)


def test_a_session_that_goes_on_after_clear_under_another_id_is_one_history(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    take(project, tmp_path, {SESSION: [*history(), *own("toolu_31", OTHER)]})
    run = Run.objects.get()
    assert (run.external_id, run.call_count, run.own_call_count) == (SESSION, 3, 3)
    assert not any("copied from another run's history" in words for _, words in entries(operator_client, SESSION))
    rows = parse_page(operator_client.get(f"/runs/{run.pk}/")).select(".call-row")
    assert not any("inherited" in row.text for row in rows)


def test_a_copied_prefix_is_marked_also_where_the_original_is_unknown(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    take(project, tmp_path, {FORK: [*history(), *own("toolu_12", FORK)]})
    words = [words for kind, words in entries(operator_client, FORK) if kind == "call"]
    assert ["copied from another run's history" in text for text in words] == [True, True, False]


def test_each_receipt_of_a_fork_stands_at_its_own_line(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    """Two calls of one message: their answers come behind both."""
    first, call, answer, second, last = history()
    lines = [first, call, second, last, answer]
    take(project, tmp_path, {SESSION: lines, FORK: [user("x", uuid="x1"), *copied(lines)]})
    page = parse_page(operator_client.get(f"/runs/{run_of(FORK).pk}/context"))
    items = page.select("[data-item]")
    places = [item.select_one(".where").text.split(" ·")[0] for item in items]
    assert list(zip([item["data-kind"] for item in items], places, strict=True)) == [
        *[("message", "line 1"), ("message", "line 2"), ("call", "line 3"), ("call", "line 4")],
        *[("receipt", "line 5"), ("receipt", "line 6")],
    ]


@pytest.mark.postgresql
def test_a_fork_keeps_its_own_receipts_when_the_original_is_deleted(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    take(project, tmp_path, DIVERGED["in the original"])
    before = [entry for entry in entries(operator_client, FORK) if entry[0] == "receipt"]
    delete_run(run_of(SESSION))
    after = [entry for entry in entries(operator_client, FORK) if entry[0] == "receipt"]
    assert [words.split("line")[0] for _, words in after] == [words.split("line")[0] for _, words in before]
    assert receipt_text(open_call(operator_client, "toolu_01")) == TEXT
    call = Call.objects.get(external_id="toolu_01")
    assert (call.run, call.receipt_characters, call.is_cut) == (run_of(FORK), len(TEXT), False)
    assert not Observation.objects.filter(surface="receipt", receipts=None).exists()


def forked(path: Path) -> bytes:
    """The first half of a session as a release with `forkedFrom` copies it, in other spacing."""
    lines = [json.loads(raw) for raw in path.read_bytes().splitlines() if raw.startswith(b"{")]
    copies = [
        {**line, "sessionId": FORK, "forkedFrom": {"sessionId": line["sessionId"]}}
        for line in lines[: len(lines) // 2]
        if "sessionId" in line
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in copies)


def assert_equal_rows_however_imported(project: Project, path: Path, folder: Path) -> None:
    """A session and a fork of it; the fork first and the session in five parts."""
    raw, fork = path.read_bytes(), forked(path)
    for name in ("whole", "parts"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{FORK}.jsonl").write_bytes(fork)
    whole, parts = folder / "whole" / path.name, folder / "parts" / path.name
    whole.write_bytes(raw)
    import_paths(project, [whole, folder / "whole" / f"{FORK}.jsonl"])
    expected = stored_rows()
    delete_all_runs()
    import_paths(project, [folder / "parts" / f"{FORK}.jsonl"])
    for part in range(1, 6):
        parts.write_bytes(raw[: len(raw) * part // 5])
        import_paths(project, [parts])
    assert stored_rows() == expected
    delete_all_runs()


@pytest.mark.extended
@pytest.mark.parametrize("name", ["microcompact.excerpt.jsonl", "persisted_outputs.excerpt.jsonl"])
def test_a_real_session_beside_its_fork_gives_equal_rows_however_imported(
    name: str, project: Project, tmp_path: Path
) -> None:
    assert_equal_rows_however_imported(project, BUNDLED / "entire" / name, tmp_path)


@pytest.mark.recordings
def test_every_recorded_session_beside_its_fork_gives_equal_rows_however_imported(
    recordings_root: Path, project: Project, tmp_path: Path
) -> None:
    for path in sorted((recordings_root / "claude-code").rglob("*.jsonl")):
        assert_equal_rows_however_imported(project, path, tmp_path / path.stem)


def test_a_file_that_clears_receipts_of_another_one_may_be_imported_first(project: Project, tmp_path: Path) -> None:
    """Lines have an order within one file only: line 1 of the second file comes after line 5 of the first."""
    take(project, tmp_path, FAMILIES["parts of one session"], ("turn-2", "turn-1"))
    receipts = RecordedReceipt.objects.order_by("call__external_id", "seq")
    assert list(receipts.values_list("call__external_id", "seq", "superseded_line", "superseded_reason")) == [
        ("toolu_01", 1, 2, "content-replacement"),
        ("toolu_01", 2, None, ""),
        ("toolu_02", 1, 1, "microcompact"),
    ]
