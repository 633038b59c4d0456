"""Lines of one run's file that report another run's calls: progress of subagents, and sidechains.

1. `agent_progress` carries whole messages of a subagent. Where the subagent has a file of its own,
   the same calls come from there too; origin tells them apart.
2. Before subagents had files their lines stood in the session's, marked `isSidechain`; the oldest
   lack an agent id, and a sidechain is then known by its first message, found through `parentUuid`.
3. Other progress (`bash_progress`, `hook_progress`, `mcp_progress` ...) is an event of its call.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envelopes.recordings.base import LineProblem, Record, instant
from envelopes.recordings.claude_code.line import Line, read_entry
from envelopes.recordings.claude_code.messages import read_message, turn_records
from envelopes.recordings.claude_code.reader_state import remember
from envelopes.recordings.claude_code.results import Turn, is_global_call_id
from envelopes.recordings.claude_code.runs import after, child_run, find_spawning_call, message_key
from envelopes.recordings.claude_code.schema import NOTHING, Entry, Message, reader
from envelopes.text.untrusted_json import Untrusted


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    agent_id: str | None = None
    prompt: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING


_read_progress = reader(Progress)


def progress(line: Line) -> Iterator[Record | LineProblem]:
    call = line.entry.parent_tool_use_id
    call = call if call and is_global_call_id(call) else None
    try:
        reported = _read_progress(line.entry.data)
    except Untrusted:
        yield line.event("progress", "progress", line.raw, call)
        return
    if reported.agent_id and reported.type == "agent_progress":
        yield from _reported(line, reported, call)
    else:
        kind = reported.type or "progress"
        yield line.event(kind, kind, bytes(line.entry.data), call)


def _reported(line: Line, reported: Progress, call: str | None) -> Iterator[Record | LineProblem]:
    run = f"{line.session}/{reported.agent_id}"
    try:
        entry = read_entry(reported.message)
        message = read_message(entry.message)
    except Untrusted as refusal:
        yield line.refused("$.data.message", refusal.reason, bytes(reported.message), part=True)
        return
    at = instant(entry.timestamp) or line.at
    yield from child_run(
        line.memory, line.number, run, parent=line.run, call=call, at=at, prompt=bytes(reported.prompt)
    )
    for record in turn_records(_turn(line, run, entry, at), message):
        yield record
        yield from after(line.memory, record)


def _turn(line: Line, run: str, entry: Entry, at: str | None) -> Turn:
    return Turn(
        line=line.number,
        run=run,
        session=line.session,
        role=entry.type or "",
        key=message_key(entry.uuid, line.number, line.raw),
        at=at,
        path="$.data.message.message",
        result=entry.tool_use_result,
        origin="progress",
        inherited=line.inherited,
    )


def sidechain(line: Line, message: Message) -> Iterator[Record | LineProblem]:
    run = f"{line.session}/{line.entry.agent_id or _root(line)}"
    content = bytes(message.content)
    if run not in line.memory.children:
        call = find_spawning_call(line.memory, content)
        yield from child_run(line.memory, line.number, run, parent=line.run, call=call, at=line.at, prompt=content)
    for record in turn_records(line.turn(run), message):
        yield record
        yield from after(line.memory, record)


def _root(line: Line) -> str:
    known = line.memory.sidechains
    uuid = line.entry.uuid or str(line.number)
    root = known.get(line.entry.parent_uuid or "", uuid)
    remember(known, uuid, root)
    return f"sidechain-{root}"
