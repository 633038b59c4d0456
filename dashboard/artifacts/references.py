"""Later calls that read an artifact by its path, or mentioned it: "the model opened it at call 41".

Searched are the run itself, the runs that copied its history, and the other runs of its session: the run that started
it and all that were started in turn. Only the arguments of CALLS_AT_ONCE later calls of a run, and of as many calls of
the other runs together, are searched. The page links to the calls behind them
and names the runs that were left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from uuid import UUID

from django.db.models import Count, F, OuterRef, Subquery

from dashboard.artifacts.read_commands import ReadCommand, parse_read_command
from dashboard.models import Artifact, Call, Observation, Run, RunCall, load_slices
from dashboard.models.sources import SLICE_FIELDS

SHOWN = 8  # references on the page
PARSED = 40  # calls of a run whose arguments are parsed
CALLS_AT_ONCE = 500
MOST_RUNS = 50  # of a session
DEEPEST = 8  # runs that started each other
LARGEST_ARGS = 64 * 1024  # bytes
SHORTEST_PATH = 4  # characters: a shorter path is part of too many others
NEVER = datetime.max.replace(tzinfo=UTC)
LAST = 2**63 - 1  # an ordinal behind all calls


@dataclass(frozen=True, kw_only=True)
class Reference:
    """`number` is the position of the call in `run`, from 1; `run` is None for the artifact's own."""

    call: Call
    number: int
    run: Run | None
    command: ReadCommand

    @property
    def part_query(self) -> str:
        """The query string of the part that was read, in this artifact; empty where the arguments name none."""
        lines = self.command.lines
        if self.command.is_tail:
            return "tail"
        ends = dict.fromkeys((lines.start, lines[-1])) if lines else ()
        return f"line={'-'.join(map(str, ends))}#L{lines.start}" if ends else ""


@dataclass(frozen=True, kw_only=True)
class References:
    """In the order of time. Searched were the later calls of each run from number `first` on.

    `next_begin` is how many of them the next page skips, 0 where all were searched.
    """

    opened: tuple[Reference, ...] = ()
    mentioned: tuple[Reference, ...] = ()
    has_more: bool = False  # than SHOWN, among the calls that were searched
    begin: int = 0
    next_begin: int = 0
    skipped_runs: int = 0  # of the session, with too many calls

    @property
    def first(self) -> int:
        return self.begin + 1


@dataclass(frozen=True)
class _Match:
    """A call that names the path, by its row in a run."""

    member: int
    call: UUID
    ordinal: int
    started_at: datetime | None
    command: ReadCommand


def find_later_references(artifact: Artifact, begin: int = 0, *, calls_at_once: int = CALLS_AT_ONCE) -> References:
    """References in the calls behind the artifact's, without the first `begin` of each run."""
    if len(artifact.path) < SHORTEST_PATH:
        return References()
    own, search = artifact.call, _PathSearch(artifact.path)
    members = sorted(own.memberships.order_by("pk"), key=lambda member: member.run_id != own.run_id)[:DEEPEST]
    others, skipped_runs = _other_runs(own, {member.run_id for member in members}, calls_at_once)
    matches: list[_Match] = []
    next_begin = 0
    for member in members:
        after = _ordinal_behind(member, begin - 1) if begin else member.ordinal
        upto = _ordinal_behind(member, begin + calls_at_once - 1)
        next_begin = begin + calls_at_once if upto < LAST else next_begin
        matches += search.in_run(member.run_id, after, upto)
    # What began before the artifact cannot refer to it; of calls without a time that is not known.
    if not begin and own.started_at is not None:
        for run in others:
            for match in search.in_run(run, -1, LAST):
                if match.started_at is not None and match.started_at > own.started_at:
                    matches.append(match)
    by_call = {match.call: match for match in reversed(matches)}  # its own run comes before a copy of it
    ordered = sorted(by_call.values(), key=lambda match: (match.started_at or NEVER, match.ordinal))
    references = _load_references(ordered[:SHOWN], own) if ordered else []
    return References(
        opened=tuple(reference for reference in references if reference.command.program),
        mentioned=tuple(reference for reference in references if not reference.command.program),
        has_more=search.is_full or len(ordered) > SHOWN,
        begin=begin,
        next_begin=next_begin,
        skipped_runs=skipped_runs,
    )


def _ordinal_behind(member: RunCall, count: int) -> int:
    """The ordinal of the call that follows `member` with `count` calls in between; LAST where there is none."""
    later = RunCall.objects.filter(run=member.run_id, ordinal__gt=member.ordinal).order_by("ordinal", "pk")
    ordinals = later.values_list("ordinal", flat=True)[count : count + 1]
    return next(iter(ordinals), LAST)


class _PathSearch:
    """Searches runs for one path. `is_full`: the arguments of a run contain it more often than is parsed."""

    def __init__(self, path: str) -> None:
        self._path = path
        # As JSON writes it, with and without ASCII escapes.
        self._spellings = [
            json.dumps(path, ensure_ascii=is_ascii)[1:-1].encode("utf-8", "surrogatepass") for is_ascii in (True, False)
        ]
        self.is_full = False

    def in_run(self, run: UUID, after: int, upto: int) -> Iterator[_Match]:
        """Calls with ordinals in (after, upto]. Of arguments that contain the path's bytes, the first are parsed."""
        members = RunCall.objects.filter(run=run, ordinal__gt=after, ordinal__lte=upto)
        rows = members.order_by("ordinal", "pk").values_list("call", "pk", "ordinal", "call__started_at", "call__tool")
        calls = {call: (pk, ordinal, started_at, tool) for call, pk, ordinal, started_at, tool in rows}
        arguments = Observation.objects.filter(
            call__in=list(calls), surface=Observation.Surface.ARGS, selected=True, size__lte=LARGEST_ARGS
        )
        slices = {row.call_id: row for row in arguments.only(*SLICE_FIELDS, "call_id")}
        load_slices(slices.values())
        parsed = 0
        for call, (pk, ordinal, started_at, tool) in calls.items():
            if call not in slices or not any(text in slices[call].data for text in self._spellings):
                continue
            parsed += 1
            self.is_full = self.is_full or parsed == PARSED
            command = parse_read_command(self._path, tool, slices[call].data)
            if command is not None:
                yield _Match(pk, call, ordinal, started_at, command)
            if parsed == PARSED:
                return


def _load_references(matches: list[_Match], own: Call) -> list[Reference]:
    upto = RunCall.objects.filter(run=OuterRef("run"), ordinal__lte=OuterRef("ordinal")).order_by()
    members = (
        RunCall.objects.filter(pk__in=[match.member for match in matches])
        .select_related("call", "run")
        .only("ordinal", "call__run_id", "call__external_id", "call__tool", "run__external_id", "run__title")
        .annotate(number=Subquery(upto.values("run").annotate(count=Count("pk")).values("count")))
    )
    by_pk = {member.pk: member for member in members}
    references = []
    for match in matches:
        member = by_pk[match.member]
        run = member.run if member.run_id != own.run_id else None
        references.append(Reference(call=member.call, number=member.number, run=run, command=match.command))
    return references


def _other_runs(own: Call, known: set[UUID], calls_at_once: int) -> tuple[list[UUID], int]:
    """The other runs of the session, as many as have `calls_at_once` calls together, and how many are left out."""
    counts = {run: count for run, count in _session_runs(own.run_id).items() if run not in known}
    totals = accumulate(counts.values())
    searched = [run for run, total in zip(counts, totals, strict=True) if total <= calls_at_once]
    return searched, len(counts) - len(searched)


def _session_runs(run: UUID) -> dict[UUID, int]:
    """The runs of the tree in which `run` stands, each with its number of calls."""
    root, counts = run, dict[UUID, int]()
    for _ in range(DEEPEST):
        parent, counts[root] = Run.objects.values_list("parent", "call_count").get(pk=root)
        if parent is None or parent in counts:
            break
        root = parent
    level, visited = [root], set[UUID]()
    while level and len(counts) < MOST_RUNS:
        visited.update(level)
        following: list[tuple[UUID, int]] = []
        for parent in level:
            children = Run.objects.filter(parent=parent).order_by(F("started_at").asc(nulls_last=True), "pk")
            following += children.values_list("pk", "call_count")[:MOST_RUNS]
        counts |= dict(following)
        level = [child for child, _ in following if child not in visited]
    return counts
