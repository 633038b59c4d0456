"""Imports recordings unlike the samples, and compares them with what an independent reader reads."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.importer import import_paths
from dashboard.models import (
    Call,
    Event,
    Message,
    Observation,
    Problem,
    Project,
    RecordedReceipt,
    Run,
    RunCall,
    load_slices,
)
from tests.cases import extended_except
from tests.dashboard.sessions import SESSION, answers, asks, write
from tests.dashboard.unseen import RECORDINGS, Recorded
from tests.faults.crawl import faults_of_pages

pytestmark = pytest.mark.django_db
KEPT = (Run, Call, RunCall, Observation, RecordedReceipt, Message, Event, Problem)
READ = (".jsonl", "run.json", ".meta.json")


def laid_out(folder: Path, recorded: Recorded) -> Path:
    for name, raw in recorded.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return folder


def blocks(recorded: Recorded, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], bytes]]:
    """(block, its line, the line's bytes) for each block of that kind in a message line."""
    for line in b"\n".join(recorded.files.values()).split(b"\n"):
        try:
            entry = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            continue
        message = entry.get("message") if isinstance(entry, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == kind:
                yield block, entry, line


def count_everything() -> tuple[int, ...]:
    return tuple(kind._default_manager.count() for kind in KEPT)


BRIEF = (
    "each kind of structured result",
    "compaction in every form",
    "one id asked twice with other arguments",
    "a subagent within its session",
    "two streams in one file",
    "a whole audit folder",
    "an audit folder with lines that cannot be read",
    "numbers and strings beyond UTF-8 and 64 bits",
    "a last line that was cut",
)


@pytest.mark.postgresql("a last line that was cut")
@pytest.mark.parametrize("name", extended_except(RECORDINGS, *BRIEF))
def test_a_recording_of_an_unseen_kind_is_imported_whole(name: str, project: Project, tmp_path: Path) -> None:
    recorded = RECORDINGS[name]
    report = import_paths(project, [laid_out(tmp_path, recorded)])
    assert_every_line_is_told(recorded, report, tmp_path)
    assert_every_tool_use_is_a_call(recorded)
    assert_both_halves_are_as_recorded(recorded)
    before = count_everything()
    again = import_paths(project, [tmp_path])
    assert (sum(again.added.values()), again.lines, again.seen) == (0, report.lines, report.seen)
    assert count_everything() == before


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDINGS)
def test_every_page_of_a_recording_that_nobody_has_seen_opens(
    name: str, project: Project, tmp_path: Path, operator_client: Client
) -> None:
    import_paths(project, [laid_out(tmp_path, RECORDINGS[name])])
    assert faults_of_pages(operator_client, project) == []


def assert_every_line_is_told(recorded: Recorded, report: ImportReport, folder: Path) -> None:
    files = {name: raw for name, raw in recorded.files.items() if name.endswith(READ)}
    assert report.files == len(files)
    assert sum(report.lines.values()) == sum(
        raw.count(b"\n") + (not raw.endswith(b"\n") and raw != b"") for raw in files.values()
    )
    assert report.lines["rejected"] == sum(map(len, recorded.refused.values()))
    for name, numbers in recorded.refused.items():
        for number in numbers:
            problem = Problem.objects.get(file=str(folder / name), line=number)
            assert problem.path.startswith("$")
            assert problem.reason
            assert bytes(problem.raw).rstrip(b"\n") == files[name].split(b"\n")[number - 1][:65_536]
    json.dumps(report.to_json())


def assert_every_tool_use_is_a_call(recorded: Recorded) -> None:
    """Ids of the API are unique everywhere, all others in their session."""
    calls = {
        ("" if block["id"].startswith("toolu_") else entry.get("sessionId", entry.get("session_id")), block["id"])
        for block, entry, _ in blocks(recorded, "tool_use")
    }
    stored = Call.objects.filter(origin="message", namespace="claude-code").exclude(tool="")
    assert sorted(call for _, call in calls) == sorted(stored.values_list("external_id", flat=True))


def assert_both_halves_are_as_recorded(recorded: Recorded) -> None:
    stored: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    rows = list(Observation.objects.select_related("call"))
    load_slices(rows)
    for row in rows:
        stored[row.call.external_id, row.surface].append(row.data)
    answered = [line for _, _, line in blocks(recorded, "tool_result")]
    for block, entry, line in blocks(recorded, "tool_result"):
        if "content" in block:
            assert_is_among(stored[block["tool_use_id"], "receipt"], block["content"], line)
        result = entry.get("toolUseResult", entry.get("tool_use_result"))
        if result is not None and answered.count(line) == 1:
            assert_is_among(stored[block["tool_use_id"], "result"], result, line)


def assert_is_among(stored: list[bytes], value: Any, line: bytes) -> None:
    """Equal as Python writes it, so that NaN is NaN and 1.0 is not 1; and the very bytes of the line."""
    same = [data for data in stored if repr(json.loads(data)) == repr(value)]
    assert same
    assert all(data in line for data in same)


def test_kept_outputs_are_no_recordings_and_what_was_bounded_is_cut(project: Project, tmp_path: Path) -> None:
    path = f"/home/ada/{SESSION}/tool-results/toolu_1.jsonl"
    saved = {"stdout": "first", "stderr": "", "interrupted": False, "persistedOutputPath": path}
    write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1", "first", result=saved)])
    output = tmp_path / SESSION / "tool-results" / "toolu_1.jsonl"
    output.parent.mkdir(parents=True)
    output.write_text('{"of": "the tool"}\n' * 3, "utf-8")
    report = import_paths(project, [tmp_path])
    assert (report.files, report.lines["rejected"], Problem.objects.count()) == (1, 0, 0)
    call = Call.objects.get()
    assert call.artifacts.get(path=path).lines == 3
    assert (call.result_fidelity, call.is_cut) == ("bounded", True)
