"""The calls of a run, one row each in the order of the source, with the runs of subagents that they started.

One query reads one page of rows, whatever the number of calls, and never a payload of a call.

An agent that writes each subagent's file beside the session records the session as the parent of all of them. Which
of them another subagent started is known from its call, which names the run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypedDict
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q

from dashboard.evidence.argument_labels import label_calls, shorten_paths, show_first_line, unless_repeated
from dashboard.filters.language import Query
from dashboard.filters.queryset import filter_run_calls
from dashboard.ingest.run_stats import OUTCOMES, OutcomeMark, halves_disagree, outcome_letter
from dashboard.models import Call, RecordedReceipt, Run
from dashboard.models.notes import RowMarks, load_row_marks
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import CallQuerySet, ReceiptAuthor, step_url
from dashboard.runs.overview import MILLISECOND, Axis, TimeBar
from dashboard.runs.run_marks import RunMark, load_branches, load_run_marks
from dashboard.text.formatting import format_duration
from dashboard.text.params import parse_integer
from dashboard.text.text_markup import printable

MAX_CHILDREN = 200
ORIGIN_FLAGS = {"progress": ["only in progress"], "answer": ["only its answer"]}  # of calls without a line of their own
MAX_NUMBERED = 5_000  # calls; to count further would cost more than the page
# What a row is built from, half of a call's columns.
ROW_FIELDS = (
    *("tool", "step", "attempt", "iteration", "origin", "child_run", "status", "outcome", "summary", "exit_status"),
    *("source_error", "started_at", "duration_ms", "tool_ms", "is_waiting", "is_disagreeing", "is_cut", "author"),
    *("tokens", "seen_lines", "output_lines", "result_fidelity", "receipt_fidelity"),
    *("asked", "first_line", "family", "derivation"),
)
LEAST_WAIT_MS = 1_000  # a shorter one is the way to the tool and back


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


BY_START = (F("started_at").asc(nulls_last=True), "id")


def load_child_runs(run: Run) -> ChildRuns:
    """One query; two more where the run has several children, and one more where it is a child itself."""
    children = []
    if run.children.exists():  # most have none, and a run is a wide row
        children = list(run.children.defer("plan", "document").order_by(*BY_START)[:MAX_CHILDREN])
    if run.parent_id:
        known = {run.pk, *(child.pk for child in children)}
        # Those that a call of this run names, whatever parent they were recorded with.
        named = run.own_calls.exclude(child_run=None).values("child_run")
        others = Run.objects.filter(project=run.project_id, pk__in=named).exclude(pk__in=known)
        children += others.defer("plan", "document").order_by(*BY_START)[:MAX_CHILDREN]
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


class CallRow(TypedDict):
    """One call as it is written out, in strings. `group` is "first step", "middle tries" and so on.

    A dict, because templates look up keys first: a page has 750 of these values.

    It has the position in a group of neighbours and their kind: `step` for calls of one model message, `tries` for
    attempts after a failure.
    """

    number: str
    key: str
    url: str
    outcome: str
    state: str
    tool: str
    flags: str
    label: str
    summary: str
    cut: str
    tokens: str
    duration: str
    time: str
    wait: str
    work: str
    cursor: str
    group: str
    children: tuple[ChildRunRow, ...]
    marks: Sequence[RunMark]
    annotations: RowMarks | None


@dataclass(frozen=True)
class CallRowPage:
    """`before` rows come before the first one here, `after` behind the last.

    A row has the marks in front of it, the page those behind its last row.
    """

    rows: tuple[CallRow, ...] = ()
    marks: Sequence[RunMark] = ()
    before: int = 0
    after: int = 0
    next_cursor: str = ""


@dataclass(frozen=True)
class RowSelection:
    """The calls that match `query`, `matching` in all, behind a cursor or behind `skip` rows.

    `tab` and `params` are of the steps that the rows link to. `first` is the line and the call behind `skip` rows of
    all calls, where that is known. `most` rows are a page, or ROWS_PER_PAGE where these are fewer.
    """

    query: Query
    matching: int
    after: str = ""
    skip: int = 0
    tab: str = "halves"
    params: Mapping[str, str] = field(default_factory=dict)
    first: tuple[int, UUID] | None = None
    most: int | None = None

    @property
    def size(self) -> int:
        return min(self.most or settings.ROWS_PER_PAGE, settings.ROWS_PER_PAGE)


def load_call_rows(run: Run, selection: RowSelection, axis: Axis, children: ChildRuns | None = None) -> CallRowPage:
    calls = Call.objects.in_run_with_ordinals(run).only(*ROW_FIELDS)
    if selection.query:
        calls = filter_run_calls(calls, selection.query.tree, run)
    before = selection.skip
    cursor = parse_row_cursor(selection.after)
    if cursor:
        ordinal, call_id = cursor
        is_beyond = Q(ordinal__gt=ordinal) | Q(ordinal=ordinal, id__gt=call_id)
        before = calls.exclude(is_beyond).count()
        calls = calls.filter(is_beyond)
    start = 0 if cursor else selection.skip
    if start and not selection.query:
        calls, start = _begin_at(selection.first or _find_call(run, start), calls), 0
    superseded = RecordedReceipt.objects.filter(run=run, call=OuterRef("pk"), superseded_line__isnull=False)
    is_superseded = {"is_superseded": Exists(superseded)}
    page = list(calls.annotate(**is_superseded)[start : start + selection.size + 1])
    end = page[-1].ordinal if len(page) > selection.size else None
    page = page[: selection.size]
    if copies := [call.pk for call in page if call.inherited]:
        receipts = RecordedReceipt.objects.shown_in(run, call__in=copies)
        for call in page:
            if call.pk in receipts:
                receipts[call.pk].show_in(call)
    first = page[0].ordinal if page and before else 0
    branches, marks = (load_branches(run), []) if selection.query else load_run_marks(run, first, end)
    numbers = _load_numbers(run, page) if selection.query else map(str, range(before + 1, before + 1 + len(page)))
    children_by_call = children.rows_by_call(axis) if children else {}
    labels, annotations = label_calls(page, run.cwd), load_row_marks("call", [call.pk for call in page])
    rows = []
    for call, number, group in zip(page, numbers, _groups(page), strict=True):
        below = children_by_call.get(call.pk) or children_by_call.get(call.child_run or run.pk) or ()
        label = labels.get(call.pk, "")
        url = step_url(run.pk, number, selection.tab, selection.params) if number else _call_url(run, call, selection)
        row = _build_row(run, call, number, group, axis, label, url, tuple(below))
        ahead = bisect_right(marks, call.ordinal, key=lambda mark: mark.line)
        row["marks"], marks = marks[:ahead], marks[ahead:]
        row["annotations"] = annotations.get(call.pk)
        if any(branch.has(call.ordinal) for branch in branches):
            row["flags"] = ", ".join(filter(None, (row["flags"], "rewound")))
        rows.append(row)
    after = max(0, selection.matching - before - len(rows))
    return CallRowPage(tuple(rows), marks, before, after, rows[-1]["cursor"] if rows and after else "")


def _find_call(run: Run, number: int) -> tuple[int, UUID] | None:
    """The line and the id of the call behind the first `number`, which the database finds in the index alone."""
    return run.members.order_by("ordinal", "call").values_list("ordinal", "call")[number : number + 1].first()


def _begin_at(first: tuple[int, UUID] | None, calls: CallQuerySet) -> CallQuerySet:
    if first is None:
        return calls.none()
    return calls.filter(Q(ordinal__gte=first[0]) & ~Q(ordinal=first[0], id__lt=first[1]))


def _call_url(run: Run, call: Call, selection: RowSelection) -> str:
    """The permanent address of a call whose position was not counted."""
    return f"{call.get_absolute_url()}?{urlencode({'run': str(run.pk), **selection.params})}"


def _load_numbers(run: Run, page: Sequence[Call]) -> list[str]:
    """Positions in the whole run, as the strip of failed calls numbers them; none behind the first 5,000 calls."""
    keys = run.members.order_by("ordinal", "call_id").values_list("call_id", flat=True)[:MAX_NUMBERED] if page else ()
    positions = {key: str(position) for position, key in enumerate(keys, 1)}
    return [positions.get(call.pk, "") for call in page]


def parse_row_cursor(text: str) -> tuple[int, UUID] | None:
    """A cursor from the address bar; None for anything else."""
    ordinal_text, _, key = text.partition("-")
    ordinal = parse_integer(ordinal_text)
    try:
        return None if ordinal is None else (ordinal, UUID(hex=key))
    except ValueError:
        return None


def describe_answer(call: Call, cwd: str) -> str:
    """The summary; of commands and external tools, whose summaries are alike, the first line that came back."""
    is_answer = call.family in ("command", "external") and call.outcome == Outcome.SUCCEEDED
    first_line = show_first_line(call.first_line, cwd) if is_answer else ""
    return first_line or printable(shorten_paths(call.summary, cwd))


def _build_row(
    run: Run,
    call: Call,
    number: str,
    group: str,
    axis: Axis,
    label: str,
    url: str,
    children: tuple[ChildRunRow, ...],
) -> CallRow:
    outcome = OUTCOMES[outcome_letter(call)]
    bar = axis.bar(call.started_at, call.duration_ms, call.wait_ms)
    summary = describe_answer(call, run.cwd)
    # Without the time that a person took, where that is known.
    is_work_known = not call.is_waiting and call.duration_ms is not None
    return CallRow(
        number=number,
        key=str(call.pk),
        url=url,
        outcome=outcome.name,
        state=_describe_state(run, call, outcome),
        tool=printable(call.tool) or "not recorded",
        flags=", ".join(_flags(call)),
        label=unless_repeated(label, summary),
        summary=summary,
        cut=_cut_column(call) if call.is_cut else "",
        tokens=f"{call.tokens:,}" if call.has_tokens else "–",
        duration=format_duration((call.duration_ms or 0) - (call.wait_ms or 0) if is_work_known else None),
        time=_describe_time(call, axis),
        wait=bar.wait if bar else "",
        work=bar.work if bar else "",
        cursor=f"{call.ordinal}-{call.pk.hex}",
        group=group,
        children=children,
        marks=(),
        annotations=None,
    )


def _cut_column(call: Call) -> str:
    if not call.output_lines:
        return "a part"
    if (call.seen_lines, call.output_lines) == (0, 1):
        return "< 1 line"
    most = "≤ " if call.receipt_fidelity == "inflated" else ""
    more = "+" if call.result_fidelity == "bounded" else ""
    return f"{most}{call.seen_lines:,} / {call.output_lines:,}{more}"


def _describe_state(run: Run, call: Call, mark: OutcomeMark) -> str:
    """The outcome in words; a call without an answer is running while its run is live."""
    if call.derivation and call.outcome == Outcome.UNANSWERED:
        return "running" if run.is_live else call.outcome_words
    if mark.name == "waiting":
        return f"{call.outcome_words}, {mark.sentence}"
    return f"{call.outcome_words}, cut before the model" if call.is_cut else call.outcome_words


def _flags(call: Call) -> Iterable[str]:
    if (call.wait_ms or 0) >= LEAST_WAIT_MS:
        yield f"waited {format_duration(call.wait_ms)}"
    if call.attempt > 1:
        yield f"try {call.attempt}"
    yield from ORIGIN_FLAGS.get(call.origin, ())
    if call.inherited:
        yield "inherited"
    if call.author:
        yield ReceiptAuthor(call.author).label
    if halves_disagree(call):
        yield "error flag wrong"
    if call.is_disagreeing:
        yield "logs disagree"
    if call.is_superseded:
        yield "replaced later"


def _describe_time(call: Call, axis: Axis) -> str:
    """The bar in words. Without the tool's own measure, how much of the time was waiting is unknown."""
    if call.started_at is None or axis.start is None:
        return "no time recorded"
    began = format_duration((call.started_at - axis.start) // MILLISECOND)
    took = f"began {began} into the run, took {format_duration(call.duration_ms)}"
    if call.wait_ms is None or call.duration_ms is None:
        return f"{took}, a wait for permission included"
    return f"{took}: {format_duration(call.wait_ms)} waiting, {format_duration(call.duration_ms - call.wait_ms)} work"


def _groups(calls: Sequence[Call]) -> Iterable[str]:
    """Position and kind for each call: neighbours that are tries of one call, else calls of one step."""
    kinds = ["", *(_group_kind(first, second) for first, second in pairwise(calls)), ""]
    for above, below in pairwise(kinds[: len(calls) + 1]):
        position = "middle" if above and above == below else "first" if below else "last" if above else ""
        yield f"{position} {below or above}".strip()


def _group_kind(first: Call, second: Call) -> str:
    if (second.attempt, second.tool, second.iteration) == (first.attempt + 1, first.tool, first.iteration):
        return "tries"
    return "step" if first.step and first.step == second.step else ""
