"""The numbers of the Insights page: calls, outcomes, cuts, tokens and unexplained drops, by time and by tool.

The databases group by time, tool and outcome in one pass; groups are added up here. Every number is that of the Calls
page under the filter that it links to: the page's own filter with one more term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Sum
from django.urls import reverse

from dashboard.filters.keys import read_time
from dashboard.filters.language import MAX_CHARACTERS, Query, parse
from dashboard.filters.syntax import Node, Term
from dashboard.models import Project
from dashboard.models.fields import HourText
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import HAS_RECEIPT
from dashboard.text.chart_markup import Chart, ChartKind, ChartSeries, format_share
from dashboard.text.formatting import LATEST
from dashboard.text.params import Params

TimeUnit: TypeAlias = Literal["hour", "day", "week", "month", "year"]
View: TypeAlias = Literal["numbers", "differs", "cost", "quoted"]
VIEWS = {
    "numbers": "Over time and by tool",
    "differs": "What differs",
    "cost": "Tokens and cost of requests",
    "quoted": "Quoted later",
}
UNITS: tuple[TimeUnit, ...] = ("hour", "day", "week", "month", "year")
MOST_BUCKETS = 120  # of a chart; with more, a longer unit is taken
LABELS = {"hour": "%d %b %H:00", "month": "%b %Y", "year": "%Y"}  # of a place, as for strftime; others have the day
MOST_TOOLS = 100
MOST_LINK_CHARACTERS = 600_000  # of all links of a page; with a longer filter only the totals are links
SORTS = ("calls", "failed", "cut", "tokens", "uncertain")
INKS = {
    Outcome.SUCCEEDED: "ok",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed-out",
    Outcome.REFUSED: "cut",
    Outcome.CANCELLED: "wait",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.SKIPPED: "skipped",
    Outcome.UNANSWERED: "unanswered",
}
FAILURES = (Outcome.FAILED, Outcome.TIMED_OUT)


class ChoiceLink(NamedTuple):
    label: str
    url: str
    is_current: bool


class InsightsParams(Params):
    """The view that an address names. `first` and `last` are days in UTC, both included."""

    def __init__(self, query: Mapping[str, str]) -> None:
        super().__init__(query)
        self.q = self.text("q", longest=MAX_CHARACTERS + 1)
        self.first, self.last = self._read_day("from"), self._read_day("to")
        self.show = cast(View, self.choice("show", tuple(VIEWS), default="numbers"))
        self.unit = self.choice("by", ("", *UNITS), default="")
        self.sort = self.choice("sort", SORTS, default="calls")
        self.is_whole, self.is_shortened = self.flag("all"), False
        self.where = self.text("where", default="cut:yes", longest=MAX_CHARACTERS + 1)
        if self.first and self.last and self.last < self.first:
            self.problems.append("The range ends before it begins: no call is in it.")

    def _read_day(self, name: str) -> date | None:
        text = self.text(name, longest=40)
        time = read_time(text) if text else None
        if text and time is None:
            self._report(name, text, "a day, as 2026-01-20")
            self._remember(name, "", "")
        return time.date() if time else None

    def begin_with_last_days(self, project: Project) -> None:
        """Begins the range with the last NEWEST_CALLS where the address asks for no range, no filter and not for all.

        A page that counted all calls of a project would take ten times as long for ten times as many.
        """
        if not (self.q or self.first or self.last or self.is_whole or self.show == "quoted"):
            self.first = project.calls.find_last_days(settings.NEWEST_CALLS)
            self.is_shortened = self.first is not None

    @property
    def is_filtered(self) -> bool:
        """True for an address that asks for a filter or a range."""
        return bool(self.q or self.range_terms) and not self.is_shortened

    @property
    def whole_url(self) -> str:
        return self.url(all=1)

    @property
    def range_terms(self) -> list[Term]:
        first = [Term("after", self.first.isoformat())] if self.first else []
        end = self.last + timedelta(days=1) if self.last else LATEST.date()
        return [*first, *([Term("before", end.isoformat())] if end < LATEST.date() else [])]

    def link_views(self) -> list[ChoiceLink]:
        return [ChoiceLink(label, self.url(show=name), name == self.show) for name, label in VIEWS.items()]

    def link_units(self, shown: TimeUnit) -> list[ChoiceLink]:
        return [ChoiceLink(unit, self.url(by=unit), unit == shown) for unit in UNITS]

    def build_query(self) -> Query:
        query = parse(self.q, over="calls")
        return query.narrowed(*self.range_terms)


def link_calls(query: Query, *, sort: str = "") -> str:
    """The address of the Calls page under a filter; empty for a filter that is longer than that page reads."""
    values = {"q": str(query)} | ({"sort": sort} if sort else {})
    if not query.is_readable:
        return ""
    return f"{reverse('call-list')}?{urlencode(values)}"


@dataclass
class CallSums:
    """The numbers of some calls, added up."""

    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    received: int = 0  # with a recorded receipt: of others nobody knows whether it was cut
    cut: int = 0
    tokens: int = 0
    uncertain: int = 0  # in a context when tokens left it unexplained

    def add(self, other: CallSums) -> None:
        self.calls += other.calls
        self.outcomes.update(other.outcomes)
        self.received += other.received
        self.cut += other.cut
        self.tokens += other.tokens
        self.uncertain += other.uncertain

    @property
    def failed(self) -> int:
        return sum(self.outcomes[outcome] for outcome in FAILURES)

    @property
    def cut_share(self) -> float | None:
        return self.cut / self.received if self.received else None

    @property
    def cut_words(self) -> str:
        return f"{self.cut:,} ({format_share(self.cut_share)})" if self.cut else "0"


class CountLink(NamedTuple):
    """A number of a table, with the calls that it counts."""

    text: str
    url: str
    head: str = ""


@dataclass(frozen=True)
class ToolNumbers:
    """A row of the table of tools, for all spellings that a filter takes for one; `name` may be empty."""

    name: str
    cells: tuple[CountLink, ...]


class TableColumnHead(NamedTuple):
    """`url` sorts by the column; empty where that is not possible."""

    label: str
    url: str = ""
    is_current: bool = False


@dataclass(frozen=True)
class CallNumbers:
    """`untimed` calls have no recorded time: they are in the totals and in the tools, and in no chart."""

    totals: CallSums
    facts: tuple[tuple[str, CountLink], ...]
    charts: tuple[Chart, ...]
    heads: tuple[TableColumnHead, ...]
    tools: tuple[ToolNumbers, ...]
    left_out: int  # tools that are called less than those
    units: tuple[ChoiceLink, ...]
    untimed: int
    is_linked: bool  # the charts and the tools have links, not the totals alone
    has_usage: bool  # some request of the project has recorded tokens, without which no drop is found


Groups: TypeAlias = "dict[tuple[str, str], CallSums]"  # by time and tool


def load_call_numbers(project: Project, query: Query, params: InsightsParams) -> CallNumbers:
    """Two passes over the calls of the filter, a third where they are to be shown by the hour."""
    groups = _group_calls(project, query, characters=10)
    days = [date.fromisoformat(day) for day, _ in groups if day]
    unit = choose_unit(params.unit, days)
    if unit == "hour":
        groups = _group_calls(project, query, characters=13)
    totals, by_time, by_tool = CallSums(), dict[str, CallSums](), dict[str, CallSums]()
    spellings: dict[str, Counter[str]] = {}
    for (time, tool), sums in groups.items():
        totals.add(sums)
        by_time.setdefault(time, CallSums()).add(sums)
        by_tool.setdefault(tool.casefold(), CallSums()).add(sums)
        spellings.setdefault(tool.casefold(), Counter())[tool] += sums.calls
    untimed = by_time.pop("", CallSums())
    outcomes = [outcome for outcome in Outcome if totals.outcomes[outcome]]
    places = len(by_time) * (2 * len(outcomes) + 4) + min(len(by_tool), MOST_TOOLS) * (len(outcomes) + 4)
    is_linked = places * len(link_calls(query)) <= MOST_LINK_CHARACTERS
    linked = query if is_linked else None
    rows = sorted(by_tool.items(), key=lambda item: (-_sort_value(item[1], params.sort), item[0]))
    names = {key: min(counts, key=lambda name: (-counts[name], name)) for key, counts in spellings.items()}
    return CallNumbers(
        totals=totals,
        facts=tuple(_build_facts(totals, query)),
        charts=tuple(_TimeCharts(by_time, unit, linked).build(outcomes)),
        heads=tuple(_build_heads(outcomes, params)),
        tools=tuple(_build_tool(names[key], sums, outcomes, linked) for key, sums in rows[:MOST_TOOLS]),
        left_out=len(rows[MOST_TOOLS:]),
        units=tuple(params.link_units(unit)),
        untimed=untimed.calls,
        is_linked=is_linked,
        has_usage=project.runs.filter(requests__isnull=False).exists(),
    )


def _group_calls(project: Project, query: Query, *, characters: int) -> Groups:
    """Sums by hour or day, and tool; the time of a call without one is empty."""
    groups: Groups = {}
    calls = query.calls_in(project).order_by().annotate(time=HourText("started_at", characters=characters))
    rows = calls.values_list("time", "tool", "outcome", "is_cut").annotate(
        n=Count("*"), received=Count("pk", filter=HAS_RECEIPT), all_tokens=Sum("tokens")
    )
    for time, tool, outcome, is_cut, number, received, tokens in rows:
        sums = CallSums(number, Counter({outcome: number}), received, number if is_cut else 0, tokens)
        groups.setdefault((time or "", tool), CallSums()).add(sums)
    uncertain = query.narrowed(Term("context", "uncertain")).calls_in(project).order_by()
    dropped = uncertain.annotate(time=HourText("started_at", characters=characters))
    for time, tool, number in dropped.values_list("time", "tool").annotate(n=Count("*")):
        groups.setdefault((time or "", tool), CallSums()).uncertain = number
    return groups


def choose_unit(chosen: str, days: Sequence[date]) -> TimeUnit:
    """The chosen one, else hours for a single day and days; a longer one where a chart would have too many places."""
    first, last = (min(days), max(days)) if days else (date.min, date.min)
    extent = last - first
    months = (last.year - first.year) * 12 + last.month - first.month + 1
    buckets = {"hour": (extent.days + 1) * 24, "day": extent.days + 1, "week": extent.days // 7 + 2, "month": months}
    if not chosen:
        chosen = "hour" if days and not extent else "day"
    longer = UNITS[UNITS.index(cast(TimeUnit, chosen)) :]
    return next((unit for unit in longer if buckets.get(unit, 0) <= MOST_BUCKETS), "year")


def start_of(text: str, unit: TimeUnit) -> datetime:
    """The beginning of the unit that a day or hour as of `HourText` is in; weeks begin on Monday."""
    time = datetime.fromisoformat(text if len(text) == 10 else f"{text}:00")
    if unit == "hour":
        return time
    day = time.replace(hour=0)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "year":
        return day.replace(month=1, day=1)
    return day.replace(day=1) if unit == "month" else day


def next_start(start: datetime, unit: TimeUnit) -> datetime:
    if unit == "year":
        return start.replace(year=start.year + 1)
    if unit == "month":
        return (start + timedelta(days=32)).replace(day=1)
    return start + {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}[unit]


class TimeSpanLabel(NamedTuple):
    """A unit of time, as a chart names it, and the terms for the calls that began in it."""

    key: datetime
    label: str
    terms: tuple[Term, Term]


def build_spans(times: Iterable[str], unit: TimeUnit) -> list[TimeSpanLabel]:
    """All units from the first time to the last, those without calls too. Times are written as by `HourText`."""
    starts = sorted({start_of(time, unit) for time in times})
    spans: list[TimeSpanLabel] = []
    start = starts[0] if starts else None
    while start is not None and start <= starts[-1]:
        end = next_start(start, unit)
        form = "%Y-%m-%dT%H:%M" if unit == "hour" else "%Y-%m-%d"
        label = f"{start:{LABELS.get(unit, '%Y-%m-%d')}}"
        terms = (Term("after", start.strftime(form)), Term("before", end.strftime(form)))
        spans.append(TimeSpanLabel(start, label, terms))
        start = end
    return spans


def _sum_by_span(sums: Mapping[str, CallSums], spans: Sequence[TimeSpanLabel], unit: TimeUnit) -> list[CallSums]:
    by_start = {span.key: CallSums() for span in spans}
    for time, of_time in sums.items():
        by_start[start_of(time, unit)].add(of_time)
    return list(by_start.values())


class _TimeCharts:
    """Draws sums by units of time, each value with the calls that it counts; without a query no value is a link."""

    def __init__(self, by_time: Mapping[str, CallSums], unit: TimeUnit, query: Query | None) -> None:
        self._query = query
        self._spans = build_spans(by_time, unit)
        self._sums = _sum_by_span(by_time, self._spans, unit)
        self._head = unit.capitalize()

    def build(self, outcomes: Sequence[Outcome]) -> Iterator[Chart]:
        if not self._spans:
            return
        by_outcome = [
            self._series(
                outcome.word,
                INKS[outcome],
                [sums.outcomes[outcome] for sums in self._sums],
                Term("outcome", outcome.value),
            )
            for outcome in outcomes
        ]
        every = self._link([sums.calls for sums in self._sums])
        yield self._chart("outcomes", "Calls, by outcome", by_outcome, "stacked", urls=every)
        cut = ChartSeries(
            name="calls whose receipt was cut",
            ink="cut",
            values=[sums.cut_share for sums in self._sums],
            texts=[sums.cut_words if sums.received else "–" for sums in self._sums],
            urls=self._link([sums.cut for sums in self._sums], Term("cut", "yes")),
        )
        yield self._chart("cut", "Share of calls whose receipt was cut", [cut], "steps", scale=format_share)
        tokens = self._series("tokens", "accent", [sums.tokens for sums in self._sums], sort="tokens")
        yield self._chart("tokens", "Tokens of receipts, estimated", [tokens], "bars")
        uncertain = [sums.uncertain for sums in self._sums]
        if any(uncertain):
            series = self._series("calls", "failed", uncertain, Term("context", "uncertain"))
            yield self._chart("uncertain", "Calls in a context when tokens left it unexplained", [series], "bars")

    def _series(self, name: str, ink: str, values: Sequence[int], *terms: Node, sort: str = "") -> ChartSeries:
        return ChartSeries(name=name, ink=ink, values=values, urls=self._link(values, *terms, sort=sort))

    def _link(self, values: Sequence[int], *terms: Node, sort: str = "") -> list[str]:
        """The addresses of the calls behind each value; empty for nought."""
        if self._query is None:
            return []
        return [
            link_calls(self._query.narrowed(*span.terms, *terms), sort=sort) if value else ""
            for span, value in zip(self._spans, values, strict=True)
        ]

    def _chart(self, id: str, title: str, series: Sequence[ChartSeries], kind: ChartKind, **options: Any) -> Chart:
        labels = [span.label for span in self._spans]
        return Chart(id=id, title=title, head=self._head, labels=labels, series=series, kind=kind, **options)


def _sort_value(sums: CallSums, sort: str) -> int:
    return cast(int, getattr(sums, sort))


def _build_heads(outcomes: Sequence[Outcome], params: InsightsParams) -> Iterator[TableColumnHead]:
    def head(label: str, sort: str) -> TableColumnHead:
        return TableColumnHead(label, params.url(sort=sort) + "#tools", params.sort == sort)

    yield head("Calls", "calls")
    for outcome in outcomes:
        if outcome != Outcome.SUCCEEDED:
            label = outcome.word.capitalize()
            yield head(label, "failed") if outcome is Outcome.FAILED else TableColumnHead(label)
    yield head("Cut", "cut")
    yield head("Tokens", "tokens")
    yield head("Context dropped", "uncertain")


def _build_tool(name: str, sums: CallSums, outcomes: Sequence[Outcome], query: Query | None) -> ToolNumbers:
    of_tool = query.narrowed(Term("tool", name)) if query is not None and name else None

    def cell(head: str, number: int, text: str, *terms: Node, sort: str = "") -> CountLink:
        url = link_calls(of_tool.narrowed(*terms), sort=sort) if number and of_tool is not None else ""
        return CountLink(text if number else "", url, head)

    cells = [cell("calls", sums.calls, f"{sums.calls:,}")]
    for outcome in outcomes:
        if outcome != Outcome.SUCCEEDED:
            number = sums.outcomes[outcome]
            cells.append(cell(outcome.word, number, f"{number:,}", Term("outcome", outcome.value)))
    cells.append(cell("cut", sums.cut, sums.cut_words, Term("cut", "yes")))
    cells.append(cell("tokens", sums.tokens, f"≈{sums.tokens:,}", sort="tokens"))
    cells.append(cell("context dropped", sums.uncertain, f"{sums.uncertain:,}", Term("context", "uncertain")))
    return ToolNumbers(name, tuple(cells))


def _build_facts(totals: CallSums, query: Query) -> Iterator[tuple[str, CountLink]]:
    def fact(text: str, number: int, *terms: Node, sort: str = "") -> CountLink:
        return CountLink(text, link_calls(query.narrowed(*terms), sort=sort) if number else "")

    yield "Calls", fact(f"{totals.calls:,}", totals.calls)
    for outcome in Outcome:
        number = totals.outcomes[outcome]
        if number and outcome != Outcome.SUCCEEDED:
            share = format_share(number / totals.calls)
            yield outcome.word.capitalize(), fact(f"{number:,} ({share})", number, Term("outcome", outcome.value))
    yield "Cut", fact(totals.cut_words, totals.cut, Term("cut", "yes"))
    yield "Tokens of receipts", fact(f"≈{totals.tokens:,}", totals.tokens, sort="tokens")
    if totals.uncertain:
        words = fact(f"{totals.uncertain:,} calls", totals.uncertain, Term("context", "uncertain"))
        yield "In a context that lost tokens unexplained", words
