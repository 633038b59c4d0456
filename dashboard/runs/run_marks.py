"""The rows between the calls of the Run page: a run's history beside messages, calls and receipts that were sent.

Messages that were queued while a step ran are marks, because they explain why the agent changed its course. Gaps are
lines of the recording that could not be read: they may have been part of the context. Branches were left by a rewind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.db import connection
from django.db.models import Max, Min, Q
from django.urls import reverse

from dashboard.evidence.context_changes import load_drops, parse_microcompaction
from dashboard.models import Event, Message, Problem, Run, Source, load_slices
from dashboard.models.fields import CompactUUIDField
from dashboard.text.formatting import column_text, format_place, format_places
from dashboard.text.params import LARGEST
from dashboard.text.payload_preview import labelled_parts
from dashboard.text.text_markup import printable
from envelopes.recordings.base import MICROCOMPACTION, REWIND
from envelopes.schema.result import summarize

MAX_MARKS = 100  # on a page of calls
QUEUED = "queued while a step ran"
QUEUED_MEANING = (
    "The recording has the text as it was queued and shows that it left the queue here, with the answers of the step. "
    "How the client worded it for the model is not recorded."
)
LEFT_MEANING = "The model saw this at the time. After the rewind it is not part of its context, nor counted."
REMOVAL_MEANING = (
    "The microcompaction names calls of which nothing is recorded here. What the model had of them is not known."
)
DROP_MEANING = (
    "By the recorded usage the request of this step had so many tokens fewer than the one before it. No compaction, "
    "clear or rewind is recorded between the two."
)
GAP_MEANING = "If it was a message or a receipt, the model had it, and this page lacks it."


@dataclass(frozen=True, slots=True)
class EntryNote:
    """A badge of an item of the history of the run."""

    tone: str
    text: str
    title: str = ""


# How a message reached the model, where it was not sent as it is.
DELIVERY_NOTES: dict[str, EntryNote] = {
    Message.Delivery.QUEUED: EntryNote("", QUEUED, QUEUED_MEANING),
    Message.Delivery.REWORDED: EntryNote(
        "",
        "wording not recorded",
        "The recording has this text as the client added it to the messages. How it worded it is not recorded.",
    ),
    Message.Delivery.WITHHELD: EntryNote(
        "warn", "not sent to the model", "The client wrote this text for the person and kept it from the model."
    ),
    Message.Delivery.UNCLEAR: EntryNote(
        "warn",
        "perhaps not sent to the model",
        "The client wrote this text. Whether it sent the text to the model too is not recorded, so it is not counted.",
    ),
}


def describe_message(message: Message) -> Iterator[EntryNote]:
    """The badges of a message: whose text it is where it is no message, and how it reached the model."""
    if message.is_standing:
        yield EntryNote("", "in every request", f"Part of each request from here on, until another {message.kind}.")
    elif message.kind:
        means = f"The client added this text, in the role {message.role}. No person wrote it."
        yield EntryNote("", "added by the client", means)
    if note := DELIVERY_NOTES.get(message.delivery):
        yield note


class _Rewind(msgspec.Struct):
    """The payload of a rewind's event: the places that it left, and those that it returned to."""

    left: tuple[int, int]
    returned: tuple[int, int] | None = None


_read_rewind = msgspec.json.Decoder(_Rewind).decode


@dataclass(frozen=True, slots=True)
class RunMark:
    """`text` is what stands there, `note` what it is; `url` shows all of it, and `url_text` names the place."""

    line: int
    kind: str
    text: str
    note: str
    meaning: str
    url: str
    url_text: str


class Gap(NamedTuple):
    """Neighbouring lines of a file that could not be read, or a part of one; `problem` is the first problem's id."""

    line: int
    last: int
    problem: int
    loss: str
    is_incomplete: bool
    file: str
    source: int

    @property
    def sentence(self) -> str:
        if self.is_incomplete:
            return f"line {self.line} is not complete yet: see Problems"
        if self.loss == Problem.Loss.PART:
            return f"a part of line {self.line} could not be read: see Problems"
        lines = f"line {self.line}" if self.line == self.last else f"lines {self.line} to {self.last}"
        return f"{lines} could not be read: see Problems"

    @property
    def url(self) -> str:
        return f"{reverse('problem-list')}?{urlencode({'file': self.file})}"


def load_gaps(run: Run, lines: Q | None = None) -> list[Gap]:
    """The gaps in the recording of a run, in order.

    Whose line it was is not known where a file has several runs. It counts for each run that is not the child of
    another in that file, and for a child that has no other file where it lies between the child's lines.
    """
    problems = Problem.objects.filter(lines or Q(), source__runs=run).exclude(loss=Problem.Loss.NOTHING)
    columns = ("line", "line", "pk", "loss", "is_incomplete", "file", "source_id")
    gaps = sorted(Gap(*row) for row in problems.values_list(*columns))
    if not gaps:
        return []
    # A file with other content is another source, and the problems of the one before it are resolved.
    sources = Source.objects.filter(project=run.project_id, path__in={gap.file for gap in gaps}).order_by()
    newest = set(sources.values_list("path").annotate(newest=Max("pk")).values_list("newest", flat=True))
    shared = set(Source.objects.filter(runs=run).filter(runs=run.parent_id).values_list("pk", flat=True))
    first, last = _line_range(run, has_own_file=Source.objects.filter(runs=run).exclude(pk__in=shared).exists())
    return _join_neighbours(
        gap for gap in gaps if gap.source in newest and (gap.source not in shared or first < gap.line < last)
    )


def _line_range(run: Run, *, has_own_file: bool) -> tuple[int, int]:
    """The first and the last line of a run that another run's file reports; none for a run with its own file."""
    if has_own_file:
        return 0, 0
    edges = run.messages.aggregate(first=Min("line"), last=Max("line")).values()
    lines = [*edges, *run.members.aggregate(first=Min("ordinal"), last=Max("ordinal")).values()]
    numbers = [line for line in lines if line is not None]
    return min(numbers, default=0), max(numbers, default=0)


def _join_neighbours(gaps: Iterable[Gap]) -> list[Gap]:
    """Joins lines that follow each other, and the parts of one line."""
    joined: list[Gap] = []
    for gap in gaps:
        before = joined[-1] if joined else gap
        follows = before.last + 1 == gap.line and before.loss == gap.loss == Problem.Loss.LINE
        if joined and before.source == gap.source and (before.last == gap.line or follows) and not gap.is_incomplete:
            joined[-1] = before._replace(last=gap.line)
        else:
            joined.append(gap)
    return joined


class Branch(NamedTuple):
    """The places from `start` to the one before `end`, which a rewind at `line` left.

    They are no longer in the conversation.
    """

    start: int
    end: int
    at: datetime | None
    key: UUID
    line: int

    def describe(self, run: Run) -> str:
        left = format_places(self.start, self.end - 1, run.source_format)
        return f"rewound: {left} left the conversation at {format_place(self.line, run.source_format)}"

    def has(self, line: int) -> bool:
        return self.start <= line < self.end

    def url(self, run: Run) -> str:
        return f"{reverse('run-context', args=[run.pk])}?branch={self.start}"


def load_branches(run: Run) -> list[Branch]:
    """The branches that the conversation did not return to, in order; one may lie in another."""
    return _find_branches(_load_events(run, REWIND))


def load_branches_and_removals(run: Run, until: int | None = None) -> tuple[list[Branch], list[Removal]]:
    """Loads the branches that rewinds left and the removals, up to the line before `until`, by one query."""
    events = [event for event in _load_events(run, REWIND, MICROCOMPACTION) if until is None or event.line < until]
    removing = [event for event in events if event.kind == MICROCOMPACTION]
    return _find_branches(event for event in events if event.kind == REWIND), _find_removals(run, removing)


def _load_events(run: Run, *kinds: str) -> list[Event]:
    """Loads the events of these kinds in their order, with their payloads."""
    events = sorted(Event.objects.filter(run=run, kind__in=kinds), key=attrgetter("line", "pk"))
    load_slices(events)
    return events


def _find_branches(rewinds: Iterable[Event]) -> list[Branch]:
    branches: dict[tuple[int, int], Branch] = {}
    for event in rewinds:
        rewind = _read_rewind(event.data)
        branches.pop(rewind.returned or (0, 0), None)
        branches[rewind.left] = Branch(*rewind.left, event.at, event.pk, event.line)
    return sorted(branches.values())


def outermost(branches: Sequence[Branch]) -> list[Branch]:
    """Returns the branches that no other one contains. Of two that overlap in part both stay."""
    return [
        branch
        for branch in branches
        if not any(other.start <= branch.start and branch.end <= other.end and other != branch for other in branches)
    ]


class Removal(NamedTuple):
    """Receipts that a microcompaction removed and that the run does not have."""

    line: int
    receipts: int
    at: datetime | None
    key: UUID

    @property
    def sentence(self) -> str:
        receipts = "a receipt" if self.receipts == 1 else f"{self.receipts:,} receipts"
        return f"{receipts} cleared from the context that this recording does not contain"


def _find_removals(run: Run, events: Iterable[Event]) -> list[Removal]:
    """Two queries; none without events."""
    ids_by_event = {
        event: {column_text(call, 300) for call in parse_microcompaction(event.data).calls} for event in events
    }
    named = set().union(*ids_by_event.values())
    members = run.members.filter(call__external_id__in=named) if named else run.members.none()
    known = set(members.values_list("call__external_id", flat=True)) if named else set()
    removals = [Removal(event.line, len(ids - known), event.at, event.pk) for event, ids in ids_by_event.items()]
    return sorted(removal for removal in removals if removal.receipts)


# SQL, because most pages of calls have none of these rows, and Django takes ten times as long to compile the queries
# that load them as the database to tell that.
MARKED = """
SELECT 'event' WHERE EXISTS (
  SELECT 1 FROM dashboard_event WHERE run_id = %(run)s AND kind IN (%(rewind)s, %(microcompaction)s))
UNION ALL SELECT 'message' WHERE EXISTS (
  SELECT 1 FROM dashboard_message
  WHERE run_id = %(run)s AND delivery = %(queued)s AND line >= %(start)s AND line < %(end)s)
UNION ALL SELECT 'problem' WHERE EXISTS (
  SELECT 1 FROM dashboard_problem JOIN dashboard_source_runs USING (source_id)
  WHERE run_id = %(run)s AND loss <> %(nothing)s AND line >= %(start)s AND line < %(end)s)
"""


def _find_marked(run: Run, start: int, end: int) -> set[str]:
    """Which tables have rows for the marks of these lines; events are those of the whole run."""
    parameters = {
        "run": CompactUUIDField().get_db_prep_value(run.pk, connection),
        "rewind": REWIND,
        "microcompaction": MICROCOMPACTION,
        "queued": Message.Delivery.QUEUED.value,
        "nothing": Problem.Loss.NOTHING.value,
        "start": start,
        "end": end,
    }
    with connection.cursor() as cursor:
        cursor.execute(MARKED, parameters)
        return {table for (table,) in cursor.fetchall()}


def load_run_marks(run: Run, start: int, end: int | None) -> tuple[list[Branch], list[RunMark]]:
    """The branches of the run, and in order the marks from the line `start` to the line before `end`, or all behind it.

    Three queries less where there are none.
    """
    end = LARGEST if end is None else end
    lines = Q(line__gte=start, line__lt=end)
    marked = _find_marked(run, start, end)
    branches, removals = load_branches_and_removals(run) if "event" in marked else ([], [])
    marks = [*_load_messages(run, lines)] if "message" in marked else []
    for branch in branches:
        if start <= branch.start < end:
            place, url = format_place(branch.start, run.source_format), branch.url(run)
            marks.append(RunMark(branch.start, "branch", "", branch.describe(run), LEFT_MEANING, url, place))
    for removal in removals:
        if start <= removal.line < end:
            place, url = format_place(removal.line, run.source_format), model_url(run, removal.line)
            marks.append(RunMark(removal.line, "removal", "", removal.sentence, REMOVAL_MEANING, url, place))
    for drop in load_drops(run):
        if start <= drop.line < end:
            place, url = format_place(drop.line, run.source_format), model_url(run, drop.line - 1)
            marks.append(RunMark(drop.line, "drop", "", drop.sentence, DROP_MEANING, url, place))
    gaps = load_gaps(run, lines) if "problem" in marked else []
    marks += [RunMark(gap.line, "gap", "", gap.sentence, GAP_MEANING, gap.url, "Problems") for gap in gaps]
    marks.sort(key=lambda mark: mark.line)
    if len(marks) <= MAX_MARKS:
        return branches, marks
    note, url = "more of them are in the history of the run", model_url(run, 0)
    more = RunMark(marks[MAX_MARKS].line, "more", "", note, "", url, "History")
    return branches, [*marks[:MAX_MARKS], more]


def _load_messages(run: Run, lines: Q) -> Iterator[RunMark]:
    queued = run.messages.filter(lines, delivery=Message.Delivery.QUEUED).order_by("line", "id")
    messages = list(queued[: MAX_MARKS + 1])
    load_slices(messages)
    for message in messages:
        text = summarize(" ".join(text for _, text in labelled_parts(message.data)))
        place, url = format_place(message.line, run.source_format), model_url(run, message.line)
        note = f"{message.role}, {QUEUED}"
        yield RunMark(message.line, "message", printable(text), note, QUEUED_MEANING, url, place)


def model_url(run: Run, line: int) -> str:
    """The history of the run from this line on."""
    return f"{reverse('run-context', args=[run.pk])}?after={line}-0-{'0' * 32}"
