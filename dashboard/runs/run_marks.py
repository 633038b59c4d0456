"""The rows between the calls of the Run page: a run's history beside messages, calls and receipts that were sent.

Messages that were queued while a step ran are marks, because they explain why the agent changed its course.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from dashboard.models import Message, Run
from dashboard.text.payload_preview import labelled_parts
from dashboard.text.text_markup import printable
from envelopes.schema.result import summarize

MAX_MARKS = 100  # on a page of calls
QUEUED = "queued while a step ran"
QUEUED_MEANING = (
    "The recording has the text as it was queued and shows that it left the queue here, with the answers of the step. "
    "How the client worded it for the model is not recorded."
)


@dataclass(frozen=True, slots=True)
class RunMark:
    """`text` is what stands there, `note` what it is; `url` shows all of it."""

    line: int
    kind: str
    text: str
    note: str
    meaning: str
    url: str


def load_run_marks(run: Run, start: int, end: int | None) -> list[RunMark]:
    """The marks from the line `start` to the line before `end`, or all behind it, in order."""
    lines = Q(line__gte=start) if end is None else Q(line__gte=start, line__lt=end)
    marks = sorted(_load_messages(run, lines), key=lambda mark: mark.line)
    if len(marks) <= MAX_MARKS:
        return marks
    more = RunMark(marks[MAX_MARKS].line, "more", "", "more messages are in the Model view", "", _model_url(run, 0))
    return [*marks[:MAX_MARKS], more]


def _load_messages(run: Run, lines: Q) -> Iterator[RunMark]:
    for message in run.messages.filter(lines, delivery=Message.Delivery.QUEUED).order_by("line", "id")[: MAX_MARKS + 1]:
        text = summarize(" ".join(text for _, text in labelled_parts(bytes(message.data))))
        url = _model_url(run, message.line)
        yield RunMark(message.line, "message", printable(text), f"{message.role}, {QUEUED}", QUEUED_MEANING, url)


def _model_url(run: Run, line: int) -> str:
    """The Model view from this line on."""
    return f"{reverse('run-model', args=[run.pk])}?after={line}-0-{'0' * 32}"
