"""A compaction that kept messages: what stayed is still there, all else is not, and what is not known is said so.

The sessions are real ones; the ids of the results in each of their requests are those that the provider got.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.evidence.context_changes import load_drops
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Project, RecordedReceipt, Run
from dashboard.runs.compactions import load_compactions
from dashboard.runs.context_gauge import ContextGauge
from dashboard.runs.model_history import load_history
from dashboard.runs.receipt_presence import COMPACTED_AWAY, ContextState
from dashboard.runs.timeline import Timeline
from envelopes.recordings.base import CallRecord, MessageRecord
from tests.dashboard.page_text import parse_page, text_of
from tests.dashboard.stored_rows import stored_rows
from tests.envelopes.recordings.samples import read_sample
from tests.source import CHECKOUT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice")]
SESSION = CHECKOUT / "tests/envelopes/recordings/releases/claude_code_2.1.332_compacted.jsonl"
LINES = SESSION.read_bytes().splitlines(keepends=True)
QWEN_CODE = SESSION.with_name("qwen_code_0.15.10_compressed.jsonl")
OPENCODE = SESSION.with_name("opencode_1.18.33_compacted.json")
PI = SESSION.with_name("pi_1.6.0_branches.jsonl")
COMPACTED = 1 + next(number for number, line in enumerate(LINES) if b'"compact_boundary"' in line)
KEPT = (38, 39, 40)


def import_session(project: Project, folder: Path, lines: list[bytes] = LINES, name: str = SESSION.name) -> Run:
    path = folder / f"83682a4f-a139-4d24-b269-3c9bfa28ccab{Path(name).suffix}"
    path.write_bytes(b"".join(lines))
    import_paths(project, [path])
    return Run.objects.get()


def state_at(run: Run, step: int | None) -> ContextState:
    timeline = Timeline(run, until=step)
    return ContextState.build(timeline, ContextGauge(run, timeline, None), step)


def grades(run: Run, step: int | None) -> dict[str, str]:
    """The grade of each receipt from before the step, by the id of its call."""
    receipts = RecordedReceipt.objects.filter(run=run).select_related("call")
    before = [receipt for receipt in receipts if step is None or receipt.line < step]
    return {receipt.call.external_id: state_at(run, step).grade(receipt)[0] for receipt in before}


def lines_with(text: bytes) -> Callable[[Path], list[int]]:
    return lambda path: [number for number, line in enumerate(path.read_bytes().splitlines(), 1) if text in line]


def answers_in_document(path: Path) -> list[int]:
    """The place at which each message of the model begins, but for that of the summary."""
    records = [
        one for one in read_sample(f"releases/{path.name}").records if isinstance(one, CallRecord | MessageRecord)
    ]
    answers = [one for one in records if not (isinstance(one, MessageRecord) and (one.role == "user" or one.kind))]
    first: dict[str | None, int] = {}
    for answer in answers:
        first.setdefault(answer.step, answer.place)
    return [*first.values()]


@pytest.mark.parametrize(
    ("session", "find_answers"),
    [
        (SESSION, lines_with(b'"requestRef"')),
        (QWEN_CODE, lines_with(b'"type":"assistant"')),
        (OPENCODE, answers_in_document),
        (PI, lines_with(b'"role":"assistant"')),
    ],
)
def test_at_each_request_the_receipts_that_are_still_there_are_those_that_the_provider_got(
    session: Path, find_answers: Callable[[Path], list[int]], project: Project, tmp_path: Path
) -> None:
    requests: list[list[str]] = json.loads(session.with_suffix(".sent.json").read_bytes())
    run = import_session(project, tmp_path, session.read_bytes().splitlines(keepends=True), session.name)
    steps = find_answers(session)
    assert any({*before} - {*later} for before, later in pairwise(requests))
    for step, sent in zip(steps, requests, strict=True):
        found = grades(run, step)
        assert {call for call, grade in found.items() if grade == "recorded"} == {*sent}, step
        assert {found[call] for call in found.keys() - sent} <= {"superseded"}, step


@pytest.mark.postgresql
def test_the_pages_say_what_stayed_and_what_did_not(project: Project, client: Client, tmp_path: Path) -> None:
    run = import_session(project, tmp_path)
    assert [event.kept for event in load_compactions(run)] == [frozenset(KEPT)]
    history = text_of(client.get(f"/runs/{run.pk}/context").content.decode())
    assert "the conversation was compacted, but for 3 messages that stayed" in history
    assert "The model no longer saw anything else above this line, except what is in every request." in history
    entries = [entry for entry in load_history(run).entries if entry.kind in ("message", "call", "receipt")]
    notes = {entry.line: {note.text for note in entry.notes} for entry in entries if entry.line < COMPACTED}
    assert {line for line, texts in notes.items() if not texts & {COMPACTED_AWAY, "in every request"}} == {*KEPT}
    assert "perhaps" not in history
    before, kept = (parse_page(client.get(f"/runs/{run.pk}/{position}/halves")) for position in (4, 5))
    assert f"Compacted away at line {COMPACTED}." in before.select_one(".presence").text
    assert kept.select_one(".presence .badge")["title"].startswith(f"The compaction at line {COMPACTED} kept it")


def test_what_stayed_counts_in_the_context_behind_the_compaction(
    project: Project, client: Client, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path)
    timeline = Timeline(run)
    kept = [receipt for receipt in timeline.receipts if receipt.line in KEPT]
    later = [receipt for receipt in timeline.receipts if receipt.line > COMPACTED]
    assert (len(kept), len(later)) == (1, 3)
    assert timeline.weigh_kinds(COMPACTED)["receipts"] == (4, sum(receipt.tokens for receipt in [*kept, *later]))
    assert timeline.weigh_kinds(COMPACTED)["arguments"][0] == 4
    sizes = [size for kind in ("message", "call") for size in timeline._load_sizes(kind)]
    of_kept = sum(item.tokens for item in [*sizes, *kept] if item.line in KEPT)
    assert timeline.kept_tokens(COMPACTED) == of_kept > kept[0].tokens > 0
    behind = sum(item.tokens for item in [*sizes, *later] if item.line > COMPACTED)
    standing = sum(timeline.standing().values())
    assert timeline.tokens_before(len(LINES) + 1) == of_kept + behind + standing
    page = text_of(client.get(f"/runs/{run.pk}/8/context").content.decode())
    assert "3 receipts" in page
    assert f"since or kept by the compaction at line {COMPACTED}" in " ".join(page.split())


def test_a_message_whose_line_is_not_known_leaves_it_open_what_stayed(
    project: Project, client: Client, tmp_path: Path
) -> None:
    uuid = json.loads(LINES[KEPT[0] - 1])["uuid"].encode()
    lines = [line.replace(uuid, b"unknown") if number == COMPACTED else line for number, line in enumerate(LINES, 1)]
    run = import_session(project, tmp_path, lines)
    assert {event.is_partial for event in load_compactions(run)} == {True}
    assert set(grades(run, None).values()) == {"uncertain", "recorded"}
    history = text_of(client.get(f"/runs/{run.pk}/context").content.decode())
    assert "what stayed is not in the count below" in history


@pytest.mark.parametrize("cut", [KEPT[0], KEPT[1], COMPACTED - 1, COMPACTED])
def test_a_session_that_grew_over_the_compaction_has_the_rows_of_a_whole_one(
    cut: int, project: Project, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path)
    whole = stored_rows()
    delete_run(run)
    (tmp_path / "grown").mkdir()
    import_session(project, tmp_path / "grown", LINES[:cut])
    import_session(project, tmp_path / "grown", LINES)
    assert stored_rows() == whole


@pytest.mark.parametrize("weight", [2_000, 9_000])
def test_outputs_that_the_client_cleared_are_gone_and_explain_the_drop(
    weight: int, project: Project, client: Client, tmp_path: Path
) -> None:
    """The session is made in the form of a real one, whose outputs are too long for a file here."""

    def answer(number: int, tokens: int, **time: int) -> dict[str, Any]:
        times = {"start": number * 1_000, "end": number * 1_000 + 9, **time}
        text = "word " * weight if number == 1 else "short"
        state = {"status": "completed", "input": {"command": "ls"}, "output": text, "time": times}
        parts = [
            {"type": "step-start", "id": f"start-{number}"},
            {"type": "tool", "id": f"part-{number}", "callID": f"c{number}", "tool": "bash", "state": state},
            {"type": "step-finish", "id": f"finish-{number}", "tokens": {"input": tokens, "output": 1}},
        ]
        return {"info": {"id": f"m{number}", "role": "assistant", "time": {"created": number * 1_000}}, "parts": parts}

    messages = [answer(1, 5_000, compacted=2_500), answer(2, 15_000), answer(3, 7_000), answer(4, 7_100)]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": messages}, indent=1))
    import_paths(project, [path])
    run = Run.objects.get()
    assert grades(run, None)["c1"] == "superseded"
    assert [drop.removed > 0 for drop in load_drops(run)] == ([] if weight == 9_000 else [True])
    page = text_of(client.get(f"/runs/{run.pk}/4/context").content.decode())
    assert "1 earlier receipt cleared from the context: old outputs, by the client" in " ".join(page.split())
