"""The records of messages with places by the numbers of these, so that what is added between two of them moves none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from envelopes.alignment.cline_receipts import AGENT
from envelopes.recordings.base import (
    PARTIAL_COMPACTION,
    EventRecord,
    LineProblem,
    LineRecord,
    MessageRecord,
    Record,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.document_fields import list_member, text_member
from envelopes.recordings.documents import Conversation, DocumentValue, JsonDocument, place_records
from envelopes.recordings.json_lines import storable
from envelopes.recordings.places import PlaceName
from envelopes.schema.result import summarize

Members = dict[str, DocumentValue]
PLACES = 1_000  # to a message
Placed = tuple[Record, int]


def name_place(place: int) -> PlaceName:
    """The message by its index, which Cline's own files count from 0. Before the first one stands the system prompt."""
    return PlaceName("message", place // PLACES) if place else PlaceName("the start")


def behind(number: int) -> int:
    """The place behind a message, before the answer to it."""
    return (number + 1) * PLACES - 2


class PlacedMessages(Conversation):
    """Places the records of a run by the numbers of its messages.

    `starts` has the index of the first record of each message, `keys` the ids of the messages.
    """

    def __init__(self, root: DocumentValue, run: str) -> None:
        super().__init__(root, run, AGENT)
        self.starts: list[int] = []
        self.keys: list[str] = []

    @property
    def number(self) -> int:
        return len(self.keys) - 1

    @property
    def key(self) -> str:
        return self.keys[-1]

    def begin(self, key: str) -> None:
        self.starts.append(len(self.records))
        self.keys.append(key)

    def read_blocks(self, members: Members) -> list[DocumentValue]:
        """The parts of a message; its text, if it is one, is a message by itself."""
        content = members.get("content")
        if content is not None and content.is_text:
            self.add_text(content.line, content.raw, text_member(members, "role") or "", None)
            return []
        return list_member(members, "content")

    def add_text(
        self,
        line: int,
        content: bytes,
        role: str,
        at: str | None,
        *,
        step: str | None = None,
        kind: str | None = None,
        suffix: str = "",
    ) -> None:
        key = self.key + suffix
        self.records.append(
            MessageRecord(line=line, run=self.run, key=key, role=role, content=content, step=step, at=at, kind=kind)
        )

    def add_event(self, node: DocumentValue, kind: str, text: str, at: str | None, call: str | None = None) -> None:
        words = storable(summarize(text)) or kind
        record = EventRecord(line=node.line, run=self.run, kind=kind, message=words, payload=node.raw, at=at, call=call)
        self.records.append(record)

    def add_usage(self, counted: DocumentValue, new: int, read: int, written: int, output: int, at: str | None) -> None:
        self.records.append(
            UsageRecord(
                line=counted.line,
                run=self.run,
                request=self.key,
                input_tokens=max(0, new),
                cache_read_tokens=read,
                cache_creation_tokens=written,
                output_tokens=output,
                usage=counted.raw,
                at=at,
            )
        )

    def places(self) -> list[int]:
        """The places of the records, in their order."""
        edges = [*self.starts, len(self.records)]
        places = [0] * edges[0]
        for number, (start, end) in enumerate(pairwise(edges)):
            places += [number * PLACES + min(count, PLACES - 3) for count in range(1, end - start + 1)]
        return places

    def compaction(self, places: Iterable[int], kept: Iterable[int], words: str, at: str | None) -> EventRecord:
        """The event with which all messages but `kept` have left the context."""
        numbers = set(kept)
        payload = msgspec.json.encode({"kept": [place for place in places if place // PLACES in numbers]})
        return EventRecord(line=1, run=self.run, kind=PARTIAL_COMPACTION, message=words, payload=payload, at=at)

    def place(self, added: Iterable[Placed]) -> Iterator[Record | LineProblem]:
        """Yields all records in their places, with those that are `added` between messages."""
        places = self.places()
        for between, place in added:
            self.records.append(between)
            places.append(place)
        records = place_records(self.records, by_lines=False)
        for record, place in sorted(zip(records, places, strict=True), key=lambda placed: placed[1]):
            yield msgspec.structs.replace(record, position=place) if isinstance(record, LineRecord) else record


def read_beside(path: SourcePath, name: str) -> DocumentValue | None:
    """Another document of the folder; None where it is missing, too long or damaged."""
    if path.folder is None or name not in path.folder.names():
        return None
    found = JsonDocument([SourceLine(1, 0, path.folder.read(name))]).parse()
    return found if isinstance(found, DocumentValue) else None
