"""The tab "In context": what stood before the model when it made a call, newest first, and what changed since.

The context is that of the request which the call answers, as far as it is recorded. What came before the last
compaction is left out of the sums, and counted as earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from django.db.models import Max

from dashboard.runs.model_history import HistoryEntry, load_history
from dashboard.runs.receipt_presence import ContextStep
from dashboard.runs.timeline import ADDED, Timeline
from dashboard.text.formatting import format_place
from dashboard.workspace.steps import RunPosition
from envelopes.recordings.base import SYSTEM_PROMPT, TOOL_DEFINITIONS

KIND_WORDS = {
    "user": ("message of the user", "messages of the user"),
    "assistant": ("message of the model", "messages of the model"),
    "system": ("system message", "system messages"),
    "developer": ("message of the developer", "messages of the developer"),
    SYSTEM_PROMPT: ("system prompt", "system prompts"),
    TOOL_DEFINITIONS: ("set of tool definitions", "sets of tool definitions"),
    "arguments": ("call's arguments", "calls' arguments"),
    "receipts": ("receipt", "receipts"),
}
SHOWN = 20  # items; each costs the reader a screen, and a step should be open at once


@dataclass(frozen=True, kw_only=True)
class ContextKind:
    """Items of one kind that are still there; `share` is of the tokens that are shown as present, in percent."""

    label: str
    number: int
    tokens: int
    share: int


@dataclass(frozen=True, kw_only=True)
class ContextTab:
    """`since` is the line of the last compaction, -1 without one, `kept` the tokens of what that kept.

    `changes` are since the request before. `earlier` items are not listed: they are those in front of the cursor
    `first`. `is_page` is true where the newest are not listed either.
    """

    step: ContextStep
    since: int
    kept: int
    tokens: int
    kinds: tuple[ContextKind, ...]
    changes: tuple[str, ...]
    before_line: int | None
    entries: tuple[HistoryEntry, ...]
    earlier: int
    first: str
    is_page: bool


def load_context(place: RunPosition, before: str = "") -> ContextTab:
    """The items in front of the cursor `before`, or the newest; the sums are of all of them."""
    run = place.run
    history = load_history(run, step=place.line, before=before, most=SHOWN)
    timeline, step = history.timeline, cast(ContextStep, history.step)  # None only where receipts are replayed
    since = max((event.line for event in timeline.compactions), default=-1)
    request_before = step.before
    if request_before is None:
        request_before = run.members.filter(ordinal__lt=step.line).aggregate(last=Max("ordinal"))["last"]
    weights, added = timeline.weigh_kinds(since), timeline.weigh_kinds((request_before or 0) - 1)
    weights |= {kind: (1, weight) for kind, weight in timeline.standing().items()}
    tokens = sum(weight for _, weight in weights.values())
    return ContextTab(
        step=step,
        since=since,
        kept=timeline.kept_tokens(since),
        tokens=tokens,
        kinds=tuple(
            ContextKind(label=_label(kind, number), number=number, tokens=weight, share=_percent(weight, tokens))
            for kind, (number, weight) in sorted(weights.items(), key=lambda item: -item[1][1])
        ),
        changes=tuple(_changes(timeline, request_before, added)) if request_before is not None else (),
        before_line=request_before,
        entries=tuple(reversed(history.entries)),
        earlier=history.before,
        first=history.first,
        is_page=bool(before),
    )


def _label(kind: str, number: int) -> str:
    if kind.endswith(ADDED):
        return kind
    one, more = KIND_WORDS.get(kind, (f"message of {kind}", f"messages of {kind}"))
    return one if number == 1 else more


def _percent(part: int, whole: int) -> int:
    return round(100 * part / whole) if whole else 0


def _changes(timeline: Timeline, before: int, added: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Sentences about everything that came into the context since the request at line `before`, or left it."""
    for kind, (number, tokens) in added.items():
        yield f"+ {number:,} {_label(kind, number)}, about {tokens:,} token{'' if tokens == 1 else 's'}"
    cleared = [receipt for receipt in timeline.receipts if (receipt.superseded_line or -1) >= before]
    if cleared:
        tokens = sum(receipt.tokens for receipt in cleared)
        yield f"− {len(cleared):,} {_label('receipts', len(cleared))} cleared or replaced, about {tokens:,} tokens"
    for event in timeline.compactions:
        if event.line >= before:
            yield f"compacted at {format_place(event.line, timeline.run.source_format)}"
    for drop in timeline.drops:
        if drop.line > before:
            yield drop.sentence
