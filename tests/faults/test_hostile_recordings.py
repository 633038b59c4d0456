"""Imports hostile recordings: no exception, every line counted, no valid line lost, and every page opens.

python -m pytest -m long tests/faults/test_hostile_recordings.py takes every value alone in every layout and
opens all its pages. The default run puts a kind of values into one session, one stream and one audit folder,
and opens the pages of the worst.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from django.test import Client

from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, RecordedReceipt
from envelopes.text.tokens import count_tokens
from tests.cases import extended_except
from tests.dashboard.sessions import SESSION, answers, asks, encoded, short_session
from tests.faults.crawl import faults_of_pages
from tests.faults.hostile import CANARY, KINDS, LARGE, VALUES, audit_lines, quoted, session_lines, stream_lines

pytestmark = pytest.mark.django_db
# PostgreSQL stores no NUL and no lone surrogate in a text.
WORST = b'"a\\u0000b\\ud800c' + quoted(CANARY)[1:]
# What is too deep or no JSON is refused before a row is written.
BY_KIND = [
    pytest.param(kind, marks=pytest.mark.rendering) if kind in ("json-depth", "json-syntax") else kind for kind in KINDS
]
AUDIT = {
    "run.json": b'{"runId":"r","plan":{}}\n',
    "calls.jsonl": b'{"runId":"r","callId":"c1","tool":"ExecCommand","args":{}}\n',
    "results.jsonl": b'{"runId":"r","callId":"c1","ok":true,"data":{"exit_status":0}}\n',
    "events.jsonl": b'{"runId":"r","type":"run.started","timestamp":"2026-01-01T00:00:00Z"}\n',
    "receipts.jsonl": b'{"run":"r","call":"c1","text":"hi"}\n',
}


def lines_of(lines: Mapping[str, bytes]) -> list[bytes]:
    """Each with a call of its own, so that none answers another's."""
    return [line.replace(b"toolu_9", b"toolu_9%d" % at) for at, line in enumerate(lines.values())]


def in_turn(lines: Callable[[bytes], dict[str, bytes]], kind: str) -> dict[str, bytes]:
    return {f"{name} as {slot}": line for name, value in KINDS[kind].items() for slot, line in lines(value).items()}


def between_good_lines(folder: Path, hostile: list[bytes]) -> dict[Path, bytes]:
    good = [encoded(line) for line in short_session()]
    return {folder / f"{SESSION}.jsonl": b"".join(line + b"\n" for line in [*good[:2], *hostile, *good[2:]])}


def stream_around(folder: Path, hostile: list[bytes]) -> dict[Path, bytes]:
    init = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "m"}
    lines = [{"type": line["type"], "session_id": SESSION, "message": line["message"]} for line in (ASKED, ANSWERED)]
    good = [encoded(line) for line in (init, *lines)]
    return {folder / "out.jsonl": b"".join(line + b"\n" for line in [*good[:2], *hostile, *good[2:]])}


ASKED, ANSWERED = asks("toolu_01"), answers("toolu_01")


def audit_around(folder: Path, *values: bytes) -> dict[Path, bytes]:
    files = {folder / name: raw for name, raw in AUDIT.items()}
    for name, line in (slot for value in values for slot in audit_lines(value).values()):
        files[folder / name] += line + b"\n"
    return files


def imported(project: Project, files: Mapping[Path, bytes]) -> ImportReport:
    """Imports twice: each report counts every line, and the second adds nothing."""
    for path, raw in files.items():
        path.write_bytes(raw)
    count_tokens("")  # loads the vocabulary, which no test is about
    first, second = (import_paths(project, list(files)) for _ in range(2))
    assert sum(first.lines.values()) == sum(raw.count(b"\n") for raw in files.values())
    assert (second.lines, sum(second.added.values())) == (first.lines, 0)
    json.dumps(first.to_json())
    return first


def assert_good_calls(run: str, *calls: str) -> None:
    assert set(Call.objects.filter(run__external_id=run).values_list("external_id", flat=True)) >= set(calls)
    answered = RecordedReceipt.objects.filter(call__external_id__in=calls[:2], call__run__external_id=run)
    assert answered.values("call").distinct().count() == len(calls[:2])


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_in_any_slot_of_a_session_costs_no_good_line(kind: str, project: Project, tmp_path: Path) -> None:
    imported(project, between_good_lines(tmp_path, lines_of(in_turn(session_lines, kind))))
    assert_good_calls(SESSION, "toolu_01", "toolu_02", "toolu_03")


@pytest.mark.parametrize("kind", extended_except(BY_KIND, "names"))
def test_a_value_in_any_slot_of_a_stream_costs_no_good_line(kind: str, project: Project, tmp_path: Path) -> None:
    imported(project, stream_around(tmp_path, lines_of(in_turn(stream_lines, kind))))
    assert_good_calls(SESSION, "toolu_01")


@pytest.mark.parametrize("kind", extended_except(BY_KIND, "names"))
def test_a_value_in_any_slot_of_an_audit_folder_costs_no_good_line(kind: str, project: Project, tmp_path: Path) -> None:
    imported(project, audit_around(tmp_path, *KINDS[kind].values()))
    assert_good_calls("r", "c1")


@pytest.mark.extended
def test_every_page_of_the_worst_value_opens(project: Project, tmp_path: Path, operator_client: Client) -> None:
    imported(project, between_good_lines(tmp_path, lines_of(session_lines(WORST))))
    assert faults_of_pages(operator_client, project, is_brief=True) == []


@pytest.mark.long
@pytest.mark.parametrize("layout", ["session", "stream", "audit"])
@pytest.mark.parametrize("name", VALUES | LARGE)
def test_every_page_of_every_value_opens(
    name: str, layout: str, project: Project, tmp_path: Path, operator_client: Client
) -> None:
    value = (VALUES | LARGE)[name]
    match layout:
        case "session":
            imported(project, between_good_lines(tmp_path, lines_of(session_lines(value))))
            assert_good_calls(SESSION, "toolu_01", "toolu_02", "toolu_03")
        case "stream":
            imported(project, stream_around(tmp_path, lines_of(stream_lines(value))))
            assert_good_calls(SESSION, "toolu_01")
        case _:
            imported(project, audit_around(tmp_path, value))
            assert_good_calls("r", "c1")
    assert faults_of_pages(operator_client, project) == []
