"""The output of `claude -p --output-format stream-json --verbose`, and of the Agent SDK: snake case.

1. `system` with subtype `init` opens the run: `session_id`, `model`, `cwd`.
2. `assistant` and `user` carry API messages; `tool_use_result` is the structured result.
3. `parent_tool_use_id` marks a subagent's message. The stream names the agent only in that call's result:
   until then its run is known by the call that started it, and whoever stores it joins the two.
4. `result` ends the run. The stream has few timestamps: the end is the last one that was seen.
5. `stream_event` repeats a message in pieces and is left out.
6. One file may hold several sessions, one behind the other or line by line: each line names its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from envelopes.recordings.base import (
    BYTE_ORDER_MARK,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    instant,
    json_lines,
)
from envelopes.recordings.claude_code import runs
from envelopes.recordings.claude_code.messages import read_message, turn_records
from envelopes.recordings.claude_code.reader_state import Memory, of_session, remember, told_apart
from envelopes.recordings.claude_code.results import Turn, is_global_call_id
from envelopes.recordings.claude_code.schema import NOTHING, Message, opening, reader
from envelopes.text.untrusted_json import Untrusted

Found = Iterator[Record | LineProblem]


class Entry(msgspec.Struct, frozen=True):
    """A line of the stream. `session_id` is on every one of them."""

    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    tool_use_id: str | None = None
    timestamp: str | None = None
    model: str | None = None
    cwd: str | None = None
    claude_code_version: str | None = None
    is_error: bool | None = None
    message: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING
    tool_use_result: msgspec.Raw = NOTHING


_read_entry = reader(Entry)


class Line(msgspec.Struct, frozen=True):
    number: int
    raw: bytes
    entry: Entry
    memory: Memory

    @property
    def session(self) -> str:
        return self.memory.session or ""

    @property
    def run(self) -> str:
        parent = self.entry.parent_tool_use_id
        return self.memory.agents.get(parent, f"{self.session}/{parent}") if parent else self.session

    @property
    def at(self) -> str | None:
        return instant(self.entry.timestamp)

    def event(self, kind: str, *, failed: bool = False) -> EventRecord:
        return EventRecord(
            line=self.number,
            run=self.run,
            kind=kind,
            message=kind,
            level="error" if failed else "info",
            call=self.entry.tool_use_id,
            payload=self.raw,
            at=self.at,
        )


def sniff(head: bytes, place: SourcePath) -> bool:
    """Some line has a `type` and a `session_id`."""
    for raw in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        try:
            entry = _read_entry(raw)
        except Untrusted:
            continue
        if entry.type and entry.session_id:
            return True
    return False


def read(lines: Iterable[SourceLine], place: SourcePath, state: dict[str, object]) -> Found:
    memory = Memory.load(state)
    for line in json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        entry = _entry(line)
        if isinstance(entry, LineProblem):
            yield entry
            continue
        memory = of_session(entry.session_id or memory.session or place.stem, memory, state)
        memory.last_at = instant(entry.timestamp) or memory.last_at
        for record in _TYPES.get(entry.type or "", _unknown)(Line(line.number, line.raw, entry, memory)):
            yield told_apart(memory, record)
        memory.store(state)


def _entry(source: SourceLine) -> Entry | LineProblem:
    try:
        entry = _read_entry(source.raw)
    except Untrusted as refusal:
        return LineProblem(line=source.number, path=refusal.path, reason=refusal.reason, raw=source.raw)
    if entry.type is None:
        reason = "no type, or one that is no string"
        return LineProblem(line=source.number, path="$.type", reason=reason, raw=source.raw)
    return entry


def _turn(line: Line) -> Found:
    entry = line.entry
    try:
        message = read_message(entry.message)
    except Untrusted as refusal:
        yield LineProblem(
            line=line.number, path="$.message", reason=refusal.reason, raw=bytes(entry.message) or line.raw
        )
        return
    yield from _told(line, message)
    turn = Turn(
        line=line.number,
        run=line.run,
        session=line.session,
        role=entry.type or "",
        key=runs.message_key(entry.uuid, line.number, line.raw),
        at=line.at,
        result=entry.tool_use_result,
    )
    for record in turn_records(turn, message):
        yield _with_child(line, record)
        yield from runs.after(line.memory, record)


def _told(line: Line, message: Message | None = None) -> Iterator[Record]:
    entry = line.entry
    prompt = message.content if message and entry.type == "user" else NOTHING
    if entry.parent_tool_use_id:
        yield from runs.child_run(
            line.memory,
            line.number,
            line.run,
            parent=line.session,
            call=entry.parent_tool_use_id,
            at=line.at,
            prompt=bytes(prompt),
        )
        return
    yield from runs.own_run(
        line.memory,
        line.number,
        line.run,
        parent=None,
        prompt=prompt,
        model=entry.model or (message.model if message else None),
        version=entry.claude_code_version,
        cwd=entry.cwd,
        started_at=line.at,
    )


def _with_child(line: Line, record: Record | LineProblem) -> Record | LineProblem:
    """The result of a call that started a subagent names its run, by its agent where both ids are certain."""
    if not isinstance(record, ResultRecord):
        return record
    if record.child_run and is_global_call_id(record.call):
        remember(line.memory.agents, record.call, record.child_run)
        return record
    child = f"{line.session}/{record.call}"
    return msgspec.structs.replace(record, child_run=child) if child in line.memory.children else record


def _system(line: Line) -> Found:
    yield from _told(line)
    subtype = line.entry.subtype or "system"
    if opening(line.entry.content) == b'"' and subtype not in runs.BOUNDARIES:
        yield MessageRecord(
            line=line.number,
            run=line.run,
            key=runs.message_key(line.entry.uuid, line.number, line.raw),
            role="system",
            content=bytes(line.entry.content),
            at=line.at,
        )
    else:
        yield line.event(subtype)


def _result(line: Line) -> Found:
    yield from _told(line)
    yield RunRecord(line=line.number, run=line.session, ended_at=line.memory.last_at)
    yield line.event("result", failed=bool(line.entry.is_error))


def _piece(line: Line) -> Found:
    yield from ()


def _unknown(line: Line) -> Found:
    yield from _told(line)
    yield line.event(line.entry.type or "")


_TYPES: dict[str, Callable[[Line], Found]] = {
    "user": _turn,
    "assistant": _turn,
    "system": _system,
    "result": _result,
    "stream_event": _piece,
}
