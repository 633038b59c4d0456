"""One line on its way to records: what it says, where it lay, and what the lines before it said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from envelopes.recordings.base import EventRecord, LineProblem, Record, SourceLine, instant
from envelopes.recordings.claude_code import runs
from envelopes.recordings.claude_code.paths import Whereabouts
from envelopes.recordings.claude_code.reader_state import Memory, of_session
from envelopes.recordings.claude_code.results import Turn
from envelopes.recordings.claude_code.schema import NOTHING, Entry, Message, opening, reader
from envelopes.text.untrusted_json import joined

_LEVELS: dict[str, Literal["info", "warn", "error"]] = {"error": "error", "warning": "warn", "warn": "warn"}
_OPENS_RUN = frozenset({"user", "assistant"})
read_entry = reader(Entry)


class Forked(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str | None = None


_read_forked = reader(Forked)


class Line(msgspec.Struct, frozen=True):
    """`session` and `run` are empty only for the lines before the first that can tell."""

    number: int
    raw: bytes
    entry: Entry
    memory: Memory
    where: Whereabouts
    session: str
    run: str
    at: str | None

    @property
    def inherited(self) -> bool:
        """Copied from another session by a resume or a fork."""
        named, forked = self.entry.session_id, self.entry.forked_from
        return (named is not None and named != self.session) or (forked is not NOTHING and opening(forked) == b"{")

    @property
    def origin(self) -> str | None:
        """The session that it was copied from, where it says so."""
        if not self.inherited:
            return None
        forked = self.entry.forked_from
        told = _read_forked(forked).session_id if opening(forked) == b"{" else self.entry.session_id
        return told if told != self.session else None

    def turn(self, run: str) -> Turn:
        entry = self.entry
        return Turn(
            line=self.number,
            run=run,
            session=self.session,
            role=entry.type or "",
            key=runs.message_key(entry.uuid, self.number, self.raw),
            at=self.at,
            result=entry.tool_use_result,
            extra=self._extra(),
            inherited=self.inherited,
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

    def refused(self, path: str, reason: str, raw: bytes, *, part: bool = False) -> LineProblem:
        return LineProblem(line=self.number, path=path, reason=reason, raw=raw, part=part)

    def own_run(self, message: Message | None = None) -> Iterator[Record]:
        """What this line tells of the file's own run that was not known."""
        if self.memory.knows_run:
            return
        entry = self.entry
        said = message if message and entry.type == "user" and not (entry.is_meta or entry.is_compact_summary) else None
        yield from runs.own_run(
            self.memory,
            self.number,
            self.run,
            parent=self.session if self.where.agent else None,
            prompt=said.content if said else msgspec.Raw(),
            model=message.model if message else None,
            version=entry.version,
            cwd=entry.cwd,
            branch=entry.git_branch,
            started_at=None if self.inherited else self.at,
        )

    def _extra(self) -> bytes | None:
        entry = self.entry
        if entry.mcp_meta is NOTHING and entry.tool_denial_kind is NOTHING:
            return None
        found = {"mcpMeta": entry.mcp_meta, "toolDenialKind": entry.tool_denial_kind}
        return joined({name: bytes(value) for name, value in found.items() if value is not NOTHING})


def arrive(line: SourceLine, memory: Memory, where: Whereabouts, state: dict[str, object]) -> Line:
    """Raises Untrusted for what is no JSON object. The first line that can tell settles the session.

    Where neither name nor folder tells it, several sessions may lie in one file: each line names its own.
    """
    entry = read_entry(line.raw)
    if entry.session_id and entry.session_id != memory.session and not (where.session or where.agent):
        memory = of_session(entry.session_id, memory, state)
    if memory.session is None:
        last_resort = where.stem if entry.type in _OPENS_RUN else None
        memory.session = where.session or entry.session_id or last_resort
    session = memory.session or ""
    run = f"{session}/{where.agent}" if where.agent else session
    return Line(line.number, line.raw, entry, memory, where, session, run, instant(entry.timestamp))
