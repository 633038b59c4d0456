"""Deletes a run with all that only it has: rows, files, and bytes of its recordings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from django.db import models, transaction
from django.db.models import OuterRef, Subquery

from dashboard.artifacts.retention import remove_unreferenced
from dashboard.ingest.bulk import IDS_PER_STATEMENT
from dashboard.ingest.merge_runs import choose_owner
from dashboard.ingest.run_stats import refresh_stats
from dashboard.ingest.source_frames import JOINED_COLUMNS, join_frames
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Message,
    Observation,
    RecordedReceipt,
    Remark,
    RequestUsage,
    Run,
    RunCall,
    RunFacet,
    Source,
    SourceFrame,
    select_receipt,
)
from dashboard.models.sources import FrameBlock
from dashboard.search.index import reset_index


def delete_run(run: Run) -> None:
    """Deletes the run; a call that another run has too moves there.

    Of its recordings only the bytes stay that rows of other runs refer to. Another import of one restores this run.
    """
    with run.project.write_lock():
        _move_shared_calls(run)
        files = set(Artifact.objects.stored_files().filter(call__run=run).values_list("sha256", flat=True))
        evidence = Observation.objects.filter(call__run=run).values("source")
        partial = models.Q(is_partial=True, pk__in=evidence)  # of an earlier deletion; this run's calls were copies
        recordings = list(Source.objects.filter(models.Q(runs=run) | partial).distinct())
        RunFacet.objects.filter(run__parent=run, kind="state", value="child").update(value="top")
        texts = Observation.objects.filter(receipts__run=run).exclude(call__run=run)
        calls_by_text = dict(texts.values_list("pk", "call_id"))
        run.delete()
        reset_index()
        unsent = Observation.objects.filter(pk__in=calls_by_text, receipts=None)
        CanonicalProjection.objects.filter(call__in=set(calls_by_text.values()), observation__in=unsent).delete()
        unsent.delete()
        _trim_sources(recordings)
        transaction.on_commit(lambda: remove_unreferenced(files))


def _move_shared_calls(run: Run) -> None:
    """Moves each to the run that has the best claim to it, with the receipts that it has there."""
    shared: dict[UUID, list[RunCall]] = defaultdict(list)
    for member in RunCall.objects.filter(call__run=run).exclude(run=run):
        shared[member.call_id].append(member)
    runs = Run.objects.in_bulk(list({member.run_id for members in shared.values() for member in members}))
    by_target: dict[UUID, list[UUID]] = defaultdict(list)
    for call, members in shared.items():
        by_target[choose_owner(members, runs)].append(call)
    for target, calls in by_target.items():
        for start in range(0, len(calls), IDS_PER_STATEMENT):
            _move_calls(calls[start : start + IDS_PER_STATEMENT], target)
        runs[target].revision += 1
    refresh_stats([runs[target] for target in by_target])


def _move_calls(keys: Sequence[UUID], target: UUID) -> None:
    listed = RunCall.objects.filter(run=target, call__in=keys)
    listed.exclude(claim=RunCall.Claim.COPIED).update(inherited=False)
    place = listed.filter(call=OuterRef("pk"))
    calls = Call.objects.filter(pk__in=keys)
    calls.update(
        run_id=target,
        line=Subquery(place.values("ordinal")[:1]),
        source_id=Subquery(place.values("source")[:1]),
    )
    Remark.objects.filter(call__in=keys, kind__in=Remark.Kind.of_evidence()).update(run=target)
    receipts: dict[UUID, list[RecordedReceipt]] = defaultdict(list)
    for receipt in RecordedReceipt.objects.filter(run=target, call__in=keys).order_by("seq"):
        receipts[receipt.call_id].append(receipt)
    for call in calls:
        own = receipts[call.pk]
        if own and (select_receipt(own).tokens, len(own)) != (call.tokens, call.receipt_count):
            select_receipt(own).show_in(call)
            call.receipt_count = len(own)
            call.save()


def _trim_sources(recordings: Iterable[Source]) -> None:
    """Deletes the bytes that no row refers to; a source as well when nothing of it is left."""
    in_blocks = SourceFrame.objects.filter(block__isnull=False)
    blocks: set[int] = set()
    for source in recordings:
        blocks.update(in_blocks.filter(source=source).values_list("block", flat=True))
        _trim_source(source)
    for block in sorted(blocks):
        join_frames(SourceFrame.objects.filter(block=block))
    FrameBlock.objects.filter(pk__in=blocks).delete()


def _trim_source(source: Source) -> None:
    """A frame that rows of other runs refer to stays at its offset, with zeros for the deleted bytes.

    Its source is partial from then on: its file, imported again, is a new source.
    """
    source.problems.all().delete()
    slices: list[tuple[int, int]] = []
    for model in (Observation, Message, Event, RequestUsage):
        rows = model._base_manager.filter(source=source, start__gte=0)
        slices += [(start or 0, size) for start, size in rows.values_list("start", "size")]
    slices.sort()
    position = 0
    frames = []
    for frame in source.frames.order_by("offset").defer("own_data"):
        end = frame.offset + frame.size
        parts = []
        while position < len(slices) and slices[position][0] < end:
            start, size = slices[position]
            parts.append(slice(start - frame.offset, start - frame.offset + size))
            position += 1
        if parts:
            frame.refresh_from_db(fields=["own_data"])
            data = bytearray(frame.size)
            for part in parts:
                data[part] = frame.data[part]
            frame.own_data, frame.block, frame.block_start, frame.is_joinable = bytes(data), None, None, False
            frame.save(update_fields=JOINED_COLUMNS)
            frames.append(frame.pk)
    source.frames.exclude(pk__in=frames).delete()
    if not frames and not source.runs.exists():
        source.delete()
        return
    source.is_partial, source.state, source.left_bytes = True, b"{}", 0
    source.save(update_fields=["is_partial", "state", "left_bytes"])
