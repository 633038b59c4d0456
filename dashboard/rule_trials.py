"""Tries a masking rule on what a project has recorded, before it is saved or switched.

The examples of a trial are masked by the rule itself and by all that the project has, so that a trial shows no secret.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from time import thread_time
from typing import TypeVar
from uuid import UUID

from django.db.models import QuerySet

from dashboard.artifacts.stores import open_stored
from dashboard.models import Artifact, Event, Message, Observation, Project, Run, load_slices
from dashboard.models.sources import SLICE_FIELDS, SourceSlice
from dashboard.project_rules import BUILT_IN_NAMES, load_rules
from dashboard.text.clean_text import MaskSpan
from dashboard.text.find_secrets import CONTEXT, NOT_SEARCHED, PIECE, RuleSet
from dashboard.text.masking_rules import MaskingRule
from dashboard.text.masks import Masks
from envelopes.storage.file_store import MissingArtifact
from envelopes.text.deadline import Deadline

EXAMPLES = 5
AROUND = 48  # characters on each side of an example
EXAMPLE_SECONDS = 0.1
LOADED_BYTES, LOADED_ROWS = 256 * 1024, 50  # of recorded texts at once


@dataclass(frozen=True)
class MaskExample:
    """A place with its surroundings, masked by every rule of the project and by the one that is tried."""

    run: Run
    title: str
    call: UUID | None
    where: str
    before: str
    mask: str
    after: str


@dataclass(frozen=True, kw_only=True)
class RuleTrial:
    """The places of a rule in recorded texts; `masked_already` of the places are masked by the project's rules today.

    Where the time was up, only the newest `searched` of `total` runs were read, the last of them in part. `unread`
    files of artifacts are missing or damaged.
    """

    rule: str
    places: int
    runs: int
    masked_already: int
    searched: int
    total: int
    is_whole: bool
    unread: int
    examples: tuple[MaskExample, ...]


@dataclass(frozen=True)
class _RecordedText:
    """A text, or a piece of a file: there only places that begin in [start, end) count, and a character is a byte."""

    call: UUID | None
    where: str
    text: str
    start: int = 0
    end: int = sys.maxsize
    is_bytes: bool = False

    def find(self, rules: RuleSet, until: float) -> list[MaskSpan]:
        spans = rules.find(self.text, until, is_bytes=self.is_bytes)
        return [span for span in spans if self.start <= span.start < self.end or span.rule == NOT_SEARCHED]


def try_rule(project: Project, rule: MaskingRule, deadline: Deadline) -> RuleTrial:
    """Searches the newest runs first, until the deadline: all recorded texts and the files of artifacts."""
    tried = RuleSet([rule]) if rule.name in BUILT_IN_NAMES else RuleSet([], [rule])
    current, unread = load_rules(project), list[Artifact]()
    total, searched, places, runs, already = project.runs.count(), 0, 0, 0, 0
    is_over = False
    examples: list[MaskExample] = []
    newest_first = project.runs.order_by("-sort_at", "-pk").only("project_id", "title", "external_id")
    for run in newest_first.iterator(chunk_size=200):
        in_run = 0
        for recorded in chain(_load_texts(run), _read_files(run, unread)):
            spans = recorded.find(tried, _until(deadline))
            is_over = bool(spans and spans[-1].rule == NOT_SEARCHED) or deadline.is_over
            spans = [span for span in spans if span.rule != NOT_SEARCHED]
            if spans and not in_run and len(examples) < EXAMPLES:
                examples.append(_draw_example(run, recorded, spans[0], [current, tried]))
            if spans:
                already += _count_covered(spans, recorded.find(current, _until(deadline)))
            in_run += len(spans)
            if is_over:
                break
        searched, places, runs = searched + 1, places + in_run, runs + bool(in_run)
        if is_over:
            break
    return RuleTrial(
        rule=rule.name,
        places=places,
        runs=runs,
        masked_already=already,
        searched=searched,
        total=total,
        is_whole=not is_over,
        unread=len(unread),
        examples=tuple(examples),
    )


def _until(deadline: Deadline) -> float:
    return thread_time() + deadline.remaining


def _load_texts(run: Run) -> Iterator[_RecordedText]:
    surfaces = (Observation.Surface.ARGS, Observation.Surface.RESULT, Observation.Surface.RECEIPT)
    observations = Observation.objects.filter(call__run=run, surface__in=surfaces).order_by("pk")
    for row in _load_rows(observations.only(*SLICE_FIELDS, "call_id", "surface")):
        yield _RecordedText(row.call_id, row.surface, row.data.decode("utf-8", "replace"))
    for message in _load_rows(Message.objects.filter(run=run).order_by("line").only(*SLICE_FIELDS, "role")):
        yield _RecordedText(None, f"{message.role} message", message.data.decode("utf-8", "replace"))
    for event in _load_rows(Event.objects.filter(run=run).order_by("line").only(*SLICE_FIELDS, "kind")):
        yield _RecordedText(None, f"event {event.kind}", event.data.decode("utf-8", "replace"))


def _read_files(run: Run, unread: list[Artifact]) -> Iterator[_RecordedText]:
    """Pieces of the files of its calls, each with what surrounds it."""
    for artifact in Artifact.objects.stored_files().filter(call__run=run).order_by("call", "ordinal", "pk"):
        where = f"artifact {artifact.path}"
        try:
            with open_stored(artifact.sha256) as content:
                for offset in range(0, artifact.size, PIECE):
                    begin = max(0, offset - CONTEXT)
                    content.seek(begin)
                    text = content.read(offset - begin + PIECE + CONTEXT).decode("latin-1")
                    start = offset - begin
                    yield _RecordedText(artifact.call_id, where, text, start, start + PIECE, is_bytes=True)
        except (MissingArtifact, OSError):
            unread.append(artifact)


Row = TypeVar("Row", bound=SourceSlice)


def _load_rows(rows: QuerySet[Row]) -> Iterator[Row]:
    """The rows with their bytes, of which few are loaded before the reader looks at the clock."""
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if sum(row.size for row in waiting) >= LOADED_BYTES or len(waiting) >= LOADED_ROWS:
            load_slices(waiting)
            yield from waiting
            waiting = []
    load_slices(waiting)
    yield from waiting


def _count_covered(spans: list[MaskSpan], masked: list[MaskSpan]) -> int:
    """How many of `spans` lie in one of `masked`; both are in order."""
    starts = [span.start for span in masked]
    count = 0
    for span in spans:
        index = bisect_right(starts, span.start) - 1
        count += index >= 0 and masked[index].end >= span.end and masked[index].rule != NOT_SEARCHED
    return count


def _draw_example(run: Run, recorded: _RecordedText, span: MaskSpan, rules: list[RuleSet]) -> MaskExample:
    """The place with its surroundings, of which nothing is shown that any of the rules masks."""
    begin = max(0, span.start - CONTEXT)
    text, title = recorded.text[begin : span.end + CONTEXT], run.title or run.external_id
    for rule_set in rules:
        masks = Masks(rule_set, EXAMPLE_SECONDS)
        text, title = masks.apply(text, masks.find(text, is_bytes=recorded.is_bytes)), masks.mask(title)
    start, end = span.start - begin, span.end - begin
    before, mask, after = text[max(0, start - AROUND) : start], text[start:end], text[end : end + AROUND]
    if recorded.is_bytes:
        before, mask, after = (part.encode("latin-1").decode("utf-8", "replace") for part in (before, mask, after))
        before, after = before.lstrip("\ufffd"), after.rstrip("\ufffd")  # a letter that the edge cuts
    return MaskExample(
        run=run,
        title=title,
        call=recorded.call,
        where=recorded.where,
        before=before,
        mask=mask if len(mask) <= AROUND else f"{mask[:AROUND]}…",
        after=after,
    )
