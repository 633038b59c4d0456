"""Compares the recorded usage of a run's requests with what the recording states left the context.

`envelopes.pipeline.context_usage` compares them. Its inputs are read from the store here, its results put into words.
A request that only a parent's file reports counts where the agent has no file of its own: the lines of two files have
no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from django.db.models import Q, Sum

from dashboard.models import Event, Problem, RecordedReceipt, RequestUsage, Run, load_slices
from dashboard.models.evidence import INPUT_COLUMNS
from dashboard.text.formatting import has_lines
from envelopes.pipeline.context_usage import (
    ContextChange,
    ContextRemoval,
    ModelRequest,
    RemovalKind,
    compare_requests,
    find_drops,
)
from envelopes.recordings.base import (
    CLEARING,
    COMPACTION,
    LATER_TEXT,
    MICROCOMPACTION,
    NEW_CONVERSATION,
    PARTIAL_COMPACTION,
    REPLACEMENT,
    REWIND,
)

EVENT_KINDS: dict[str, RemovalKind] = {
    COMPACTION: "compaction",
    PARTIAL_COMPACTION: "compaction",
    NEW_CONVERSATION: "clear",
    MICROCOMPACTION: "clear",
    REWIND: "rewind",
}
WHOLE = (COMPACTION, NEW_CONVERSATION)  # nothing before it is in the context any more


class Microcompaction(msgspec.Struct, rename="camel"):
    """The statements in the line of a microcompaction: how many tokens it removed, and the ids of their calls."""

    tokens_saved: Any = None
    compacted_tool_ids: Any = None

    @property
    def tokens(self) -> int | None:
        is_number = isinstance(self.tokens_saved, int) and not isinstance(self.tokens_saved, bool)
        return self.tokens_saved if is_number else None

    @property
    def calls(self) -> set[str]:
        ids = self.compacted_tool_ids if isinstance(self.compacted_tool_ids, list) else ()
        return {call for call in ids if isinstance(call, str)}


class _MicrocompactLine(msgspec.Struct, rename="camel"):
    microcompact_metadata: Microcompaction | None = None


@dataclass(frozen=True, slots=True)
class ContextDrop:
    """Tokens that left the context before the request at `line`, and that nothing recorded explains.

    They are of what came in behind the line `after` and before the line `before`, that of the request before.
    `has_gap`: a line between the two requests could not be read, or any line where places are no lines.
    """

    line: int
    tokens: int
    after: int
    before: int
    removed: int = 0
    has_gap: bool = False

    @property
    def sentence(self) -> str:
        left = f"{self.tokens:,} tokens left the context before this step"
        if self.has_gap:
            return f"{left}; a line of the recording could not be read, and nothing else in it says why, nor what"
        if self.removed:
            return f"{left}; what is recorded accounts for {self.removed:,} of them, and nothing says what the rest was"
        return f"{left}; nothing in the recording says why, nor what"

    def concerns(self, line: int) -> bool:
        """True when what came in at this line may have left."""
        return self.after < line < self.before


def load_requests(run: Run) -> list[ModelRequest]:
    """In order, those of one file."""
    return [request for request, _ in _load_usage(run)]


def load_drops(run: Run) -> list[ContextDrop]:
    """The unexplained drops of a run, as they were derived, in order."""
    if not run.drop_count:
        return []
    rows = run.requests.filter(dropped_tokens__gt=0).order_by("line")
    columns = rows.values_list("line", "dropped_tokens", "dropped_after", "dropped_before", "removed_tokens")
    drops = [ContextDrop(*row) for row in columns]
    unread = Problem.objects.filter(source__runs=run).exclude(loss=Problem.Loss.NOTHING)
    lines = list(unread.values_list("line", flat=True))
    are_lines = has_lines(run.source_format)
    return [
        replace(drop, has_gap=any(not are_lines or drop.before < line < drop.line for line in lines)) for drop in drops
    ]


def load_changes(run: Run) -> list[ContextChange]:
    """Every request of a run beside the one before it. What is recorded between them is read where it matters."""
    usage = _load_usage(run)
    requests = [request for request, _ in usage]
    if not find_drops(requests):
        return compare_requests(requests, [])
    edits = [edit for _, edit in usage if edit is not None]
    return compare_requests(requests, [*_load_removals(run), *edits])


def store_drops(run: Run, drops: Sequence[ContextDrop]) -> None:
    """Stores the unexplained drops of a run with the requests that lack the tokens, instead of earlier ones."""
    rows = RequestUsage.objects.filter(run=run)
    rows.filter(dropped_tokens__gt=0).exclude(line__in=[drop.line for drop in drops]).update(dropped_tokens=0)
    for drop in drops:
        rows.filter(line=drop.line).update(
            dropped_tokens=drop.tokens,
            dropped_after=drop.after,
            dropped_before=drop.before,
            removed_tokens=drop.removed,
        )


def find_unexplained(run: Run) -> Iterator[ContextDrop]:
    """Derives the unexplained drops of a run from its requests, events and receipts."""
    changes = [change for change in load_changes(run) if change.unexplained]
    if not changes:
        return
    wholes = sorted(Event.objects.filter(run=run, kind__in=WHOLE).values_list("line", flat=True))
    for change in changes:
        line = change.request.line
        after = max((whole for whole in wholes if whole < line), default=0)
        before = change.before.line if change.before else 0
        yield ContextDrop(line, change.unexplained, after, before, change.removed or 0)


def _load_usage(run: Run) -> list[tuple[ModelRequest, ContextRemoval | None]]:
    columns = ("origin", "line", "edits", "cleared_tokens", *INPUT_COLUMNS)
    rows = list(RequestUsage.objects.filter(run=run).order_by("line").values_list(*columns))
    own = [row for row in rows if row[0] == "message"] or rows
    return [
        (ModelRequest(line, sum(tokens) - repeated), _edit(line, edits, cleared))
        for _, line, edits, cleared, *tokens, repeated in own
    ]


def _edit(line: int, edits: bytes | None, cleared: int | None) -> ContextRemoval | None:
    return None if edits is None else ContextRemoval(line, "edit", cleared)


def _load_removals(run: Run) -> Iterator[ContextRemoval]:
    events = list(Event.objects.filter(run=run, kind__in=EVENT_KINDS))
    load_slices(event for event in events if event.kind == MICROCOMPACTION)
    for event in events:
        tokens = parse_microcompaction(event.data).tokens if event.kind == MICROCOMPACTION else None
        yield ContextRemoval(event.line, EVENT_KINDS[event.kind], tokens)
    reasons = Q(superseded_reason__in=(REPLACEMENT, CLEARING)) | Q(superseded_reason__startswith=LATER_TEXT)
    ended = RecordedReceipt.objects.filter(reasons, run=run)
    replaced = ended.values("superseded_line")
    for line, tokens in replaced.annotate(sum=Sum("tokens")).values_list("superseded_line", "sum"):
        yield ContextRemoval(line or 0, "clear", tokens)


def parse_microcompaction(data: bytes) -> Microcompaction:
    """Reads the line; one that cannot be read states nothing."""
    try:
        metadata = msgspec.json.decode(data, type=_MicrocompactLine).microcompact_metadata
    except (msgspec.DecodeError, RecursionError):
        metadata = None
    return metadata or Microcompaction()


def drop_concerning(drops: Sequence[ContextDrop], line: int, until: int | None = None) -> ContextDrop | None:
    """The first drop that may have taken what came in at `line`, unless that was removed before, at `until`."""
    concerning: Iterable[ContextDrop] = (drop for drop in drops if drop.concerns(line))
    return next((drop for drop in concerning if until is None or drop.line < until), None)
