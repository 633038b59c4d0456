"""What the last `check_receipts` found of a pinned comparison, kept with it so that its page can say so.

To write hundreds of thousands of texts again is no work for a page; it says when that was done, and by what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from django.utils import timezone

from dashboard.models import Comparison, Project


@dataclass(frozen=True, kw_only=True)
class PinnedCheck:
    """Of `texts` that were written again, those that came out otherwise, by what changed. `unchecked` have no call
    any more."""

    texts: int
    unchecked: int
    reasons: dict[str, int]

    @property
    def drifted(self) -> int:
        return sum(self.reasons.values())

    @property
    def named(self) -> str:
        return ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.items())


def keep_check(comparison: Comparison, *, texts: int, unchecked: int, reasons: Iterable[str]) -> None:
    found = PinnedCheck(texts=texts, unchecked=unchecked, reasons=dict(sorted(Counter(reasons).items())))
    pinned = Comparison.objects.filter(pk=comparison.pk, pinned_at__isnull=False)
    pinned.update(checked_at=timezone.now(), last_check=asdict(found))


def last_check(comparison: Comparison) -> PinnedCheck | None:
    """None before the first one."""
    return PinnedCheck(**comparison.last_check) if comparison.checked_at else None


@dataclass(frozen=True)
class Pinned:
    comparison: Comparison
    check: PinnedCheck | None


def pinned_comparisons(project: Project) -> tuple[Pinned, ...]:
    found = project.comparisons.filter(pinned_at__isnull=False).defer("summary").order_by("-pinned_at", "pk")
    return tuple(Pinned(one, last_check(one)) for one in found)
