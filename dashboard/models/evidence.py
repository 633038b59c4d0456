"""Evidence and what is derived from it: observations, receipts, canonical projections, the usage of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import pyzstd
from django.db import models

from dashboard.models.fields import (
    CompactUUIDField,
    HashField,
    LoadedRow,
    ZstdField,
    compress_beside,
    decompress_beside,
)
from dashboard.models.runs import Call, ReceiptAuthor, Run
from dashboard.models.sources import DamagedEvidence, SourceSlice, load_slices
from envelopes.recordings.base import LATER_TEXT, REPLACEMENT
from envelopes.text.untrusted_json import normalize_json

# The documented rank of a surface's observations: the best fidelity is selected, of equals the first.
FIDELITIES = (
    *("exact", "structured", "recorded", "bounded"),
    *("reconstructed", "stringified", "parsed_from_receipt", "inflated"),
)
FIDELITY_RANK = {name: rank for rank, name in enumerate(FIDELITIES)}


class ObservationQuerySet(models.QuerySet["Observation"]):
    def with_source(self) -> ObservationQuerySet:
        """Joins what pages show of the source; the reader's state of it may be large."""
        own = (field.name for field in self.model._meta.concrete_fields)
        return self.select_related("source").only(*own, "source__path", "source__is_partial")


class Observation(SourceSlice):
    """One source's evidence for one surface of a call: append-only, byte for byte.

    `data` is JSON exactly as it is in the source, and stored there (D-1). One observation per
    surface is `selected`.
    """

    class Surface(models.TextChoices):
        ARGS = "args"
        RESULT = "result"
        RECEIPT = "receipt"
        TIMING = "timing"  # the rest of a result: times, effects, messages; an executor's whole ToolResult
        CALL = "call"  # an executor's whole ToolCall: policy, risk, iteration, versions
        DELIVERY = "delivery"  # the native record of a receipt: renderer, policy, flags

    id = CompactUUIDField(primary_key=True, editable=False)
    call = models.ForeignKey(Call, models.CASCADE, related_name="observations", db_index=False)
    surface = models.CharField(max_length=8, choices=Surface.choices)
    line = models.BigIntegerField()
    sha256 = HashField()
    fidelity = models.CharField(max_length=20)
    observed_at = models.DateTimeField(null=True)
    selected = models.BooleanField(default=True)

    objects = ObservationQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["call", "surface"])]  # one call's payloads

    def __str__(self) -> str:
        return f"{self.surface} of {self.call_id} at line {self.line}"


_FAILURE = '"Error: '


def differ(observations: Sequence[Observation]) -> bool:
    """True where observations of one surface have different values: not in spacing or the order of members alone.

    Claude Code's transcripts begin a failure with `Error: `, its hooks report the same without.
    """
    if len(observations) < 2:
        return False
    load_slices(observations)
    return len({_comparable(bytes(row.data)) for row in observations}) > 1


def _comparable(data: bytes) -> str | bytes:
    value = normalize_json(data)
    return value.replace(_FAILURE, '"', 1) if isinstance(value, str) and value.startswith(_FAILURE) else value


class RecordedReceiptQuerySet(models.QuerySet["RecordedReceipt"]):
    def shown_in(self, run: Run, **calls: Any) -> dict[UUID, RecordedReceipt]:
        """The receipt that each call copied from another run's history has in this run now, by call."""
        return {call: receipt for (_, call), receipt in self.filter(**calls).shown_in_each([run]).items()}

    def shown_in_each(self, runs: Collection[Run]) -> dict[tuple[UUID, UUID], RecordedReceipt]:
        """The same for several runs, by run and call."""
        rows = self.filter(run__in=runs).exclude(call__run=models.F("run")).order_by("run_id", "call_id", "seq")
        by_call: dict[tuple[UUID, UUID], list[RecordedReceipt]] = defaultdict(list)
        for receipt in rows:
            by_call[receipt.run_id, receipt.call_id].append(receipt)
        return {key: select_receipt(receipts) for key, receipts in by_call.items()}


class RecordedReceipt(LoadedRow):
    """A text that the model of one run got for a call, at its line of that run's recording.

    A fork that copied the call has rows of its own: whether a receipt was replaced, or removed by compaction, is a
    fact of the run in which that happened (D-3). `seq` counts the receipts of a call within a run.
    """

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="receipts", db_index=False)
    call = models.ForeignKey(Call, models.CASCADE, related_name="receipts", db_index=False)
    seq = models.IntegerField()
    observation = models.ForeignKey(Observation, models.CASCADE, related_name="receipts", null=True)
    source = models.ForeignKey("Source", models.SET_NULL, null=True, related_name="+", db_index=False)  # of `line`
    fidelity = models.CharField(max_length=20)
    at = models.DateTimeField(null=True)
    line = models.BigIntegerField()

    # derived:
    characters = models.BigIntegerField(default=0)
    lines = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    output_lines = models.BigIntegerField(default=0)  # lines of the complete output
    seen_lines = models.BigIntegerField(default=0)  # of those, in this receipt
    is_cut = models.BooleanField(default=False)
    author = models.CharField(max_length=8, choices=ReceiptAuthor.choices, default="")  # empty: the tool

    # in this run, from its ReceiptSupersession rows:
    superseded_at = models.DateTimeField(null=True)
    superseded_line = models.BigIntegerField(null=True)
    superseded_reason = models.CharField(max_length=200, default="")

    objects = RecordedReceiptQuerySet.as_manager()

    class Meta:
        db_table = "dashboard_receipt"  # the class was renamed, the table was not
        indexes = [
            models.Index(fields=["call", "run", "seq"]),
            models.Index(fields=["run", "line"]),  # the history of a run
        ]

    def __str__(self) -> str:
        return f"receipt {self.seq} of {self.call_id} in {self.run_id}"

    @property
    def is_superseded(self) -> bool:
        return self.superseded_line is not None

    @property
    def was_replaced_later(self) -> bool:
        """True for a text that a request had, and that a later one has another text for."""
        is_later = not self.superseded_reason or self.superseded_reason.startswith(LATER_TEXT)
        return self.is_superseded and is_later

    def show_in(self, call: Call) -> None:
        """Gives an unsaved copy of the call's row the columns of this receipt, which is of another run."""
        call.receipt_fidelity = self.fidelity
        call.receipt_characters, call.receipt_lines, call.tokens = self.characters, self.lines, self.tokens
        call.output_lines, call.seen_lines, call.is_cut = self.output_lines, self.seen_lines, self.is_cut
        call.author = self.author


class ReceiptSupersession(models.Model):
    """A statement of a run's recording: from here on the model no longer has the earlier receipts of a call.

    `replacement` is the sha256 of the text that it has instead, empty when nothing replaces them. The call may be in
    another file that is imported later, so it is named by its id.
    """

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="supersessions")
    call = CompactUUIDField(db_index=True)
    source = models.ForeignKey("Source", models.SET_NULL, null=True, related_name="+", db_index=False)
    line = models.BigIntegerField()
    at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=200, default="")
    replacement = models.CharField(max_length=64, default="")

    def __str__(self) -> str:
        return f"{self.reason} of {self.call} at place {self.line}"


def current_receipts(receipts: Sequence[RecordedReceipt]) -> Sequence[RecordedReceipt]:
    """The receipts of a call in a run that are in the context together, or the last one when all were superseded.

    More than one where the model polled a command that ran on: each brought what had come since the one before.
    """
    return [receipt for receipt in receipts if not receipt.is_superseded] or receipts[-1:]


def select_receipt(receipts: Sequence[RecordedReceipt]) -> RecordedReceipt:
    """The last of the current ones."""
    return current_receipts(receipts)[-1]


def find_replaced(receipts: Sequence[RecordedReceipt]) -> RecordedReceipt | None:
    """The first of a run's receipts, where another text took its place; what the tool returned is known from it."""
    first = receipts[0] if len(receipts) > 1 else None
    # The receipts of a command that was polled end for other reasons: no text takes the place of another.
    is_replaced = first and (first.was_replaced_later or first.superseded_reason == REPLACEMENT)
    return first if is_replaced else None


def receipts_in(receipts: Sequence[RecordedReceipt], run: UUID) -> list[RecordedReceipt]:
    """Those of a call's receipts that a run has, in order; those of another run when it has none itself."""
    runs = sorted({receipt.run_id for receipt in receipts})
    shown = run if run in runs else next(iter(runs), run)
    return [receipt for receipt in receipts if receipt.run_id == shown]


class CanonicalProjection(LoadedRow):
    """The five-key envelope of a call, from one observation under one mapping and one policy.

    `cuts` and what `data` unpacks are our own JSON. Can be rebuilt at any time: so a call has one, and no index or
    constraint guards its observation.
    """

    call = models.OneToOneField(Call, models.CASCADE, primary_key=True, related_name="projection")
    observation = models.ForeignKey(
        Observation, models.DO_NOTHING, related_name="+", null=True, db_index=False, db_constraint=False
    )
    mapping = models.CharField(max_length=100)  # family:agent:version
    policy = models.CharField(max_length=16)
    packed = models.BinaryField()  # compressed beside the bytes of the observation
    cuts = models.BinaryField(default=b"[]")
    size = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.mapping} of {self.call_id}"

    @property
    def versions(self) -> str:
        """The versions that made it, `command:claude-code:3 0123456789abcdef`."""
        return f"{self.mapping} {self.policy}"

    @property
    def data(self) -> bytes:
        """The envelope. Reads the observation, unless it is loaded. Raises DamagedEvidence."""
        try:
            return decompress_beside(bytes(self.packed), self._recorded)
        except pyzstd.ZstdError as error:
            raise DamagedEvidence(f"the stored envelope of call {self.call_id} cannot be read: {error}") from None

    @data.setter
    def data(self, envelope: bytes) -> None:
        self.packed = compress_beside(envelope, self._recorded)

    @property
    def _recorded(self) -> bytes:
        return b"" if self.observation is None else self.observation.data


# The columns of a request's input; the last one is in the others and not in the context.
INPUT_COLUMNS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "repeated_tokens")


class RequestUsage(SourceSlice):
    """The tokens of one request of a run to its model, as the provider reported them; `data` is its usage object.

    A recording repeats them on every line of the answer; `line` is the first of these.
    """

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="requests", db_index=False)
    request = models.CharField(max_length=200)  # the id of the message that answers it
    line = models.BigIntegerField()
    at = models.DateTimeField(null=True)
    origin = models.CharField(max_length=8, default="message")  # message, or progress: reported by a parent's file
    input_tokens = models.BigIntegerField()
    cache_read_tokens = models.BigIntegerField()
    cache_creation_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    edits = ZstdField(null=True)  # JSON: what the provider states about its edits of the context
    cleared_tokens = models.BigIntegerField(null=True)  # by those edits; null when it is not stated
    repeated_tokens = models.BigIntegerField(default=0)  # of the input, what earlier passes of the request got

    # derived: tokens that left the context before this request although nothing recorded explains it, and the lines
    # between which receipts came in that may be among them
    dropped_tokens = models.BigIntegerField(default=0)
    dropped_after = models.BigIntegerField(default=0)
    dropped_before = models.BigIntegerField(default=0)
    removed_tokens = models.BigIntegerField(default=0)  # by what is recorded between: less than half of the drop

    class Meta:
        indexes = [models.Index(fields=["run", "line"])]

    def __str__(self) -> str:
        return f"request {self.request} at place {self.line}"

    @property
    def context_tokens(self) -> int:
        """The whole input of the request's last pass, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_creation_tokens - self.repeated_tokens
