"""The context of a Kimi Code agent: its messages, and which of them a compaction, an undo or a clearing leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    PARTIAL_COMPACTION,
    REWIND,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
)
from envelopes.recordings.document_fields import flag_member, integer_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT = "kimi-code"
USER, INJECTION, SUMMARY = "user", "injection", "compaction_summary"
_COMMANDS = ("skill_activation", "plugin_command")  # a person's message where the trigger is a typed command
_KNOWN_CALLS = 4_096
_KNOWN_ITEMS = 65_536


class ContextMessage(msgspec.Struct, array_like=True):
    """A message of the context. `is_anchor`: a person's, which an undo counts; a compaction keeps it."""

    place: int
    origin: str = ""
    key: str = ""
    owner: str = ""  # the message that an injection belongs to
    is_anchor: bool = False
    is_kept: bool = False


class HeldMessage(msgspec.Struct, array_like=True):
    """A message that was recorded while calls had no answer yet: it is sent behind their answers."""

    line: int
    key: str
    role: str
    content: str
    kind: str | None
    at: str | None
    item: ContextMessage


class KimiCodeState(msgspec.Struct):
    """The state that the lines so far left.

    `step` is the place of the open step; `is_switched`: the next undo is that of another branch. `pending` are calls
    of the step without an answer, each with its name, `late` those whose step ended without one. `counts` are how often
    an id of a call came, `lines` the names of calls by the ids of their lines, of which one may be there twice,
    `children` the calls of subagents.
    """

    run: str = ""
    has_facts: bool = False
    has_title: bool = False
    model: str = ""
    step: int = 0
    is_switched: bool = False
    pending: dict[str, str] = {}
    tools: dict[str, str] = {}
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    lines: dict[str, str] = {}
    late: dict[str, str] = {}
    children: dict[str, str] = {}
    held: list[HeldMessage] = []
    items: list[ContextMessage] = []

    def forget_oldest(self) -> None:
        for table in (self.counts, self.names, self.lines, self.tools, self.late, self.children):
            while len(table) > _KNOWN_CALLS:
                del table[next(iter(table))]
        del self.items[:-_KNOWN_ITEMS]

    def name_call(self, call: str, line: str) -> str:
        """The id of a call; one that came before, on another line, has a number behind it."""
        if line not in self.lines:
            self.lines[line] = self.find_asked(call)
            self.counts[call] = self.counts.get(call, 0) + 1
        name = self.names[call] = self.lines[line]
        return name

    def find_asked(self, call: str) -> str:
        """The name of the call that waits, or that is recorded next: a permission may stand before it."""
        count = self.counts.get(call, 0) + 1
        return self.pending.get(call) or (call if count == 1 else f"{call}-{count}")


def read_item(members: Members, place: int) -> ContextMessage:
    """The message with these members, by who wrote it."""
    origin = object_member(members, "origin")
    kind = text_member(origin, "kind") or USER
    is_typed = kind == USER or (kind in _COMMANDS and text_member(origin, "trigger") == "user-slash")
    return ContextMessage(
        place=place,
        origin=kind,
        key=text_member(members, "id") or "",
        owner=text_member(origin, "ownerPromptId") or "",
        is_anchor=is_typed and not flag_member(origin, "inTurn"),
        is_kept=is_typed,
    )


def read_compaction(node: DocumentValue, members: Members, state: KimiCodeState) -> Records:
    """The summary, and what stays: the messages of a person before it, or in early releases what followed.

    Early releases send the summary as the model's, in front of the end of the conversation. A person's messages of
    more than 20,000 tokens lose those in the middle, and a part of the ones beside them. The sentence that the client
    adds behind the summary is not recorded.
    """
    line, at = node.line, time_member(members, "time", may_count=True)
    is_tail = flag_member(members, "legacyTail")
    is_early = is_tail or (is_tail is None and "keptUserMessageCount" not in members)
    if is_early:
        rest = state.items[integer_member(members, "compactedCount") or integer_member(members, "count") :]
        kept = list(range(rest[0].place, line)) if rest else []
        state.items = [ContextMessage(line, SUMMARY), *rest]
    else:
        stays = _kept_messages(members, state.items)
        kept = [item.place for item in stays]
        state.items = [*stays, ContextMessage(line, SUMMARY), ContextMessage(line, INJECTION)]
    yield EventRecord(
        line=line,
        run=state.run,
        kind=PARTIAL_COMPACTION if kept else COMPACTION,
        message="the conversation was compacted" + (", but for what stayed" if kept else ""),
        payload=msgspec.json.encode({"kept": [*kept, line]}) if kept else b"null",
        position=None if kept else max(1, line - 1),
        at=at,
    )
    summary = members.get("contextSummary", members.get("summary"))
    if summary is not None and summary.is_object:
        summary = summary.members().get("content")
    if summary is not None:
        yield MessageRecord(
            line=line,
            run=state.run,
            key=f"compaction-{line}",
            role="assistant" if is_early else USER,
            content=summary.raw,
            kind=COMPACTION_SUMMARY,
            at=at,
        )


def _kept_messages(members: Members, items: Iterable[ContextMessage]) -> list[ContextMessage]:
    typed = [item for item in items if item.is_kept]
    count = integer_member(members, "keptUserMessageCount")
    head = integer_member(members, "keptHeadUserMessageCount")
    tail = max(0, min(count, len(typed)) - head)
    return [*typed[:head], *typed[len(typed) - tail :]] if head else typed[len(typed) - tail :]


def read_removal(node: DocumentValue, members: Members, state: KimiCodeState) -> Records:
    """A person took back their last messages and all that followed them, or cleared the context.

    Releases that switch to another branch of the file for it keep what the client added, unless a message owns it.
    """
    is_undo, is_switched = "count" in members, state.is_switched
    state.is_switched = False
    cut = _find_undone(state.items, max(1, integer_member(members, "count"))) if is_undo else 0
    if cut is None:
        return
    stays = [item for item in state.items[cut:] if is_undo and is_switched and _is_common(item)]
    left, state.items = state.items[cut:], [*state.items[:cut], *stays]
    state.step = 0
    text = "messages were taken back" if is_undo else "the context was cleared"
    for start, end in _find_spans(left, stays, node.line):
        payload = msgspec.json.encode({"left": [start, end], "returned": None})
        at = time_member(members, "time", may_count=True)
        yield EventRecord(line=node.line, run=state.run, kind=REWIND, message=text, payload=payload, at=at)


def _is_common(item: ContextMessage) -> bool:
    return item.origin == INJECTION and not item.owner


def _find_undone(items: list[ContextMessage], remaining: int) -> int | None:
    """The number of the first message that an undo of so many messages takes back. None where it takes none."""
    for number in range(len(items) - 1, -1, -1):
        if items[number].origin == SUMMARY:
            return None
        remaining -= items[number].is_anchor
        if not remaining:
            while number > 0 and _belongs(items[number - 1], items[number]):
                number -= 1
            return number
    return None


def _belongs(item: ContextMessage, prompt: ContextMessage) -> bool:
    return item.origin == INJECTION and bool(item.owner) and item.owner == prompt.key


def _find_spans(left: list[ContextMessage], stays: list[ContextMessage], line: int) -> list[tuple[int, int]]:
    """The places of messages that leave. What a compaction took out between them has left already."""
    spans = list[tuple[int, int]]()
    summaries = [number for number, item in enumerate(left) if item.origin == SUMMARY]
    for number, (item, following) in enumerate(pairwise([*left, ContextMessage(line)])):
        end = item.place + 1 if summaries and number <= summaries[-1] else following.place
        if item in stays or end <= item.place:
            continue
        if spans and spans[-1][1] == item.place:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((item.place, end))
    return spans
