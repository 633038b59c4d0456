"""Writes a run as a folder in the audit layout, from which an import gives an equal run (`export_run RUN DIR`).

A run that came in this layout is written with its own objects, byte for byte, and `canonical` beside each result. For a
run of another format each object begins with `source`, the name of that format, and has what the store has of the CALL
seed's members: nothing is made up for a policy or a version that nobody recorded. `envelopes/recordings/audit` reads
both. Where several sources reported a call, each further observation is a line of its own.

    run.json calls.jsonl results.jsonl receipts.jsonl events.jsonl messages.jsonl    without those that have no line
    remarks.jsonl         values of another format that were changed or left out, and that are in none of the others
    artifacts/<sha256>                                                                the stored files of its calls
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from dashboard.artifacts.ingest import ARTIFACTS_FOLDER
from dashboard.artifacts.stores import open_stored
from dashboard.models import (
    Artifact,
    Call,
    Event,
    Message,
    Remark,
    RequestUsage,
    Run,
    load_slices,
)
from dashboard.runs.export_calls import CallExport, Members, join_members, json_text, json_time, order_of
from dashboard.text.masks import MaskedStream, Masks
from envelopes.text.untrusted_json import dump_json, object_slices

ROWS_AT_ONCE = 500
TOKEN_COUNTS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens")
FILES = (
    "run.json",
    "calls.jsonl",
    "results.jsonl",
    "receipts.jsonl",
    "events.jsonl",
    "messages.jsonl",
    "remarks.jsonl",
)


class FolderNotEmpty(ValueError):
    """The folder of an export has files already."""


def export_run(run: Run, folder: Path, masks: Masks | None = None) -> dict[str, int]:
    """Writes the run below `folder`, which is created; returns the lines of each file and the number of artifacts.

    With `masks` the secrets in lines and artifacts are masked; hashes stay those of the stored bytes.

    Raises FolderNotEmpty, OSError, and DamagedEvidence when the store has lost bytes of the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FolderNotEmpty(f"{folder} is not empty: name a new folder")
    lines = _LineFiles(folder, masks)
    try:
        exporter = _RunExport(run)
        lines.write("run.json", exporter.run_object())
        for call in exporter.calls.load_calls():
            for name, raw in exporter.calls.call_lines(call):
                lines.write(name, raw)
        for raw in exporter.event_lines():
            lines.write("events.jsonl", raw)
        for raw in exporter.message_lines():
            lines.write("messages.jsonl", raw)
        for raw in exporter.remark_lines():
            lines.write("remarks.jsonl", raw)
    finally:
        lines.close()
    return {**lines.counts, "artifacts": _copy_artifacts(run, folder / ARTIFACTS_FOLDER, masks)}


class _LineFiles:
    """The files of an export; one is created with its first line."""

    def __init__(self, folder: Path, masks: Masks | None) -> None:
        self._folder, self._masks = folder, masks
        self._files: dict[str, BinaryIO] = {}
        self.counts: Counter[str] = Counter(dict.fromkeys(FILES, 0))

    def write(self, name: str, raw: bytes) -> None:
        if name not in self._files:
            self._files[name] = (self._folder / name).open("xb")
        if self._masks:
            raw = self._masks.mask_bytes(raw)
        self._files[name].write(raw + b"\n")
        self.counts[name] += 1

    def close(self) -> None:
        for file in self._files.values():
            file.close()


class _RunExport:
    """The objects of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.calls = CallExport(run)
        self.is_native, self._source = self.calls.is_native, self.calls.source

    def run_object(self) -> bytes:
        run = self.run
        if self.is_native and run.document:
            return bytes(run.document)
        parent_call = Call.objects.filter(pk=run.parent_call).first() if run.parent_call else None
        document = object_slices(bytes(run.document)) if run.document else {}
        return join_members(
            join_members(None, {**self._source, **document}),  # `source` first: a reader knows the format by it
            {
                "runId": json_text(run.external_id),
                "parentRunId": json_text(run.parent.external_id) if run.parent else None,
                "parentCallId": json_text(parent_call.external_id) if parent_call else None,
                "title": json_text(run.title),
                "agent": json_text(run.agent),
                "model": json_text(run.model),
                "executorVersion": json_text(run.version),
                "cwd": json_text(run.cwd),
                "branch": json_text(run.branch),
                "startedAt": json_time(run.started_at),
                "lastAt": json_time(run.last_at),
                "endedAt": json_time(run.ended_at),
                "origin": json_text("progress") if run.is_reported else None,
                "plan": bytes(run.plan) if run.plan else None,
            },
        )

    def event_lines(self) -> Iterator[bytes]:
        events = _in_order(self.run.events.all())
        names = _external_ids(event.call for event in events)
        for event in _loaded(events):
            yield event.data if self.is_native else self._event(event, names.get(event.call))

    def remark_lines(self) -> Iterator[bytes]:
        """Remarks on what a reader met; those on evidence follow from it again."""
        if self.is_native:
            return
        remarks = list(self.run.remarks.exclude(kind__in=Remark.Kind.of_evidence()))
        # Not by their ids, which are others in another project, and here, because databases sort text differently.
        remarks.sort(key=attrgetter("line", "kind", "path", "was", "pk"))
        names = _external_ids(remark.call for remark in remarks)
        for remark in remarks:
            members: Members = {
                **self._source,
                "runId": json_text(self.run.external_id),
                "providerCallId": json_text(names.get(remark.call)),
                "remark": json_text(remark.kind),
                "path": json_text(remark.path),
                "was": dump_json(remark.was),
                "became": dump_json(remark.became),
                "position": dump_json(remark.line),
            }
            yield join_members(None, members)

    def _event(self, event: Event, call: str | None) -> bytes:
        members: Members = {
            **self._source,
            "runId": json_text(self.run.external_id),
            "type": json_text(event.kind),
            "timestamp": json_time(event.at),
            "level": json_text(event.level),
            "message": dump_json(event.message),
            "providerCallId": json_text(call),
            "payload": event.data,
            "position": dump_json(event.line),
        }
        return join_members(None, members)

    def message_lines(self) -> Iterator[bytes]:
        for seq, message in enumerate(_loaded(_in_order(self.run.messages.all())), start=1):
            members: Members = {
                "v": b"1",
                "type": b'"message"',
                **self._source,
                "run": json_text(self.run.external_id),
                "seq": dump_json(seq),
                "role": json_text(message.role),
                "text" if message.data.startswith(b'"') else "content": message.data,
                "step": json_text(message.step),
                "at": json_time(message.at),
                "delivery": None if message.delivery == Message.Delivery.SENT else json_text(message.delivery),
                "kind": json_text(message.kind),
                "position": dump_json(message.line),
            }
            yield join_members(None, members)
        for usage in _loaded(_in_order(self.run.requests.all())):
            yield self._usage(usage)

    def _usage(self, usage: RequestUsage) -> bytes:
        members: Members = {
            "v": b"1",
            "type": b'"usage"',
            **self._source,
            "run": json_text(self.run.external_id),
            "request": json_text(usage.request),
            **{name: dump_json(getattr(usage, name)) for name in TOKEN_COUNTS},
            "usage": usage.data,
            "edits": bytes(usage.edits) if usage.edits else None,
            "cleared_tokens": None if usage.cleared_tokens is None else dump_json(usage.cleared_tokens),
            "repeated_tokens": dump_json(usage.repeated_tokens) if usage.repeated_tokens else None,
            "origin": json_text("progress") if usage.origin == "progress" else None,
            "at": json_time(usage.at),
            "position": dump_json(usage.line),
        }
        return join_members(None, members)


def _copy_artifacts(run: Run, folder: Path, masks: Masks | None) -> int:
    stored = Artifact.objects.stored_files().filter(call__memberships__run=run)
    hashes = sorted(set(stored.values_list("sha256", flat=True)))
    for sha256 in hashes:
        folder.mkdir(exist_ok=True)
        with open_stored(sha256) as content, (folder / sha256).open("xb") as file:
            shutil.copyfileobj(MaskedStream(content, masks) if masks else content, file)
    return len(hashes)


def _in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.line, order_of(row.start), str(row.at), row.size, row.pk))


def _loaded(rows: Sequence[Any]) -> Iterator[Any]:
    """The rows with their bytes, of which a portion is in memory at a time."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        portion = rows[start : start + ROWS_AT_ONCE]
        load_slices(portion)
        for row in portion:
            yield row
            vars(row).pop("data")


def _external_ids(calls: Iterable[UUID | None]) -> dict[UUID | None, str]:
    return dict(Call.objects.filter(pk__in={call for call in calls if call}).values_list("pk", "external_id"))
