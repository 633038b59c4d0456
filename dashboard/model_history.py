"""The run as the model's history, a page of about 40 items: what it was told, what it asked, what it got.

A fixed number of queries: which items, how many stand before them, and the payloads of this page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BinaryField, Case, F, QuerySet, When
from django.db.models.functions import Substr
from django.urls import reverse

from dashboard.bounded_text import Payload, Text, arguments_of, texts_of
from dashboard.history_items import (
    Counts,
    Item,
    compactions,
    counts_at,
    items_after,
    items_before,
    place_of,
)
from dashboard.models import Message, Observation, Run
from dashboard.templatetags.markup import count

PAGE = 40
WHOLE_BYTES = 1_000_000  # a longer payload is read only as far as it is shown
HEAD_BYTES = 64 * 1024
PAGE_BYTES = 600_000  # of markup; a page that reaches it ends early and says where it goes on
GAUGE_TOKENS = 200_000  # a full gauge
FIDELITY = {
    "exact": "the model saw",
    "recorded": "recorded as seen",
    "reconstructed": "reconstructed: what the model saw was not recorded",
    "inflated": "inflated: longer than what the model saw",
    "masked": "masked: the model saw what is hidden here",
    "absent": "nothing recorded",
}
GONE = "compacted away later"
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
    texts: tuple[Text, ...] = ()
    notes: tuple[Note, ...] = ()
    url: str = ""
    url_text: str = ""
    raw_url: str = ""

    @property
    def gauge(self) -> float:
        return round(min(100.0, 100 * self.running / GAUGE_TOKENS), 1)

    @property
    def is_gone(self) -> bool:
        return any(note.text == GONE for note in self.notes)

    @property
    def is_bounded(self) -> bool:
        return any(text.is_bounded for text in self.texts)


@dataclass(frozen=True)
class History:
    """`before` items left out above, `after` below; the places are cursors for the links."""

    entries: tuple[Entry, ...]
    before: int
    after: int
    first: str
    last: str


Loaded = Mapping[UUID, Payload]


@dataclass(frozen=True)
class Payloads:
    messages: Loaded
    args: Loaded
    receipts: Loaded


def history_of(run: Run, *, after: str = "", before: str = "", at_end: bool = False) -> History:
    """The page behind the place `after`, in front of `before`, or the last one."""
    ahead = place_of(before)
    backwards = at_end or ahead is not None
    items = items_before(run, ahead, PAGE) if backwards else items_after(run, place_of(after), PAGE)
    boundaries = compactions(run)
    start = items[0].place if items else None
    since = max((line for line, _ in boundaries if start and line < start.line), default=-1)
    counts = counts_at(run, start, since=since)
    entries = _entries(run, items, counts, boundaries)
    kept = _fitting(entries, backwards=backwards)
    return History(
        entries=tuple(entries[kept.start : kept.stop]),
        before=counts.before + kept.start,
        after=counts.total - counts.before - kept.stop,
        first=str(items[kept.start].place) if items else "",
        last=str(items[kept.stop - 1].place) if items else "",
    )


def _entries(
    run: Run, items: Sequence[Item], counts: Counts, boundaries: Sequence[tuple[int, datetime | None]]
) -> list[Entry]:
    payloads = _payloads(items)
    found: list[Entry] = []
    running = counts.tokens
    for item in items:
        running = 0 if item.kind == "compaction" else max(0, running + item.tokens)
        gone = [Note("", GONE, _compacted(*boundary)) for boundary in boundaries if boundary[0] > item.place.line][:1]
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


def _compacted(line: int, at: datetime | None) -> str:
    when = f" ({at:%Y-%m-%d %H:%M:%S} UTC)" if at else ""
    return f"The history was compacted at line {line}{when}; after that the model no longer saw this."


def _payloads(items: Sequence[Item]) -> Payloads:
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item)
    calls = [item.place.key for item in by_kind.get("call", ())]
    observations = [item.row["observation_id"] for item in by_kind.get("receipt", ())]
    return Payloads(
        messages=_loaded(Message.objects.filter(pk__in=[one.place.key for one in by_kind.get("message", ())]), "pk"),
        args=_loaded(Observation.objects.filter(call__in=calls, surface="args", selected=True), "call_id"),
        receipts=_loaded(Observation.objects.filter(pk__in=[key for key in observations if key]), "pk"),
    )


def _loaded(rows: QuerySet[Message] | QuerySet[Observation], key: str) -> Loaded:
    """By `key`; a payload beyond WHOLE_BYTES only with its head."""
    head = Case(
        When(size__lte=WHOLE_BYTES, then=F("data")),
        default=Substr("data", 1, HEAD_BYTES, output_field=BinaryField()),
        output_field=BinaryField(),
    )
    return {pk: Payload(bytes(data), size) for pk, size, data in rows.values_list(key, "size", head)}


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
        texts=texts_of(payloads.messages.get(item.place.key, ABSENT)),
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
        texts=arguments_of(payloads.args.get(item.place.key, ABSENT)),
        notes=(*inherited, *silent, *gone),
        url=_call_url(item.place.key),
        url_text="the call",
        raw_url=reverse("call-raw", args=[item.place.key, "args"]),
    )


def _receipt(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    row = item.row
    return Entry(
        anchor=f"r-{item.place.key}",
        kind="receipt",
        who=row["call__tool"],
        line=item.place.line,
        at=item.at,
        tokens=item.tokens,
        running=running,
        texts=texts_of(payloads.receipts.get(row["observation_id"], ABSENT)),
        notes=(*_receipt_notes(row), *gone),
        url=_call_url(row["call_id"]),
        url_text="both halves",
        raw_url=reverse("call-raw", args=[row["call_id"], "receipt"]),
    )


def _receipt_notes(row: Mapping[str, Any]) -> Iterable[Note]:
    fidelity = row["fidelity"]
    yield Note("good" if fidelity == "exact" else "warn" if fidelity != "recorded" else "", FIDELITY[fidelity])
    if row["call__status"] == "error":
        yield Note("bad", "failed")
    if row["call__is_cut"]:
        seen, lines = count(row["call__seen_lines"]), count(row["call__output_lines"])
        yield Note("warn", f"cut before the model: {seen} of {lines} lines")
    if row["superseded_line"] is not None:
        reason = row["superseded_reason"] or "replaced"
        yield Note("warn", f"no longer stood from line {row['superseded_line']}: {reason}")


def _replacement(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    number = item.row["count"]
    said = "1 earlier receipt no longer stands" if number == 1 else f"{count(number)} earlier receipts no longer stand"
    reason = item.row["reason"] or "replaced"
    return _mark(item, running, f"From here on {said}: {reason}.", gone)


def _compaction(run: Run, item: Item, running: int, payloads: Payloads, gone: Iterable[Note]) -> Entry:
    said = item.row["message"] or "The history was compacted"
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
