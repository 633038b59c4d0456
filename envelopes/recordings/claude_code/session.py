"""Claude Code session files: one JSON object a line, told apart by `type`.

1. `user` and `assistant` lines carry an API message; one message is spread over several `assistant`
   lines, a content block each, so `message.id` is the step.
2. A result stands on the `user` line of its receipt (`outcomes`).
3. File order is the order; `parentUuid` is broken by attachments and not followed, but for sidechains.
4. A resumed or forked session begins with the old session's lines. Newer releases keep their
   `sessionId` or say `forkedFrom`: such calls are inherited. Older ones rewrote it: then only the
   calls' own ids tell, and whoever stores them joins them.
5. Types that are not known here are events, never problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from envelopes.recordings.base import (
    BYTE_ORDER_MARK,
    LineProblem,
    MessageRecord,
    Record,
    RunRecord,
    SourceLine,
    SourcePath,
    json_lines,
)
from envelopes.recordings.claude_code import compaction, subagents
from envelopes.recordings.claude_code.attachments import attached
from envelopes.recordings.claude_code.forks import owned
from envelopes.recordings.claude_code.line import Line, arrive, read_entry
from envelopes.recordings.claude_code.messages import read_message, turn_records
from envelopes.recordings.claude_code.paths import Whereabouts, whereabouts
from envelopes.recordings.claude_code.reader_state import CHOSEN, GENERATED, SUMMARY, Memory, remember, told_apart
from envelopes.recordings.claude_code.runs import after, message_key
from envelopes.recordings.claude_code.schema import opening
from envelopes.schema.result import summary
from envelopes.text.untrusted_json import Untrusted

Found = Iterator[Record | LineProblem]
_BEFORE_ANY_SESSION = frozenset({"summary", "file-history-snapshot", "file-history-delta"})


def sniff(head: bytes, place: SourcePath) -> bool:
    """Some line has a `type` and a `sessionId`, or is of a type that stands before any session.

    A line that is cut, or longer than the head, tells only where no line before it did: in a stream a
    result may have a `sessionId` of its own.
    """
    is_told = False
    for raw in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        try:
            entry = read_entry(raw)
        except Untrusted:
            if not is_told and raw.startswith(b"{") and b'"sessionId"' in raw and b'"type"' in raw:
                return True
            continue
        if entry.type and (entry.session_id or entry.type in _BEFORE_ANY_SESSION):
            return True
        is_told = is_told or entry.type is not None
    return False


def read(lines: Iterable[SourceLine], place: SourcePath, state: dict[str, object]) -> Found:
    memory = Memory.load(state)
    where = whereabouts(place)
    for line in json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
        else:
            arrived = _arrived(line, memory, where, state)
            if isinstance(arrived, LineProblem):
                yield arrived
                continue
            memory = arrived.memory
            for record in _records(arrived):
                yield owned(arrived, told_apart(memory, record))
            memory.store(state)


def _arrived(source: SourceLine, memory: Memory, where: Whereabouts, state: dict[str, object]) -> Line | LineProblem:
    try:
        return arrive(source, memory, where, state)
    except Untrusted as refusal:
        return LineProblem(line=source.number, path=refusal.path, reason=refusal.reason, raw=source.raw)


def _records(line: Line) -> Found:
    if line.entry.type is None:
        yield line.refused("$.type", "no type, or one that is no string", line.raw)
        return
    if line.entry.uuid and (waiting := line.memory.pass_message(line.entry.uuid)):
        yield from _titled(line, SUMMARY, waiting)
    read_type = _TYPES.get(line.entry.type, _unknown)
    if line.memory.session is not None or read_type is _title:
        yield from read_type(line)


def _turn(line: Line) -> Found:
    try:
        message = read_message(line.entry.message)
    except Untrusted as refusal:
        yield line.refused("$.message", refusal.reason, bytes(line.entry.message) or line.raw)
        return
    if line.entry.is_sidechain and not line.where.agent:
        yield from subagents.sidechain(line, message)
        return
    yield from line.own_run(message)
    for record in turn_records(line.turn(line.run), message):
        yield record
        yield from after(line.memory, record)
    if line.entry.is_api_error_message:
        yield line.event("api_error", "the API answered with an error", bytes(message.content))


def _system(line: Line) -> Found:
    yield from line.own_run()
    subtype = line.entry.subtype or "system"
    if subtype in _BOUNDARIES:
        yield from _BOUNDARIES[subtype](line)
    elif opening(line.entry.content) == b'"':
        yield MessageRecord(
            line=line.number,
            run=line.run,
            key=message_key(line.entry.uuid, line.number, line.raw),
            role="system",
            content=bytes(line.entry.content),
            at=line.at,
        )
    else:
        yield line.event(subtype, subtype, line.raw)


def _progress(line: Line) -> Found:
    yield from line.own_run()
    yield from subagents.progress(line)


def _title(line: Line) -> Found:
    entry, memory = line.entry, line.memory
    titles = ((entry.custom_title, CHOSEN), (entry.ai_title, GENERATED), (entry.summary, SUMMARY))
    text, rank = next(((text, rank) for text, rank in titles if text), (None, 0))
    if not text:
        return
    if entry.leaf_uuid and entry.leaf_uuid not in memory.recent:
        remember(memory.summaries, entry.leaf_uuid, summary(text))
    elif memory.session is not None:
        yield from _titled(line, rank, text)


def _titled(line: Line, rank: int, text: str) -> Found:
    if line.memory.offer_title(rank):
        yield RunRecord(line=line.number, run=line.run, title=summary(text))


def _bookkeeping(line: Line) -> Found:
    """Lines that keep the program's own state and say nothing of the conversation."""
    yield from ()


def _unknown(line: Line) -> Found:
    kind = line.entry.type or ""
    yield line.event(kind, kind, line.raw)


_BOUNDARIES: dict[str, Callable[[Line], Found]] = {
    "compact_boundary": compaction.compacted,
    "microcompact_boundary": compaction.microcompacted,
}
_TYPES: dict[str, Callable[[Line], Found]] = {
    "user": _turn,
    "assistant": _turn,
    "system": _system,
    "progress": _progress,
    "summary": _title,
    "custom-title": _title,
    "ai-title": _title,
    "attachment": attached,
    "content-replacement": compaction.replaced,
    "file-history-snapshot": _bookkeeping,
    "file-history-delta": _bookkeeping,
}
