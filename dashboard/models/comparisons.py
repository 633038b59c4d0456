"""Comparisons of variants over recorded calls, their numbers, blind reviews, and fingerprints of sent receipts.

A comparison freezes its calls and its variants when it starts, so that its numbers stay true whatever is imported or
changed later. They are stored in batches of a few hundred calls each, packed by `experiments.measure_calls`; no process
ever loads all of them.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone

from dashboard.models.fields import CompactUUIDField
from dashboard.models.projects import Project


@dataclass(frozen=True, kw_only=True)
class PinnedCheck:
    """The counts of the last `check_receipts`: rendered texts, drifted ones by reason, and `unchecked` ones.

    The calls of unchecked texts were deleted or never answered. `details` are the most frequent ones of the drifts.
    """

    texts: int
    unchecked: int
    reasons: dict[str, int]
    details: tuple[str, ...] = ()

    @property
    def drifted(self) -> int:
        return sum(self.reasons.values())

    @property
    def reason_counts(self) -> str:
        """`policy 2, text 1`"""
        return ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.items())


class ComparisonQuerySet(models.QuerySet["Comparison"]):
    def open(self) -> ComparisonQuerySet:
        """The comparisons that are not done yet."""
        return self.filter(state__in=Comparison.OPEN_STATES)

    def pinned(self) -> ComparisonQuerySet:
        return self.filter(pinned_at__isnull=False)


class Comparison(models.Model):
    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        CANCELLED = "cancelled"
        FAILED = "failed"

    id = CompactUUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="comparisons")
    name = models.CharField(max_length=200)

    # the selection:
    query = models.CharField(max_length=2_000, default="")
    family = models.CharField(max_length=32, default="")  # empty: every family
    sample = models.IntegerField(null=True)  # this many calls at random; None: all that match
    seed = models.BigIntegerField(default=0)  # for the sample, the intervals and the order of reviews
    budget = models.IntegerField(null=True)  # tokens that a rendered receipt may have; None: each variant's own policy
    is_chosen = models.BooleanField(default=False)  # of calls that were chosen one by one
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    # the progress:
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    problem = models.CharField(max_length=500, default="")
    call_count = models.IntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    summary = models.BinaryField(null=True)  # zstd, `experiments.summary.Summary`
    pinned_at = models.DateTimeField(null=True)  # check_receipts compares later renderings with it
    checked_at = models.DateTimeField(null=True)  # by check_receipts, since it was pinned
    last_check = models.JSONField(default=dict)  # the fields of a PinnedCheck

    objects = ComparisonQuerySet.as_manager()
    OPEN_STATES = (State.QUEUED, State.RUNNING)

    class Meta:
        indexes = [
            models.Index(fields=["project", "-created_at"]),  # the list
            models.Index(fields=["state", "created_at"]),  # what is done next
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("comparison-detail", args=[self.pk])

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN_STATES

    @property
    def is_finished(self) -> bool:
        return self.state == self.State.FINISHED

    @property
    def pinned_check(self) -> PinnedCheck | None:
        """The result of the last check since the comparison was pinned; None before the first one."""
        return PinnedCheck(**self.last_check) if self.checked_at else None

    def store_check(self, check: PinnedCheck) -> None:
        """Stores the result of a check; nothing where somebody unpinned the comparison meanwhile."""
        pinned = Comparison.objects.pinned().filter(pk=self.pk)
        pinned.update(checked_at=timezone.now(), last_check=asdict(check))


class ComparisonBaseline(models.Model):
    """A column other than the leftmost as the baseline: the same numbers, summarised again."""

    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="baselines")
    ordinal = models.IntegerField()  # of the column, as it was stored
    summary = models.BinaryField(null=True)  # like the comparison's own, its columns with this one first

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comparison", "ordinal"], name="one_baseline")]

    def __str__(self) -> str:
        return f"column {self.ordinal} of {self.comparison_id}"


class ComparisonColumn(models.Model):
    """A variant as it was when the comparison started. A column has a row for each family that it serves."""

    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="columns")
    ordinal = models.IntegerField()  # 0 is the baseline
    name = models.CharField(max_length=64)
    family = models.CharField(max_length=32, default="")  # empty: what was recorded
    variant = models.CharField(max_length=128)
    version = models.IntegerField()
    hash = models.CharField(max_length=16)
    policy = models.CharField(max_length=16)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comparison", "ordinal", "family"], name="one_column")]

    def __str__(self) -> str:
        return f"{self.variant} version {self.version}"


class ComparisonBatch(models.Model):
    """Some of the calls and their numbers. One statement stores the results and the end, so a batch is done once."""

    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="batches")
    number = models.IntegerField()
    calls = models.BinaryField()  # 16 bytes each
    size = models.IntegerField()
    attempts = models.IntegerField(default=0)  # starts that did not end: its process died, or the one that led it
    results = models.BinaryField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comparison", "number"], name="one_batch")]
        indexes = [models.Index(fields=["comparison", "finished_at", "number"])]  # the next one to do

    def __str__(self) -> str:
        return f"batch {self.number} of {self.comparison_id}"


class ReceiptFingerprint(models.Model):
    """A receipt that this system sent: the variant that wrote it, and the hashes of its envelope and its text."""

    receipt = models.OneToOneField("RecordedReceipt", models.CASCADE, related_name="fingerprint")
    variant = models.CharField(max_length=128)
    version = models.IntegerField()
    policy = models.CharField(max_length=16)
    canonical_sha256 = models.CharField(max_length=64)
    text_sha256 = models.CharField(max_length=64)
    projected_by = models.CharField(max_length=120, default="")  # the versions that gave this envelope, if any
    drift = models.CharField(max_length=16, default="")  # the reason found by the last check
    checked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.variant} version {self.version}"


class Review(models.Model):
    """Pairs of receipts to judge: the baseline's and one other column's, sampled with the seed of the comparison."""

    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="reviews")
    ordinal = models.IntegerField()  # of the column that is compared with the baseline
    calls = models.BinaryField()  # 16 bytes each, in the order of the queue
    size = models.IntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comparison", "ordinal"], name="one_review")]

    def __str__(self) -> str:
        return f"{self.size} pairs of {self.comparison_id}"


class Verdict(models.Model):
    """One person's verdict on one pair. `first` is the text that was on the left, to detect a preference for a side."""

    class Choice(models.TextChoices):
        BASELINE = "baseline"
        VARIANT = "variant"
        TIE = "tie"
        BOTH_BAD = "both_bad"

    review = models.ForeignKey(Review, models.CASCADE, related_name="verdicts")
    call = CompactUUIDField()
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="verdicts")
    choice = models.CharField(max_length=8, choices=Choice.choices)
    first = models.CharField(max_length=8)  # baseline | variant
    note = models.CharField(max_length=2_000, default="")
    baseline_sha256 = models.CharField(max_length=64)
    variant_sha256 = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["review", "call", "reviewer"], name="one_verdict")]
        indexes = [models.Index(fields=["review", "reviewer", "at"])]  # the next pair, the last verdict

    def __str__(self) -> str:
        return f"{self.choice} by {self.reviewer_id}"


class RecallReportQuerySet(models.QuerySet["RecallReport"]):
    def open(self) -> RecallReportQuerySet:
        """The reports that are not done yet, the oldest first."""
        return self.filter(state__in=Comparison.OPEN_STATES).order_by("created_at", "pk")


class RecallReport(models.Model):
    """Used-line recall of the calls that a filter selected; a measurement whose process died begins anew."""

    id = CompactUUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="recall_reports")
    query = models.CharField(max_length=2_000, default="")
    family = models.CharField(max_length=32, default="")  # empty: every family
    variants = models.JSONField(default=list)  # names
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    # the progress:
    state = models.CharField(max_length=9, choices=Comparison.State.choices, default=Comparison.State.QUEUED)
    problem = models.CharField(max_length=500, default="")
    total = models.IntegerField(default=0)  # runs, twice: each is read for its items, then for the stop list
    done = models.IntegerField(default=0)
    finished_at = models.DateTimeField(null=True)
    attempts = models.IntegerField(default=0)  # starts that did not end
    summary = models.BinaryField(null=True)  # zstd, `experiments.recall_report.RecallSummary`
    results = models.BinaryField(null=True)  # zstd, `experiments.recall_report.RecallResults`

    objects = RecallReportQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["project", "-created_at"])]

    def __str__(self) -> str:
        return f"recall of {self.query or 'all calls'}"

    def get_absolute_url(self) -> str:
        return reverse("recall-detail", args=[self.pk])

    @property
    def is_open(self) -> bool:
        return self.state in Comparison.OPEN_STATES

    @property
    def is_finished(self) -> bool:
        return self.state == Comparison.State.FINISHED
