"""A run's counts, strip and facets, from its calls' metadata. Never reads a payload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dashboard.columns import column_text
from dashboard.models import Call, Run

STRIP_LETTERS = 120
SUMS = (
    "call_count",
    "own_call_count",
    "progress_call_count",
    "failed_count",
    "cut_count",
    "unanswered_count",
    "token_count",
    "receipt_characters",
)
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


def tally(run: Run, rows: Iterable[tuple[bool, Call]]) -> Tally:
    """`rows` are (inherited, call with COLUMNS) in run order, gone through once and not held: a run may have
    many. An inherited call counts for its own run only.
    """
    sums = Counter(dict.fromkeys(SUMS, 0))
    facets = _facets_of_run(run)
    letters: list[str] = []
    is_exact = True
    for inherited, call in rows:
        letters.append(letter_of(call))
        sums.update(_counts(call, inherited=inherited))
        facets.update(_facets(call))
        is_exact = is_exact and call.token_certainty == "exact"
    certainty = "exact" if letters and is_exact else "estimate"
    return Tally({**sums, "token_certainty": certainty, "strip": strip_of(letters)}, facets)


def _counts(call: Call, *, inherited: bool) -> dict[str, int]:
    return {
        "call_count": 1,
        "own_call_count": not inherited and call.origin == "message",
        "progress_call_count": call.origin == "progress",
        "failed_count": call.has_failed,
        "cut_count": call.is_cut,
        "unanswered_count": call.status == Call.Status.UNKNOWN,
        "token_count": call.tokens,
        "receipt_characters": call.receipt_characters,
    }


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


def _facets_of_run(run: Run) -> Counter[tuple[str, str]]:
    found = (("agent", run.agent), ("source", run.source_format), ("model", run.model))
    facets = Counter({(kind, value): 1 for kind, value in found if value})
    facets["state", "child" if run.parent_id else "top"] = 1
    return facets


def _facets(call: Call) -> list[tuple[str, str]]:
    states = [("state", state) for state in _states(call)]
    return [("tool", column_text(call.tool, 200)), ("family", call.family), *states]


def _states(call: Call) -> list[str]:
    found = {
        "failed": call.has_failed,
        "cut": call.is_cut,
        "unanswered": call.status == Call.Status.UNKNOWN,
        "retried": call.attempt > 1,
        "disagree": call.is_disagreeing,
    }
    return [state for state, holds in found.items() if holds]
