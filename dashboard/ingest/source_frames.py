"""Frames: the raw bytes of the sources, cut at line ends and compressed; trimmed where a run is deleted.

A batch that was sent live has a source of its own, whose one frame may have a few hundred bytes. The background work
joins the bytes of many such frames in a block: of calls that are sent one by one, 2.3 KB of frames become 1.7 KB.

    cut_frames(source, lines)    the frames of new lines
    join_next_frames()           joins frames of one project, if there are enough for a block
    trim_sources(sources)        deletes the bytes that no row refers to any more
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from django.db.models import Sum

from dashboard.ingest.bulk import bulk_update
from dashboard.models import Event, Message, Observation, Project, RequestUsage, Source, SourceFrame
from dashboard.models.fields import compress
from dashboard.models.sources import FRAME_BYTES, FrameBlock, SourceFrameQuerySet
from envelopes.recordings.base import SourceLine

JOINED_AT_ONCE = 5_000  # frames that a step of the background work joins
FRAMES_OF_BLOCK = 1_000  # at most, however small they are
JOINED_COLUMNS = ("own_data", "block", "block_start", "is_joinable")


class PackedFrame(msgspec.Struct, frozen=True, gc=False):
    """The columns of a SourceFrame; `packed` is its compressed data."""

    offset: int
    size: int
    first_line: int
    packed: bytes


def cut_frames(source: Source, lines: Sequence[SourceLine]) -> list[PackedFrame]:
    """Frames of whole lines behind those that are stored. A short last frame is joined with what follows it."""
    if not lines:
        return []
    offset = lines[0].offset
    near = source.frames.filter(offset__gte=offset - FRAME_BYTES, offset__lt=offset).order_by("-offset")
    last = near.first() if offset else None
    if last is not None and last.offset + last.size == offset and last.size < FRAME_BYTES:
        last.delete()
        lines = [SourceLine(last.first_line, last.offset, last.data), *lines]
    return pack_frames(lines)


def pack_frames(lines: Sequence[SourceLine]) -> list[PackedFrame]:
    """Cuts consecutive lines into frames of at most FRAME_BYTES, or of one longer line, and compresses them."""
    frames: list[list[SourceLine]] = []
    size = 0
    for line in lines:
        if not frames or size + len(line.raw) > FRAME_BYTES:
            frames.append([])
            size = 0
        frames[-1].append(line)
        size += len(line.raw)
    return [_pack_frame(frame) for frame in frames]


def _pack_frame(lines: Sequence[SourceLine]) -> PackedFrame:
    data = b"".join([line.raw for line in lines])
    return PackedFrame(lines[0].offset, len(data), lines[0].number, compress(data))


def join_next_frames() -> bool:
    """Joins frames of one project into blocks of about FRAME_BYTES; False while no project has enough for one.

    Each block is a transaction: a killed process leaves its frames as they were, or joined.
    """
    joinable = SourceFrame.objects.filter(is_joinable=True)
    sizes = joinable.values_list("source__project").annotate(total=Sum("size")).filter(total__gte=FRAME_BYTES)
    project = Project.objects.filter(pk__in=sizes.values("source__project")).first()
    if project is None:
        return False
    frames = joinable.filter(source__project=project).order_by("source", "offset").values_list("pk", "size")
    for keys in _portions(frames[:JOINED_AT_ONCE]):
        with project.write_lock():
            _join(joinable.filter(pk__in=keys))
    return True


def _portions(frames: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Groups frames, given as keys and sizes, so that each group fills a block; what does not goes on waiting."""
    keys, total = list[int](), 0
    for key, size in frames:
        keys.append(key)
        total += size
        if total >= FRAME_BYTES or len(keys) == FRAMES_OF_BLOCK:
            yield keys
            keys, total = [], 0


def _join(frames: SourceFrameQuerySet) -> None:
    """Moves the bytes of frames into a new block; within a transaction of the project's only writer."""
    rows = frames.order_by("source", "offset").with_blocks()
    if not rows:  # a run was deleted meanwhile
        return
    block, start = FrameBlock.objects.create(data=b"".join(row.data for row in rows)), 0
    for row in rows:
        row.own_data, row.block, row.block_start, row.is_joinable = None, block, start, False
        start += row.size
    bulk_update(rows, JOINED_COLUMNS)


def trim_sources(recordings: Iterable[Source]) -> None:
    """Deletes the bytes that no row refers to; a source as well when nothing of it is left."""
    in_blocks = SourceFrame.objects.filter(block__isnull=False)
    blocks: set[int] = set()
    for source in recordings:
        blocks.update(in_blocks.filter(source=source).values_list("block", flat=True))
        _trim_source(source)
    for block in sorted(blocks):
        _join(SourceFrame.objects.filter(block=block))
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
        data = bytearray(frame.size)
        is_needed = False
        while position < len(slices) and slices[position][0] < end:
            start, size = slices[position]
            part = slice(start - frame.offset, start - frame.offset + size)
            data[part] = frame.data[part]
            is_needed, position = True, position + 1
        if is_needed:
            frame.own_data, frame.block, frame.block_start, frame.is_joinable = bytes(data), None, None, False
            frame.save(update_fields=JOINED_COLUMNS)
            frames.append(frame.pk)
    source.frames.exclude(pk__in=frames).delete()
    if not frames and not source.runs.exists():
        source.delete()
        return
    source.is_partial, source.state, source.left_bytes = True, b"{}", 0
    source.save(update_fields=["is_partial", "state", "left_bytes"])
