"""Frames: the raw bytes of the sources, cut at line ends and compressed.

A batch that was sent live has a source of its own, whose one frame may have a few hundred bytes. The background work
joins the bytes of many such frames in a block: of calls that are sent one by one, 2.3 KB of frames become 1.7 KB.

A document that an agent writes anew with each message is a source for each version that was read. What two versions
have in common is in one block, and a long line of a version is stored as the difference from that of another: of a
session of 1.7 MB that was read 40 times, frames and blocks take 1.0 MB, or 0.4 where it is one line, instead of 7.0.

    cut_frames(source, lines)    the frames of new lines
    share_frames(earlier, lines) the frames of a document of which an earlier version is stored
    join_next_frames()           joins frames of one project, if there are enough for a block
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
from django.db.models import Sum

from dashboard.ingest.bulk import bulk_update
from dashboard.models import Project, Source, SourceFrame
from dashboard.models.fields import compress, compress_difference
from dashboard.models.sources import FRAME_BYTES, FrameBlock, SourceFrameQuerySet
from envelopes.recordings.base import SourceLine

JOINED_AT_ONCE = 5_000  # frames that a step of the background work joins
FRAMES_OF_BLOCK = 1_000  # at most, however small they are
SHARED_BYTES = 32 * 1024  # of a frame of a later version: the smaller, the more of them does the next version have too
SMALLEST_SHARED = 4 * 1024
LARGEST_DIFFERENCE = 0.25  # of the frame that is stored otherwise, from which later ones differ less
NEAR = 4 * FRAME_BYTES  # how far from where it is expected a frame of the earlier version is looked for
JOINED_COLUMNS = ("own_data", "block", "block_start", "is_joinable")


class PackedFrame(msgspec.Struct, frozen=True, gc=False):
    """The columns of a SourceFrame; `packed` is its compressed data, None where they are in a block."""

    offset: int
    size: int
    first_line: int
    packed: bytes | None
    block: int | None = None
    block_start: int | None = None


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


def share_frames(earlier: int, lines: Sequence[SourceLine]) -> list[PackedFrame]:
    """The frames of all lines of a document. Those that `earlier`, the source of a version of it, has are in one block.

    Moves the bytes of such frames of the earlier version into a block; within a transaction of the only writer.
    """
    data = b"".join([line.raw for line in lines])
    starts = list(accumulate((len(line.raw) for line in lines), initial=0))
    index = {start: number for number, start in enumerate(starts)}
    known = SourceFrame.objects.filter(source=earlier, size__gte=SMALLEST_SHARED)
    stored = known.order_by("offset").with_blocks()
    frames: list[PackedFrame] = []
    done = earlier_end = 0  # lines that have a frame, and where the last common frame of the earlier version ended
    for frame in stored:
        expected = starts[done] + frame.offset - earlier_end
        start = data.find(frame.data, max(starts[done], expected - NEAR), expected + frame.size + NEAR)
        first, end = index.get(start), index.get(start + frame.size)
        if start < 0 or first is None or end is None:
            continue
        block = _block_of(frame)
        frames += pack_frames(lines[done:first], SHARED_BYTES)
        difference = None if frame.own_data is None else compress(frame.own_data)
        line = lines[first]
        frames.append(PackedFrame(line.offset, frame.size, line.number, difference, block.pk, frame.block_start))
        done, earlier_end = end, frame.offset + frame.size
    frames += pack_frames(lines[done:], SHARED_BYTES)
    longest = {frame.first_line: frame for frame in stored if frame.size > FRAME_BYTES}
    raw = {line.number: line.raw for line in lines if line.number in longest and len(line.raw) > FRAME_BYTES}
    return [
        _pack_difference(frame, raw[frame.first_line], longest[frame.first_line])
        if frame.packed is not None and frame.first_line in raw
        else frame
        for frame in frames
    ]


def _block_of(frame: SourceFrame) -> FrameBlock:
    """The block with a frame's bytes, which they are moved to where they have none."""
    if frame.block is None:
        data = frame.data
        frame.own_data, frame.block, frame.block_start = None, FrameBlock.objects.create(data=data), 0
        frame.save(update_fields=JOINED_COLUMNS)
    return frame.block


def _pack_difference(frame: PackedFrame, raw: bytes, earlier: SourceFrame) -> PackedFrame:
    """A frame of one long line as the difference from the same line of an earlier version, unless that is large."""
    known = earlier.data if earlier.block is None else earlier.block.data
    packed = compress(compress_difference(raw, known))
    if frame.packed is None or len(packed) > len(frame.packed) * LARGEST_DIFFERENCE:
        return frame
    return msgspec.structs.replace(frame, packed=packed, block=_block_of(earlier).pk, block_start=0)


def pack_frames(lines: Sequence[SourceLine], most: int = FRAME_BYTES) -> list[PackedFrame]:
    """Cuts consecutive lines into frames of at most `most` bytes, or of one longer line, and compresses them."""
    frames: list[list[SourceLine]] = []
    size = 0
    for line in lines:
        if not frames or size + len(line.raw) > most:
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
            join_frames(joinable.filter(pk__in=keys))
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


def join_frames(frames: SourceFrameQuerySet) -> None:
    """Moves the bytes of frames into a new block, once those that several have in common.

    Called within a transaction of the project's only writer.
    """
    rows = frames.order_by("source", "offset").with_blocks()
    if not rows:  # a run was deleted meanwhile
        return
    starts: dict[bytes, int] = {}
    size = 0
    for row in rows:
        if row.data not in starts:
            starts[row.data] = size
            size += row.size
    block = FrameBlock.objects.create(data=b"".join(starts))
    for row in rows:
        row.own_data, row.block, row.block_start, row.is_joinable = None, block, starts[row.data], False
    bulk_update(rows, JOINED_COLUMNS)
