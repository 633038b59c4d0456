"""One line of a session file: its fields, its run, its session, and the session that it was copied from.

The run of a file follows from its path:

    <session>.jsonl                                   the session
    <session>/subagents/**/agent-<id>.jsonl           a subagent of it
    agent-<id>.jsonl                                  a subagent; its session is in the lines

Where the name is not a UUID, or that of no line, the session is the first `sessionId` of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from envelopes.recordings.base import (
    CLIENT_MESSAGES,
    COMPACTION_SUMMARY,
    META,
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    SourceLine,
    SourcePath,
    SupersedeRecord,
)
from envelopes.recordings.claude_code.messages import ApiMessage, MessageContext
from envelopes.recordings.claude_code.reader_state import (
    ReaderState,
    is_global_call_id,
    message_key,
    remember,
    run_updates,
    switch_session,
)
from envelopes.recordings.json_lines import NOTHING, ForeignEntry, first_byte, remark, struct_reader, valid_timestamp
from envelopes.text.untrusted_json import join_object

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT = "agent-"
_SUBAGENTS = "subagents"
_CLEARED = (b'"SessionStart:clear"', b"<command-name>/clear</command-name>")  # how a conversation begins after /clear
_LEVELS: dict[str, Literal["info", "warn", "error"]] = {
    "info": "info",
    "suggestion": "info",
    "warning": "warn",
    "warn": "warn",
    "error": "error",
}
_OPENS_RUN = frozenset({"user", "assistant"})
_REJECTED, _BY_USER = b'"User rejected tool use"', b'"user-rejected"'
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_STATES_DECISIONS = (2, 1, 332)  # the earliest release of which recordings with permissionDecision were seen


class SessionEntry(ForeignEntry, frozen=True, gc=False, rename="camel"):
    """A line of a session file. A `parent_uuid` of None is written there: the line is the first of a conversation."""

    type: str | None = None
    subtype: str | None = None
    operation: str | None = None
    uuid: str | None = None
    parent_uuid: str | msgspec.UnsetType | None = msgspec.UNSET
    session_id: str | None = None
    agent_id: str | None = None
    version: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    level: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    message: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING
    data: msgspec.Raw = NOTHING
    attachment: msgspec.Raw = NOTHING
    rendered: msgspec.Raw = NOTHING
    rendered_role: str | None = None
    tool_use_result: msgspec.Raw = NOTHING
    mcp_meta: msgspec.Raw = NOTHING
    tool_denial_kind: msgspec.Raw = NOTHING
    tool_denial_after_run: bool | None = None
    tool_denial_before_run: bool | None = None
    permission_decision: msgspec.Raw = NOTHING
    forked_from: msgspec.Raw = NOTHING
    origin: msgspec.Raw = NOTHING
    replacements: msgspec.Raw = NOTHING
    compact_metadata: msgspec.Raw = NOTHING
    microcompact_metadata: msgspec.Raw = NOTHING
    tail: msgspec.Raw = NOTHING
    request_ref: msgspec.Raw = NOTHING


class ForkOrigin(msgspec.Struct, frozen=True, rename="camel"):
    """`forkedFrom` of a line."""

    session_id: str | None = None


class MessageOrigin(msgspec.Struct, frozen=True):
    """`origin` of a line in the role of the user: a person, a background task, another agent."""

    kind: str | None = None


class PermissionDecision(msgspec.Struct, frozen=True):
    """`permissionDecision` of a line with a result, by releases from 2.1.332 on."""

    decision: str | None = None
    source: str | None = None


read_entry = struct_reader(SessionEntry)
_read_message_origin = struct_reader(MessageOrigin)
_read_fork_origin = struct_reader(ForkOrigin)
_read_permission_decision = struct_reader(PermissionDecision)


class FileIdentity(msgspec.Struct, frozen=True):
    """The session and the agent that a file's path names; `stem` serves as session where nothing else does."""

    session: str | None
    agent: str | None
    stem: str


class SessionLine(msgspec.Struct, frozen=True):
    """`session` and `run` are empty only for lines before the first that has a session."""

    number: int
    raw: bytes
    entry: SessionEntry
    state: ReaderState
    file: FileIdentity
    session: str
    run: str
    at: str | None

    @property
    def names_other(self) -> bool:
        """Names another session than the one of its file: a copy, or what came after a `/clear`."""
        return self.entry.session_id not in (None, self.session)

    @property
    def inherited(self) -> bool:
        """Copied from another session by a resume or a fork: it says so, or stands before the file's own messages."""
        is_prefix = self.names_other and not (self.state.has_own_messages or self.file.agent)
        return is_prefix or first_byte(self.entry.forked_from) == b"{"

    @property
    def copied_from(self) -> str | None:
        """The session that the line was copied from, where it names one."""
        if not self.inherited:
            return None
        forked = self.entry.forked_from
        named = _read_fork_origin(forked).session_id if first_byte(forked) == b"{" else self.entry.session_id
        return named if named != self.session else None

    def message_context(self, run: str) -> MessageContext:
        entry = self.entry
        extra = {"mcpMeta": entry.mcp_meta, "toolDenialKind": entry.tool_denial_kind}
        if stated_kind := self.stated_kind:
            extra["permissionDecision"] = entry.permission_decision
        slices = {name: bytes(value) for name, value in extra.items() if value is not NOTHING}
        return MessageContext(
            line=self.number,
            run=run,
            session=self.session,
            role=entry.type or "",
            key=message_key(entry.uuid, self.number, self.raw),
            at=self.at,
            result=entry.tool_use_result,
            extra=join_object(slices) if slices else None,
            stated_kind=stated_kind,
            blocked=self.state.blocked,
            inherited=self.inherited,
            names_other=self.names_other,
            delivery="withheld" if self.is_withheld else "sent",
            kind=self.client_kind,
        )

    @property
    def stated_kind(self) -> str | None:
        """The error kind of a call that was not allowed to run, or was stopped, where the line states that.

        Of a person who stopped a running call the client writes what it writes of one who refused it. It has no
        decision then, and does not say that the call had not begun.
        """
        entry = self.entry
        if first_byte(entry.permission_decision) == b"{":
            decision = _read_permission_decision(entry.permission_decision)
            if decision.decision != "reject" or entry.tool_denial_after_run:
                return None
            return "denied_by_hook" if decision.source == "hook" else "write_denied"
        is_stopped = bytes(entry.tool_use_result) == _REJECTED and bytes(entry.tool_denial_kind) == _BY_USER
        is_known = is_stopped and not entry.tool_denial_before_run and _states_decisions(entry.version or "")
        return "cancelled" if is_known else None

    @property
    def client_kind(self) -> str | None:
        """The kind of a message in the role of the user that no person wrote; None for any other."""
        entry = self.entry
        if entry.type != "user":
            return None
        if entry.is_compact_summary:
            return COMPACTION_SUMMARY
        origin = _read_message_origin(entry.origin).kind if first_byte(entry.origin) == b"{" else None
        return origin if origin in CLIENT_MESSAGES else META if entry.is_meta else None

    @property
    def is_withheld(self) -> bool:
        """Kept by the client for the person: an error of the API, or a line of the transcript alone."""
        entry = self.entry
        return bool(
            entry.is_api_error_message or (entry.is_visible_in_transcript_only and not entry.is_compact_summary)
        )

    def event(self, kind: str, message: str, payload: bytes, call: str | None = None) -> EventRecord:
        return EventRecord(
            line=self.number,
            run=self.run,
            kind=kind,
            message=message,
            level=_LEVELS.get(self.entry.level or "", "info"),
            call=call,
            payload=payload,
            at=self.at,
        )

    def plain_message(
        self, role: str, content: bytes, delivery: Delivery = "sent", kind: str | None = None
    ) -> MessageRecord:
        """The message that a line is which has no API message."""
        return MessageRecord(
            line=self.number,
            run=self.run,
            key=message_key(self.entry.uuid, self.number, self.raw),
            role=role,
            content=content,
            at=self.at,
            delivery=delivery,
            kind=kind,
        )

    def level_remarks(self) -> Iterator[RemarkRecord]:
        level = self.entry.level
        if level and level not in _LEVELS:
            was = level.encode("utf-8", "surrogatepass")
            yield remark("value", "$.level", was, "not a known level: read as info", line=self.number, run=self.run)

    def problem(self, path: str, reason: str, raw: bytes, *, part: bool = False) -> LineProblem:
        return LineProblem(line=self.number, path=path, reason=reason, raw=raw, part=part)

    def run_updates(self, message: ApiMessage | None = None) -> Iterator[Record]:
        """Yields the file's own run when this line adds something to it."""
        if self.state.knows_run:
            return
        entry = self.entry
        is_prompt = message is not None and entry.type == "user" and not (entry.is_meta or entry.is_compact_summary)
        yield from run_updates(
            self.state,
            self.number,
            self.run,
            parent=self.session if self.file.agent else None,
            prompt=message.content if message and is_prompt else NOTHING,
            model=message.model if message else None,
            version=entry.version,
            cwd=entry.cwd,
            branch=entry.git_branch,
            started_at=None if self.inherited else self.at,
        )


def _states_decisions(version: str) -> bool:
    """True for a release that writes the decision about a call beside its result."""
    numbers = _VERSION.match(version)
    return numbers is not None and tuple(map(int, numbers.groups())) >= _STATES_DECISIONS


def identify_file(path: SourcePath) -> FileIdentity:
    if not path.stem.startswith(_AGENT):
        return FileIdentity(path.stem if _UUID.fullmatch(path.stem) else None, None, path.stem)
    folders = path.path.split("/")[:-1]
    above = folders[: folders.index(_SUBAGENTS)] if _SUBAGENTS in folders else []
    session = above[-1] if above and _UUID.fullmatch(above[-1]) else None
    return FileIdentity(session, path.stem.removeprefix(_AGENT), path.stem)


def parse_line(line: SourceLine, state: ReaderState, file: FileIdentity, saved: dict[str, object]) -> SessionLine:
    """Parses a line and decides its session and run. Raises Untrusted for anything but a JSON object.

    The first line that has a session decides that of the file. Where the path names none, one file may hold
    several sessions: each line names its own. One that goes on under another id after `/clear` stays the same.
    """
    entry = read_entry(line.raw)
    if entry.session_id and entry.session_id != state.session and not (file.session or file.agent):
        if _goes_on(entry, state):
            state.add_other_id(entry.session_id)
        else:
            state = switch_session(entry.session_id, state, saved)
    if state.session is None:
        last_resort = file.stem if entry.type in _OPENS_RUN else None
        state.session = file.session or entry.session_id or last_resort
    session = state.session or ""
    run = f"{session}/{file.agent}" if file.agent else session
    if entry.session_id == session and entry.type in _OPENS_RUN and first_byte(entry.forked_from) != b"{":
        state.has_own_messages = True
    return SessionLine(line.number, line.raw, entry, state, file, session, run, valid_timestamp(entry.timestamp))


def _goes_on(entry: SessionEntry, state: ReaderState) -> bool:
    """Checks whether a line that names another session continues this one: by its id, its predecessor, or `/clear`."""
    if state.session is None or entry.session_id in state.other_ids:
        return state.session is not None
    is_clear = any(mark in bytes(part) for mark in _CLEARED for part in (entry.message, entry.data, entry.attachment))
    return is_clear or entry.parent_uuid in state.recent


def with_origin(line: SessionLine, record: Record | LineProblem) -> Record | LineProblem:
    """Sets the owner of a call that a resumed or forked session copied, where its id is not unique everywhere.

    `toolu_` ids join by themselves. Any other id belongs to the session that its copied line names; this also
    holds for an answer or a compaction that comes after the copied lines. The next call of that id is the new
    session's own.
    """
    match record:
        case CallRecord(call=call) if not is_global_call_id(call):
            origin = line.copied_from
            line.state.copied.pop(call, None)
            if origin:
                remember(line.state.copied, call, origin)
        case (
            ResultRecord(call=call)
            | ReceiptRecord(call=call)
            | SupersedeRecord(call=call)
            | ArtifactRecord(call=call)
            | RemarkRecord(call=str() as call)
        ) if not is_global_call_id(call):
            origin = line.copied_from or line.state.copied.get(call)
        case _:
            return record
    if not origin:
        return record
    return msgspec.structs.replace(record, owner=origin + record.run[len(line.session) :])
