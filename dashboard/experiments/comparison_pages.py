"""The list of comparisons, newest first, and the page of one, built from its stored summary.

Its address has what is shown: `?column=` is compared with the baseline, `?columns=` is the order of all columns, and
`?by=`, `?measure=` and `?order=` are the rows, cells and order of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from dashboard.experiments.aggregate import CHANGE_MEASURES, format_bucket
from dashboard.experiments.call_list import CHANGE_TITLES, ChangedCall, build_changed_calls, load_call_labels
from dashboard.experiments.measure_calls import Measure, unpack_ids
from dashboard.experiments.params import ColumnOrder, ComparisonParams, calls_href, request_summary
from dashboard.experiments.stored_comparison import count_done
from dashboard.experiments.summary import ColumnSummary, Summary
from dashboard.experiments.tables import (
    FigureRow,
    HeatGrid,
    build_grid,
    build_notes,
    difference_rows,
    rule_rows,
    total_rows,
)
from dashboard.leadership import has_leader
from dashboard.models import Comparison, ComparisonColumn, Project
from dashboard.text.chart_markup import Chart, ChartSeries
from dashboard.variants.variant_list import load_current_variant, within_budget

MOST_LISTED = 200
TONES = {"finished": "good", "failed": "bad", "cancelled": "warn"}
CHANGE_UNITS: dict[Measure, str] = {"tokens": "in tokens"}
INKS = ("baseline", "accent")  # of the plots
CALLS_LISTED = 8  # of those that changed most; a link leads to the others


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


@dataclass(frozen=True, kw_only=True)
class ColumnVersion:
    """A variant behind a column, with the families it serves; `today` describes it where it has changed since."""

    families: str
    id: str
    version: int
    hash: str
    today: str


@dataclass(frozen=True, kw_only=True)
class ComparedColumn:
    """A column at its position in the order of the address.

    `baseline_order` is the order with this column as the baseline. Addresses are empty where the column cannot move.
    """

    ordinal: int
    name: str
    href: str
    is_current: bool
    versions: tuple[ColumnVersion, ...]
    baseline_order: str
    left_href: str
    right_href: str
    hide_href: str

    @property
    def is_changed(self) -> bool:
        return any(version.today for version in self.versions)

    @property
    def version_label(self) -> str:
        """`v2`, or `v1 to v3` where a name has several renderers; empty for `recorded`."""
        numbers = sorted({version.version for version in self.versions if version.hash})
        if not numbers:
            return ""
        return f"v{numbers[0]}" if len(numbers) == 1 else f"v{numbers[0]} to v{numbers[-1]}"


@dataclass(frozen=True, kw_only=True)
class ChangedList:
    """`stored` calls are in the list of the summary, of `changed` in all."""

    id: str
    title: str
    unit: str
    calls: tuple[ChangedCall, ...]
    stored: int
    changed: int
    href: str


@dataclass(frozen=True, kw_only=True)
class ComparisonResults:
    """The tables of a finished comparison; `notes` are sentences on what the numbers leave out."""

    totals: tuple[FigureRow, ...]
    deltas: tuple[FigureRow, ...]
    rules: tuple[FigureRow, ...]
    notes: tuple[str, ...]
    grid: HeatGrid
    distributions: tuple[Chart, ...]
    changed: tuple[ChangedList, ...]
    fields: tuple[tuple[str, int], ...]
    calls: int
    encoding: str


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """`reset_href` shows all columns in their stored order, empty where they are. `is_waiting`: no process works."""

    comparison: Comparison
    columns: ColumnOrder
    heads: tuple[ComparedColumn, ...]
    current: ComparedColumn
    reset_href: str
    progress: ComparisonProgress
    results: ComparisonResults | None
    again_href: str
    is_waiting: bool


def load_comparison_page(comparison: Comparison, query: Mapping[str, str]) -> ComparisonPage:
    columns = ColumnOrder.read(comparison, query)
    params = ComparisonParams(query, columns)
    heads = _load_heads(columns, params)
    needs_worker = comparison.is_open or columns.is_requested
    return ComparisonPage(
        comparison=comparison,
        columns=columns,
        heads=heads,
        current=heads[params.column],
        reset_href=params.url_in_order(columns.reset()) if columns.param else "",
        progress=load_progress(comparison),
        results=_build_results(columns, columns.summary, params) if columns.summary else None,
        again_href=_again_href(comparison, columns.names),
        is_waiting=needs_worker and not has_leader(),
    )


def request_baseline(comparison: Comparison, order: str, query: Mapping[str, str]) -> str:
    """Queues the summary against the first column of `order`, and returns the address that shows it."""
    params = ComparisonParams(query, ColumnOrder.read(comparison, query))
    return comparison.get_absolute_url() + params.url_in_order(request_summary(comparison, order))


def _again_href(comparison: Comparison, names: list[str]) -> str:
    """The form of a new comparison, filled in like this one, to compare newer versions or another baseline."""
    form = {
        "query": comparison.query,
        "family": comparison.family,
        "sample": comparison.sample or "",
        "seed": comparison.seed,
        "budget": comparison.budget or "",
        "baseline": names[0],
        "variant": names[1:],
    }
    if comparison.is_chosen:
        packed = comparison.batches.order_by("number").values_list("calls", flat=True)
        form["call"] = [key.hex for calls in packed for key in unpack_ids(bytes(calls))]
    return f"{reverse('comparison-new')}?{urlencode(form, doseq=True)}"


def _load_heads(columns: ColumnOrder, params: ComparisonParams) -> tuple[ComparedColumn, ...]:
    heads = []
    for position, name in enumerate(columns.names):
        # The baseline stays leftmost: it has no addresses of its own.
        moves = (columns.moved(position, -1), columns.moved(position, 1), columns.without(position))
        left, right, hide = (params.url_in_order(order) if order and position else "" for order in moves)
        heads.append(
            ComparedColumn(
                ordinal=position,
                name=name,
                href=params.url(column=position) if position else "",
                is_current=position == params.column,
                versions=_load_versions([row for row in columns.rows if row.ordinal == columns.order[position]]),
                baseline_order=columns.with_baseline(position).value if position else "",
                left_href=left,
                right_href=right,
                hide_href=hide,
            )
        )
    return tuple(heads)


def _load_versions(rows: list[ComparisonColumn]) -> tuple[ColumnVersion, ...]:
    """One entry for a variant that serves several families."""
    families: dict[tuple[str, int, str, str], list[str]] = {}
    for row in rows:
        families.setdefault((row.variant, row.version, row.hash, _describe_today(row)), []).append(row.family)
    return tuple(
        ColumnVersion(families=", ".join(names) or "all", id=variant, version=version, hash=variant_hash, today=today)
        for (variant, version, variant_hash, today), names in families.items()
    )


def _describe_today(row: ComparisonColumn) -> str:
    if not row.family:
        return ""
    now = load_current_variant(row.comparison.project_id, row.family, row.variant)
    if now is None:
        return "gone"
    now = within_budget(now, row.comparison.budget)
    return "" if now.hash == row.hash else f"version {now.version}, {now.hash}"


def _build_results(columns: ColumnOrder, summary: Summary, params: ComparisonParams) -> ComparisonResults:
    comparison, names = columns.comparison, columns.names
    column = summary.columns[params.column]
    return ComparisonResults(
        totals=total_rows(summary, names),
        deltas=difference_rows(summary.columns, names),
        rules=rule_rows(summary.columns, names),
        notes=tuple(build_notes(summary, names)),
        grid=build_grid(comparison, summary, names, params),
        distributions=_build_distributions(comparison, summary, names, params),
        changed=_load_changed_lists(columns, column, params),
        fields=tuple(column.fields.items()),
        calls=summary.calls,
        encoding=summary.encoding,
    )


def _build_distributions(
    comparison: Comparison, summary: Summary, names: list[str], params: ComparisonParams
) -> tuple[Chart, ...]:
    """The sizes of receipts under the baseline and the column, and the changes between them."""
    baseline, column = summary.columns[0], summary.columns[params.column]
    name = names[params.column]
    sizes = {0: baseline.sizes, params.column: column.sizes}
    return (
        _build_histogram(comparison, "sizes", "Tokens of each call's receipt", sizes, [names[0], name], params),
        _build_histogram(
            comparison,
            "changes",
            f"Change in tokens of each call, {name} against {names[0]}",
            {params.column: column.changes},
            ["calls"],
            params,
        ),
    )


def _build_histogram(
    comparison: Comparison,
    kind: str,
    title: str,
    columns: Mapping[int, Mapping[int, int]],
    names: Sequence[str],
    params: ComparisonParams,
) -> Chart:
    """A bar for each bucket from the first to the last; `columns` has the counts by bucket of each column."""
    known = [number for counts in columns.values() for number in counts]
    buckets = range(min(known, default=0), max(known, default=-1) + 1)
    series = [
        ChartSeries(
            name=name,
            ink=ink,
            values=[counts.get(number, 0) for number in buckets],
            urls=[
                calls_href(comparison, column, **params.carried, **{kind: number}) if number in counts else ""
                for number in buckets
            ],
        )
        for (column, counts), name, ink in zip(columns.items(), names, INKS[-len(names) :], strict=True)
    ]
    labels = [format_bucket(number, sign="+" if kind == "changes" else "") for number in buckets]
    return Chart(id=kind, title=title, head="Tokens", labels=labels, series=series, kind="bars")


def _load_changed_lists(
    columns: ColumnOrder, column: ColumnSummary, params: ComparisonParams
) -> tuple[ChangedList, ...]:
    first = {measure: column.changed[measure][:CALLS_LISTED] for measure in CHANGE_MEASURES}
    labels = load_call_labels([change.key for changes in first.values() for change in changes])
    lists = []
    for measure, changes in first.items():
        lists.append(
            ChangedList(
                id=measure,
                title=CHANGE_TITLES[measure],
                unit=CHANGE_UNITS.get(measure, ""),
                calls=tuple(build_changed_calls(columns, params.column, measure, changes, labels)),
                stored=len(column.changed[measure]),
                changed=column.count_changed(measure),
                href=calls_href(columns.comparison, params.column, **params.carried, changed=measure),
            )
        )
    return tuple(lists)
