"""One line of a rollout: its fields, and the state of the reader from line to line."""

from __future__ import annotations

import msgspec

from envelopes.alignment.mapping import ResultFidelity
from envelopes.recordings.base import EventRecord, ReceiptRecord, ResultRecord
from envelopes.recordings.json_lines import NOTHING, ForeignEntry, ForeignObject, storable, struct_reader

_TABLE_SIZE = 256
_SESSIONS = 32
_CUT_RECORD = b" chars truncated"


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


class RolloutTokens(msgspec.Struct, frozen=True):
    last_token_usage: RolloutUsage | None = None
    total_token_usage: RolloutUsage | None = None


class RolloutDuration(msgspec.Struct, frozen=True):
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
    messages of a user, `searches` those of the actions of ended searches by id, `own_from` the first ordinal that is
    not a copy of the parent's history.
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
    unanswered: list[str] = []
    prompts: list[str] = []
    requests: list[str] = []

    def trim(self) -> None:
        for table, size in (
            (self.calls, _TABLE_SIZE),
            (self.inputs, _TABLE_SIZE),
            (self.polls, _TABLE_SIZE),
            (self.sessions, _SESSIONS),
            (self.searches, _SESSIONS),
        ):
            for oldest in list(table)[:-size]:
                del table[oldest]
        for known in (self.unanswered, self.prompts, self.requests):
            del known[:-_TABLE_SIZE]


read_line = struct_reader(RolloutLine)
read_item = struct_reader(RolloutItem)


def bounded_or_structured(recorded: bytes) -> ResultFidelity:
    """Codex marks what it cut out of a record in the middle of the record."""
    return "bounded" if _CUT_RECORD in recorded else "structured"


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

    def result(self, call: str, recorded: bytes | None, **fields: object) -> ResultRecord:
        fidelity = bounded_or_structured(recorded or b"")
        shared = {"line": self.number, "run": self.run, "at": self.at, "fidelity": fidelity}
        return ResultRecord(call=call, result=recorded, **{**shared, **fields})  # type: ignore[arg-type]
