"""Blind reviews of a comparison's texts, and the verdicts of reviewers."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from dashboard.models.comparisons import Comparison


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
    call = models.UUIDField()
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
