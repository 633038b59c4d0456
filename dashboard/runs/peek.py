"""The panel beside the list of runs: one run's facts, and the few of its calls that one would open first.

It is asked for by `peek=<run id>` in the address of the list, whose filter, sort and page stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from dashboard.evidence.argument_labels import argument_labels, unless_repeated
from dashboard.models import Project, Run
from dashboard.models.runs import FAILED, UNANSWERED
from dashboard.prepared import Row, given, prepared
from dashboard.runs.outcome_strip import OutcomeStrip, outcome_strip
from dashboard.runs.run_row import Listed
from dashboard.runs.waterfall import RUN, Ordered, in_order
from dashboard.text.escaping import printable

SHOWN = 4  # calls of each list


class PeekedCall(NamedTuple):
    url: str
    tool: str
    asked: str
    said: str  # the summary, or the kind of error; may be empty
    tokens: int


@dataclass(frozen=True)
class Peek:
    """`run` is None when the address names none of the project's runs."""

    close_href: str
    run: Listed | None = None
    failed: Sequence[PeekedCall] = ()
    biggest: Sequence[PeekedCall] = ()

    @property
    def title(self) -> str:
        return printable(self.run.title or self.run.external_id) if self.run else ""

    @property
    def url(self) -> str:
        return f"/runs/{self.run.pk}/" if self.run else ""

    @property
    def strip(self) -> OutcomeStrip | None:
        return outcome_strip(self.run) if self.run else None

    @property
    def last(self) -> datetime | None:
        return (self.run.ended_at or self.run.last_at) if self.run else None


def peek_at(project: Project, asked: str, close_href: str) -> Peek | None:
    """Four queries, however many calls the run has; one for a run that is not here, none when none is asked for."""
    if not asked:
        return None
    try:
        found = _run(project=project.pk, run=UUID(asked))
    except ValueError:
        found = []
    if not found:
        return Peek(close_href)
    run = Listed._make(found[0])
    failed, biggest = _failed(run=run.pk), _biggest(run=run.pk)
    requests = argument_labels([row[0] for row in (*failed, *biggest)])
    return Peek(close_href, run, _told(run, failed, requests), _told(run, biggest, requests))


@prepared
def _run() -> QuerySet[Any, Any]:
    found = Run.objects.filter(project=given("project", Run, "project"), pk=given("run", Run, "id"))
    return found.values_list(*Listed._fields)


@prepared
def _failed() -> Ordered:
    return _columns(in_order(RUN).filter(FAILED & ~UNANSWERED))


@prepared
def _biggest() -> Ordered:
    return _columns(in_order(RUN).filter(tokens__gt=0).order_by("-tokens", "ordinal", "id"))


def _columns(calls: Ordered) -> Ordered:
    return calls.values_list("id", "tool", "error_kind", "summary", "tokens")[:SHOWN]


def _told(run: Listed, rows: Sequence[Row], asked: Mapping[UUID, str]) -> list[PeekedCall]:
    found = []
    for key, tool, error_kind, summary, tokens in rows:
        said = printable(summary or error_kind)
        request = unless_repeated(asked.get(key, ""), said)
        found.append(PeekedCall(f"/calls/{key}/?run={run.pk}", printable(tool), request, said, tokens))
    return found
