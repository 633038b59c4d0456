"""Plans that a command of this machine runs: its question to the operators, and their answers."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import models
from django.utils import timezone

from dashboard.models.runs import Run


class PlanExecution(models.Model):
    """The question of a command about the plan that it runs, and the answers of pages.

    The command looks at this row again and again, and nothing else goes between it and the pages. `requested_at` is
    empty until it asks for a confirmation. The proof of a decision is in the run's own records, which name the hashes
    too; this row is not exported.
    """

    class Decision(models.TextChoices):
        APPROVED = "approved"
        REJECTED = "rejected"
        EXPIRED = "expired"

    run = models.OneToOneField(Run, models.CASCADE, related_name="execution")
    plan_hash = models.CharField(max_length=80)
    policy_hash = models.CharField(max_length=80)
    risk = models.CharField(max_length=12)
    preview = models.TextField(default="")  # the text that is recorded beside the decision
    requested_at = models.DateTimeField(null=True)
    is_on_terminal = models.BooleanField(default=False)  # the command asks its own user: no page decides
    expires_at = models.DateTimeField(null=True)
    decision = models.CharField(max_length=8, choices=Decision.choices, default="")
    actor = models.CharField(max_length=150, default="")
    decided_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, default="")
    cancelled_by = models.CharField(max_length=150, default="")
    cancelled_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"execution of {self.run_id}"


def find_asking(runs: Collection[Run]) -> dict[UUID, UUID]:
    """The run whose confirmation each of these waits for: its own or a child's. Asks only for plans that run here."""
    asking = {run.pk: run.pk for run in runs if run.is_asking}
    if others := {run.pk for run in runs if run.lease_until is not None and run.is_live} - asking.keys():
        children = Run.objects.filter(parent__in=others, asks_until__gt=timezone.now())
        asking |= dict(children.values_list("parent_id", "pk"))
    return asking
