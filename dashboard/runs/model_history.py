"""The run as the model's history, a page of about 40 items; and one message of it by itself.

A page costs a fixed number of queries: for its items, for the number of items in front of them, for their payloads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString

from dashboard.evidence.context_changes import ContextDrop
from dashboard.evidence.fidelity import describe_seen_lines, receipt_fidelity
from dashboard.models import Call, Message, RecordedReceipt, Run, RunCall
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import ReceiptAuthor
from dashboard.runs.compactions import Compaction
from dashboard.runs.context_gauge import ContextGauge, ContextWeight
from dashboard.runs.receipt_presence import (
    COMPACTED_AWAY,
    NOT_IN_NEW,
    ContextState,
    ContextStep,
    describe_compaction,
    find_step,
)
from dashboard.runs.replay import ReplayedReceipt, ReplayedReceipts
from dashboard.runs.run_marks import (
    DROP_MEANING,
    GAP_MEANING,
    LEFT_MEANING,
    REMOVAL_MEANING,
    Branch,
    EntryNote,
    Gap,
    Removal,
    describe_message,
    load_branches,
)
from dashboard.runs.timeline import HistoryCounts, HistoryCursor, HistoryItem, Replacement, Timeline, load_item_payloads
from dashboard.text.formatting import format_place
from dashboard.text.payload_preview import (
    IMAGE,
    PREVIEW_CHARS,
    Payload,
    PreviewText,
    labelled_parts,
    preview_arguments,
    preview_parts,
    preview_texts,
)
from dashboard.text.responses import sandboxed
from dashboard.text.text_markup import NEXT_CHARS, chunk_end, escape

MAX_ITEMS = 40  # on a page
PAGE_CHARS = 600_000  # of markup; a page that reaches it ends early and links to the rest
NO_PAYLOAD = Payload(b'""', 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """One item as it is shown, and its place in words. `weight` is that of the context up to and with it."""

    anchor: str
    kind: str
    heading: str
    line: int
    place: str
    at: datetime | None
    tokens: int
    weight: ContextWeight
    texts: tuple[PreviewText, ...] = ()
    notes: tuple[EntryNote, ...] = ()
    url: str = ""
    url_text: str = ""
    raw_url: str = ""
    step_url: str = ""  # the context at the step of this item

    @property
    def added(self) -> str:
        return f"+{self.tokens:,}" if self.tokens >= 0 else f"{self.tokens:,}"

    @property
    def is_compacted_away(self) -> bool:
        return any(note.text in (COMPACTED_AWAY, NOT_IN_NEW) for note in self.notes)

    @property
    def is_bounded(self) -> bool:
        return any(text.is_bounded for text in self.texts)


NewEntry: TypeAlias = "partial[HistoryEntry]"  # with what every kind of entry has


@dataclass(frozen=True)
class HistoryPage:
    """`before` items are left out above, `after` below; `first` and `last` are cursors for the links.

    `has_lost_cursor`: the cursor in the address cannot be read, and these are the first items.
    """

    entries: tuple[HistoryEntry, ...]
    timeline: Timeline
    before: int
    after: int
    first: str
    last: str
    has_lost_cursor: bool = False
    branch: Branch | None = None
    step: ContextStep | None = None


@dataclass(frozen=True)
class _Payloads:
    messages: Mapping[UUID, Payload]
    arguments: Mapping[UUID, Payload]
    receipts: Mapping[UUID, Payload]
    replayed: Mapping[UUID, ReplayedReceipt]
    state: ContextState | None  # of the context at the step in view, or at the end of the run


def load_history(
    run: Run,
    *,
    after: str = "",
    before: str = "",
    at_end: bool = False,
    branch_start: int | None = None,
    step: int | None = None,
    replayed: ReplayedReceipts | None = None,
    most: int = MAX_ITEMS,
    page_chars: int = PAGE_CHARS,
) -> HistoryPage:
    """The page behind the cursor `after`, in front of `before`, or the last one; of the context at `step`, a line."""
    behind, ahead = HistoryCursor.parse(after), HistoryCursor.parse(before)
    until = None if step is None else find_step(run, step)
    backwards = at_end or ahead is not None or (until is not None and behind is None)
    branches = [] if branch_start is None else load_branches(run)
    branch = next((branch for branch in branches if branch.start == branch_start), None)
    timeline = Timeline(run, replayed, branch, until)
    items = timeline.before(ahead, most) if backwards else timeline.after(behind, most)
    start = items[0].cursor if items and (backwards or behind) else None
    since = timeline.last_compaction(start.line) if start else -1
    counts = timeline.counts(start, since=since)
    if branch and since < 0:
        counts = replace(counts, tokens=counts.tokens + Timeline(run).tokens_before(branch.start))
    gauge = None if replayed else ContextGauge(run, timeline, start)
    state = ContextState.build(timeline, gauge, until) if gauge else None
    payloads = _load_payloads(items, replayed, state)
    entries = _build_entries(run, items, counts, timeline, payloads, gauge)
    fitting = _fitting(entries, page_chars, backwards=backwards)
    return HistoryPage(
        entries=tuple(entries[fitting.start : fitting.stop]),
        timeline=timeline,
        before=counts.before + fitting.start,
        after=counts.total - counts.before - fitting.stop,
        first=str(items[fitting.start].cursor) if items else "",
        last=str(items[fitting.stop - 1].cursor) if items else "",
        has_lost_cursor=bool((after and behind is None) or (before and ahead is None)),
        branch=branch,
        step=ContextStep.build(run, timeline, state) if state and until is not None else None,
    )


def _load_payloads(
    items: Sequence[HistoryItem], replayed: ReplayedReceipts | None, state: ContextState | None
) -> _Payloads:
    keys: dict[str, list[UUID]] = {"message": [], "call": [], "receipt": []}
    observations = []
    for item in items:
        keys.setdefault(item.kind, []).append(item.cursor.key)
        if isinstance(item.row, RecordedReceipt) and item.row.observation_id:
            observations.append(item.row.observation_id)
    messages, arguments, receipts = load_item_payloads(keys["message"], keys["call"], observations)
    return _Payloads(
        messages=messages,
        arguments=arguments,
        receipts=receipts,
        replayed=replayed.write(keys["receipt"]) if replayed else {},
        state=state,
    )


def _build_entries(
    run: Run,
    items: Sequence[HistoryItem],
    counts: HistoryCounts,
    timeline: Timeline,
    payloads: _Payloads,
    gauge: ContextGauge | None,
) -> list[HistoryEntry]:
    entries: list[HistoryEntry] = []
    running = counts.tokens
    lines = [compaction.line for compaction in timeline.compactions]
    standing = Counter(timeline.standing(items[0].cursor.line) if counts.before else {})
    for item in items:
        is_compaction = item.kind == "compaction"
        if item.standing_kind:
            standing[item.standing_kind] += item.tokens
        before, running = running, max(0, running + item.tokens)
        if is_compaction:
            running = sum(standing.values()) + timeline.kept_tokens(item.cursor.line)
        weight = gauge.weigh(item, before, running, standing) if gauge else ContextWeight(running)
        bisect = bisect_right if is_compaction else bisect_left
        later = [] if item.standing_kind else timeline.compactions[bisect(lines, item.cursor.line) :]
        next_compaction = [event for event in later if not event.keeps(item.cursor.line)][:1]
        notes = [*(payloads.state.notes(item) if payloads.state else ())]
        notes += [describe_compaction(compaction, run.source_format) for compaction in next_compaction]
        line = item.row.line if isinstance(item.row, ContextDrop) else item.cursor.line
        is_event = not isinstance(item.row, Message | RunCall | RecordedReceipt)
        anchor = f"{item.kind}-{line}" if is_event else f"{item.kind[0]}-{item.cursor.key}"
        # The line of a gap is that of its file in every format.
        place = f"line {line:,}" if isinstance(item.row, Gap) else format_place(line, run.source_format)
        new_entry = partial(HistoryEntry, anchor=anchor, kind=item.kind, line=line, place=place, weight=weight)
        new_entry = partial(new_entry, at=item.at, tokens=item.tokens, step_url=f"/runs/{run.pk}/context?step={line}")
        match item.row:
            case Message() as message:
                entry = _message_entry(new_entry, run, message, payloads, notes)
            case RunCall() as member:
                entry = _call_entry(new_entry, run, member, payloads, notes)
            case RecordedReceipt() as receipt if item.cursor.key in payloads.replayed:
                entry = _replayed_entry(new_entry, receipt.call, payloads.replayed[item.cursor.key], notes)
            case RecordedReceipt() as receipt:
                entry = _receipt_entry(new_entry, run, receipt, payloads, notes)
            case Branch() | Removal() | ContextDrop() | Gap() as mark:
                entry = _mark_entry(new_entry, run, mark, notes)
            case Replacement() | Compaction() as event:
                entry = _event_entry(new_entry, event, notes, has_standing=bool(standing))
        entries.append(entry)
    return entries


def _fitting(entries: Sequence[HistoryEntry], page_chars: int, *, backwards: bool) -> range:
    """The entries that fit into the page, at least one: from the front, or the last ones when read backwards."""
    sizes = [sum(len(text.body) for text in entry.texts) for entry in entries]
    fitting = total = 0
    for size in reversed(sizes) if backwards else sizes:
        total += size
        if fitting and total > page_chars:
            break
        fitting += 1
    return range(len(entries) - fitting, len(entries)) if backwards else range(fitting)


def _message_entry(
    new_entry: NewEntry, run: Run, message: Message, payloads: _Payloads, notes: Iterable[EntryNote]
) -> HistoryEntry:
    url = f"/runs/{run.pk}/context?message={message.pk}"
    return new_entry(
        heading=message.heading,
        texts=preview_parts(payloads.messages.get(message.pk, NO_PAYLOAD)),
        notes=(*describe_message(message), *notes),
        url=url,
        url_text="whole message",
        raw_url=f"{url}&raw=1",
    )


def _call_entry(
    new_entry: NewEntry, run: Run, member: RunCall, payloads: _Payloads, notes: Iterable[EntryNote]
) -> HistoryEntry:
    call = member.call
    own_notes = [EntryNote("", "copied from another run's history")] if member.inherited else []
    if not member.has_receipt:
        own_notes.append(EntryNote("warn", "no receipt recorded: nothing answered this call"))
    return new_entry(
        heading=call.tool,
        texts=preview_arguments(payloads.arguments.get(call.pk, NO_PAYLOAD)),
        notes=(*own_notes, *notes),
        url=_call_url(run, call),
        step_url=f"/calls/{call.pk}/?{urlencode({'run': run.pk, 'tab': 'context'})}",
        url_text="the call",
        raw_url=f"/calls/{call.pk}/raw/args",
    )


def _receipt_entry(
    new_entry: NewEntry, run: Run, receipt: RecordedReceipt, payloads: _Payloads, notes: Iterable[EntryNote]
) -> HistoryEntry:
    texts = preview_parts(payloads.receipts.get(receipt.observation_id or receipt.pk, NO_PAYLOAD))
    return new_entry(
        heading=receipt.call.tool,
        texts=texts,
        notes=(*_receipt_notes(run, receipt, texts, payloads), *notes),
        url=_call_url(run, receipt.call, receipt),
        url_text="both halves",
        raw_url=f"/calls/{receipt.call_id}/raw/receipt{_receipt_query(run, receipt.call, receipt)}",
    )


def _call_url(run: Run, call: Call, receipt: RecordedReceipt | None = None) -> str:
    """To reverse 100 addresses takes a page of the history as long as four queries."""
    return f"/calls/{call.pk}/{_receipt_query(run, call, receipt)}"


def _receipt_query(run: Run, call: Call, receipt: RecordedReceipt | None) -> str:
    """The address parameters that show this receipt of the call as the run has it."""
    query = {} if call.run_id == run.pk else {"run": str(run.pk)}
    if receipt is not None and receipt.observation_id and (receipt.is_superseded or receipt.seq > 1):
        query["receipt"] = str(receipt.observation_id)
    return f"?{urlencode(query)}" if query else ""


def _receipt_notes(
    run: Run, receipt: RecordedReceipt, texts: Iterable[PreviewText], payloads: _Payloads
) -> Iterable[EntryNote]:
    fidelity, call = receipt_fidelity(receipt.fidelity), receipt.call
    receipt.show_in(call)
    yield EntryNote(fidelity.tone, fidelity.badge, fidelity.means)
    if call.outcome != Outcome.SUCCEEDED:
        yield EntryNote(Outcome(call.outcome).tone, call.outcome_words)
    if any(text.label == IMAGE for text in texts):
        yield EntryNote("", "images not counted", "The tokens beside this receipt are of its text alone.")
    if receipt.is_cut:
        lines = describe_seen_lines(call)
        yield EntryNote("warn", f"cut before the model{f': {lines}' if lines else ''}")
    if receipt.author:
        means = "The page of the call compares its output with the tool's own."
        yield EntryNote("warn", ReceiptAuthor(receipt.author).label, means)
    if receipt.superseded_line is not None:
        reason = receipt.superseded_reason or "replaced"
        step = payloads.state.step if payloads.state else None
        is_later = step is not None and receipt.superseded_line >= step
        when = "cleared after this step," if is_later else "cleared from the context"
        place = format_place(receipt.superseded_line, run.source_format)
        yield EntryNote("" if is_later else "warn", f"{when} at {place}: {reason}")


def _replayed_entry(
    new_entry: NewEntry, call: Call, replayed: ReplayedReceipt, notes: Iterable[EntryNote]
) -> HistoryEntry:
    """The receipt of a variant: never labelled as seen, and without a link to recorded bytes."""
    return new_entry(
        heading=call.tool,
        texts=preview_texts([("", replayed.text)], limit=PREVIEW_CHARS),
        notes=(EntryNote("accent", replayed.label, replayed.meaning), EntryNote("", replayed.recorded), *notes),
        url=call.get_absolute_url(),
        url_text="both halves",
    )


def _mark_entry(
    new_entry: NewEntry, run: Run, mark: Branch | Removal | ContextDrop | Gap, notes: Iterable[EntryNote]
) -> HistoryEntry:
    match mark:
        case Branch():
            note = EntryNote("", "not in the context after the rewind", LEFT_MEANING)
            return new_entry(heading=mark.describe(run), notes=(note,), url=mark.url(run), url_text="what was left")
        case Removal():
            return new_entry(heading=mark.sentence, notes=(EntryNote("warn", "unknown", REMOVAL_MEANING), *notes))
        case ContextDrop():
            note = EntryNote("warn", "not explained", DROP_MEANING)
            return new_entry(heading=f"{mark.sentence}.", notes=(note,))
        case Gap():
            note = EntryNote("warn", "perhaps context", GAP_MEANING)
            return new_entry(heading=mark.sentence, notes=(note, *notes), url=mark.url, url_text="Problems")


def _event_entry(
    new_entry: NewEntry, event: Replacement | Compaction, notes: Iterable[EntryNote], *, has_standing: bool
) -> HistoryEntry:
    if isinstance(event, Replacement):
        receipts = "1 earlier receipt" if event.count == 1 else f"{event.count:,} earlier receipts"
        sentence = f"{receipts} cleared from the context: {event.reason or 'replaced'}"
    else:
        kept = "else above this line" if event.is_partial or event.kept else "above this line"
        kept += "; what stayed is not in the count below" if event.is_partial else ""
        kept += ", except what is in every request" if has_standing else ""
        sentence = f"{event.message or 'The history was compacted'}. The model no longer saw anything {kept}"
    return new_entry(heading=f"{sentence}.", notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class MessagePart:
    label: str
    body: SafeString


@dataclass(frozen=True)
class MessagePage:
    """The characters from `start` to `end` of `total`; offsets count over all parts in order."""

    run: Run
    message: Message
    parts: tuple[MessagePart, ...]
    start: int
    end: int
    total: int

    @property
    def notes(self) -> tuple[EntryNote, ...]:
        return tuple(describe_message(self.message))

    @property
    def previous(self) -> int:
        return max(0, self.start - NEXT_CHARS)


def load_message_page(run: Run, key: UUID | None, start: int) -> MessagePage:
    """One message by itself, from character `start`. Raises Http404."""
    message = get_object_or_404(run.messages, pk=key)
    labelled = labelled_parts(bytes(message.data))
    total = sum(len(text) for _, text in labelled)
    start = min(start, total)
    end = chunk_end("".join(text for _, text in labelled), start, NEXT_CHARS)
    parts: list[MessagePart] = []
    offset = 0
    for label, text in labelled:
        piece = text[max(0, start - offset) : max(0, end - offset)]
        if piece or not text:
            parts.append(MessagePart(label, escape(piece)))
        offset += len(text)
    return MessagePage(run, message, tuple(parts), start, end, total)


def raw_message(run: Run, key: UUID | None) -> HttpResponse:
    """The message's JSON, byte for byte as recorded, as a download. Raises Http404."""
    message = get_object_or_404(run.messages, pk=key)
    response = HttpResponse(bytes(message.data), content_type="application/octet-stream")
    return sandboxed(response, file_name=f"message-{message.pk.hex[:12]}.json")
