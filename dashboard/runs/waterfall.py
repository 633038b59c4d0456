"""The calls of a run, one row each in the order of the source: what happened, and where the time went.

One query reads the columns of one page of rows, whatever the number of calls, and never a payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias, cast
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q, QuerySet

from dashboard.evidence.argument_labels import argument_labels, shorten_paths, unless_repeated
from dashboard.filters import queryset
from dashboard.filters.language import Term
from dashboard.ingest import run_stats
from dashboard.models import Call, Run, RunCall
from dashboard.prepared import Given, given, prepared
from dashboard.runs.child_runs import Children, ChildRun
from dashboard.runs.time_axis import MILLISECOND, Axis
from dashboard.text.escaping import printable
from dashboard.text.formatting import format_duration

ONLY = {"progress": ["only in progress"], "answer": ["only its answer"]}  # what told of a call, but for its own line
NUMBERED = 5_000  # calls
LEAST_WAIT_MS = 1_000  # a shorter one is the way to the tool and back
Ordered: TypeAlias = QuerySet[Any, Any]  # calls with the ordinal and inherited of one run
STATES = {
    "o": "answered",
    "w": "answered; the time was a person's",
    "c": "cut before the model",
    "e": "failed",
    "x": "failed, and cut before the model",
    "u": "unanswered",
}
OUTCOMES = {"o": "ok", "w": "waiting", "c": "cut", "e": "failed", "x": "failed", "u": "unanswered"}  # for the colours


class FactColumns(NamedTuple):
    ordinal: int
    inherited: bool
    pk: UUID
    tool: str
    step: str
    attempt: int
    origin: str
    child_run: UUID | None
    status: str
    summary: str
    exit_status: int | None
    source_error: bool | None
    is_disagreeing: bool
    started_at: datetime | None
    duration_ms: int | None
    tool_ms: int | None
    is_waiting: bool
    tokens: int
    output_lines: int
    seen_lines: int
    is_cut: bool
    is_superseded: bool


class Facts(FactColumns):
    """The columns of one row; what a Call answers from them is answered by Call's own properties."""

    Status = Call.Status
    has_failed: bool = Call.has_failed  # type: ignore[assignment]
    wait_ms: int | None = Call.wait_ms  # type: ignore[assignment]


class Row(NamedTuple):
    """One call as it is written out. Everything is a string already: a template's filters cost more than the row.

    `tie` is "first step", "middle tries" and so on: the place in a group, and what groups it (step: asked
    for together; tries: one after a failure).
    """

    number: str
    key: str
    href: str
    outcome: str
    state: str
    tool: str
    flags: str
    asked: str
    summary: str
    cut: str
    tokens: str
    took: str
    time: str
    wait: str
    work: str
    cursor: str
    tie: str
    children: tuple[ChildRun, ...]


@dataclass(frozen=True)
class Page:
    """`before` rows stand above the first one here, `left` below the last."""

    rows: tuple[Row, ...]
    before: int
    left: int
    next_cursor: str


NOTHING = Page((), 0, 0, "")


@dataclass(frozen=True)
class RowsAsked:
    """Which rows: of which calls, behind a cursor or so many; `suffix` goes behind a call's address.

    `total` counts the calls that match `terms`, whatever page is asked for.
    """

    terms: tuple[Term, ...]
    total: int
    after: str = ""
    skip: int = 0
    suffix: str = ""


NO_RUN = UUID(int=0)
RUN = given("run", RunCall, "run")
ORDINAL = given("ordinal", RunCall, "ordinal")
CALL = given("call", Call, "id")


class Outcome(Protocol):
    """What a mark is chosen by; a Call and the rows read here have it alike."""

    @property
    def status(self) -> str: ...
    @property
    def has_failed(self) -> bool: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def is_waiting(self) -> bool: ...


def letter_of(one: Outcome) -> str:
    """By the rule that a run's strip follows."""
    return run_stats.outcome_letter(cast(Call, one))


def in_order(run: Run | Given, terms: Sequence[Term] = ()) -> Ordered:
    """The calls of a run that match, each with its place in that run."""
    placed = queryset.filter_calls(Call.objects.in_run(cast(Run, run)), terms).annotate(
        ordinal=F("memberships__ordinal"), inherited=F("memberships__inherited")
    )
    return placed.order_by("ordinal", "id")


@prepared
def _first_rows(terms: tuple[Term, ...], skip: int) -> Ordered:
    return in_order(RUN, terms).values_list(*Facts._fields)[skip : skip + settings.ROWS_PER_PAGE]


@prepared
def _rows_behind(terms: tuple[Term, ...]) -> Ordered:
    return in_order(RUN, terms).filter(_beyond(ORDINAL, CALL)).values_list(*Facts._fields)[: settings.ROWS_PER_PAGE]


@prepared
def _keys(most: int) -> Ordered:
    return in_order(RUN).values_list("id")[:most]


def page_of(run: Run, ask: RowsAsked, axis: Axis, children: Children | None = None) -> Page:
    """Paths below the run's own folder are told without it: what tells one file from another is the end of its path."""
    place = place_of(ask.after)
    if place:
        before = in_order(run, ask.terms).filter(_up_to(*place)).count()
        found = _rows_behind(ask.terms, run=run.pk, ordinal=place[0], call=place[1])
    else:
        before = ask.skip
        found = _first_rows(ask.terms, ask.skip, run=run.pk)
    facts = list(map(Facts._make, found))
    asked = argument_labels([one.pk for one in facts])
    drawn = _Drawn(axis, children.by_call(axis) if children else {}, asked, run.cwd, ask.suffix)
    numbers = _numbers(run, facts) if ask.terms else map(str, range(before + 1, before + 1 + len(facts)))
    rows = [_row(*row, drawn) for row in zip(facts, numbers, _ties(facts), strict=True)]
    left = max(0, ask.total - before - len(rows))
    return Page(tuple(rows), before, left, rows[-1].cursor if rows and left else "")


def _numbers(run: Run, facts: Sequence[Facts]) -> list[str]:
    """Places in the run, whatever the filter leaves out: the strip of failed calls names them so.

    None behind the first 5,000 calls; to count so far would cost more than the page.
    """
    places = {key: place for place, (key,) in enumerate(_keys(NUMBERED, run=run.pk), 1)} if facts else {}
    return [str(places.get(one.pk, "")) for one in facts]


def cursor_of(ordinal: int, call: UUID) -> str:
    return f"{ordinal}-{call.hex}"


def place_of(cursor: str) -> tuple[int, UUID] | None:
    """A cursor from the address bar; anything that is none counts as the beginning."""
    ordinal, _, key = cursor.partition("-")
    if not ordinal.isdecimal() or len(cursor) > 52:
        return None
    try:
        return int(ordinal), UUID(hex=key)
    except ValueError:
        return None


def _up_to(ordinal: Any, call: Any) -> Q:
    return Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, id__lte=call)


def _beyond(ordinal: Any, call: Any) -> Q:
    return Q(ordinal__gt=ordinal) | Q(ordinal=ordinal, id__gt=call)


class _Drawn(NamedTuple):
    """What all rows of a page are written with."""

    axis: Axis
    children: Mapping[UUID, list[ChildRun]]
    asked: Mapping[UUID, str]
    cwd: str
    suffix: str


def _row(one: Facts, number: str, tie: str, drawn: _Drawn) -> Row:
    letter = letter_of(one)
    key = str(one.pk)
    bar = drawn.axis.bar(one.started_at, one.duration_ms, one.wait_ms)
    asked, summary = drawn.asked.get(one.pk, ""), printable(shorten_paths(one.summary, drawn.cwd))
    return Row(
        number=number,
        key=key,
        href=f"/calls/{key}/{drawn.suffix}",
        outcome=OUTCOMES[letter],
        state=STATES[letter],
        tool=printable(one.tool) or "not recorded",
        flags=_flags(one),
        asked=unless_repeated(asked, summary),
        summary=summary,
        cut=f"{one.seen_lines:,} / {one.output_lines:,}" if one.is_cut else "",
        tokens=f"{one.tokens:,}",
        took=format_duration(_work_ms(one)),
        time=_time(one, drawn.axis),
        wait=bar.wait if bar else "",
        work=bar.work if bar else "",
        cursor=cursor_of(one.ordinal, one.pk),
        tie=tie,
        children=tuple(drawn.children.get(one.pk) or drawn.children.get(one.child_run or NO_RUN) or ()),
    )


def _work_ms(one: Facts) -> int | None:
    """Without the time that was a person's, where that is known."""
    return None if one.is_waiting or one.duration_ms is None else one.duration_ms - (one.wait_ms or 0)


def _flags(one: Facts) -> str:
    flags = [f"waited {format_duration(one.wait_ms)}"] if (one.wait_ms or 0) >= LEAST_WAIT_MS else []
    flags += [f"try {one.attempt}"] if one.attempt > 1 else []
    flags += ONLY.get(one.origin, [])
    flags += ["inherited"] if one.inherited else []
    flags += ["halves disagree"] if run_stats.halves_disagree(cast(Call, one)) else []
    flags += ["sources disagree"] if one.is_disagreeing else []
    return ", ".join(flags + (["replaced later"] if one.is_superseded else []))


def _time(one: Facts, axis: Axis) -> str:
    """The bar in words. Without a measure of the tool's own, nobody knows how much of the time was waiting."""
    if one.started_at is None or axis.start is None:
        return "no time recorded"
    began = format_duration((one.started_at - axis.start) // MILLISECOND)
    took = f"began {began} into the run, took {format_duration(one.duration_ms)}"
    if one.wait_ms is None or one.duration_ms is None:
        return f"{took}, a wait for permission included"
    return f"{took}: {format_duration(one.wait_ms)} waiting, {format_duration(one.duration_ms - one.wait_ms)} work"


def _ties(facts: Sequence[Facts]) -> list[str]:
    """Place and kind for each of `facts`: neighbours that are tries of one call, else calls of one step."""
    kinds = ["", *(_tie_kind(first, second) for first, second in pairwise(facts)), ""]
    return [f"{_place(above, below)} {below or above}".strip() for above, below in pairwise(kinds)] if facts else []


def _tie_kind(first: Facts, second: Facts) -> str:
    if second.attempt == first.attempt + 1 and second.tool == first.tool:
        return "tries"
    return "step" if first.step and first.step == second.step else ""


def _place(above: str, below: str) -> str:
    """Where a row stands in its group, by what ties it to the row above and to the one below."""
    if above and above == below:
        return "middle"
    return "first" if below else "last" if above else ""
