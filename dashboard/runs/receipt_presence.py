"""Grades whether what came into the context is still there, at a step of the run or at its end.

Recorded: nothing that is recorded removed it. Superseded: a recorded clear, compaction, rewind or new conversation did.
Uncertain: tokens left the context unexplained. Contradicted: what is shown as present weighs more, by our estimate,
than the recorded request. A step is a request to the model; it is addressed by a line of the answer (`?step=`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from django.core.cache import cache
from django.db.models import Min

from dashboard.evidence.context_changes import ContextDrop, drop_concerning
from dashboard.evidence.fidelity import receipt_fidelity
from dashboard.models import Message, RecordedReceipt, Run, RunCall
from dashboard.runs.compactions import Compaction, is_kept
from dashboard.runs.context_gauge import ContextGauge, ContextWeight
from dashboard.runs.history_sizes import AddedText
from dashboard.runs.run_marks import Branch, EntryNote, model_url
from dashboard.runs.timeline import HistoryItem, Timeline
from dashboard.text.formatting import format_place
from envelopes.alignment.saved_outputs import OutputPreview
from envelopes.pipeline.context_usage import ModelRequest, Presence, grade_presence

CACHE_SECONDS = 3_600  # of a run's end, which a change of the run makes another
COMPACTED_AWAY = "compacted away later"
NOT_IN_NEW = "not in the new conversation"
PARTLY_COMPACTED = "compacted later, perhaps kept"
GRADE_WORDS: dict[Presence, str] = {
    "recorded": "still there",
    "superseded": "no longer there",
    "uncertain": "uncertain",
    "contradicted": "contradicted by the recorded usage",
}


class PlacedReceipt(Protocol):
    """A receipt's place: a stored one, or a mark of the timeline."""

    @property
    def line(self) -> int: ...
    @property
    def superseded_line(self) -> int | None: ...
    @property
    def superseded_at(self) -> datetime | None: ...
    @property
    def superseded_reason(self) -> str: ...


@dataclass(frozen=True)
class ContextState:
    """The context of one request, that of the step at line `step`, or of the end of the run where that is None.

    `since` is the line of the last compaction before the last request, -1 without one; `shown` are the tokens that are
    shown as present in `last`, the last request of which the usage is recorded, without what stands in every request.
    `requests` are the lines of all of these requests, in order; `has_history` is false for a recording that has nothing
    of a context: neither messages nor requests.
    """

    source_format: str
    drops: tuple[ContextDrop, ...]
    since: int
    shown: int
    last: ModelRequest | None
    compactions: tuple[Compaction, ...]
    left: tuple[Branch, ...]
    step: int | None = None
    added: tuple[AddedText, ...] = ()
    requests: tuple[int, ...] = ()
    has_history: bool = True

    @classmethod
    def build(cls, timeline: Timeline, gauge: ContextGauge, step: int | None = None) -> ContextState:
        """`timeline` and `gauge` end at the step."""
        last = gauge.requests[-1] if gauge.requests else None
        since = timeline.last_compaction(last.line) if last else -1
        shown = timeline.tokens_before(last.line) - sum(timeline.standing(last.line).values()) if last else 0
        compactions, left = tuple(timeline.compactions), tuple(timeline.left)
        return cls(
            source_format=timeline.run.source_format,
            drops=tuple(timeline.drops),
            since=since,
            shown=shown,
            last=last,
            compactions=compactions,
            left=left,
            step=step,
            requests=gauge.recorded_lines,
        )

    @classmethod
    def load_end(cls, run: Run) -> ContextState:
        """Reads the lines of the whole run once for each of its revisions."""
        key = f"context-state:{run.pk.hex}:{run.revision}"
        stored = cache.get(key)
        if isinstance(stored, cls):
            return stored
        timeline = Timeline(run)
        state = cls.build(timeline, ContextGauge(run, timeline, None))
        has_history = bool(state.requests) or run.messages.exists()
        state = replace(state, added=tuple(timeline.added()), has_history=has_history)
        cache.set(key, state, CACHE_SECONDS)
        return state

    def _place(self, line: int) -> str:
        return format_place(line, self.source_format)

    def _usage_grade(self, line: int, superseded_line: int | None) -> Presence:
        is_over = self.last is not None and line > self.last.line  # it came in with no recorded request behind it
        return grade_presence(
            is_superseded=superseded_line is not None or not is_kept(self.compactions, line, self.since),
            is_before_drop=drop_concerning(self.drops, line) is not None,
            has_drop=any(drop.line > self.since for drop in self.drops),
            shown=self.shown,
            recorded=self.last.tokens if self.last and not is_over else 0,
        )

    def usage_note(self, line: int, superseded_line: int | None, *, is_receipt: bool = True) -> EntryNote | None:
        """States what the recorded usage says against that it is still there; None where it says nothing.

        Only receipts are marked as contradicted: clients remove receipts without a record. For a message the mark would
        claim more than is known.
        """
        drop = drop_concerning(self.drops, line, superseded_line)
        left = drop.sentence.replace("this step", f"the step at {self._place(drop.line)}") + "." if drop else ""
        if self.last and is_receipt and self._usage_grade(line, superseded_line) == "contradicted":
            when, request = "At this step", "its request as recorded"
            if self.step is None:
                when, request = "At the end of the run", "the last request"
            elif self.step != self.last.line:
                when, request = "At the last request before this step", "that request as recorded"
            weighs = f"{when} what is shown as present weighs about {self.shown:,} tokens by our estimate"
            sentence = f"{left} {weighs}, more than the {self.last.tokens:,} of {request}.".strip()
            return EntryNote("warn", GRADE_WORDS["contradicted"], sentence)
        if drop is None:
            return None
        return EntryNote("warn", f"uncertain from {self._place(drop.line)} on", f"{left} This may be among them.")

    def _describe_clear(self, receipt: PlacedReceipt) -> str:
        at = f", {receipt.superseded_at:%Y-%m-%d %H:%M:%S} UTC" if receipt.superseded_at else ""
        reason = receipt.superseded_reason or "replaced"
        removed = receipt.superseded_line or 0
        until = self._until(receipt.line, removed, superseded_line=removed)
        return f"Cleared from the context at {self._place(removed)}{at} ({reason}). {until}"

    def _describe_removal(self, line: int) -> str:
        """Names what is recorded to have removed all that came in at this line; empty when nothing is."""
        for branch in self.left:
            if branch.has(line):
                return f"Left by a rewind at {self._place(branch.line)}. {self._until(line, branch.end - 1)}"
        for compaction in self.compactions:
            if compaction.line >= line and not (compaction.is_partial or compaction.keeps(line)):
                place = self._place(compaction.line)
                if compaction.is_new_conversation:
                    until = self._until(line, compaction.line)
                    return f"Not in the conversation that began behind {place}. {until}"
                return f"Compacted away at {place}. {self._until(line)}"  # the request for the summary had it
        return ""

    def _until(self, line: int, removed: int | None = None, *, superseded_line: int | None = None) -> str:
        """States whether what came in at `line` was in the context until it was `removed`.

        `removed` is None where a request had it even if none is recorded.
        """
        if drop := drop_concerning(self.drops, line, superseded_line):
            left = f"{drop.tokens:,} tokens left it unexplained"
            return f"Before that, at {self._place(drop.line)}, {left}: perhaps this too."
        following = self.requests[bisect_right(self.requests, line) :][:1]
        if removed is None or not self.requests or any(request <= removed for request in following):
            return "Until then it was in the context."
        return "Until then it was in the context, but no request of that time is recorded."

    def grade(self, receipt: PlacedReceipt) -> tuple[Presence, EntryNote]:
        """The grade of a receipt, with its badge and its sentence."""
        line, cleared = receipt.line, receipt.superseded_line
        if cleared is not None and self.step is not None and cleared >= self.step:
            cleared = None  # that came after this step
        if removal := self._describe_clear(receipt) if cleared is not None else self._describe_removal(line):
            return "superseded", EntryNote("warn", GRADE_WORDS["superseded"], removal)
        if note := self.usage_note(line, None):
            return self._usage_grade(line, None), note
        later = [compaction for compaction in self.compactions if compaction.line >= line]
        if partial := next((compaction for compaction in later if compaction.is_partial), None):
            means = f"The history was compacted at {self._place(partial.line)}, but for a part; this may be in it."
            return "uncertain", EntryNote("warn", "perhaps compacted away", means)
        request = "request" if self.last and self.step == self.last.line else "last request"
        check = "no usage is recorded to check it"
        if self.last:
            is_later = line > self.last.line
            check = "no later request is recorded" if is_later else f"the usage of its {request} does not contradict it"
        kept = f"The compaction at {self._place(later[-1].line)} kept it" if later else ""
        means = f"{kept or 'Nothing that is recorded removed it'}; {check}."
        return "recorded", EntryNote("", GRADE_WORDS["recorded"], means)

    def count_grades(self, receipts: Iterable[PlacedReceipt]) -> Counter[Presence]:
        """Grades the first receipt between two changes of the context: all others there have the same grade."""
        changes = {self.since, *(compaction.line for compaction in self.compactions)}
        changes.update(*(compaction.kept for compaction in self.compactions))
        changes |= {line for branch in self.left for line in (branch.start, branch.end)}
        changes |= {line for drop in self.drops for line in (drop.after, drop.before)}
        changes |= {self.last.line} if self.last else set()
        edges = sorted(changes)
        grades: Counter[Presence] = Counter()
        known: dict[tuple[int, int], Presence] = {}
        for receipt in receipts:
            if receipt.superseded_line is not None:
                grades[self.grade(receipt)[0]] += 1
                continue
            place = bisect_left(edges, receipt.line), bisect_right(edges, receipt.line)
            if place not in known:
                known[place] = self.grade(receipt)[0]
            grades[known[place]] += 1
        return grades

    def notes(self, item: HistoryItem) -> Iterator[EntryNote]:
        """Yields the grade of a receipt at a step; otherwise what speaks against that the item is still there."""
        receipt = item.row if isinstance(item.row, RecordedReceipt) else None
        if item.standing_kind:
            return
        if receipt is not None and self.step is not None:
            yield self.grade(receipt)[1]
        elif isinstance(item.row, Message | RunCall | RecordedReceipt):
            superseded = receipt.superseded_line if receipt else None
            if note := self.usage_note(item.cursor.line, superseded, is_receipt=receipt is not None):
                yield note


def describe_compaction(compaction: Compaction, source_format: str) -> EntryNote:
    """The badge of what came before a compaction."""
    when = f" ({compaction.at:%Y-%m-%d %H:%M:%S} UTC)" if compaction.at else ""
    unless = f", unless it is in a message that stayed ({compaction.message})" if compaction.is_partial else ""
    text = PARTLY_COMPACTED if compaction.is_partial else COMPACTED_AWAY
    place = format_place(compaction.line, source_format)
    if compaction.is_new_conversation:
        sentence = f"A conversation began anew behind {place}{when}; the model did not see this in it."
        return EntryNote("", NOT_IN_NEW, sentence)
    sentence = f"The history was compacted at {place}{when}; after that the model no longer saw this"
    return EntryNote("", text, f"{sentence}{unless}.")


@dataclass(frozen=True)
class ReceiptPresence:
    """When a receipt was first in the context, by its fidelity, and whether it is still there at the end.

    `note` is a badge of the grade with a sentence about it, `url` the receipt in the history of the run. `added` are
    the kinds of texts that the client added between the receipt and the model's next answer. `is_later`: it came into
    the context at an unknown time after its place, in place of a text that is not recorded.
    """

    place: str
    first: str
    grade: Presence
    note: EntryNote
    url: str
    added: tuple[str, ...] = ()
    is_later: bool = False


def load_presence(run: Run, receipt: RecordedReceipt, preview: OutputPreview | None) -> ReceiptPresence | None:
    """`preview` is set where the receipt is one of a saved output. None where nothing is known of a context.

    That is so between an MCP host and its server: what was answered there may have reached a model or not.
    """
    state = ContextState.load_end(run)
    if not state.has_history and receipt.fidelity == "reconstructed":
        return None
    grade, note = state.grade(receipt)
    first = "as the model saw it" if receipt.fidelity == "exact" else receipt_fidelity(receipt.fidelity).badge
    behind = dict.fromkeys(text.kind for text in state.added if text.answer < receipt.line < text.line)
    is_later = preview is not None and preview.is_later and receipt.seq == 1
    place, url = format_place(receipt.line, run.source_format), model_url(run, receipt.line)
    return ReceiptPresence(place, first, grade, note, url, tuple(behind), is_later)


@dataclass(frozen=True)
class ContextStep:
    """A step of the run: the line of its request, what that weighed, and how many receipts have each grade there.

    `weight` is empty where the usage of the request is not recorded.
    """

    line: int
    weight: str
    counts: tuple[tuple[str, int], ...]
    before: int | None
    after: int | None

    @classmethod
    def build(cls, run: Run, timeline: Timeline, state: ContextState) -> ContextStep:
        line = state.step or 0
        grades = state.count_grades(timeline.receipts)
        counts = tuple((words, grades[grade]) for grade, words in GRADE_WORDS.items() if grades[grade])
        last = state.last if state.last and state.last.line == line else None
        standing = timeline.standing()
        shown = state.shown + sum(standing.values())
        weight = ContextWeight(shown, last.tokens - shown if last else None, last, shown, standing)
        lines = [*run.requests.order_by("line").values_list("line", flat=True)]
        return cls(
            line,
            weight.sentence.replace("shown above", "shown below"),
            counts,
            max((other for other in lines if other < line), default=None),
            min((other for other in lines if other > line), default=None),
        )


def find_step(run: Run, line: int) -> int:
    """The line at which the request begins whose answer has this line; the line itself where it is of no answer."""
    members = run.members.exclude(call__step="")
    step = members.filter(ordinal=line).values_list("call__step", flat=True).first()
    step = step or run.messages.filter(line=line).values_list("step", flat=True).first()
    if not step:
        return line
    calls = members.filter(call__step=step)
    request = run.requests.filter(request=step, origin="message").values_list("line", flat=True).first()
    if request is not None:  # a tool may begin before the answer has ended; one with a receipt is of an earlier answer
        calls = calls.exclude(call__in=run.receipts.filter(line__lt=line).values("call"))
    else:
        request = run.messages.filter(step=step).aggregate(first=Min("line"))["first"]
    lines = [line, request, calls.aggregate(first=Min("ordinal"))["first"]]
    return min((first for first in lines if first is not None), default=line)
