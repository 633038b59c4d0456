"""A run's counts, strip and facets, from its calls' metadata. Never reads a payload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dashboard.columns import column_text
from dashboard.models import Call, Run

STRIP_LETTERS = 120
SEVERITY = "owucex"  # within one bucket of a long run the worst shows
COLUMNS = (
    "tool",
    "family",
    "status",
    "source_error",
    "exit_status",
    "is_cut",
    "is_waiting",
    "is_disagreeing",
    "attempt",
    "origin",
    "tokens",
    "token_certainty",
    "receipt_characters",
)


@dataclass
class Tally:
    columns: dict[str, Any]
    facets: Counter[tuple[str, str]] = field(default_factory=Counter)


def tally(run: Run, rows: Sequence[tuple[bool, Call]]) -> Tally:
    """`rows` are (inherited, call with COLUMNS) in run order. An inherited call counts for its own run only."""
    own = [call for inherited, call in rows if not inherited and call.origin == "message"]
    everything = [call for _, call in rows]
    columns = {
        "call_count": len(everything),
        "own_call_count": len(own),
        "progress_call_count": sum(call.origin == "progress" for call in everything),
        "failed_count": sum(call.has_failed for call in everything),
        "cut_count": sum(call.is_cut for call in everything),
        "unanswered_count": sum(call.status == Call.Status.UNKNOWN for call in everything),
        "token_count": sum(call.tokens for call in everything),
        "token_certainty": _certainty(everything),
        "receipt_characters": sum(call.receipt_characters for call in everything),
        "strip": strip_of([letter_of(call) for call in everything]),
    }
    return Tally(columns, facets_of(run, everything))


def letter_of(call: Call) -> str:
    """o ok, e failed, c cut, x failed and cut, w waited on a person, u unanswered."""
    if call.status == Call.Status.UNKNOWN:
        return "u"
    if call.has_failed:
        return "x" if call.is_cut else "e"
    if call.is_cut:
        return "c"
    return "w" if call.is_waiting else "o"


def strip_of(letters: Sequence[str]) -> str:
    """One letter a call; a longer run is put into 120 buckets, each showing its worst."""
    if len(letters) <= STRIP_LETTERS:
        return "".join(letters)
    edges = [index * len(letters) // STRIP_LETTERS for index in range(STRIP_LETTERS + 1)]
    buckets = [letters[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return "".join(max(bucket, key=SEVERITY.index) for bucket in buckets)


def facets_of(run: Run, calls: Sequence[Call]) -> Counter[tuple[str, str]]:
    facets: Counter[tuple[str, str]] = Counter()
    for call in calls:
        facets["tool", column_text(call.tool, 200)] += 1
        facets["family", call.family] += 1
        for state in _states(call):
            facets["state", state] += 1
    for kind, value in (("agent", run.agent), ("source", run.source_format), ("model", run.model)):
        if value:
            facets[kind, value] = 1
    facets["state", "child" if run.parent_id else "top"] = 1
    return facets


def _states(call: Call) -> list[str]:
    found = {
        "failed": call.has_failed,
        "cut": call.is_cut,
        "unanswered": call.status == Call.Status.UNKNOWN,
        "retried": call.attempt > 1,
        "disagree": call.is_disagreeing,
    }
    return [state for state, holds in found.items() if holds]


def _certainty(calls: Sequence[Call]) -> str:
    return "exact" if calls and all(call.token_certainty == "exact" for call in calls) else "estimate"
