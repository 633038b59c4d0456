"""A run's counts, strip and facets, from its calls' metadata. Never reads a payload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from dashboard.models import Call, Run
from dashboard.text.column_values import column_text

STRIP_LETTERS = 120
SUMS = (
    "call_count",
    "own_call_count",
    "progress_call_count",
    "failed_count",
    "cut_count",
    "unanswered_count",
)
SEVERITY = "owucex"  # within one bucket of a long run the worst shows


class Kind(NamedTuple):
    """What calls are told apart by: a run of thousands has some dozens of kinds."""

    inherited: bool
    tool: str
    family: str
    status: str
    source_error: bool | None
    exit_status: int | None
    is_cut: bool
    is_waiting: bool
    is_disagreeing: bool
    attempt: int
    origin: str
    token_certainty: str

    @property
    def has_failed(self) -> bool:
        return self.status == Call.Status.ERROR or bool(self.source_error) or bool(self.exit_status)


COLUMNS = (*Kind._fields[1:], "tokens", "receipt_characters")
columns_of: Callable[[Call], tuple[Any, ...]] = attrgetter(*COLUMNS)


@dataclass
class Tally:
    columns: dict[str, Any]
    facets: Counter[tuple[str, str]] = field(default_factory=Counter)


def tally(run: Run, rows: Iterable[tuple[Any, ...]]) -> Tally:
    """`rows` are inherited and COLUMNS of each call in run order, gone through once and not held: a run may
    have many. An inherited call counts for its own run only.
    """
    amounts = {"token_count": 0, "receipt_characters": 0}
    letters: list[str] = []
    letter: dict[tuple[Any, ...], str] = {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for *found, tokens, characters in rows:
        key = tuple(found)
        counts[key] += 1
        letters.append(letter.get(key) or letter.setdefault(key, letter_of(Kind(*key))))
        amounts["token_count"] += tokens
        amounts["receipt_characters"] += characters
    kinds = [(Kind(*key), count) for key, count in counts.items()]
    is_exact = letters and all(kind.token_certainty == "exact" for kind, _ in kinds)
    return Tally(
        {**_sums(kinds), **amounts, "token_certainty": "exact" if is_exact else "estimate", "strip": strip_of(letters)},
        _facets(run, kinds),
    )


def _sums(kinds: Sequence[tuple[Kind, int]]) -> dict[str, int]:
    sums = Counter(dict.fromkeys(SUMS, 0))
    for kind, count in kinds:
        sums.update({name: count * holds for name, holds in _counts(kind).items()})
    return sums


def _counts(kind: Kind) -> dict[str, bool]:
    return {
        "call_count": True,
        "own_call_count": not kind.inherited and kind.origin == "message",
        "progress_call_count": kind.origin == "progress",
        "failed_count": kind.has_failed,
        "cut_count": kind.is_cut,
        "unanswered_count": kind.status == Call.Status.UNKNOWN,
    }


def letter_of(call: Kind | Call) -> str:
    """o ok, e failed, c cut, x failed and cut, w waited on a person, u unanswered."""
    if call.status == Call.Status.UNKNOWN:
        return "u"
    if call.has_failed:
        return "x" if call.is_cut else "e"
    if call.is_cut:
        return "c"
    return "w" if call.is_waiting else "o"


def do_halves_disagree(call: Kind | Call) -> bool:
    """Whether the model was told of a failure where there was none, or of none where there was one.

    A source that says nothing of it told nothing; a command that exits with 1 has failed in both halves.
    """
    if call.source_error is None or call.status == Call.Status.UNKNOWN:
        return False
    return call.source_error != (call.status == Call.Status.ERROR or bool(call.exit_status))


def strip_of(letters: Sequence[str]) -> str:
    """One letter a call; a longer run is put into 120 buckets, each showing its worst."""
    if len(letters) <= STRIP_LETTERS:
        return "".join(letters)
    edges = [index * len(letters) // STRIP_LETTERS for index in range(STRIP_LETTERS + 1)]
    buckets = [letters[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return "".join(max(bucket, key=SEVERITY.index) for bucket in buckets)


def _facets(run: Run, kinds: Sequence[tuple[Kind, int]]) -> Counter[tuple[str, str]]:
    found = (("agent", run.agent), ("source", run.source_format), ("model", run.model))
    facets = Counter({(kind, value): 1 for kind, value in found if value})
    facets["state", "child" if run.parent_id else "top"] = 1
    for call, count in kinds:
        told = [("tool", column_text(call.tool, 200)), ("family", call.family)]
        told += [("state", state) for state in _states(call)]
        facets.update(dict.fromkeys(told, count))
    return facets


def _states(call: Kind) -> list[str]:
    found = {
        "failed": call.has_failed,
        "cut": call.is_cut,
        "unanswered": call.status == Call.Status.UNKNOWN,
        "retried": call.attempt > 1,
        "halves": do_halves_disagree(call),
        "disagree": call.is_disagreeing,
    }
    return [state for state, holds in found.items() if holds]
