"""The gauge of the history of the run: what a request weighed, as recorded, beside what the history above it weighs.

Most recordings have no system prompt and no definitions of tools, and tokens are counted here by another tokenizer:
the history makes about half of a request. The rest is shown as not recorded. A history that weighs more than its
request is contradicted: some of it was no longer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dashboard.evidence.context_changes import load_requests
from dashboard.models import Run
from dashboard.runs.timeline import HistoryCursor, HistoryItem, Timeline
from envelopes.pipeline.context_usage import ModelRequest
from envelopes.recordings.base import STANDING_KINDS

FULL_TOKENS = 200_000  # a full gauge
BOTTOM_RANK = 0  # of the first item of a line


@dataclass(frozen=True, slots=True)
class ContextWeight:
    """The context up to and with an item: `shown` are the tokens of the history above it that nothing removed.

    `unrecorded` is what the last request weighed more than the history above it, negative when it weighed less; None
    where no request is recorded since the last compaction. `request` is the one that begins with this item. `standing`
    has the tokens of what stands in every request, by kind, which are part of `shown`.
    """

    shown: int
    unrecorded: int | None = None
    request: ModelRequest | None = None
    shown_above: int = 0
    standing: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        if self.request:
            return self.request.tokens
        return max(0, self.shown + (self.unrecorded or 0))

    @property
    def shown_percent(self) -> float:
        return _percent(min(self.shown, self.total))

    @property
    def total_percent(self) -> float:
        return _percent(self.total)

    @property
    def title(self) -> str:
        if self.unrecorded is None:
            return f"about {self.total:,} tokens of history up to here, an estimate"
        if self.request:
            return f"{self.total:,} tokens in the request of this step, as recorded"
        return f"about {self.total:,} tokens in the context: the recorded ones of the last request, and what came since"

    @property
    def sentence(self) -> str:
        """States what the request weighed, at its first item; empty elsewhere."""
        if self.request is None or self.unrecorded is None:
            return ""
        recorded = f"The request of this step weighed {self.request.tokens:,} tokens, as recorded."
        if self.unrecorded < 0:
            why = "some of it was no longer there, or is counted too high here"
            if not self.is_contradicted:
                why = f"not all of {' and '.join(self.standing)} was sent, or it is counted too high here"
            return (
                f"{recorded} What is shown before it as present weighs about {self.shown_above:,} by our estimate, "
                f"more than that: {why}."
            )
        missing = [kind for kind in STANDING_KINDS if kind not in self.standing]
        rest = ", or counted otherwise by the provider"
        if missing:
            rest = f": {', '.join(missing)} and the like, or what is shown is estimated too low"
        return (
            f"{recorded} About {self.shown_above:,} of them are shown before it; the rest, about {self.unrecorded:,}, "
            f"is not recorded{rest}."
        )

    @property
    def is_contradicted(self) -> bool:
        """The history weighs more even without what stands in every request, which a client may send in part."""
        if self.request is None or self.unrecorded is None:
            return False
        return self.unrecorded + sum(self.standing.values()) < 0


def _percent(tokens: int) -> float:
    return round(min(100.0, 100 * tokens / FULL_TOKENS), 1)


class ContextGauge:
    """Weighs the items of a page in their order. Two queries beyond the requests, whatever the length of the run."""

    def __init__(self, run: Run, timeline: Timeline, start: HistoryCursor | None) -> None:
        self._timeline = timeline
        recorded = load_requests(run)
        self.recorded_lines = tuple(request.line for request in recorded)  # also those of what a rewind left
        self.requests = [request for request in recorded if timeline.has(request.line, is_request=True)]
        self._next = 0
        self._unrecorded: int | None = None
        if start is not None:
            self._pass_before(start)

    def _pass_before(self, start: HistoryCursor) -> None:
        passed = [request for request in self.requests if (request.line, BOTTOM_RANK) < (start.line, start.rank)]
        self._next = len(passed)
        if passed and self._timeline.last_compaction(start.line) < passed[-1].line:
            self._unrecorded = passed[-1].tokens - self._timeline.tokens_before(passed[-1].line)

    def weigh(self, item: HistoryItem, before: int, shown: int, standing: Mapping[str, int]) -> ContextWeight:
        """`before` and `shown` are the tokens of the history without the item and with it, `standing` included."""
        request = None
        if item.kind in ("message", "call", "receipt"):
            while self._next < len(self.requests) and self.requests[self._next].line <= item.cursor.line:
                request = self.requests[self._next]
                self._unrecorded = request.tokens - before
                self._next += 1
        if item.kind == "compaction":
            self._unrecorded = None
        return ContextWeight(shown, self._unrecorded, request, before, dict(standing))
