"""The list of comparisons, newest first, with how far each is."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.comparisons.comparison_detail import Progress, progress_of
from dashboard.models import Comparison, Project

MOST = 200
TONES = {"finished": "good", "failed": "bad", "cancelled": "warn"}


@dataclass(frozen=True, kw_only=True)
class ListRow:
    comparison: Comparison
    columns: tuple[str, ...]
    progress: Progress
    tone: str

    @property
    def is_partial(self) -> bool:
        """It ended before all of its calls were done."""
        return not (self.comparison.is_open or self.comparison.is_finished)


@dataclass(frozen=True, kw_only=True)
class ComparisonList:
    rows: tuple[ListRow, ...]
    left_out: int
    is_live: bool


def comparison_list(project: Project) -> ComparisonList:
    found = list(project.comparisons.defer("summary").prefetch_related("columns").order_by("-created_at", "pk")[:MOST])
    return ComparisonList(
        rows=tuple(_row(one) for one in found),
        left_out=project.comparisons.count() - len(found),
        is_live=any(one.is_open for one in found),
    )


def _row(comparison: Comparison) -> ListRow:
    columns = sorted(comparison.columns.all(), key=lambda one: one.ordinal)
    return ListRow(
        comparison=comparison,
        columns=tuple(dict.fromkeys(one.name for one in columns)),
        progress=progress_of(comparison),
        tone=TONES.get(comparison.state, "accent"),
    )
