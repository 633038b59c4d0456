"""The files that records came from, their raw bytes, and the lines that could not be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from dashboard.models.projects import Project

if TYPE_CHECKING:
    from dashboard.models.runs import Run


class Source(models.Model):
    """One file as far as it was read. `offset` is the byte behind the last whole line.

    A file continues the source when the bytes around `offset` have the same hash (`prefix_sha256` covers the first
    4 KiB and the last 4 KiB before `offset`): a copy under another name adds nothing, and a fork that shares only the
    beginning is a source of its own.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="sources")
    path = models.CharField(max_length=1024)
    format = models.CharField(max_length=64)
    namespace = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    # progress:
    inode = models.BigIntegerField(default=0)
    head_sha256 = models.CharField(max_length=64, default="")  # of its first line; finds copies
    offset = models.BigIntegerField(default=0)
    prefix_sha256 = models.CharField(max_length=64, default="")
    ends_open = models.BooleanField(default=False)  # the last line was whole JSON but had no newline yet
    left_bytes = models.BigIntegerField(default=0)  # bytes of an incomplete last line, not imported
    state = models.BinaryField(default=b"{}")  # of the reader between batches, JSON

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
        return self.path.rsplit("/", 1)[-1]


class SourceChunk(models.Model):
    """The raw bytes [offset, offset + size) of a source, zstd: agents delete their logs after weeks."""

    source = models.ForeignKey(Source, models.CASCADE, related_name="chunks")
    offset = models.BigIntegerField()
    size = models.IntegerField()
    first_line = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "offset"], name="one_chunk_at_offset")]

    def __str__(self) -> str:
        return f"{self.source_id} from {self.offset}"


class Problem(models.Model):
    """A refused line or part of a line. The other lines of the file are imported."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="problems")
    source = models.ForeignKey(Source, models.CASCADE, related_name="problems", null=True)
    file = models.CharField(max_length=1024)
    line = models.BigIntegerField()
    path = models.CharField(max_length=500)
    reason = models.CharField(max_length=1000)
    raw = models.BinaryField()
    raw_size = models.BigIntegerField()  # of the whole line; `raw` has at most its first 64 KiB
    is_incomplete = models.BooleanField(default=False)  # a last line without its end; deleted when the end is written
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-id"])]  # the Problems page, newest first

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.path}: {self.reason}"
