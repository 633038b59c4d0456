"""An event of a conversation, the place of its file, and what the files beside it state."""

from __future__ import annotations

import re
from bisect import bisect_left
from contextlib import suppress
from typing import TypeAlias

import msgspec

from envelopes.recordings.base import EventRecord, FileFolder, MessageRecord, SourcePath
from envelopes.recordings.document_fields import text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import storable
from envelopes.recordings.places import PlaceName
from envelopes.schema.result import summarize

PLACES = 4  # in the run for each event
STATE = "base_state.json"
EVENT = re.compile(r"event-(?P<number>\d{5,9})-(?P<id>[0-9a-fA-F-]{8,})\.json")
FOLDER = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
REPEATED = re.compile(r"toolu_\d{1,4}")  # ids of calls that the SDK gives itself
HOOK, ROOT = "HookExecutionEvent", "__root__"
Span: TypeAlias = tuple[int, int]


class EventHead(msgspec.Struct, frozen=True):
    """The members of another event that decide whether it is still sent."""

    kind: str = ""
    step: str = msgspec.field(default="", name="llm_response_id")
    own_call: str = msgspec.field(default="", name="tool_call_id")
    parent_id: str | None = None

    @property
    def call(self) -> str:
        return "" if REPEATED.fullmatch(self.own_call) else self.own_call


class EventPlace(msgspec.Struct, frozen=True):
    """The conversation of a file, its parent, and the number of the event; None for the state."""

    run: str
    parent: str | None
    number: int | None
    folder: FileFolder | None

    @property
    def first(self) -> int:
        return first_place(self.number or 0)

    def earlier(self) -> dict[str, str]:
        """The names of the events before this one, by their ids."""
        names = list(self.folder.names()) if self.folder else []
        events = filter(None, map(EVENT.fullmatch, names))
        return {event["id"]: event[0] for event in events if int(event["number"]) < (self.number or 0)}

    def peek(self, name: str) -> EventHead:
        """The head of another event; empty where that cannot be read."""
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(self.folder.read(name) if self.folder else b"", type=EventHead)
        return EventHead()

    def left_spans(self, parent: str) -> tuple[set[Span], set[Span]]:
        """The spans of places that are on no branch of this event, and those of the last rewind before it.

        Each event names its parent; without one that is the event before. A hook runs before the event that it is for
        is written, and has the same parent, so that it is on no branch and leaves nothing.
        """
        earlier = self.earlier()
        names = {event_number(name): name for name in earlier.values()}
        numbers = {key: event_number(name) for key, name in earlier.items()} | {ROOT: -1}
        heads = {number: self.peek(name) for number, name in names.items()}
        parents = {number: numbers.get(head.parent_id or "", number - 1) for number, head in heads.items()}
        hooks = {number for number, head in heads.items() if head.kind == HOOK}

        def spans(end: int, leaf: int) -> set[Span]:
            branch = set[int]()
            while leaf >= 0 and leaf not in branch:
                branch.add(leaf)
                leaf = parents.get(leaf, leaf - 1)
            off = [number for number in sorted(names) if number < end and number not in branch | hooks]
            starts = [number for number in off if number - 1 not in off]
            ends = [number for number in off if number + 1 not in off]
            return {(first_place(start), first_place(last + 1)) for start, last in zip(starts, ends, strict=True)}

        own = spans(self.number or 0, numbers[parent])
        before = (number for number in sorted(names, reverse=True) if number not in hooks)
        return own, next((left for number in before if (left := spans(number, parents[number]))), set())

    def before(self) -> str:
        """The id of the event before; empty where it is not known."""
        names = self.folder.names() if self.folder else ()
        number = (self.number or 0) - 1
        index = bisect_left(names, f"event-{number:05}-")
        event = EVENT.fullmatch(names[index]) if index < len(names) else None
        return event["id"] if event and int(event["number"]) == number else ""


def first_place(number: int) -> int:
    return number * PLACES + 1


def name_place(place: int) -> PlaceName:
    """The event by the number in the name of its file."""
    return PlaceName("event", max(0, place - 1) // PLACES)


def event_number(name: str) -> int:
    event = EVENT.fullmatch(name)
    return int(event["number"]) if event else 0


def find_place(path: SourcePath) -> EventPlace | None:
    """None for a path that names no conversation, or neither an event nor its state."""
    *folders, name = path.path.split("/")
    event = EVENT.fullmatch(name)
    if event and folders[-1:] == ["events"]:
        folders.pop()
    elif name != STATE:
        return None
    if not folders or not FOLDER.fullmatch(folders[-1]):
        return None
    is_child = folders[-2:-1] == ["subagents"] and len(folders) > 2 and bool(FOLDER.fullmatch(folders[-3]))
    run, parent = folders[-1].replace("-", ""), folders[-3].replace("-", "") if is_child else None
    return EventPlace(run, parent, int(event["number"]) if event else None, path.folder)


class ConversationEvent(msgspec.Struct, frozen=True):
    """The members of an event; `key` is its id."""

    root: DocumentValue
    members: dict[str, DocumentValue]
    place: EventPlace
    kind: str
    key: str
    at: str | None

    def record(self, kind: str, text: str, *, call: str | None = None, payload: bytes | None = None) -> EventRecord:
        return EventRecord(
            line=self.root.line,
            run=self.place.run,
            kind=kind,
            message=storable(summarize(text)) or kind,
            payload=payload or self.root.raw,
            call=call,
            at=self.at,
        )

    def message(
        self, role: str, content: bytes, *, key: str = "", step: str | None = None, kind: str | None = None
    ) -> MessageRecord:
        return MessageRecord(
            line=self.root.line,
            run=self.place.run,
            key=key or self.key,
            role=role,
            content=content,
            step=step,
            at=self.at,
            kind=kind,
        )

    @property
    def step(self) -> str | None:
        return text_member(self.members, "llm_response_id")
