"""The list of comparisons, newest first, and how far each one is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.utils import timezone

from dashboard.comparisons.stored_comparison import count_done
from dashboard.models import Comparison, Project

MOST_LISTED = 200
TONES = {"finished": "good", "failed": "bad", "cancelled": "warn"}


@dataclass(frozen=True, kw_only=True)
class ComparisonProgress:
    """`remaining` is a sentence on the time that is left, empty where it cannot be estimated."""

    done: int
    total: int
    remaining: str

    @property
    def percent(self) -> int:
        return 100 * self.done // self.total if self.total else 0


@dataclass(frozen=True, kw_only=True)
class ComparisonListRow:
    comparison: Comparison
    columns: tuple[str, ...]
    progress: ComparisonProgress
    tone: str

    @property
    def is_partial(self) -> bool:
        """True when the comparison ended before all of its calls were done."""
        return not (self.comparison.is_open or self.comparison.is_finished)


@dataclass(frozen=True, kw_only=True)
class ComparisonList:
    rows: tuple[ComparisonListRow, ...]
    unlisted: int
    is_live: bool


def load_comparison_list(project: Project, *, limit: int = MOST_LISTED) -> ComparisonList:
    ordered = project.comparisons.defer("summary").prefetch_related("columns").order_by("-created_at", "pk")
    comparisons = list(ordered[:limit])
    rows = []
    for comparison in comparisons:
        columns = sorted(comparison.columns.all(), key=lambda column: column.ordinal)
        rows.append(
            ComparisonListRow(
                comparison=comparison,
                columns=tuple(dict.fromkeys(column.name for column in columns)),
                progress=load_progress(comparison),
                tone=TONES.get(comparison.state, "accent"),
            )
        )
    return ComparisonList(
        rows=tuple(rows),
        unlisted=project.comparisons.count() - len(comparisons),
        is_live=any(comparison.is_open for comparison in comparisons),
    )


def load_progress(comparison: Comparison) -> ComparisonProgress:
    """Done calls, and the time left at the pace so far."""
    total = comparison.call_count
    done = total if comparison.is_finished else count_done(comparison)
    remaining = ""
    if comparison.is_open and comparison.started_at is not None and done:
        seconds = (timezone.now() - comparison.started_at).total_seconds() * (total - done) / done
        amount = f"{math.ceil(seconds)} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"
        remaining = f"about {amount} left"
    return ComparisonProgress(done=done, total=total, remaining=remaining)
