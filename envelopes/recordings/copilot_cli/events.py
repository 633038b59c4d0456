"""Parts of the readers of events: the state between two lines, an event, and the records of texts and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from envelopes.recordings.base import Delivery, EventRecord, LineProblem, MessageRecord, Record
from envelopes.recordings.document_fields import list_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import storable
from envelopes.schema.result import summarize

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT = "copilot-cli"
_LEVELS = {"session.error": "error", "model.call_failure": "error", "abort": "warn", "session.warning": "warn"}
_KNOWN = 4_096  # calls, and lines


class UnsentText(msgspec.Struct, frozen=True):
    """A recorded text of a call whose model got nothing; JSON of a string."""

    run: str
    line: int
    text: str


class CopilotState(msgspec.Struct):
    """`calls` are the names of calls by their ids, `asked` by the places that asked: a line may be repeated.

    `tools` are the tools of calls and `started` their beginnings, by name, `waiting` and `stopped` the runs of those
    without an end, the latter since the program ended. `unsent` are texts by the names of their calls, until the
    session is resumed. `agents` are the calls that started subagents, by the ids of these, `modelled` the runs whose
    model is known, `since` the lines of each run since the start of a compaction. `skill` is the text of the last
    skill, `compacted` the key of the last compaction.
    """

    run: str = ""
    title: bool = False
    calls: dict[str, str] = {}
    asked: dict[str, str] = {}
    tools: dict[str, str] = {}
    started: dict[str, str] = {}
    agents: dict[str, str] = {}
    modelled: list[str] = []
    since: dict[str, list[int]] = {}
    unsent: dict[str, UnsentText] = {}
    waiting: dict[str, str] = {}
    stopped: dict[str, str] = {}
    skill: str = ""
    compacted: str = ""

    def forget_oldest(self) -> None:
        named = (self.calls, self.asked, self.tools, self.started, self.waiting, self.stopped)
        tables: tuple[dict[str, Any], ...] = (*named, self.agents, self.unsent)
        for table in tables:
            while len(table) > _KNOWN:
                del table[next(iter(table))]
        for lines in self.since.values():
            del lines[:-_KNOWN]
        del self.modelled[:-_KNOWN]

    def run_of(self, agent: str | None, call: str | None) -> str:
        """The run of an event: that of the session, or of the subagent that a call started."""
        spawning = call or self.agents.get(agent or "", agent)
        return f"{self.run}/{spawning}" if spawning else self.run


class CopilotEvent(msgspec.Struct, frozen=True):
    node: DocumentValue
    data: Members
    kind: str
    key: str
    at: str | None
    run: str

    @property
    def line(self) -> int:
        return self.node.line


def note_event(
    event: CopilotEvent, text: str | None = None, kind: str | None = None, call: str | None = None
) -> EventRecord:
    words = text or text_member(event.data, "message", "reason", "title", "summary") or event.kind
    return EventRecord(
        line=event.line,
        run=event.run,
        kind=kind or event.kind,
        message=storable(summarize(words)) or event.kind,
        level="error" if _LEVELS.get(event.kind) == "error" else "warn" if event.kind in _LEVELS else "info",
        payload=event.node.raw,
        at=event.at,
        call=call,
    )


def read_text(
    event: CopilotEvent, state: CopilotState, role: str, content: bytes | None, kind: str | None = None
) -> Records:
    """A text of the conversation, JSON of a string; nothing for an empty one."""
    if content is None or not content.startswith(b'"') or content == b'""':
        return
    delivery: Delivery = "unclear" if list_member(event.data, "attachments") else "sent"
    if event.run in state.since:
        state.since[event.run].append(event.line)
    yield MessageRecord(
        line=event.line,
        run=event.run,
        key=event.key,
        role=role,
        content=content,
        step=text_member(event.data, "messageId") if role == "assistant" else None,
        at=event.at,
        kind=kind,
        delivery=delivery,
    )
