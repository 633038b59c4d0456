"""The files that records came from, their raw bytes, and the lines that could not be imported.

The raw bytes are the evidence: what a call's row or a message refers to is a slice of them (`SourceSlice`), stored
once (D-1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyzstd
from django.db import models
from django.db.models import OuterRef, Q, Subquery, prefetch_related_objects
from django.utils import timezone

from dashboard.models.fields import CompactUUIDField, LoadedRow, ZstdField, decompress_difference
from dashboard.models.projects import Project

if TYPE_CHECKING:
    from dashboard.models.runs import Run


LIVE = "live/"  # how the path of a source begins that is no file: one batch of records that a program sent
SENT = "sent live"
FEW_SLICES = 4  # rows whose frames are looked up one by one
SLICE_FIELDS = ("source_id", "start", "size", "own_data")  # what `load_slices` needs
SENT_BEFORE_ITS_RECORD = timedelta(hours=24)
FRAME_BYTES = 131_072  # of a frame; a longer line has a frame of its own


class Source(LoadedRow):
    """One file as far as it was read. `offset` is the byte behind the last whole line.

    A file continues the source when the bytes around `offset` have the same hash (`prefix_sha256` covers the first
    4 KiB and the last 4 KiB before `offset`): a copy under another name adds nothing, and a fork that shares only the
    beginning is a source of its own.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="sources")
    path = models.CharField(max_length=1024)
    format = models.CharField(max_length=64)
    reader = models.IntegerField(default=1)  # the version of the format's reader that its first line was read with
    read_as = models.TextField(default="")  # the path that the reader got; empty where it is `path`
    namespace = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    # progress:
    inode = models.BigIntegerField(default=0)
    head_sha256 = models.CharField(max_length=64, default="")  # of its first line; finds copies
    offset = models.BigIntegerField(default=0)
    prefix_sha256 = models.CharField(max_length=64, default="")
    ends_open = models.BooleanField(default=False)  # the last line was whole JSON but had no newline yet
    left_bytes = models.BigIntegerField(default=0)  # bytes of an incomplete last line, not imported
    state = ZstdField(default=b"{}")  # of the reader between batches, JSON
    is_partial = models.BooleanField(default=False)  # a run was deleted: only bytes that others refer to are stored

    # counts for the report; accepted + rejected + blank = lines:
    accepted = models.BigIntegerField(default=0)
    rejected = models.BigIntegerField(default=0)
    blank = models.BigIntegerField(default=0)
    seen = models.BinaryField(default=b"{}")  # JSON: runs, calls, results, receipts, events

    runs: models.ManyToManyField[Run, models.Model] = models.ManyToManyField("Run", related_name="sources")

    class Meta:
        indexes = [
            models.Index(fields=["project", "path"]),  # find a file again
            models.Index(fields=["project", "head_sha256"]),  # find a copy of it
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def lines(self) -> int:
        return self.accepted + self.rejected + self.blank

    @property
    def name(self) -> str:
        return SENT if self.path.startswith(LIVE) else self.path.rsplit("/", 1)[-1]


class ReceivedRecord(models.Model):
    """A record that a program sent, by the digest of its bytes: one that is sent again adds nothing.

    `at` is its time in microseconds where the same bytes may come with several times; the earliest counts.
    """

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey("Run", models.CASCADE, related_name="+")
    at = models.BigIntegerField()

    def __str__(self) -> str:
        return f"record {self.pk} of {self.run_id}"


class SentContentQuerySet(models.QuerySet["SentContent"]):
    def recent(self) -> SentContentQuerySet:
        """Content sent so lately that the record that refers to it may still come."""
        return self.filter(sent_at__gt=timezone.now() - SENT_BEFORE_ITS_RECORD)


class SentContent(models.Model):
    """Content that a program sent for an artifact, by its SHA-256. Retention spares it until its record has come."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    lines = models.BigIntegerField()
    sent_at = models.DateTimeField(auto_now=True, db_index=True)

    objects = SentContentQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="one_content_of_project")]

    def __str__(self) -> str:
        return self.sha256


class SourceFrameQuerySet(models.QuerySet["SourceFrame"]):
    def containing(self, rows: models.QuerySet[Any]) -> SourceFrameQuerySet:
        """The frames that contain the slices of these rows. A slice is within one line, so within one frame."""
        before = SourceFrame.objects.filter(source=OuterRef("source"), offset__lte=OuterRef("start"))
        nearest = before.order_by("-offset").values("pk")[:1]
        return self.filter(pk__in=rows.order_by().annotate(frame=Subquery(nearest)).values("frame"))

    def with_blocks(self) -> list[SourceFrame]:
        """The frames, each block of theirs loaded once, in one more query where there are any."""
        frames = list(self)
        prefetch_related_objects([frame for frame in frames if frame.block_id is not None], "block")
        return frames


class FrameBlock(LoadedRow):
    """The bytes of short frames of several sources of a project, one after the other, compressed together.

    A block never changes, since a reader may have found its frames already: deleting a run writes the remaining frames
    into another block.
    """

    data = ZstdField()

    def __str__(self) -> str:
        return f"block {self.pk}"


class SourceFrame(LoadedRow):
    """The raw bytes [offset, offset + size) of a source: whole lines, about 128 KiB or one longer line.

    Agents delete their logs after weeks. Frames are found by offset, so they may be cut anew: a batch joins the last
    frame with what follows it while that is short. A batch that was sent live stays a source of its own, so the
    background work joins the bytes of many (`is_joinable`, until it has); no address changes by that.
    """

    source = models.ForeignKey(Source, models.CASCADE, related_name="frames", db_index=False)
    offset = models.BigIntegerField()
    size = models.IntegerField()
    first_line = models.BigIntegerField()
    # None where the bytes are in the block, from `block_start` on; with a block it is their difference from that.
    own_data = ZstdField(null=True)
    block = models.ForeignKey(FrameBlock, models.RESTRICT, null=True, related_name="frames", db_index=False)
    block_start = models.IntegerField(null=True)
    is_joinable = models.BooleanField(default=False)

    objects = SourceFrameQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "offset"], name="one_frame_at_offset")]
        indexes = [
            models.Index(fields=["source"], condition=Q(is_joinable=True), name="joinable_frames"),
            models.Index(fields=["block"], condition=Q(block__isnull=False), name="frames_of_block"),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} from {self.offset}"

    @cached_property
    def data(self) -> bytes:
        """The bytes; a query where they are in a block that `with_blocks` has not loaded. Raises DamagedEvidence."""
        if self.block_id is None:
            return self.own_data or b""
        if self.block is None or self.block_start is None:
            raise DamagedEvidence(f"the block of frame {self.pk} is not in the store: run check_store")
        if self.own_data is not None:
            return decompress_difference(self.own_data, self.block.data)
        return bytes(self.block.data[self.block_start : self.block_start + self.size])

    def contains(self, row: SourceSlice) -> bool:
        """True for a slice that begins in this frame."""
        return self.source_id == row.source_id and self.offset <= (row.start or 0) < self.offset + self.size


class DamagedEvidence(RuntimeError):
    """The store does not have the recorded bytes that a row refers to; `check_store` lists all such rows."""


class SourceSlice(LoadedRow):
    """Recorded bytes: `size` bytes of a source from `start` on, or `own_data` where they are no slice of it.

    A call that was put together from several records, or whose format is no text, has bytes of its own.
    """

    source = models.ForeignKey(Source, models.RESTRICT, null=True, related_name="+")
    start = models.BigIntegerField(null=True)
    size = models.BigIntegerField()
    own_data = ZstdField(null=True)

    class Meta:
        abstract = True

    @cached_property
    def data(self) -> bytes:
        """The bytes; a query unless `load_slices` has loaded them. Raises DamagedEvidence."""
        load_slices([self])
        return self.data


def load_slices(rows: Iterable[SourceSlice]) -> None:
    """Loads `data` of stored rows, in one query for each of their models, or a few. Raises DamagedEvidence."""
    addressed: dict[type[SourceSlice], list[SourceSlice]] = defaultdict(list)
    for row in rows:
        if "data" in vars(row):
            continue
        if row.start is None:
            vars(row)["data"] = row.own_data or b""
        else:
            addressed[type(row)].append(row)
    for model, slices in addressed.items():
        try:
            _cut_slices(slices, _load_frames(model, slices))
        except pyzstd.ZstdError as error:
            raise DamagedEvidence(f"a stored frame cannot be decompressed: {error}") from None


def _load_frames(model: type[SourceSlice], slices: Collection[SourceSlice]) -> Iterable[SourceFrame]:
    """The frames of the slices. Those of one call mostly lie in one frame, which a short query finds."""
    if len(slices) > FEW_SLICES:
        stored = model._base_manager.filter(pk__in=[row.pk for row in slices])
        return SourceFrame.objects.containing(stored).with_blocks()
    frames: list[SourceFrame] = []
    for row in slices:
        if not any(frame.contains(row) for frame in frames):
            before = SourceFrame.objects.filter(source=row.source_id, offset__lte=row.start or 0)
            frames += before.order_by("-offset")[:1].with_blocks()
    return frames


def _cut_slices(slices: Collection[SourceSlice], frames: Iterable[SourceFrame]) -> None:
    by_source: dict[int | None, list[SourceFrame]] = defaultdict(list)
    for frame in sorted(frames, key=lambda frame: frame.offset):
        by_source[frame.source_id].append(frame)
    for row in slices:
        candidates, start = by_source[row.source_id], row.start or 0
        index = bisect_right(candidates, start, key=lambda frame: frame.offset) - 1
        data = b""
        if index >= 0:
            begin = start - candidates[index].offset
            data = candidates[index].data[begin : begin + row.size]
        if len(data) != row.size:
            raise DamagedEvidence(f"the recorded bytes of “{row}” are not in the store: run check_store")
        vars(row)["data"] = data


def load_lines(rows: Collection[SourceSlice]) -> dict[SourceSlice, tuple[bytes, int]]:
    """The whole line of its source that each slice lies in, and where in it the slice begins.

    Rows with bytes of their own are left out, and those of a source of which only slices are stored. Raises
    DamagedEvidence.
    """
    addressed = [row for row in rows if row.start is not None and not (row.source and row.source.is_partial)]
    frames: dict[int | None, list[SourceFrame]] = defaultdict(list)
    for model in {type(row) for row in addressed}:
        stored = model._base_manager.filter(pk__in=[row.pk for row in addressed if type(row) is model])
        for frame in SourceFrame.objects.containing(stored).order_by("offset").with_blocks():
            frames[frame.source_id].append(frame)
    lines = {}
    for row in addressed:
        candidates, start = frames[row.source_id], row.start or 0
        index = bisect_right(candidates, start, key=lambda frame: frame.offset) - 1
        if index < 0:
            raise DamagedEvidence(f"the recorded bytes of “{row}” are not in the store: run check_store")
        data, begin = candidates[index].data, start - candidates[index].offset
        first = data.rfind(b"\n", 0, begin) + 1
        end = data.find(b"\n", begin + row.size)
        lines[row] = (data[first : len(data) if end < 0 else end], begin - first)
    return lines


class FollowedPath(models.Model):
    """A file or folder of this machine that the background work follows: what is added to it is imported."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="followed_paths")
    path = models.CharField(max_length=1024)
    format = models.CharField(max_length=64, default="")  # the name of a reader; empty: detected from the content
    created_at = models.DateTimeField(auto_now_add=True)
    imported_at = models.DateTimeField(null=True)  # when something was last added
    problem = models.CharField(max_length=500, default="")  # why it cannot be followed now

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "path"], name="one_followed_path")]

    def __str__(self) -> str:
        return self.path


class Remark(models.Model):
    """A value of a recording that was changed, left out or assumed when it was read; its bytes are stored as they are.

    `path` is a JSON path in the line, or in the call's payload that it begins with. No remark is an error by itself.
    """

    class Kind(models.TextChoices):
        # of the reading of a line:
        TIMESTAMP = "timestamp"
        VALUE = "value"  # of a wrong type, or out of range
        DURATION = "duration"
        LENGTH = "length"  # longer than the column that lists and filters use
        LINE = "line"  # of a kind that the reader does not know
        TOOL = "tool"  # another name for the tool of one call
        PAIR = "pair"  # a result whose record has no call id, see ingest.span_pairs
        # of a call's evidence:
        NUMBER = "number"  # NaN, Infinity, or too large for a float
        KEY = "key"  # twice in one object
        ARGUMENTS = "arguments"  # no object
        STATUS = "status"  # unknown word
        CLOCK = "clock"  # ran backwards
        RESULT = "result"  # a second, different one
        NAME = "name"  # letters that hide or imitate others

        @classmethod
        def of_evidence(cls) -> frozenset[str]:
            """Kinds that follow from a call's evidence and are derived with its columns."""
            return frozenset({cls.NUMBER, cls.KEY, cls.ARGUMENTS, cls.STATUS, cls.CLOCK, cls.RESULT, cls.NAME})

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey("Run", models.CASCADE, related_name="remarks")
    call = CompactUUIDField(null=True, db_index=True)
    source = models.ForeignKey(Source, models.SET_NULL, null=True, related_name="+")
    line = models.BigIntegerField()
    kind = models.CharField(max_length=12, choices=Kind.choices)
    path = models.CharField(max_length=500)
    was = models.CharField(max_length=200)
    became = models.CharField(max_length=200)

    def __str__(self) -> str:
        return f"place {self.line} {self.path}: {self.became}"


class Problem(LoadedRow):
    """A refused line or part of a line. The other lines of the file are imported."""

    class Loss(models.TextChoices):
        """How much of the line could not be read: the recording has a gap there."""

        LINE = "line"
        PART = "part"
        NOTHING = "nothing"

    project = models.ForeignKey(Project, models.CASCADE, related_name="problems")
    source = models.ForeignKey(Source, models.CASCADE, related_name="problems", null=True)
    file = models.CharField(max_length=1024)
    line = models.BigIntegerField()
    path = models.CharField(max_length=500)
    reason = models.CharField(max_length=1000)
    raw = models.BinaryField()
    raw_size = models.BigIntegerField()  # of the whole line; `raw` has at most its first 64 KiB
    loss = models.CharField(max_length=8, choices=Loss.choices, default=Loss.LINE)
    is_incomplete = models.BooleanField(default=False)  # a last line without its end; deleted when the end is written
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-id"])]  # the Problems page, newest first

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.path}: {self.reason}"
