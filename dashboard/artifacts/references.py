"""Later calls that read an artifact by its path, or named it: "the model opened it at call 41".

Asked for are the run itself, the runs that copied its history, and the other runs of its session: the
one that started it and all that were started in turn. Arguments are looked at, found by an index, of
LATER calls of a run and of LATER calls of the others together: each costs 6 microseconds. What is
behind them is led to, and what was left out is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Count, F, Q, QuerySet

from dashboard.artifacts.queries import CALL, RUN, call_and_run
from dashboard.artifacts.read_commands import Opening, opening_of
from dashboard.models import Artifact, Call, Observation, Run, RunCall
from dashboard.prepared import Row, given, prepared

MOST = 8  # calls on the page
TAKEN = 40  # arguments of a run that are carried to be read
LATER = 500
RUNS = 50  # of a session
DEEPEST = 8  # runs that started each other
LARGEST = 64 * 1024  # bytes of arguments
SHORTEST = 4  # characters of a path that means one file
NEVER = datetime.max.replace(tzinfo=UTC)
LAST = 2**63 - 1


class PlaceOf(models.Func):
    """Where bytes stand in a BLOB, from 1; 0 for nowhere. Arguments: the BLOB, the bytes."""

    function = "instr"
    output_field = models.IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        turned = self.copy()
        turned.set_source_expressions(self.get_source_expressions()[::-1])
        return turned.as_sql(compiler, connection, function="position", arg_joiner=" in ", **extra)


@dataclass(frozen=True, kw_only=True)
class Naming:
    """`number` is the place of the call in `run`, from 1; `run` is None for the artifact's own."""

    call: Call
    number: int
    run: Run | None
    opening: Opening

    @property
    def place(self) -> str:
        """The query string of the part that was read, in this artifact; empty where the arguments do not say."""
        lines = self.opening.lines
        if self.opening.is_tail:
            return "tail"
        ends = dict.fromkeys((lines.start, lines[-1])) if lines else ()
        return f"line={'-'.join(map(str, ends))}#L{lines.start}" if ends else ""


@dataclass(frozen=True, kw_only=True)
class Namings:
    """In the order of time. `onward` is where to look on, in later calls; 0 where all were looked at."""

    opened: tuple[Naming, ...] = ()
    named: tuple[Naming, ...] = ()
    has_more: bool = False  # than MOST, among those that were looked at
    begin: int = 0
    onward: int = 0
    unread_runs: int = 0  # of the session, at which nobody looked

    @property
    def first(self) -> int:
        return self.begin + 1


@dataclass(frozen=True)
class _Found:
    """A call that names the path, at `ordinal` of `run`."""

    call: UUID
    run: UUID
    ordinal: int
    started_at: datetime | None
    opening: Opening


@prepared
def _standings() -> QuerySet[Any, Any]:
    return RunCall.objects.filter(call=given("call", RunCall, "call")).order_by("pk").values_list("run", "ordinal")


@prepared
def _border(behind: int) -> QuerySet[Any, Any]:
    """The ordinal of the call that is so many behind."""
    later = RunCall.objects.filter(run=given("run", RunCall, "run"), ordinal__gt=given("ordinal", RunCall, "ordinal"))
    return later.order_by("ordinal", "pk").values_list("ordinal")[behind : behind + 1]


@prepared
def _holding() -> QuerySet[Any, Any]:
    """Calls whose arguments hold the path's bytes as JSON writes them: no others are carried to be looked at."""
    data = F("call__observations__data")
    return (
        RunCall.objects.filter(
            run=given("run", RunCall, "run"),
            ordinal__gt=given("after", RunCall, "ordinal"),
            ordinal__lte=given("upto", RunCall, "ordinal"),
            call__observations__surface=Observation.Surface.ARGS,
            call__observations__selected=True,
            call__observations__size__lte=LARGEST,
        )
        .annotate(at=PlaceOf(data, given("plain", Observation, "data")))
        .annotate(at_other=PlaceOf(data, given("other", Observation, "data")))
        .filter(Q(at__gt=0) | Q(at_other__gt=0))
        .order_by("ordinal", "pk")
        .values_list("call", "ordinal", "call__started_at", "call__tool", "call__observations__data")[:TAKEN]
    )


@prepared
def _number() -> QuerySet[Any, Any]:
    upto = RunCall.objects.filter(run=given("run", RunCall, "run"), ordinal__lte=given("ordinal", RunCall, "ordinal"))
    return upto.order_by().values("run").annotate(count=Count("pk")).values_list("count")


@prepared
def _calls() -> QuerySet[Any, Any]:
    one = RunCall.objects.filter(call=given("call", RunCall, "call"), run=given("run", RunCall, "run"))
    return one.values_list(*(f"call__{name}" for name in CALL), *(f"run__{name}" for name in RUN))


@prepared
def _started() -> QuerySet[Any, Any]:
    children = Run.objects.filter(parent=given("run", Run, "parent"))
    return children.order_by("started_at", "pk").values_list("pk", "call_count")[:RUNS]


@prepared
def _starter() -> QuerySet[Any, Any]:
    return Run.objects.filter(pk=given("run", Run, "id")).values_list("parent", "call_count")


def later_namings(artifact: Artifact, begin: int = 0) -> Namings:
    """In the calls behind the artifact's, without the first `begin` of each run."""
    if len(artifact.path) < SHORTEST:
        return Namings()
    own, search = artifact.call, _Search(artifact.path)
    standings = sorted(_standings(call=own.pk), key=lambda row: row[0] != own.run_id)[:DEEPEST]
    others, unread = _others(own, {run for run, _ in standings})
    found, onward = _behind(search, standings, begin)
    found += [] if begin else _elsewhere(search, own, others)
    each = {one.call: one for one in reversed(found)}  # its own run's word before that of a copy
    ordered = sorted(each.values(), key=lambda one: (one.started_at or NEVER, one.ordinal))
    shown = _shown(ordered[:MOST], own)
    return Namings(
        opened=tuple(one for one in shown if one.opening.program),
        named=tuple(one for one in shown if not one.opening.program),
        has_more=search.is_full or len(ordered) > MOST,
        begin=begin,
        onward=onward,
        unread_runs=unread,
    )


def _behind(search: _Search, standings: list[Row], begin: int) -> tuple[list[_Found], int]:
    """In the runs in which the call stands, and where to look on."""
    found: list[_Found] = []
    onward = 0
    for run, ordinal in standings:
        after = _ordinal(run, ordinal, begin - 1) if begin else ordinal
        upto = _ordinal(run, ordinal, begin + LATER - 1)
        onward = begin + LATER if upto < LAST else onward
        found += search.in_run(run, after, upto)
    return found, onward


def _elsewhere(search: _Search, own: Call, runs: list[UUID]) -> list[_Found]:
    """What began after it; where that is not known nothing is said."""
    if own.started_at is None:
        return []
    found = [one for run in runs for one in search.in_run(run, -1, LAST)]
    return [one for one in found if one.started_at is not None and one.started_at > own.started_at]


def _ordinal(run: UUID, after: int, behind: int) -> int:
    found = _border(behind, run=run, ordinal=after)
    return found[0][0] if found else LAST


class _Search:
    """For one path. `is_full` where a run's arguments hold it more often than is read."""

    def __init__(self, path: str) -> None:
        self._path = path
        written = [json.dumps(path, ensure_ascii=only)[1:-1] for only in (True, False)]
        self._plain, self._other = (text.encode("utf-8", "surrogatepass") for text in written)
        self.is_full = False

    def in_run(self, run: UUID, after: int, upto: int) -> Iterator[_Found]:
        rows = _holding(run=run, after=after, upto=upto, plain=self._plain, other=self._other)
        self.is_full = self.is_full or len(rows) == TAKEN
        for call, ordinal, started_at, tool, args in rows:
            opening = opening_of(self._path, tool, bytes(args))
            if opening is not None:
                yield _Found(call, run, ordinal, started_at, opening)


def _shown(found: list[_Found], own: Call) -> list[Naming]:
    return [
        Naming(
            call=call,
            number=_number(run=one.run, ordinal=one.ordinal)[0][0],
            run=run if one.run != own.run_id else None,
            opening=one.opening,
        )
        for one in found
        for call, run in (_call_in_run(one),)
    ]


def _call_in_run(found: _Found) -> tuple[Call, Run]:
    return call_and_run(_calls(call=found.call, run=found.run)[0])


def _others(own: Call, known: set[UUID]) -> tuple[list[UUID], int]:
    """The other runs of the session, as many as have LATER calls together, and how many are left out."""
    others = {run: count for run, count in _session(own.run_id).items() if run not in known}
    ends = accumulate(others.values())
    taken = [run for run, end in zip(others, ends, strict=True) if end <= LATER]
    return taken, len(others) - len(taken)


def _session(run: UUID) -> dict[UUID, int]:
    """The runs of the tree in which it stands, each with its number of calls."""
    root, counts = run, dict[UUID, int]()
    for _ in range(DEEPEST):
        ((parent, counts[root]),) = _starter(run=root)
        if parent is None or parent in counts:
            break
        root = parent
    level, seen = [root], set()
    while level and len(counts) < RUNS:
        seen.update(level)
        children = [row for one in level for row in _started(run=one)]
        counts |= {row[0]: row[1] for row in children}
        level = [one for one, _ in children if one not in seen]
    return counts
