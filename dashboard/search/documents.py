"""The texts of calls and messages that a search looks at: decoded, never as escaped JSON.

receipt      the receipts that the call had in its own run, as the model got them, replaced ones too
canonical    the texts in the complete recorded result; in the envelope where no result was recorded
args         the texts in the arguments
message      a message of a run
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from django.conf import settings

from dashboard.models import Call, Message, Observation, RecordedReceipt, load_slices, receipts_in
from dashboard.models.search import HALVES
from dashboard.models.sources import SLICE_FIELDS, DamagedEvidence, SourceSlice
from envelopes.alignment.receipt_parts import parse_parts
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import iterate_named_strings
from envelopes.text.untrusted_json import Untrusted, parse_checked, parse_json

# The beginning of an encoded picture, or of other data that nobody reads. JSON without a space is no such data.
ENCODED = re.compile(r"(?:data:[\w.+/-]{1,80};base64,)?[A-Za-z0-9+/_-]{1024}")
ENVELOPE_TEXTS = ("summary_text", "error", "result")


class SearchText(NamedTuple):
    """The texts of one half; `total` counts their characters, also of those that no search looks at.

    `names` are those of the members of JSON that the texts are in, by which secrets are known.
    """

    texts: tuple[str, ...]
    names: tuple[str, ...]
    total: int

    @property
    def searched(self) -> int:
        return sum(map(len, self.texts))

    @property
    def is_partial(self) -> bool:
        return self.searched < self.total


NO_TEXT = SearchText((), (), 0)


def load_call_texts(keys: Sequence[UUID], halves: Collection[str] = HALVES) -> dict[UUID, dict[str, SearchText]]:
    """The texts of these halves by call."""
    if not keys:
        return {}
    surfaces = {"result" if half == "canonical" else half for half in halves}
    recorded = Observation.objects.filter(call__in=keys, surface__in=surfaces)
    fields = (*SLICE_FIELDS, "call_id", "surface", "selected", "line", "call__run_id", "call__status")
    rows = list(recorded.select_related("call").only(*fields).order_by("line", "id"))
    _load_undamaged(rows)
    observations: dict[UUID, list[Observation]] = defaultdict(list)
    for row in rows:
        observations[row.call_id].append(row)
    receipts: dict[UUID, list[RecordedReceipt]] = defaultdict(list)
    if "receipt" in halves:
        sent = RecordedReceipt.objects.filter(call__in=keys).only("call_id", "run_id", "observation_id")
        for receipt in sent.order_by("seq"):
            receipts[receipt.call_id].append(receipt)
    calls = {row.call_id: row.call for row in rows}
    if others := [key for key in keys if key not in calls]:
        calls |= Call.objects.only("run_id", "status").in_bulk(others)
    read = {key: _read_halves(call.run_id, observations[key], receipts[key]) for key, call in calls.items()}
    if "canonical" in halves:
        # The envelope of an unanswered call would claim a result.
        answered = [key for key, call in calls.items() if call.status != Call.Status.UNKNOWN]
        _add_envelopes([key for key in answered if "canonical" not in read[key]], read)
    return {key: {half: texts.get(half, NO_TEXT) for half in halves} for key, texts in read.items()}


def collect_texts(
    args: JsonValue, result: JsonValue, receipts: Iterable[str], *, envelope: JsonValue = None
) -> tuple[tuple[str, ...], ...]:
    """The texts of each column of a call's entry, from what was already read; `envelope` where no result was."""
    canonical = _envelope_texts(envelope) if envelope is not None else iterate_named_strings(result)
    halves = (_without_names(receipts), canonical, iterate_named_strings(args))
    return (*(_cut(texts).texts for texts in halves), ())


def load_message_texts(messages: Sequence[Message]) -> dict[UUID, SearchText]:
    _load_undamaged(messages)
    return {message.pk: _cut(_without_names(_read_parts(message.data))) for message in messages}


def _read_halves(
    run: UUID, observations: Sequence[Observation], receipts: Sequence[RecordedReceipt]
) -> dict[str, SearchText]:
    by_surface = {row.surface: row for row in observations if row.selected and row.surface != "receipt"}
    texts = {}
    if args := by_surface.get("args"):
        texts["args"] = _cut(iterate_named_strings(_parse(args.data)))
    if result := by_surface.get("result"):
        texts["canonical"] = _cut(iterate_named_strings(_parse(result.data)))
    sent = [receipt.observation_id for receipt in receipts_in(receipts, run)]
    by_key = {row.pk: row for row in observations}
    contents = [by_key[key].data for key in dict.fromkeys(sent) if key in by_key]
    texts["receipt"] = _cut(_without_names("".join(_read_parts(content)) for content in contents))
    return texts


def _add_envelopes(keys: Collection[UUID], read: dict[UUID, dict[str, SearchText]]) -> None:
    """Reads the envelopes of calls without a recorded result."""
    if not keys:
        return
    rows = Call.objects.filter(pk__in=keys, projection__isnull=False).select_related("projection__observation")
    projections = [call.projection for call in rows]
    _load_undamaged([row.observation for row in projections if row.observation])
    for row in projections:
        with suppress(DamagedEvidence):
            read[row.call_id]["canonical"] = _cut(_envelope_texts(_parse(row.data, is_own=True)))


def _envelope_texts(envelope: JsonValue) -> Iterator[tuple[str, str]]:
    members = envelope if isinstance(envelope, dict) else {}
    return iterate_named_strings([members.get(name) for name in ENVELOPE_TEXTS])


def _without_names(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    return (("", text) for text in texts)


def _load_undamaged(rows: Sequence[SourceSlice]) -> None:
    """Loads the bytes of these rows; a damaged one has no text, so that it keeps nobody from finding the others."""
    try:
        load_slices(rows)
    except DamagedEvidence:
        for row in rows:
            try:
                load_slices([row])
            except DamagedEvidence:
                vars(row)["data"] = b""


def _read_parts(content: bytes) -> list[str]:
    return [part for part in parse_parts(_parse(content)) if isinstance(part, str)]


def _parse(raw: bytes, *, is_own: bool = False) -> JsonValue:
    try:
        return parse_json(raw) if is_own else parse_checked(raw)
    except Untrusted:
        return None


def _cut(texts: Iterable[tuple[str, str]]) -> SearchText:
    """The beginning of texts with their names, up to the limit of what is searched."""
    room, total, searched, names = settings.SEARCH_CHARACTERS, 0, [], []
    for name, text in texts:
        total += len(text)
        if room > 0 and text and not ENCODED.match(text):
            searched.append(text[:room])
            names.append(name)
            room -= len(searched[-1])
    return SearchText(tuple(searched), tuple(names), total)
