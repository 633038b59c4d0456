"""The run as the model's history, a page of about 40 items: what it was told, what it asked, what it got.

A fixed number of queries: which items, how many stand before them, and the payloads of this page.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.urls import reverse

from dashboard.evidence.fidelity import of_receipt
from dashboard.models import Run
from dashboard.runs.history_items import Counts, Item, Timeline, place_of
from dashboard.runs.history_rows import Compaction, arguments_data, messages_data, observations_data
from dashboard.runs.rewritten import Instead, Rewritten
from dashboard.text.formatting import format_count
from dashboard.text.payload_preview import (
    IMAGE,
    PREVIEW_CHARS,
    Payload,
    PreviewText,
    preview_arguments,
    preview_parts,
    preview_texts,
)

PAGE = 40
PAGE_BYTES = 600_000  # of markup; a page that reaches it ends early and says where it goes on
GAUGE_TOKENS = 200_000  # a full gauge
GONE = "compacted away later"
MAYBE_GONE = "compacted later, perhaps kept"
ABSENT = Payload(b'""', 2)


@dataclass(frozen=True, slots=True)
class Note:
    tone: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item as it is shown. `running` counts the tokens of the history up to and with it."""

    anchor: str
    kind: str
    who: str
    line: int
    at: datetime | None
    tokens: int
    running: int
    texts: tuple[PreviewText, ...] = ()
    notes: tuple[Note, ...] = ()
    url: str = ""
    url_text: str = ""
    raw_url: str = ""

    @property
    def gauge(self) -> float:
        return round(min(100.0, 100 * self.running / GAUGE_TOKENS), 1)

    @property
    def added(self) -> str:
        return f"+{self.tokens:,}" if self.tokens >= 0 else f"{self.tokens:,}"

    @property
    def sign(self) -> str:
        return "↳ " if self.kind == "receipt" else ""

    @property
    def is_gone(self) -> bool:
        return any(note.text == GONE for note in self.notes)

    @property
    def is_bounded(self) -> bool:
        return any(text.is_bounded for text in self.texts)


@dataclass(frozen=True)
class History:
    """`before` items left out above, `after` below; the places are cursors for the links.

    `is_lost`: the place that was asked for is none, and these are the first items.
    """

    entries: tuple[Entry, ...]
    before: int
    after: int
    first: str
    last: str
    is_lost: bool = False


Loaded = Mapping[UUID, Payload]


@dataclass(frozen=True)
class Payloads:
    messages: Loaded
    args: Loaded
    receipts: Loaded
    instead: Mapping[UUID, Instead]  # of receipts, under a variant


def history_of(
    run: Run, *, after: str = "", before: str = "", at_end: bool = False, rewritten: Rewritten | None = None
) -> History:
    """The page behind the place `after`, in front of `before`, or the last one."""
    ahead = place_of(before)
    backwards = at_end or ahead is not None
    behind = place_of(after)
    timeline = Timeline(run, rewritten)
    items = timeline.before(ahead, PAGE) if backwards else timeline.after(behind, PAGE)
    start = items[0].place if items and (backwards or behind) else None
    since = max((one.line for one in timeline.compactions if start and one.line < start.line), default=-1)
    counts = timeline.counts(start, since=since)
    payloads = _payloads(items, rewritten)
    entries = _entries(run, items, counts, timeline.compactions, payloads)
    kept = _fitting(entries, backwards=backwards)
    return History(
        entries=tuple(entries[kept.start : kept.stop]),
        before=counts.before + kept.start,
        after=counts.total - counts.before - kept.stop,
        first=str(items[kept.start].place) if items else "",
        last=str(items[kept.stop - 1].place) if items else "",
        is_lost=bool((after and behind is None) or (before and ahead is None)),
    )


def _entries(
    run: Run, items: Sequence[Item], counts: Counts, compactions: Sequence[Compaction], payloads: Payloads
) -> list[Entry]:
    found: list[Entry] = []
    running = counts.tokens
    lines = [one.line for one in compactions]
    for item in items:
        running = 0 if item.kind == "compaction" else max(0, running + item.tokens)
        later = compactions[bisect_right(lines, item.place.line) :][:1]
        gone = [Note("", MAYBE_GONE if one.is_partial else GONE, _compacted(one)) for one in later]
        found.append(BUILDERS[item.kind](run, item, running, payloads, gone))
    return found


def _fitting(entries: Sequence[Entry], *, backwards: bool) -> range:
    """The entries that fit into PAGE_BYTES, at least one: from the front, or the last ones when read backwards."""
    weights = [sum(len(text.body) for text in entry.texts) for entry in entries]
    taken = weight = 0
    for one in reversed(weights) if backwards else weights:
        weight += one
        if taken and weight > PAGE_BYTES:
            break
        taken += 1
    return range(len(entries) - taken, len(entries)) if backwards else range(taken)


def _compacted(one: Compaction) -> str:
    when = f" ({one.at:%Y-%m-%d %H:%M:%S} UTC)" if one.at else ""
    unless = f", unless it is in a message that stayed ({one.message})" if one.is_partial else ""
    return f"The history was compacted at line {one.line}{when}; after that the model no longer saw this{unless}."


def _payloads(items: Sequence[Item], rewritten: Rewritten | None) -> Payloads:
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item)
    observations = [item.row["observation_id"] for item in by_kind.get("receipt", ())]
    return Payloads(
        messages=messages_data([item.place.key for item in by_kind.get("message", ())]),
        args=arguments_data([item.place.key for item in by_kind.get("call", ())]),
        receipts=observations_data([key for key in observations if key]),
        instead=rewritten.receipts(item.place.key for item in by_kind.get("receipt", ())) if rewritten else {},
    )


def _message(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    url = f"{reverse('run-model', args=[run.pk])}?message={item.place.key}"
    return Entry(
        anchor=f"m-{item.place.key}",
        kind="message",
        who=item.row["role"],
        line=item.place.line,
        at=item.at,
        tokens=item.tokens,
        running=running,
        texts=preview_parts(payloads.messages.get(item.place.key, ABSENT)),
        notes=tuple(gone),
        url=url,
        url_text="whole message",
        raw_url=f"{url}&raw=1",
    )


def _call(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    inherited = [Note("", "copied from another run's history")] if item.row["inherited"] else []
    silent = (
        [] if item.row["call__receipt_count"] else [Note("warn", "no receipt recorded: nothing answered this call")]
    )
    return Entry(
        anchor=f"c-{item.place.key}",
        kind="call",
        who=item.row["call__tool"],
        line=item.place.line,
        at=item.at,
        tokens=item.tokens,
        running=running,
        texts=preview_arguments(payloads.args.get(item.place.key, ABSENT)),
        notes=(*inherited, *silent, *gone),
        url=_call_url(item.place.key),
        url_text="the call",
        raw_url=reverse("call-raw", args=[item.place.key, "args"]),
    )


def _receipt(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    row = item.row
    instead = payloads.instead.get(item.place.key)
    if instead is not None:
        return _rewritten(item, running, instead, gone)
    texts = preview_parts(payloads.receipts.get(row["observation_id"], ABSENT))
    return Entry(
        anchor=f"r-{item.place.key}",
        kind="receipt",
        who=row["call__tool"],
        line=item.place.line,
        at=item.at,
        tokens=item.tokens,
        running=running,
        texts=texts,
        notes=(*_receipt_notes(row, texts), *gone),
        url=_call_url(row["call_id"]),
        url_text="both halves",
        raw_url=reverse("call-raw", args=[row["call_id"], "receipt"]),
    )


def _receipt_notes(row: Mapping[str, Any], texts: Iterable[PreviewText]) -> Iterable[Note]:
    fidelity = of_receipt(row["fidelity"])
    yield Note(fidelity.tone, fidelity.said, fidelity.means)
    if row["call__status"] == "error":
        yield Note("bad", "failed")
    if any(text.label == IMAGE for text in texts):
        yield Note("", "images not counted", "The tokens beside this receipt are of its text alone.")
    if row["call__is_cut"]:
        seen, lines = format_count(row["call__seen_lines"]), format_count(row["call__output_lines"])
        yield Note("warn", f"cut before the model: {seen} of {lines} lines")
    if row["superseded_line"] is not None:
        reason = row["superseded_reason"] or "replaced"
        yield Note("warn", f"no longer stood from line {row['superseded_line']}: {reason}")


def _rewritten(item: Item, running: int, instead: Instead, gone: Iterable[Note]) -> Entry:
    """What a variant would have written: never labelled as seen, and without the recorded bytes behind it."""
    return Entry(
        anchor=f"r-{item.place.key}",
        kind="receipt",
        who=item.row["call__tool"],
        line=item.place.line,
        at=item.at,
        tokens=item.tokens,
        running=running,
        texts=preview_texts([("", instead.text)], limit=PREVIEW_CHARS),
        notes=(Note("accent", instead.label, instead.means), Note("", instead.recorded), *gone),
        url=_call_url(item.row["call_id"]),
        url_text="both halves",
    )


def _replacement(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    number = item.row["count"]
    said = "1 earlier receipt no longer stands" if number == 1 else f"{number:,} earlier receipts no longer stand"
    reason = item.row["reason"] or "replaced"
    return _mark(item, running, f"From here on {said}: {reason}.", gone)


def _compaction(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    said = item.row["message"] or "The history was compacted"
    if item.row["is_partial"]:
        said = f"{said}. The model no longer saw anything else above this line; what stayed is not in the count below"
        return _mark(item, running, f"{said}.", gone)
    return _mark(item, running, f"{said}. The model no longer saw anything above this line.", gone)


def _mark(item: Item, running: int, said: str, gone: Iterable[Note]) -> Entry:
    return Entry(
        anchor=f"{item.kind}-{item.place.line}",
        kind=item.kind,
        who=said,
        line=item.place.line,
        at=item.at,
        tokens=item.tokens,
        running=running,
        notes=tuple(gone),
    )


def _call_url(call: UUID) -> str:
    return reverse("call-detail", args=[call])


BUILDERS: Mapping[str, Callable[[Run, Item, int, Payloads, Iterable[Note]], Entry]] = {
    "message": _message,
    "call": _call,
    "receipt": _receipt,
    "replacement": _replacement,
    "compaction": _compaction,
}
