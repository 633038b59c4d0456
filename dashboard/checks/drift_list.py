"""The receipts that drifted, as the last check found them: which call, which variant, which of the four reasons."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Max, QuerySet

from dashboard.checks.pinned import Pinned, pinned_comparisons
from dashboard.models import Project, ReceiptFingerprint

PAGE = 100
MEANS = {
    "variant": "the variant is gone, or has another version",
    "policy": "the same variant has another policy",
    "canonical": "the canonical result was derived anew and is another",
    "text": "nothing of that changed, and the text did",
}


@dataclass(frozen=True, kw_only=True)
class ReasonCount:
    reason: str
    means: str
    count: int
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class DriftList:
    """`held` are all receipts with a fingerprint, `checked_at` the last look at any of them."""

    reasons: tuple[ReasonCount, ...]
    rows: tuple[ReceiptFingerprint, ...]
    total: int
    held: int
    checked_at: object
    next_href: str
    pinned: tuple[Pinned, ...]

    @property
    def is_narrowed(self) -> bool:
        return any(one.is_current for one in self.reasons)


def drift_list(project: Project, reason: str, start: str) -> DriftList:
    held = ReceiptFingerprint.objects.filter(receipt__call__project=project)
    wanted = reason if reason in MEANS else ""
    first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 0
    drifted = held.exclude(drift="")
    chosen = drifted.filter(drift=wanted) if wanted else drifted
    total = chosen.count()
    more = f"?reason={wanted}&from={first + PAGE}"
    return DriftList(
        reasons=tuple(_reasons(drifted, wanted)),
        rows=tuple(chosen.select_related("receipt__call__run").order_by("-receipt__at", "pk")[first : first + PAGE]),
        total=total,
        held=held.count(),
        checked_at=held.aggregate(last=Max("checked_at"))["last"],
        next_href=more if first + PAGE < total else "",
        pinned=pinned_comparisons(project),
    )


def _reasons(drifted: QuerySet[ReceiptFingerprint], wanted: str) -> list[ReasonCount]:
    counts = dict(drifted.values_list("drift").annotate(Count("id")).order_by("drift"))
    return [
        ReasonCount(reason=one, means=MEANS[one], count=counts[one], href=f"?reason={one}", is_current=one == wanted)
        for one in MEANS
        if one in counts
    ]
