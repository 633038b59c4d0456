"""The output of `claude -p --output-format stream-json --verbose`, and of the Agent SDK: snake case.

1. `system` with subtype `init` opens the run: `session_id`, `model`, `cwd`.
2. `assistant` and `user` carry API messages; `tool_use_result` is the structured result.
3. `parent_tool_use_id` marks a subagent's message. The stream names the agent only in that call's result: until
   then its run has the name of the call that spawned it, and the dashboard joins the two.
4. `result` ends the run. The stream has few timestamps: the end is the last one before it.
5. `stream_event` repeats a message in parts and is omitted.
6. One file may hold several sessions, one behind the other or interleaved: each line names its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    META,
    MICROCOMPACTION,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.claude_code.messages import ApiMessage, MessageContext, message_records, read_message
from envelopes.recordings.claude_code.reader_state import (
    LOCAL_COMMAND,
    ReaderState,
    child_run_updates,
    disambiguate,
    is_global_call_id,
    message_key,
    remember,
    run_updates,
    switch_session,
    unknown_remarks,
)
from envelopes.recordings.json_lines import (
    NOTHING,
    ForeignEntry,
    entry_remarks,
    first_byte,
    may_name,
    parsed_lines,
    read_json_lines,
    struct_reader,
    valid_timestamp,
)
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices

Records = Iterator[Record | LineProblem]
_BOUNDARIES = frozenset({COMPACTION, MICROCOMPACTION})
_KNOWN_EVENTS = frozenset(  # without a remark
    ("rate_limit_event", "tool_progress", "tool_use_summary", "auth_status", "prompt_suggestion", "control_response")
)


class StreamEntry(ForeignEntry, frozen=True, gc=False):
    """A line of the stream. `session_id` is on every one of them."""

    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    tool_use_id: str | None = None
    model: str | None = None
    cwd: str | None = None
    claude_code_version: str | None = None
    qwen_code_version: str | None = None
    is_error: bool | None = None
    is_synthetic: bool | None = msgspec.field(default=None, name="isSynthetic")
    message: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING
    tool_use_result: msgspec.Raw = NOTHING


_read_entry = struct_reader(StreamEntry)


class StreamLine(msgspec.Struct, frozen=True):
    number: int
    raw: bytes
    entry: StreamEntry
    state: ReaderState

    @property
    def session(self) -> str:
        return self.state.session or ""

    @property
    def run(self) -> str:
        parent = self.entry.parent_tool_use_id
        return self.state.agents.get(parent, f"{self.session}/{parent}") if parent else self.session

    @property
    def at(self) -> str | None:
        return valid_timestamp(self.entry.timestamp)

    @property
    def key(self) -> str:
        return message_key(self.entry.uuid, self.number, self.raw)

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

    def run_updates(self, message: ApiMessage | None = None) -> Iterator[Record]:
        """Yields the line's run when the line adds something to it."""
        entry = self.entry
        prompt = message.content if message and entry.type == "user" else NOTHING
        if entry.parent_tool_use_id:
            yield from child_run_updates(
                self.state,
                self.number,
                self.run,
                parent=self.session,
                call=entry.parent_tool_use_id,
                at=self.at,
                prompt=bytes(prompt),
            )
            return
        yield from run_updates(
            self.state,
            self.number,
            self.run,
            parent=None,
            prompt=prompt,
            model=entry.model or (message.model if message else None),
            version=entry.claude_code_version,
            cwd=entry.cwd,
            started_at=self.at,
        )


def sniff(head: bytes, path: SourcePath) -> bool:
    """Some line has a `type` and a `session_id`, and none is of another agent's stream of nearly the same form.

    That of the Gemini CLI begins with `init` alone. In that of Qwen Code a message has the id of its line, and the
    answers of tools are what a person sees: the model got other texts.
    """
    entries = list(parsed_lines(head, _read_entry)) if may_name(head, b"session_id") else []
    is_other = bool(entries) and entries[0].type == "init"
    if is_other or any(entry.qwen_code_version or _has_id_of_line(entry) for entry in entries):
        return False
    return any(entry.type and entry.session_id for entry in entries)


def _has_id_of_line(entry: StreamEntry) -> bool:
    if entry.type != "assistant" or not entry.uuid or first_byte(entry.message) != b"{":
        return False
    try:
        return object_slices(bytes(entry.message)).get("id") == dump_json(entry.uuid)
    except Untrusted:
        return False


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = ReaderState.load(saved)
    entry = None
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        entry = _parse_entry(line)
        if isinstance(entry, LineProblem):
            yield entry
            continue
        state = switch_session(entry.session_id or state.session or path.stem, state, saved)
        state.last_at = valid_timestamp(entry.timestamp) or state.last_at
        read_type = _TYPES.get(entry.type or "", _other)
        stream_line = StreamLine(line.number, line.raw, entry, state)
        records = list(read_type(stream_line))
        for record in chain(records, entry_remarks(entry, records, line=line.number, run=stream_line.run)):
            yield disambiguate(state, record)
    if entry is not None:
        state.save(saved)


def _parse_entry(line: SourceLine) -> StreamEntry | LineProblem:
    try:
        entry = _read_entry(line.raw)
    except Untrusted as refusal:
        return LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
    if entry.type is None:
        reason = "no type, or not a string"
        return LineProblem(line=line.number, path="$.type", reason=reason, raw=line.raw)
    return entry


def _message(line: StreamLine) -> Records:
    entry = line.entry
    try:
        message = read_message(entry.message)
    except Untrusted as refusal:
        raw = bytes(entry.message) or line.raw
        yield LineProblem(line=line.number, path="$.message", reason=refusal.reason, raw=raw)
        return
    yield from line.run_updates(message)
    context = MessageContext(
        line=line.number,
        run=line.run,
        session=line.session,
        role=entry.type or "",
        key=line.key,
        at=line.at,
        result=entry.tool_use_result,
        kind=META if entry.is_synthetic and entry.type == "user" else None,
    )
    for record in message_records(context, message, line.state):
        yield _with_child_run(line, record)


def _with_child_run(line: StreamLine, record: Record | LineProblem) -> Record | LineProblem:
    """Names the subagent's run in the result of the call that spawned it: by its agent where both ids are unique."""
    if not isinstance(record, ResultRecord):
        return record
    if record.child_run and is_global_call_id(record.call):
        remember(line.state.agents, record.call, record.child_run)
        return record
    child = f"{line.session}/{record.call}"
    return msgspec.structs.replace(record, child_run=child) if child in line.state.children else record


def _system(line: StreamLine) -> Records:
    yield from line.run_updates()
    subtype = line.entry.subtype or "system"
    if first_byte(line.entry.content) == b'"' and subtype not in _BOUNDARIES:
        yield MessageRecord(
            line=line.number,
            run=line.run,
            key=line.key,
            role="system",
            content=bytes(line.entry.content),
            at=line.at,
            delivery="unclear" if subtype == LOCAL_COMMAND else "withheld",
        )
    else:
        yield line.event(subtype)


def _result(line: StreamLine) -> Records:
    yield from line.run_updates()
    yield RunRecord(line=line.number, run=line.session, ended_at=line.state.last_at)
    yield line.event("result", failed=bool(line.entry.is_error))


def _partial_message(line: StreamLine) -> Records:
    yield from ()


def _other(line: StreamLine) -> Records:
    kind = line.entry.type or ""
    yield from line.run_updates()
    yield line.event(kind)
    if kind not in _KNOWN_EVENTS:
        yield from unknown_remarks(line.state, line.number, line.run, kind)


_TYPES: dict[str, Callable[[StreamLine], Records]] = {
    "user": _message,
    "assistant": _message,
    "system": _system,
    "result": _result,
    "stream_event": _partial_message,
}
