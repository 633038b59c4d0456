"""The runs of subagents on the page of the run that started them, each with the runs that it started below it.

An agent that writes each subagent's file beside the session records the session as the parent of all of them. Which
of them another subagent started is known from its call, which names the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q

from dashboard.models import Call, Run
from dashboard.runs.time_axis import Axis, TimeBar

MAX_CHILDREN = 200


@dataclass(frozen=True, slots=True)
class ChildRunRow:
    """A row below a call, with the child's own counts; `depth` is 0 for a run that the call itself started."""

    run: Run
    depth: int
    bar: TimeBar | None


@dataclass(frozen=True)
class ChildRuns:
    """`top` are runs that this run started, or whose starter is unknown; `below` has the others by their starter."""

    top: Sequence[Run] = ()
    below: Mapping[UUID, Sequence[Run]] = field(default_factory=dict)

    @property
    def all(self) -> list[Run]:
        return [*self.top, *(run for runs in self.below.values() for run in runs)]

    def rows(self, run: Run, axis: Axis, depth: int = 0) -> Iterator[ChildRunRow]:
        """The run and all below it."""
        yield ChildRunRow(run, depth, axis.bar(run.started_at, run.duration_ms, None))
        for child in self.below.get(run.pk, ()):
            yield from self.rows(child, axis, depth + 1)

    def rows_by_call(self, axis: Axis) -> dict[UUID, list[ChildRunRow]]:
        """By the call that the child names as its parent, and by the child's own id for calls that name it."""
        rows_by_call: dict[UUID, list[ChildRunRow]] = {}
        for run in self.top:
            rows = list(self.rows(run, axis))
            for key in {run.parent_call or run.pk, run.pk}:
                rows_by_call.setdefault(key, []).extend(rows)
        return rows_by_call

    def rows_without_call(self, run: Run, axis: Axis) -> tuple[ChildRunRow, ...]:
        """Runs that no call of `run` starts: the page lists them below its rows, so that none is lost."""
        if not self.top:
            return ()
        starts = Q(pk__in=[child.parent_call for child in self.top if child.parent_call])
        starts |= Q(child_run__in=[child.pk for child in self.top])
        named = Call.objects.in_run(run).filter(starts).values_list("pk", "child_run")
        started = {key for pair in named for key in pair}
        loose = [child for child in self.top if not started & {child.pk, child.parent_call} - {None}]
        return tuple(row for child in loose for row in self.rows(child, axis))


def load_child_runs(run: Run) -> ChildRuns:
    """One query; a second where the run has several children, and one more where it is a child itself."""
    children = list(run.children.defer("plan").order_by("started_at", "id")[:MAX_CHILDREN])
    if run.parent_id:
        known = {run.pk, *(child.pk for child in children)}
        # Those that a call of this run names, whatever parent they were recorded with.
        named = run.own_calls.exclude(child_run=None).values("child_run")
        others = Run.objects.filter(project=run.project_id, pk__in=named).exclude(pk__in=known)
        children += others.defer("plan").order_by("started_at", "id")[:MAX_CHILDREN]
    return _nest(children) if len(children) > 1 else ChildRuns(children)


def _nest(runs: Sequence[Run]) -> ChildRuns:
    """Logs may record that two runs started each other: runs that cannot be reached from the top are put there."""
    keys = [run.pk for run in runs]
    calls = Call.objects.filter(run__in=keys, child_run__in=keys).order_by("line", "pk")
    pairs = calls.values_list("child_run", "run_id")
    starters = {child: starter for child, starter in pairs if child and child != starter}
    below: dict[UUID, list[Run]] = {}
    top = []
    for run in runs:
        if run.pk in starters and not _is_in_cycle(run.pk, starters):
            below.setdefault(starters[run.pk], []).append(run)
        else:
            top.append(run)
    return ChildRuns(top, below)


def _is_in_cycle(run: UUID, starters: Mapping[UUID, UUID]) -> bool:
    visited = set()
    ancestor: UUID | None = run
    while ancestor is not None and ancestor not in visited:
        visited.add(ancestor)
        ancestor = starters.get(ancestor)
    return ancestor is not None
