"""The page of one comparison: everything from its stored summary, nothing computed anew.

The address holds what is looked at: `?column=` is held against the baseline, `?by=tool` is the rows of the
heat grid, `?measure=` its cells, `?order=` their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils import timezone

from dashboard.comparisons.cells import Measure
from dashboard.comparisons.changes import CHANGES, Changed, bucket_range
from dashboard.comparisons.column_order import Arrangement, ask_for
from dashboard.comparisons.heat import Heat, heat_of
from dashboard.comparisons.params import Ask, calls_href, pair_href
from dashboard.comparisons.results import count_done, is_work_leased
from dashboard.comparisons.summary import ColumnSummary, Summary
from dashboard.comparisons.tables import FigureRow, difference_rows, notes_of, rule_rows, total_rows
from dashboard.evidence.argument_labels import argument_labels
from dashboard.models import Call, Comparison, ComparisonColumn
from dashboard.variants.variant_list import load_current_variant

CHANGE_TITLES: dict[Measure, str] = {
    "tokens": "Changed most in size",
    "dropped": "Lost most fields",
    "lint": "Most new lint findings",
}
CHANGE_UNITS: dict[Measure, str] = {"tokens": "in tokens"}
LISTED = 8  # of the calls that changed most; the rest is one click away


@dataclass(frozen=True, kw_only=True)
class Version:
    """A renderer behind a column, with the families it serves. `today` says what it is now, when that is another."""

    families: str
    id: str
    version: int
    hash: str
    today: str


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column where it stands now; `lead` is the order in which it is the baseline. Addresses are empty where the
    column cannot go there."""

    ordinal: int
    name: str
    href: str
    is_current: bool
    versions: tuple[Version, ...]
    lead: str
    left_href: str
    right_href: str
    hide_href: str

    @property
    def is_changed(self) -> bool:
        return any(one.today for one in self.versions)

    @property
    def short(self) -> str:
        """The version where there is one; a name may stand for a renderer in each family, `recorded` for none."""
        numbers = sorted({one.version for one in self.versions if one.hash})
        if not numbers:
            return ""
        return f"v{numbers[0]}" if len(numbers) == 1 else f"v{numbers[0]} to v{numbers[-1]}"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bucket: the baseline's calls and the column's, with the lists of them."""

    label: str
    counts: tuple[int, ...]
    hrefs: tuple[str, ...]

    @property
    def cells(self) -> list[tuple[int, str]]:
        return list(zip(self.counts, self.hrefs, strict=True))


@dataclass(frozen=True, kw_only=True)
class Distribution:
    id: str
    title: str
    series: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True)
class ChangedCall:
    href: str
    key: str
    tool: str
    asked: str
    summary: str
    before: int
    after: int
    change: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ChangedList:
    """`total` calls are kept in the list, of `changed` that there are."""

    id: str
    title: str
    unit: str
    calls: tuple[ChangedCall, ...]
    total: int
    changed: int
    href: str


@dataclass(frozen=True, kw_only=True)
class Results:
    """Of a finished comparison. `notes` say what the numbers leave out."""

    totals: tuple[FigureRow, ...]
    deltas: tuple[FigureRow, ...]
    rules: tuple[FigureRow, ...]
    notes: tuple[str, ...]
    heat: Heat
    distributions: tuple[Distribution, ...]
    changed: tuple[ChangedList, ...]
    fields: tuple[tuple[str, int], ...]
    calls: int
    encoding: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    done: int
    total: int
    left: str

    @property
    def share(self) -> int:
        return 100 * self.done // self.total if self.total else 0


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    comparison: Comparison
    shown: Arrangement
    heads: tuple[Head, ...]
    current: Head
    restored_href: str  # all columns as they were frozen; empty where they stand so
    progress: Progress
    results: Results | None
    again_href: str
    is_waiting: bool  # for a process, of which there may be none


def comparison_page(comparison: Comparison, query: Mapping[str, str]) -> ComparisonPage:
    shown = Arrangement.of(comparison, query)
    names = shown.names
    ask = Ask.of(query, len(names), shown.kept.get("columns", ""))
    heads = _heads(shown, ask)
    results = _results(comparison, shown.summary, names, ask) if shown.summary else None
    return ComparisonPage(
        comparison=comparison,
        shown=shown,
        heads=heads,
        current=heads[ask.column],
        restored_href=_rearranged(ask, shown, shown.restored()) if shown.kept else "",
        progress=progress_of(comparison),
        results=results,
        again_href=_again_href(comparison, names),
        is_waiting=(comparison.is_open or shown.is_asked_for) and not is_work_leased(),
    )


def led_address(comparison: Comparison, said: str, query: Mapping[str, str]) -> str:
    """Where that order is shown, with everything else as it is; has its numbers added up where they are not yet."""
    shown = Arrangement.of(comparison, query)
    ask = Ask.of(query, len(shown.names), shown.kept.get("columns", ""))
    return comparison.get_absolute_url() + _rearranged(ask, shown, ask_for(comparison, said))


def _rearranged(ask: Ask, shown: Arrangement, wanted: Arrangement | None) -> str:
    """The column that is looked at goes along; nothing where nothing is wanted."""
    if wanted is None:
        return ""
    current = shown.order[ask.column]
    place = wanted.order.index(current) if current in wanted.order else 1
    return ask.address(columns=wanted.kept.get("columns", ""), column=max(1, place), order="")


def _again_href(comparison: Comparison, names: list[str]) -> str:
    """The form, filled in as it was for this one: to hold a newer version, or another baseline, to the same."""
    asked = {
        "query": comparison.query,
        "family": comparison.family,
        "sample": comparison.sample or "",
        "seed": comparison.seed,
        "baseline": names[0],
        "variant": names[1:],
    }
    return f"{reverse('comparison-new')}?{urlencode(asked, doseq=True)}"


def progress_of(comparison: Comparison) -> Progress:
    done = comparison.call_count if comparison.is_finished else count_done(comparison)
    return Progress(done=done, total=comparison.call_count, left=_left(comparison, done, timezone.now()))


def _left(comparison: Comparison, done: int, now: datetime) -> str:
    """How long it will take at the pace so far; nothing when it cannot be said."""
    if not comparison.is_open or comparison.started_at is None or done == 0:
        return ""
    seconds = (now - comparison.started_at).total_seconds() * (comparison.call_count - done) / done
    return f"about {math.ceil(seconds)} s left" if seconds < 90 else f"about {math.ceil(seconds / 60)} min left"


def _heads(shown: Arrangement, ask: Ask) -> tuple[Head, ...]:
    return tuple(
        Head(
            ordinal=place,
            name=name,
            href=ask.address(column=place) if place else "",
            is_current=place == ask.column,
            versions=_versions([row for row in shown.rows if row.ordinal == shown.order[place]]),
            lead=shown.led_by(place).said if place else "",
            left_href=_rearranged(ask, shown, shown.moved(place, -1)) if place else "",
            right_href=_rearranged(ask, shown, shown.moved(place, 1)) if place else "",
            hide_href=_rearranged(ask, shown, shown.without(place)) if place else "",
        )
        for place, name in enumerate(shown.names)
    )


def _versions(rows: list[ComparisonColumn]) -> tuple[Version, ...]:
    """One renderer may serve every family: it is named once."""
    found: dict[tuple[str, int, str, str], list[str]] = {}
    for row in rows:
        found.setdefault((row.variant, row.version, row.hash, _today(row)), []).append(row.family)
    return tuple(
        Version(families=", ".join(families) or "all", id=variant, version=version, hash=fingerprint, today=today)
        for (variant, version, fingerprint, today), families in found.items()
    )


def _today(row: ComparisonColumn) -> str:
    if not row.family:
        return ""
    now = load_current_variant(row.comparison.project_id, row.family, row.variant)
    if now is None:
        return "gone"
    return "" if now.hash == row.hash else f"version {now.version}, {now.hash}"


def _results(comparison: Comparison, summary: Summary, names: list[str], ask: Ask) -> Results:
    columns = summary.columns
    return Results(
        totals=total_rows(summary, names),
        deltas=difference_rows(columns, names),
        rules=rule_rows(columns, names),
        notes=tuple(notes_of(summary, names)),
        heat=heat_of(comparison, summary, names, ask),
        distributions=_distributions(comparison, summary, names, ask),
        changed=_changed_lists(comparison, columns[ask.column], ask),
        fields=tuple(columns[ask.column].fields.items()),
        calls=summary.calls,
        encoding=summary.encoding,
    )


def _distributions(comparison: Comparison, summary: Summary, names: list[str], ask: Ask) -> tuple[Distribution, ...]:
    baseline, column = summary.columns[0], summary.columns[ask.column]
    return (
        _distribution(
            comparison,
            ("sizes", "Tokens of each call's receipt"),
            ((0, names[0], baseline.sizes), (ask.column, names[ask.column], column.sizes)),
            ask,
        ),
        _distribution(
            comparison,
            ("changes", f"Change in tokens of each call, {names[ask.column]} against {names[0]}"),
            ((ask.column, "calls", column.changes),),
            ask,
        ),
    )


def _distribution(
    comparison: Comparison, titled: tuple[str, str], series: tuple[tuple[int, str, dict[int, int]], ...], ask: Ask
) -> Distribution:
    kind, title = titled
    numbers = [number for _, _, counts in series for number in counts]
    bars = [
        Bar(
            label=_bucket_label(number, is_change=kind == "changes"),
            counts=tuple(counts.get(number, 0) for _, _, counts in series),
            hrefs=tuple(calls_href(comparison, ordinal, **ask.kept, **{kind: number}) for ordinal, _, _ in series),
        )
        for number in range(min(numbers, default=0), max(numbers, default=-1) + 1)
    ]
    return Distribution(id=kind, title=title, series=tuple(name for _, name, _ in series), bars=tuple(bars))


def _bucket_label(number: int, *, is_change: bool) -> str:
    low, high = bucket_range(number)
    sign = "+" if is_change and number else ""
    return f"{low:{sign},}" if low == high else f"{low:{sign},} to {high:{sign},}"


def _changed_lists(comparison: Comparison, column: ColumnSummary, ask: Ask) -> tuple[ChangedList, ...]:
    listed = {measure: column.changed[measure][:LISTED] for measure in CHANGES}
    told = told_of([one.key for some in listed.values() for one in some])
    return tuple(
        ChangedList(
            id=measure,
            title=CHANGE_TITLES[measure],
            unit=CHANGE_UNITS.get(measure, ""),
            calls=tuple(
                changed_call(one, pair_href(comparison, one.key, ask.column, **ask.kept, changed=measure), told)
                for one in some
            ),
            total=len(column.changed[measure]),
            changed=changed_calls(column, measure),
            href=calls_href(comparison, ask.column, **ask.kept, changed=measure),
        )
        for measure, some in listed.items()
    )


def changed_calls(column: ColumnSummary, measure: Measure) -> int:
    """How many belong into the list of a measure, of which the summary keeps the first: of tokens those with more
    and those with fewer, of the others those with more."""
    delta = column.deltas.get(measure)
    if delta is None:
        return 0
    return delta.more + (delta.fewer if measure == "tokens" else 0)


@dataclass(frozen=True)
class Told:
    """What calls were given, and the sentence that each one's result is summed up in; nothing of deleted ones."""

    asked: Mapping[UUID, str]
    summaries: Mapping[UUID, str]


def told_of(keys: Sequence[UUID]) -> Told:
    return Told(argument_labels(keys), dict(Call.objects.filter(pk__in=keys).values_list("pk", "summary")))


def changed_call(one: Changed, href: str, told: Told) -> ChangedCall:
    return ChangedCall(
        href=href,
        key=one.call,
        tool=one.tool,
        asked=told.asked.get(one.key, ""),
        summary=told.summaries.get(one.key, ""),
        before=one.before,
        after=one.after,
        change=f"{one.change:+,}",
        names=one.names,
    )
