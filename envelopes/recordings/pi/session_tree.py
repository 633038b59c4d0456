"""The tree of a session of pi: where the conversation is, and what left it by a rewind, a compaction or an edit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import msgspec

from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    LATER_TEXT,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    Delivery,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
    SupersedeRecord,
)
from envelopes.recordings.document_fields import integer_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import storable
from envelopes.schema.result import summarize

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
_KNOWN_LINES = 65_536
_KNOWN = 4_096  # calls, answers and messages


class PiState(msgspec.Struct):
    """`lines` are those of the entries by their ids. `starts` are the first lines of what was written without a jump,
    with the line that each follows; `last` is the line at which the conversation is, `left` the branches outside of it.

    `names` are the names of calls by their ids, in order, `waiting` those without an answer, with the entry that asked;
    `places` the names by the places that asked and answered, since a line may be repeated. `receipts` are the names by
    the ids of the entries that answer them, `messages` the entries that have a text. `created` is the time of the
    header, `api` that of the last answer, `system` the first entry with a prompt.
    """

    run: str = ""
    title: bool = False
    facts: bool = False
    model: bool = False
    count: int = 0
    created: str = ""
    api: str = ""
    system: str = ""
    last: int = 0
    starts: list[list[int]] = []
    left: list[list[int]] = []
    lines: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    waiting: dict[str, str] = {}
    places: dict[str, str] = {}
    receipts: dict[str, str] = {}
    messages: dict[str, int] = {}

    def forget_oldest(self) -> None:
        tables: tuple[dict[str, Any], ...] = (self.names, self.waiting, self.places, self.receipts, self.messages)
        for table, most in ((self.lines, _KNOWN_LINES), *((table, _KNOWN) for table in tables)):
            while len(table) > most:
                del table[next(iter(table))]
        del self.starts[:-_KNOWN]

    def find_path(self) -> list[tuple[int, int]]:
        """The lines of the conversation, as ranges of a first and a last line, in order."""
        ranges, line = list[tuple[int, int]](), self.last
        while line and (index := bisect_right(self.starts, line, key=lambda start: start[0]) - 1) >= 0:
            first, parent = self.starts[index]
            ranges.append((first, line))
            line = parent if parent < first else 0
        return ranges[::-1]


class PiEntry(msgspec.Struct, frozen=True):
    """A line, its members, its id, and its time. Without an id its key is made of its content."""

    node: DocumentValue
    members: Members
    key: str
    at: str | None

    @property
    def line(self) -> int:
        return self.node.line


def make_event(entry: PiEntry, kind: str, text: str, state: PiState, call: str | None = None) -> EventRecord:
    message = storable(summarize(text)) or kind
    return EventRecord(
        line=entry.line, run=state.run, kind=kind, message=message, payload=entry.node.raw, at=entry.at, call=call
    )


def follow(entry: PiEntry, state: PiState) -> Records:
    """Moves the conversation to this line. Yields the rewinds by which branches leave it, and return to it."""
    parent = text_member(entry.members, "parentId")
    before = state.last if parent is None else state.lines.get(parent, state.last)
    is_root = parent is None and "id" in entry.members and bool(state.starts)
    if entry.key in state.lines:  # a repeated line
        return
    state.lines[entry.key] = entry.line
    is_jump = is_root or before != state.last
    if is_jump or not state.starts:
        state.starts.append([entry.line, 0 if is_root else before])
    state.last = entry.line
    if is_jump:
        yield from _rewinds(entry, state)


def _rewinds(entry: PiEntry, state: PiState) -> Records:
    left, at = list[list[int]](), state.starts[0][0]
    for first, last in state.find_path():
        if first > at:
            left.append([at, first])
        at = last + 1
    gone = [branch for branch in state.left if branch not in left]
    come = [branch for branch in left if branch not in state.left]
    state.left = left
    for new, old in zip_longest(come, gone):
        branch = new or (left[-1] if left else None)
        if branch is None:
            return
        text = f"the person went back: lines {branch[0]} to {branch[1] - 1} are no longer in the conversation"
        payload = msgspec.json.encode({"left": branch, "returned": old})
        yield msgspec.structs.replace(make_event(entry, REWIND, text, state), payload=payload)


def read_compaction(entry: PiEntry, state: PiState) -> Records:
    """The lines that stay are on the way to this one, and so is the summary, which is on it.

    The event is at its own line, so that who goes back to the line before it leaves the compaction. Where what stays is
    not known, it stands before the summary.
    """
    kept_id = text_member(entry.members, "firstKeptEntryId")
    index = integer_member(entry.members, "firstKeptEntryIndex")
    first = state.lines.get(kept_id or f"#{index}") if kept_id or index else None
    kept = [] if first is None else [line for line in _path_lines(state) if first <= line <= entry.line]
    text = "the conversation was compacted" + ("" if kept == [entry.line] else ", but for what stayed")
    event = make_event(entry, PARTIAL_COMPACTION, text, state)
    if kept:
        yield msgspec.structs.replace(event, payload=msgspec.json.encode({"kept": kept}))
    else:
        yield msgspec.structs.replace(event, position=max(1, entry.line - 1))
    summary = entry.members.get("summary")
    yield from make_message(entry, summary, "user", state, kind=COMPACTION_SUMMARY, delivery="reworded")


def _path_lines(state: PiState) -> list[int]:
    """The lines of the conversation."""
    return [line for first, last in state.find_path() for line in range(first, last + 1)]


def read_context_edit(entry: PiEntry, state: PiState) -> Records:
    """Another content of a receipt takes its place. A message leaves by an event that keeps all others."""
    target = text_member(entry.members, "targetId") or ""
    replacement = object_member(entry.members, "replacement").get("content")
    if name := state.receipts.get(target):
        content = receipt_content(replacement) if replacement else None
        reason = LATER_TEXT if replacement else "left out by an edit of the context"
        yield SupersedeRecord(line=entry.line, run=state.run, call=name, reason=reason, content=content, at=entry.at)
    line = state.messages.get(target)
    if name or line is None:
        yield make_event(entry, "context_edit", "the context was edited", state)
        return
    kept = [other for other in _path_lines(state) if other != line]
    event = make_event(entry, PARTIAL_COMPACTION, f"the message of line {line} left the context", state)
    yield msgspec.structs.replace(event, payload=msgspec.json.encode({"kept": kept}))
    yield from make_message(entry, replacement, "user", state, kind=META)


def make_message(
    entry: PiEntry,
    content: DocumentValue | None,
    role: str,
    state: PiState,
    *,
    kind: str | None = None,
    delivery: Delivery = "sent",
) -> Records:
    """A message with a text, or with blocks; nothing for an empty one."""
    if content is None or content.raw in (b'""', b"[]") or not (content.is_text or content.is_list):
        return
    if delivery != "withheld":
        state.messages[entry.key] = entry.line
    yield MessageRecord(
        line=entry.line,
        run=state.run,
        key=entry.key,
        role=role,
        content=content.raw,
        step=entry.key,
        at=entry.at,
        kind=kind,
        delivery=delivery,
    )


def receipt_content(content: DocumentValue | None) -> bytes:
    """A text alone where that is all, else the blocks."""
    if content is None or content.is_text:
        return content.raw if content else b'""'
    blocks = content.elements()
    texts = [block.members().get("text") for block in blocks]
    if not blocks:
        return b'""'
    only = texts[0] if len(texts) == 1 else None
    return only.raw if only and only.is_text else content.raw
