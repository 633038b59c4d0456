"""The compactions of a run: after each the model no longer saw what came before it, except what the client kept."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from dashboard.models import Event, Run, load_slices
from dashboard.models.sources import SLICE_FIELDS
from envelopes.recordings.base import COMPACTION, NEW_CONVERSATION, PARTIAL_COMPACTION


class Compaction(NamedTuple):
    line: int
    key: UUID
    at: datetime | None
    message: str
    kind: str
    kept: frozenset[int] = frozenset()  # the lines that stayed

    @property
    def is_partial(self) -> bool:
        """Something stayed, and it is not known what."""
        return self.kind == PARTIAL_COMPACTION and not self.kept

    def keeps(self, line: int) -> bool:
        return line in self.kept

    @property
    def is_new_conversation(self) -> bool:
        return self.kind == NEW_CONVERSATION


class _KeptLines(msgspec.Struct):
    """The payload of a partial compaction's event where the lines that stayed are known."""

    kept: frozenset[int] = frozenset()


def is_kept(compactions: Iterable[Compaction], line: int, since: int) -> bool:
    """True for a line that each compaction from it to the line `since` kept."""
    return all(event.keeps(line) for event in compactions if line <= event.line <= since)


def load_compactions(run: Run) -> list[Compaction]:
    """In order. After each, the model no longer saw the items before it, except those on lines that it kept."""
    found = Event.objects.filter(run=run, kind__in=(COMPACTION, PARTIAL_COMPACTION, NEW_CONVERSATION))
    events = list(found.only("line", "at", "message", "kind", *SLICE_FIELDS))
    load_slices([event for event in events if event.kind == PARTIAL_COMPACTION])
    return sorted(
        Compaction(event.line, event.pk, event.at, event.message, event.kind, _kept_lines(event)) for event in events
    )


def _kept_lines(event: Event) -> frozenset[int]:
    if event.kind == PARTIAL_COMPACTION:
        with suppress(msgspec.DecodeError):  # the payload is whatever the agent recorded
            return msgspec.json.decode(event.data, type=_KeptLines).kept
    return frozenset()
