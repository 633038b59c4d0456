"""The gauge of the Model view: what a request weighed, as recorded, beside what the history above it weighs.

A recording has no system prompt and no definitions of tools, and its tokens are counted here by another tokenizer: the
history makes about half of a request. The rest is shown as not recorded. A history that weighs more than its request
is contradicted: some of it was no longer there.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.core.cache import cache

from dashboard.evidence.context_changes import ContextDrop, drop_concerning, load_requests
from dashboard.evidence.fidelity import receipt_fidelity
from dashboard.models import RecordedReceipt, Run
from dashboard.runs.run_marks import Branch, model_url
from dashboard.runs.timeline import Compaction, HistoryCursor, HistoryItem, Timeline
from envelopes.pipeline.context_usage import ModelRequest, Presence, grade_presence

FULL_TOKENS = 200_000  # a full gauge
BOTTOM_RANK = 0  # of the first item of a line
CACHE_SECONDS = 3_600  # of a run's end, which a change of the run makes another


@dataclass(frozen=True, slots=True)
class ContextWeight:
    """The context up to and with an item: `shown` are the tokens of the history above it that nothing removed.

    `unrecorded` is what the last request weighed more than the history above it, negative when it weighed less; None
    where no request is recorded since the last compaction. `request` is the one that begins with this item.
    """

    shown: int
    unrecorded: int | None = None
    request: ModelRequest | None = None
    shown_above: int = 0

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
            return (
                f"{recorded} What is shown above as present weighs about {self.shown_above:,}, more than that: "
                "some of it was no longer there, or is counted too high here."
            )
        return (
            f"{recorded} About {self.shown_above:,} of them are shown above; the rest, about {self.unrecorded:,}, is "
            "not recorded: system prompt, tool definitions and the like."
        )

    @property
    def is_contradicted(self) -> bool:
        return self.request is not None and (self.unrecorded or 0) < 0


def _percent(tokens: int) -> float:
    return round(min(100.0, 100 * tokens / FULL_TOKENS), 1)


class ContextGauge:
    """Weighs the items of a page in their order. Two queries beyond the requests, whatever the length of the run."""

    def __init__(self, run: Run, timeline: Timeline, start: HistoryCursor | None) -> None:
        self._timeline = timeline
        self._requests = [request for request in load_requests(run) if timeline.has(request.line)]
        self._next = 0
        self._unrecorded: int | None = None
        self._drops = timeline.drops
        if start is not None:
            self._pass_before(start)

    def _pass_before(self, start: HistoryCursor) -> None:
        passed = [request for request in self._requests if (request.line, BOTTOM_RANK) < (start.line, start.rank)]
        self._next = len(passed)
        if passed and self._since(start.line) < passed[-1].line:
            self._unrecorded = passed[-1].tokens - self._shown_at(passed[-1].line)

    def _since(self, line: int) -> int:
        return max((event.line for event in self._timeline.compactions if event.line < line), default=-1)

    def _shown_at(self, line: int) -> int:
        return self._timeline.counts(HistoryCursor(line, BOTTOM_RANK), since=self._since(line)).tokens

    def weigh(self, item: HistoryItem, before: int, shown: int) -> ContextWeight:
        """`before` and `shown` are the tokens of the history without the item and with it."""
        request = None
        if item.kind in ("message", "call", "receipt"):
            while self._next < len(self._requests) and self._requests[self._next].line <= item.cursor.line:
                request = self._requests[self._next]
                self._unrecorded = request.tokens - before
                self._next += 1
        if item.kind == "compaction":
            self._unrecorded = None
        return ContextWeight(shown, self._unrecorded, request, before)

    def presence(self) -> PresenceAtEnd:
        """Grades what is still in the context at the end of the run, which its last request shows."""
        last = self._requests[-1] if self._requests else None
        shown = self._shown_at(last.line) if last else 0
        return PresenceAtEnd(tuple(self._drops), self._since(last.line) if last else -1, shown, last)


@dataclass(frozen=True)
class PresenceAtEnd:
    """`since` is the line of the last compaction before the last request, -1 without one."""

    drops: tuple[ContextDrop, ...]
    since: int
    shown: int
    last: ModelRequest | None

    def grade(self, line: int, superseded_line: int | None) -> Presence:
        """Grades what came in at this line and was removed at the other, None when nothing recorded removed it."""
        is_over = self.last is not None and line > self.last.line  # it came in with no recorded request behind it
        return grade_presence(
            is_superseded=superseded_line is not None or line <= self.since,
            is_before_drop=drop_concerning(self.drops, line) is not None,
            has_drop=any(drop.line > self.since for drop in self.drops),
            shown=self.shown,
            recorded=self.last.tokens if self.last and not is_over else 0,
        )

    def badge(self, line: int, superseded_line: int | None, *, is_receipt: bool = True) -> tuple[str, str, str] | None:
        """Tone, text and meaning of what speaks against that it is still there; None where nothing does.

        That all of the history weighs too much is said of receipts alone, which clients remove by themselves: on each
        message it would claim more of that message than is known.
        """
        drop = drop_concerning(self.drops, line, superseded_line)
        left = f"{drop.sentence.replace('this step', f'the step at line {drop.line}')}." if drop else ""
        if self.last and is_receipt and self.grade(line, superseded_line) == "contradicted":
            weighs = f"At the end of the run what is shown as present weighs about {self.shown:,} tokens"
            sentence = f"{left} {weighs}, more than the {self.last.tokens:,} of the last request.".strip()
            return "warn", "contradicted by the recorded usage", sentence
        return ("warn", f"uncertain from line {drop.line} on", f"{left} This may be among them.") if drop else None


@dataclass(frozen=True)
class ContextEnd:
    """The end of a run: what was in the context then, and what had taken the rest out of it."""

    presence: PresenceAtEnd
    compactions: tuple[Compaction, ...]
    left: tuple[Branch, ...]

    @classmethod
    def load(cls, run: Run) -> ContextEnd:
        """Reads the lines of the whole run once for each of its revisions."""
        key = f"context-end:{run.pk.hex}:{run.revision}"
        stored = cache.get(key)
        if isinstance(stored, cls):
            return stored
        timeline = Timeline(run)
        presence = ContextGauge(run, timeline, None).presence()
        loaded = cls(presence, tuple(timeline.compactions), tuple(timeline.left))
        cache.set(key, loaded, CACHE_SECONDS)
        return loaded

    def removal(self, line: int) -> str:
        """Names what is recorded to have removed all that came in at this line; empty when nothing is."""
        for branch in self.left:
            if branch.has(line):
                return f"Left by a rewind at line {branch.end:,}."
        for compaction in self.compactions:
            if compaction.line >= line and not compaction.is_partial:
                is_new = compaction.is_new_conversation
                return (
                    f"Not in the conversation that began behind line {compaction.line:,}."
                    if is_new
                    else (f"Compacted away at line {compaction.line:,}.")
                )
        return ""


@dataclass(frozen=True)
class ReceiptPresence:
    """When a receipt was first in the context, by its fidelity, and whether it is still there at the end.

    `text` is a badge of the grade, `means` a sentence about it, `url` the receipt in the Model view.
    """

    line: int
    first: str
    grade: Presence
    tone: str
    text: str
    means: str
    url: str


def load_presence(run: Run, receipt: RecordedReceipt) -> ReceiptPresence:
    end = ContextEnd.load(run)
    grade, tone, text, means = _grade(end, receipt)
    first = receipt_fidelity(receipt.fidelity).badge
    return ReceiptPresence(receipt.line, first, grade, tone, text, means, model_url(run, receipt.line))


def _grade(end: ContextEnd, receipt: RecordedReceipt) -> tuple[Presence, str, str, str]:
    """The grade with its tone, its badge and its sentence."""
    line, presence, cleared = receipt.line, end.presence, receipt.superseded_line
    if removal := _cleared(receipt) or end.removal(line):
        until = "The model had it until then."
        if drop := drop_concerning(presence.drops, line, cleared):
            until = f"Before that, at line {drop.line:,}, {drop.tokens:,} tokens left it unexplained: perhaps this too."
        return "superseded", "warn", "no longer there", f"{removal} {until}"
    if badge := presence.badge(line, None):
        return presence.grade(line, None), *badge
    partial = next((compaction for compaction in end.compactions if compaction.line >= line), None)
    if partial is not None:
        means = f"The history was compacted at line {partial.line:,}, but for a part; this may be in it."
        return "uncertain", "warn", "perhaps compacted away", means
    check = (
        "the usage of its last request does not contradict it" if presence.last else "no usage is recorded to check it"
    )
    return "recorded", "", "still there", f"Nothing that is recorded removed it; {check}."


def _cleared(receipt: RecordedReceipt) -> str:
    if receipt.superseded_line is None:
        return ""
    at = f", {receipt.superseded_at:%Y-%m-%d %H:%M:%S} UTC" if receipt.superseded_at else ""
    reason = receipt.superseded_reason or "replaced"
    return f"Cleared from the context at line {receipt.superseded_line:,}{at} ({reason})."
