"""Compares the store with the real sessions, which an independent reader of ten lines reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoDbBlocker

from dashboard.accounts import get_or_create_project
from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Event, Message, Observation, RecordedReceipt, RunCall, load_slices
from envelopes.families.registry import is_mapped
from envelopes.text.tokens import count_tokens

pytestmark = pytest.mark.django_db


IN_THE_TEXT = re.compile(r"\.\.\. \[\d+ characters truncated\] \.\.\.")


def lines_in(folder: Path) -> Iterator[tuple[Path, int, dict[str, Any], bytes]]:
    for path in sorted(folder.rglob("*.jsonl")):
        for number, raw in enumerate(path.read_bytes().split(b"\n"), 1):
            yield path, number, json.loads(raw) if raw.strip() else {}, raw


def blocks(folder: Path, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], bytes]]:
    """(block, its line, the line's bytes) for each block of that kind in a message line."""
    for _, _, line, raw in lines_in(folder):
        content = (line.get("message") or {}).get("content") if line.get("type") != "progress" else None
        for block in content if isinstance(content, list) else []:
            if block.get("type") == kind:
                yield block, line, raw


def removed_receipts(folder: Path) -> dict[str, int]:
    """The first line that removes or replaces the receipt of a call which was answered before it."""
    answered: set[str] = set()
    removed: dict[str, int] = {}
    for _, number, line, _ in lines_in(folder):
        content = (line.get("message") or {}).get("content")
        answered |= {block.get("tool_use_id") for block in content if isinstance(block, dict)} if content else set()
        named = (line.get("microcompactMetadata") or {}).get("compactedToolIds") or []
        named += [replacement["toolUseId"] for replacement in line.get("replacements") or []]
        removed = {call: number for call in named if call in answered} | removed
    return removed


def queued_messages(folder: Path) -> list[str]:
    """What was typed while a step ran and then left the queue for the model, of all files."""
    sent = []
    queue: list[str] = []
    for _, number, line, _ in lines_in(folder):
        queue = [] if number == 1 else queue
        match line.get("operation") if line.get("type") == "queue-operation" else None:
            case "enqueue":
                queue.append(line["content"])
            case "remove":
                sent.append(queue.pop(0))
            case "dequeue":
                queue.pop(0)
            case "popAll":
                queue.remove(line["content"])
    return sorted(sent)


@pytest.fixture(scope="module")
def report(folder: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[ImportReport]:
    """Brought in once; what a test adds to it is taken back after that test, and all of it after the last."""
    del django_db_setup
    count_tokens("")  # loads the vocabulary, which no test is about
    with django_db_blocker.unblock(), transaction.atomic():
        yield import_paths(get_or_create_project(), [folder])
        transaction.set_rollback(True)


def selected(surface: str) -> dict[str, bytes]:
    rows = list(Observation.objects.filter(surface=surface, selected=True).order_by("-line").select_related("call"))
    load_slices(rows)
    return {row.call.external_id: row.data for row in rows}


def test_every_tool_use_is_a_call_and_every_receipt_and_result_is_as_recorded(
    report: ImportReport, folder: Path
) -> None:
    called = {block["id"] for block, _, _ in blocks(folder, "tool_use")}
    stored = set(Call.objects.filter(origin="message").values_list("external_id", flat=True))
    assert stored == called
    receipts = {
        receipt.call.external_id: receipt
        for receipt in RecordedReceipt.objects.filter(seq=1).select_related("call", "observation")
    }
    results = selected("result")
    answered = set()
    for block, line, raw in blocks(folder, "tool_result"):
        answered.add(block["tool_use_id"])
        data = bytes(receipts[block["tool_use_id"]].observation.data)
        assert json.loads(data) == block["content"]
        assert data in raw
        if line.get("toolUseResult") is not None:
            assert json.loads(results[block["tool_use_id"]]) == line["toolUseResult"]
            assert results[block["tool_use_id"]] in raw
    assert (
        set(Call.objects.filter(origin="message", status="unknown").values_list("external_id", flat=True))
        == called - answered
    )


@pytest.mark.postgresql
def test_what_left_the_context_and_what_was_queued_is_that_of_the_independent_reader(
    report: ImportReport, folder: Path
) -> None:
    receipts = RecordedReceipt.objects.exclude(superseded_line=None).values_list("call__external_id", "superseded_line")
    assert dict(receipts) == removed_receipts(folder)
    assert removed_receipts(folder)
    compactions = [number for _, number, line, _ in lines_in(folder) if line.get("subtype") == "compact_boundary"]
    events = Event.objects.filter(kind__in=("compact_boundary", "partial_compact_boundary"))
    assert sorted(events.values_list("line", flat=True)) == sorted(compactions)
    messages = list(Message.objects.filter(delivery=Message.Delivery.QUEUED))
    load_slices(messages)
    assert sorted(json.loads(message.data) for message in messages) == queued_messages(folder)
    assert messages


@pytest.mark.postgresql
def test_every_cut_that_stands_in_a_recorded_text_is_a_cut(report: ImportReport, folder: Path) -> None:
    marked = set()
    for block, line, _ in blocks(folder, "tool_result"):
        receipt, result = (json.dumps(half) for half in (block["content"], line.get("toolUseResult")))
        if receipt.startswith('"<persisted-output>') or (IN_THE_TEXT.search(receipt) and IN_THE_TEXT.search(result)):
            marked.add(block["tool_use_id"])
    assert marked
    assert set(Call.objects.filter(is_cut=False, external_id__in=marked)) == set()


def test_every_line_is_accounted_for(report: ImportReport, folder: Path) -> None:
    lines = sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))
    ends = sum(not path.read_bytes().endswith(b"\n") for path in folder.rglob("*.jsonl"))
    assert sum(report.lines.values()) == lines + ends
    assert report.lines["rejected"] == 0
    assert report.problems == []


def test_calls_known_only_from_progress_lines_belong_to_the_child_run(report: ImportReport) -> None:
    apart = Call.objects.filter(origin="progress")
    assert apart.count() == report.seen["calls"] - Call.objects.filter(origin="message").count() - joined(report)
    assert all("/" in name for name in apart.values_list("run__external_id", flat=True))


def joined(report: ImportReport) -> int:
    """Calls that a progress line and a subagent's own file both speak of."""
    return report.seen["calls"] - report.added["calls"]


def test_importing_again_adds_nothing(report: ImportReport, folder: Path) -> None:
    before = (Call.objects.count(), Observation.objects.count(), RunCall.objects.count())
    again = import_paths(get_or_create_project(), [folder])
    assert sum(again.added.values()) == 0
    assert again.seen == report.seen
    assert before == (Call.objects.count(), Observation.objects.count(), RunCall.objects.count())


def test_at_least_95_percent_of_the_calls_have_a_typed_mapping(report: ImportReport) -> None:

    tools = list(Call.objects.filter(origin="message").values_list("tool", flat=True))
    rest = sorted({tool for tool in tools if not is_mapped("claude-code", tool)})
    assert rest == []
    assert sum(is_mapped("claude-code", tool) for tool in tools) >= 0.95 * len(tools)
