"""One line of a rollout: its fields, and the state of the reader from line to line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
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
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices, parse_json

NO_NUMBER = "left out: not a possible number"
_TABLE_SIZE = 256
_SESSIONS = 32
_CUT_MARKS = (b" chars truncated", b" output truncated for persistence", b" bytes omitted ...\\n")
_SHELL_TOOLS = ("shell", "container.exec", "local_shell")
_PATCH_TOOL = "apply_patch"
_FIRST_REWRITING, _LAST_REWRITING = (0, 45), (0, 131)  # releases
_WITHOUT_CATALOG = (0, 106)  # the last releases in which every Codex model had the patch tool
_PATCH_MODEL = re.compile(r"gpt-5\.\d|(?P<codex>gpt-5-codex|codex-(?!mini))")
_STATED_LINES = re.compile(r"Total output lines: (\d{1,12})\n\n")
_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})")
TOKEN_BYTES = 4  # as Codex estimates
# Releases whose history cuts outputs; until 0.79 the limit of a model is not recorded, and from 0.133 on. Since 0.155
# it is beside the output.
_FIRST_CUTTING, _LAST_CUTTING, _LAST_OF_BYTES = (0, 53), (0, 154), (0, 79)
_DEFAULT_LIMIT = 10_000 * 12 // 10  # tokens, with what the history adds; bytes for models without a name of Codex


class RolloutLine(ForeignEntry, frozen=True, gc=False):
    """A line. `id` and `instructions` are those of the first line of an early release."""

    type: str | None = None
    id: str | None = None
    ordinal: int | None = None
    payload: msgspec.Raw = NOTHING
    metadata: msgspec.Raw = NOTHING
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
    truncation_policy: msgspec.Raw = NOTHING
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
    receiver_thread_ids: msgspec.Raw = NOTHING
    tool: str | None = None
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
    has_ended: bool = False


class TruncationPolicy(ForeignObject, frozen=True):
    """How much of an output the history keeps."""

    mode: str | None = None
    limit: int | None = None


class OutputMetadata(ForeignObject, frozen=True):
    """Beside an output: how many tokens of it the history keeps where no policy decides."""

    fallback_token_limit_override: int | None = None


class Turn(msgspec.Struct, frozen=True):
    """The line of the message that a turn began with, and how many bytes it has."""

    line: int
    size: int


class RolloutState(msgspec.Struct):
    """The state of a reader from line to line. `calls` are the last calls with their tools.

    `inputs` are the open calls that sent something to a session, with its id, `polls` those that only waited for its
    output, with the call of its command. `unanswered` are open calls of code mode, `prompts` digests of the last
    messages of a user, `searches` those of the actions of ended searches by id, `unnamed` counts the searches without
    an id that are alike, `own_from` is the first ordinal that is not a copy of the parent's history. `unknown` are
    kinds of lines. `version` is the release, `has_patch_tool` says that the tool was called that takes patches as text,
    `output_bytes` how much of an output the history keeps, 0 where that is not recorded. `answer` is the first item of
    the model's present answer, empty before it begins.
    """

    run: str = ""
    version: str = ""
    began: bool = False
    title: bool = False
    model: str = ""
    has_patch_tool: bool = False
    output_bytes: int = 0
    turn: str | None = None
    answer: str = ""
    own_from: int = 0
    calls: dict[str, str] = {}
    inputs: dict[str, str] = {}
    polls: dict[str, str] = {}
    sessions: dict[str, CommandSession] = {}
    searches: dict[str, str] = {}
    unnamed: dict[str, int] = {}
    unanswered: list[str] = []
    prompts: list[str] = []
    turns: list[Turn] = []
    requests: list[str] = []
    unknown: list[str] = []

    def name_step(self, item: str) -> str | None:
        """The answer of the model that an item belongs to, named by its turn and its first item.

        Recordings name the turn of the person alone. An output or a message of the person ends an answer.
        """
        self.answer = self.answer or item
        return f"{self.turn}/{self.answer}" if self.turn and self.answer else None

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

    def find_command(self, session: str) -> str:
        """The call whose command runs on as that session; empty where none is known, or it has ended."""
        known = self.sessions.get(session)
        return known.call if known is not None and not known.has_ended else ""

    def end_command(self, call: str) -> None:
        for session in self.sessions.values():
            session.has_ended = session.has_ended or session.call == call

    @property
    def release(self) -> tuple[int, int]:
        number = _RELEASE.match(self.version)
        return (int(number[1]), int(number[2])) if number else (0, 0)

    @property
    def history_bytes(self) -> int:
        """How much of an output the history keeps, as recorded or by the default of the release; 0 where all of it."""
        if self.output_bytes or not _FIRST_CUTTING <= self.release <= _LAST_CUTTING:
            return self.output_bytes
        is_bytes = self.release <= _LAST_OF_BYTES and "codex" not in self.model
        return _DEFAULT_LIMIT * (1 if is_bytes else TOKEN_BYTES)

    def is_rewritten(self, tool: str) -> bool:
        """True where the client sends the JSON that it records of this tool's output in another form.

        It did so in releases 0.45 to 0.131 for models with the tool that takes patches as text. Which these are is a
        list of the program, so a call of the tool proves it, and the name of a model says it of all others.
        """
        release = self.release
        if not _FIRST_REWRITING <= release <= _LAST_REWRITING:
            return False
        named = _PATCH_MODEL.match(self.model)
        has_tool = self.has_patch_tool or (named is not None and (not named["codex"] or release <= _WITHOUT_CATALOG))
        tools = (_PATCH_TOOL,) if release == _LAST_REWRITING else (*_SHELL_TOOLS, _PATCH_TOOL)
        return has_tool and tool in tools

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
read_policy = struct_reader(TruncationPolicy)
read_metadata = struct_reader(OutputMetadata)


def policy_bytes(policy: bytes) -> int:
    """How many bytes of an output the history keeps: a fifth more than the policy states. 0 where it states none."""
    stated = read_policy(policy) if policy.startswith(b"{") else TruncationPolicy()
    size = TOKEN_BYTES if stated.mode == "tokens" else 1
    return max(0, stated.limit or 0) * size * 12 // 10


def rewrite_output(content: bytes) -> bytes | None:
    """The text that the client sends for `{"output": …, "metadata": {…}}` in a string; None for any other output."""
    if not content.startswith(b'"{'):
        return None
    try:
        document = parse_json(str(parse_json(content)).encode("utf-8", "surrogatepass"))
    except Untrusted:
        return None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(metadata, dict):
        return None
    output, status, seconds = document.get("output"), metadata.get("exit_code"), metadata.get("duration_seconds")
    if not isinstance(output, str) or not isinstance(status, int) or not isinstance(seconds, int | float):
        return None
    lines = [f"Exit code: {status}", f"Wall time: {int(seconds) if seconds == int(seconds) else seconds} seconds"]
    if stated := _STATED_LINES.match(output):
        lines.append(stated[0].strip())
        output = output[stated.end() :]
    return dump_json("\n".join([*lines, "Output:", output]))


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
    metadata: bytes = b""

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
        """The text that the client sent for an output, rebuilt where it is another one than was recorded."""
        sent = rewrite_output(content) if self.state.is_rewritten(self.state.calls.get(call, "")) else None
        fidelity: ReceiptFidelity = (
            "inflated" if self._is_cut_later(content) else "reconstructed" if sent else "recorded"
        )
        return ReceiptRecord(
            line=self.number,
            run=self.run,
            call=call,
            content=sent or content,
            fidelity=fidelity,
            is_further=is_further,
            is_running=is_running,
            at=self.at,
        )

    def _is_cut_later(self, content: bytes) -> bool:
        """True for an output of which the history keeps less than the line has."""
        limit = self.state.history_bytes
        if self.metadata.startswith(b"{"):
            limit = (read_metadata(self.metadata).fallback_token_limit_override or 0) * TOKEN_BYTES or limit
        if not 0 < limit < len(content):
            return False
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in read_blocks(content)) > limit

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
