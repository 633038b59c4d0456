"""One line of a rollout: its fields, and the state of the reader from line to line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from envelopes.alignment.mapping import ResultFidelity
from envelopes.recordings.base import EventRecord, ReceiptRecord, RemarkKind, RemarkRecord, ResultRecord
from envelopes.recordings.json_lines import (
    NOTHING,
    ForeignEntry,
    ForeignObject,
    changed_time,
    remark,
    storable,
    struct_reader,
)
from envelopes.text.untrusted_json import object_slices, parse_json

NO_NUMBER = "left out: not a possible number"
_TABLE_SIZE = 256
_SESSIONS = 32
_CUT_MARKS = (b" chars truncated", b" output truncated for persistence")


class RolloutLine(ForeignEntry, frozen=True, gc=False):
    """A line. `id` and `instructions` are those of the first line of an early release."""

    type: str | None = None
    id: str | None = None
    ordinal: int | None = None
    payload: msgspec.Raw = NOTHING
    instructions: msgspec.Raw = NOTHING
    record_type: str | None = None


class RolloutItem(ForeignObject, frozen=True, gc=False):
    """A payload, or the `item` of an `item_completed`."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: msgspec.Raw = NOTHING
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING
    action: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    tools: msgspec.Raw = NOTHING
    summary: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING
    replacement_history: msgspec.Raw = NOTHING
    num_turns: int | None = None
    info: msgspec.Raw = NOTHING
    item: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    status: str | None = None
    success: bool | None = None
    turn_id: str | None = None
    process_id: str | None = None
    duration: msgspec.Raw = NOTHING
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    new_thread_id: str | None = None
    agent_thread_id: str | None = None
    model: str | None = None
    timestamp: str | None = None
    cli_version: str | None = None
    cwd: str | None = None
    source: msgspec.Raw = NOTHING
    git: msgspec.Raw = NOTHING
    base_instructions: msgspec.Raw = NOTHING
    parent_thread_id: str | None = None
    subagent_history_start_ordinal: int | None = None


class RolloutUsage(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class RolloutTokens(ForeignObject, frozen=True):
    last_token_usage: RolloutUsage | None = None
    total_token_usage: RolloutUsage | None = None


class RolloutDuration(ForeignObject, frozen=True):
    secs: int = 0
    nanos: int = 0


class CommandSession(msgspec.Struct):
    """A command that outlived its window: its call, the input that reported its end, its record and that one's line."""

    call: str = ""
    poll: str = ""
    record: str = ""
    line: int = 0
    is_error: bool = False


class RolloutState(msgspec.Struct):
    """The state of a reader from line to line. `calls` are the last calls with their tools.

    `inputs` are the open calls that sent something to a session, with its id, `polls` those that only waited for its
    output, with the call of its command. `unanswered` are open calls of code mode, `prompts` digests of the last
    messages of a user, `turns` the lines with which the last turns began, `searches` those of the actions of ended
    searches by id, `unnamed` counts the searches without an id that are alike, `own_from` is the first ordinal that is
    not a copy of the parent's history. `unknown` are kinds of lines.
    """

    run: str = ""
    began: bool = False
    title: bool = False
    model: bool = False
    turn: str | None = None
    own_from: int = 0
    calls: dict[str, str] = {}
    inputs: dict[str, str] = {}
    polls: dict[str, str] = {}
    sessions: dict[str, CommandSession] = {}
    searches: dict[str, str] = {}
    unnamed: dict[str, int] = {}
    unanswered: list[str] = []
    prompts: list[str] = []
    turns: list[int] = []
    requests: list[str] = []
    unknown: list[str] = []

    def name_search(self, action: str) -> str:
        """The name of a search without an id, by its turn, its action and its place among those alike.

        So the same line names the same call in another file of the thread, whatever stands above it.
        """
        search = digest(f"{self.turn} {action}")
        self.unnamed[search] = self.unnamed.get(search, 0) + 1
        return f"web_search-{search}-{self.unnamed[search]}"

    def open_session(self, session: str, call: str) -> CommandSession:
        """The session of a call's command. Ids are used again: that of an earlier command has ended."""
        known = self.sessions.get(session)
        if known is None or known.call != call:
            self.sessions.pop(session, None)
            known = self.sessions[session] = CommandSession(call=call)
        return known

    def trim(self) -> None:
        for table, size in (
            (self.calls, _TABLE_SIZE),
            (self.inputs, _TABLE_SIZE),
            (self.polls, _TABLE_SIZE),
            (self.sessions, _SESSIONS),
            (self.searches, _SESSIONS),
            (self.unnamed, _TABLE_SIZE),
        ):
            for oldest in list(table)[:-size]:
                del table[oldest]
        for known in (self.unanswered, self.prompts, self.turns, self.requests, self.unknown):
            del known[:-_TABLE_SIZE]


read_line = struct_reader(RolloutLine)
read_item = struct_reader(RolloutItem)
read_tokens = struct_reader(RolloutTokens)
read_duration = struct_reader(RolloutDuration)


def bounded_or_structured(recorded: bytes) -> ResultFidelity:
    """Codex marks what it cut out of a record in the middle of the record."""
    return "bounded" if any(mark in recorded for mark in _CUT_MARKS) else "structured"


class RolloutRead(msgspec.Struct, frozen=True):
    number: int
    raw: bytes
    item: RolloutItem
    payload: bytes
    at: str | None
    inherited: bool
    state: RolloutState

    @property
    def run(self) -> str:
        return self.state.run

    def event(self, kind: str, *, call: str | None = None, message: str = "", failed: bool = False) -> EventRecord:
        return EventRecord(
            line=self.number,
            run=self.run,
            kind=storable(kind),
            message=message or storable(kind),
            level="error" if failed else "info",
            call=call,
            payload=self.payload,
            at=self.at,
        )

    def receipt(
        self, call: str, content: bytes, *, is_further: bool = False, is_running: bool = False
    ) -> ReceiptRecord:
        return ReceiptRecord(
            line=self.number,
            run=self.run,
            call=call,
            content=content,
            is_further=is_further,
            is_running=is_running,
            at=self.at,
        )

    def remark(self, kind: RemarkKind, path: str, was: bytes, became: str) -> RemarkRecord:
        return remark(kind, path, was, became, line=self.number, run=self.run)

    def result(self, call: str, recorded: bytes | None, **fields: object) -> ResultRecord:
        fidelity = bounded_or_structured(recorded or b"")
        shared = {"line": self.number, "run": self.run, "at": self.at, "fidelity": fidelity}
        return ResultRecord(call=call, result=recorded, **{**shared, **fields})  # type: ignore[arg-type]


def member(raw: bytes, name: str) -> bytes:
    """The member of an object; empty where there is none."""
    return object_slices(raw).get(name, b"") if raw.startswith(b"{") else b""


def part_remark(line: RolloutRead, path: str, raw: bytes, *beginnings: bytes) -> Iterator[RemarkRecord]:
    """Yields a remark for a part that does not begin as its types do."""
    if raw not in (b"", b"null") and not raw.startswith(beginnings):
        yield line.remark("value", path, raw, "left out: wrong type")


def session_remarks(line: RolloutRead) -> Iterator[RemarkRecord]:
    """Yields a remark for each part of a session's first line that is not read as it is written."""
    git, instructions = bytes(line.item.git), bytes(line.item.base_instructions)
    yield from part_remark(line, "$.payload.git", git, b"{")
    yield from part_remark(line, "$.payload.git.branch", member(git, "branch"), b'"')
    yield from part_remark(line, "$.payload.base_instructions", instructions, b"{")
    yield from part_remark(line, "$.payload.base_instructions.text", member(instructions, "text"), b'"')
    at = line.item.timestamp
    if at and (became := changed_time(at)):
        yield line.remark("timestamp", "$.payload.timestamp", at.encode("utf-8", "surrogatepass"), became)


def text_of_blocks(content: bytes) -> str:
    """The text of a message: a string, or the texts of its blocks."""
    return "\n".join(read_blocks(content))


def read_blocks(content: bytes) -> list[str]:
    """The texts of the blocks of a message, or the string that it is."""
    value = parse_json(content) if content else None
    blocks = value if isinstance(value, list) else [value]
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return [text for text in texts if isinstance(text, str)]


def digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]
