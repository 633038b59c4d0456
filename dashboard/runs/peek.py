"""The panel beside the list of runs: one run's facts, and the few of its calls that one would open first.

It is opened by `peek=<run id>` in the address of the list, whose filter, sort and page stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dashboard.evidence.argument_labels import argument_labels, unless_repeated
from dashboard.models import Call, Project, Run
from dashboard.models.runs import FAILED, UNANSWERED
from dashboard.runs.outcome_strip import OutcomeStrip, build_strip
from dashboard.text.escaping import printable

MAX_CALLS = 4  # in each list


@dataclass(frozen=True, slots=True)
class PeekedCall:
    """`summary` is the kind of error where there is no summary; either may be empty."""

    url: str
    tool: str
    label: str
    summary: str
    tokens: int


@dataclass(frozen=True)
class Peek:
    """`run` is None when the address names none of the project's runs."""

    close_url: str
    run: Run | None = None
    strip: OutcomeStrip | None = None
    failed: Sequence[PeekedCall] = ()
    biggest: Sequence[PeekedCall] = ()

    @property
    def title(self) -> str:
        return printable(str(self.run)) if self.run else ""

    @property
    def last_at(self) -> datetime | None:
        return (self.run.ended_at or self.run.last_at) if self.run else None


def load_peek(project: Project, run_id: UUID | None, close_url: str) -> Peek:
    """Four queries, however many calls the run has; at most one for a run that the project does not have."""
    run = project.runs.defer("plan").filter(pk=run_id).first() if run_id else None
    if run is None:
        return Peek(close_url)
    calls = Call.objects.in_run(run)
    failed = list(calls.filter(FAILED & ~UNANSWERED)[:MAX_CALLS])
    biggest = list(calls.filter(tokens__gt=0).order_by("-tokens", "memberships__ordinal", "id")[:MAX_CALLS])
    labels = argument_labels([call.pk for call in (*failed, *biggest)])
    return Peek(close_url, run, build_strip(run), _peeked(run, failed, labels), _peeked(run, biggest, labels))


def _peeked(run: Run, calls: Sequence[Call], labels: Mapping[UUID, str]) -> list[PeekedCall]:
    rows = []
    for call in calls:
        summary = printable(call.summary or call.error_kind)
        label = unless_repeated(labels.get(call.pk, ""), summary)
        url = f"{call.get_absolute_url()}?run={run.pk}"
        rows.append(PeekedCall(url, printable(call.tool), label, summary, call.tokens))
    return rows
