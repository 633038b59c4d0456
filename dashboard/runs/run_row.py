"""One run as a row of the list, from metadata only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from dashboard.models import Run
from dashboard.runs.outcome_strip import OutcomeStrip, outcome_strip
from dashboard.text.escaping import printable
from dashboard.text.formatting import TOKENS_COUNTED_BY, format_count, format_duration


class ListedColumns(NamedTuple):
    pk: UUID
    external_id: str
    title: str
    agent: str
    model: str
    source_format: str
    parent_id: UUID | None
    last_at: datetime | None
    ended_at: datetime | None
    sort_at: datetime
    duration_ms: int
    call_count: int
    failed_count: int
    cut_count: int
    unanswered_count: int
    token_count: int
    token_certainty: str
    strip: str
    revision: int


class Listed(ListedColumns):
    """The columns of one run of the list; whether it is live is answered by Run's own rule."""

    status: str = Run.status  # type: ignore[assignment]
    is_live: bool = Run.is_live  # type: ignore[assignment]
    _is_idle = Run._is_idle


@dataclass(frozen=True)
class Head:
    """Of a column of numbers; one without a sort cannot be sorted by."""

    label: str
    sort: str
    title: str
    is_wide: bool = False


HEADS = (
    Head("Calls", "calls", "Calls, inherited ones included"),
    Head("Failed", "failed", "Calls that failed"),
    Head("Cut", "cut", "Calls whose result reached the model cut"),
    Head("Unanswered", "", "Calls that nothing answered"),
    Head(
        "Tokens",
        "tokens",
        f"Tokens that the model got, {TOKENS_COUNTED_BY}; of texts alone, images are not counted; ≈ marks an estimate",
        is_wide=True,
    ),
    Head("Duration", "duration", "From the first stamp to the last", is_wide=True),
    Head("Age", "newest", "Since the run began"),
)


class RunRow(NamedTuple):
    id: str
    url: str
    peek_href: str
    title: str
    agent: str
    model: str
    source: str
    status: str
    status_key: str  # live | ended | assumed
    is_child: bool
    strip: OutcomeStrip
    calls: str
    failed: str
    cut: str
    unanswered: str
    tokens: str
    duration: str
    sort_at: str
    age: str


def run_row(run: Listed, now: datetime, peek: str) -> RunRow:
    """`peek` is the address of the list up to the id of the run that is peeked at."""
    status = run.status
    return RunRow(
        id=run.pk.hex,
        url=f"/runs/{run.pk}/",
        peek_href=peek + run.pk.hex,
        title=printable(run.title or run.external_id),
        agent=printable(run.agent) or "–",
        model=printable(run.model),
        source=printable(run.source_format),
        status=status,
        status_key=status.partition(" ")[0],
        is_child=run.parent_id is not None,
        strip=outcome_strip(run),
        calls=format_count(run.call_count),
        failed=_blank_zero(run.failed_count),
        cut=_blank_zero(run.cut_count),
        unanswered=_blank_zero(run.unanswered_count),
        tokens=("" if run.token_certainty == "exact" else "≈") + format_count(run.token_count),
        duration=format_duration(run.duration_ms),
        sort_at=f"{run.sort_at:%Y-%m-%d %H:%M:%S}",
        age=age(now - run.sort_at),
    )


def _blank_zero(number: int) -> str:
    """A column of noughts hides the number that matters."""
    return format_count(number) if number else ""


def age(passed: timedelta) -> str:
    """The largest unit alone: 40 s, 12 min, 3 h, 5 d, 14 mo."""
    seconds = max(0, int(passed.total_seconds()))
    for unit, length, below in (("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 86_400), ("d", 86_400, 5_184_000)):
        if seconds < below:
            return f"{seconds // length} {unit}"
    months = seconds // 2_592_000
    return f"{months} mo" if months < 24 else f"{seconds // 31_536_000} y"
