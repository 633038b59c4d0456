"""What a source holds so far, each thing once: the `seen` of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

import msgspec

from dashboard.ingest import write
from dashboard.models import Observation, Source, identity
from envelopes import recordings
from envelopes.recordings.base import CallRecord, EventRecord, ReceiptRecord, Record, ResultRecord

COUNTED = {CallRecord: "calls", ResultRecord: "results", ReceiptRecord: "receipts", EventRecord: "events"}
Told: TypeAlias = CallRecord | ResultRecord | ReceiptRecord | EventRecord
SURFACES = {"calls": "args", "results": "result", "receipts": "receipt"}


class Seen:
    """One source, while it is read. Of a source that was read before, what it said then is not counted again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._format = recordings.find_format(source.format)
        self._ids: set[int] = set()  # hashes: a file may hold millions of records
        self._is_continued = not source._state.adding
        self._runs = set(source.runs.values_list("external_id", flat=True)) if self._is_continued else set()

    def with_records(self, records: Sequence[Record]) -> dict[str, int]:
        """The counts with what these records add."""
        seen = Counter(msgspec.json.decode(self._source.seen))
        known = self._told_before(records) if self._is_continued else set()
        for one in records:
            if one.run not in self._runs:
                self._runs.add(one.run)
                seen["runs"] += 1
            if not isinstance(one, Told) or not self._is_first(one):
                continue
            kind = COUNTED[type(one)]
            if isinstance(one, EventRecord) or (self._call_id(one), SURFACES[kind]) not in known:
                seen[kind] += 1
        return {kind: seen[kind] for kind in write.ADDED}

    def _is_first(self, one: Told) -> bool:
        what = (one.line, one.kind, one.call) if isinstance(one, EventRecord) else one.call
        key = hash((type(one), one.run, what))
        if key in self._ids:
            return False
        self._ids.add(key)
        return True

    def _told_before(self, records: Sequence[Record]) -> set[tuple[UUID, str]]:
        """Of these records' calls, the surfaces that this source has spoken of in an earlier import."""
        asked = {self._call_id(one) for one in records if isinstance(one, Told) and not isinstance(one, EventRecord)}
        if not asked:
            return set()
        return set(Observation.objects.filter(call__in=asked, source=self._source).values_list("call", "surface"))

    def _call_id(self, one: CallRecord | ResultRecord | ReceiptRecord) -> UUID:
        joins, run = self._format.is_global_call_id(one.call), one.owner or one.run
        return identity.call_id(self._source.project_id, self._format.namespace, run, one.call, joins=joins)
