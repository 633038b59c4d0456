"""One run as a row of the list, from metadata only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.models import Run
from dashboard.runs.outcome_strip import OutcomeStrip, build_strip
from dashboard.text.escaping import printable
from dashboard.text.formatting import TOKENS_COUNTED_BY, format_count, format_duration


@dataclass(frozen=True)
class ColumnHead:
    """The head of a column of numbers; one without a `sort` cannot be sorted by."""

    label: str
    sort: str
    title: str
    is_wide: bool = False


COLUMN_HEADS = (
    ColumnHead("Calls", "calls", "Calls, inherited ones included"),
    ColumnHead("Failed", "failed", "Calls that failed"),
    ColumnHead("Cut", "cut", "Calls whose result reached the model cut"),
    ColumnHead("Unanswered", "", "Calls that nothing answered"),
    ColumnHead(
        "Tokens",
        "tokens",
        f"Tokens that the model got, {TOKENS_COUNTED_BY}; of texts alone, images are not counted; ≈ marks an estimate",
        is_wide=True,
    ),
    ColumnHead("Duration", "duration", "From the first stamp to the last", is_wide=True),
    ColumnHead("Age", "newest", "Since the run began"),
)


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    url: str
    peek_url: str
    title: str
    agent: str
    model: str
    source: str
    status: str
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


def build_row(run: Run, now: datetime, peek_url: str) -> RunRow:
    """`peek_url` is the address of the list up to the id of the run to peek at."""
    return RunRow(
        id=run.pk.hex,
        url=f"/runs/{run.pk}/",  # to reverse 50 addresses takes as long as the query
        peek_url=peek_url + run.pk.hex,
        title=printable(str(run)),
        agent=printable(run.agent) or "–",
        model=printable(run.model),
        source=printable(run.source_format),
        status=run.status,
        is_child=run.parent_id is not None,
        strip=build_strip(run),
        calls=format_count(run.call_count),
        failed=_blank_zero(run.failed_count),
        cut=_blank_zero(run.cut_count),
        unanswered=_blank_zero(run.unanswered_count),
        tokens=("" if run.token_certainty == "exact" else "≈") + format_count(run.token_count),
        duration=format_duration(run.duration_ms),
        sort_at=f"{run.sort_at:%Y-%m-%d %H:%M:%S}",
        age=format_age(now - run.sort_at),
    )


def _blank_zero(number: int) -> str:
    """A column of noughts would hide the number that matters."""
    return format_count(number) if number else ""


def format_age(age: timedelta) -> str:
    """The largest unit alone: 40 s, 12 min, 3 h, 5 d, 14 mo."""
    seconds = max(0, int(age.total_seconds()))
    for unit, length, below in (("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 86_400), ("d", 86_400, 5_184_000)):
        if seconds < below:
            return f"{seconds // length} {unit}"
    months = seconds // 2_592_000
    return f"{months} mo" if months < 24 else f"{seconds // 31_536_000} y"
