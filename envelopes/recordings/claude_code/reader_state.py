"""The state of a reader from line to line, and the run records that follow from it.

The state is saved as JSON after all records of a line were consumed: a consumer that stops between two lines,
or in the middle of one, resumes at a line and misses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2s
from typing import Literal

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
    RemarkRecord,
    RunRecord,
)
from envelopes.recordings.json_lines import remark, storable
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, array_slices, object_slices, parse_json

_AGENT = "claude-code"
COMMAND, PROMPT, SUMMARY, GENERATED, CHOSEN = 1, 2, 3, 4, 5  # a title of a higher rank replaces a lower one
_RUN_FACTS = frozenset({"model", "version", "cwd", "branch", "started_at"})
TABLE_SIZE = 256  # entries of one table
_RECENT = 64  # messages
ENTRY_CHARACTERS = 1_000
_SLOT = "claude_code"  # keys of the saved state
_OTHER_SESSIONS = "other_sessions"
_OTHER_SESSIONS_SIZE = 8
_UNKNOWN_KINDS = 50
_TASK_NOTIFICATION = b'"<task-notification>'
_PLANNING = frozenset({"TodoWrite", "ExitPlanMode", "exit_plan_mode"})
_SPAWNING = frozenset({"Task", "Agent"})
SYNTHETIC = "<synthetic>"  # the model's name on messages that the program wrote itself
LOCAL_COMMAND = "local_command"  # the subtype of a system line
_NOTIFIED = re.compile(rb"<tool-use-id>([\w-]+)</tool-use-id>")
_COMMAND = re.compile(r"<command-(name|args)>([^<]*)</command-")
_IDLE_COMMANDS = frozenset({"/clear", "/exit", "/compact", "/mcp", "/model", "/login", "/resume", "/config"})
_REPORTS = (b'"<task-notification>', b'"<agent-notification>', b'"<bash-notification>')
_NO_PROMPT = (
    *("<command-", "<local-command-", "<system-reminder>", "<task-notification>", "<bash-"),
    *("Caveat: The messages below", "This session is being continued", "[Request interrupted"),
)


class QueuedMessage(msgspec.Struct):
    """A message that the client holds back while a step runs, as JSON; None when it is too long or not recorded.

    `answered` is the step whose tools have answered since: the client sends the queue with those answers, so that a
    message which is still here at the next step was removed without a line.
    """

    content: str | None
    answered: str | None = None

    @property
    def is_report(self) -> bool:
        """Written by a background task. A client that sends some of the queue sends what people wrote first."""
        return is_report((self.content or "").encode())


class ClientLine(msgspec.Struct, array_like=True, frozen=True):
    """A line of the client: the message above it, and the first of such lines in a row; 0 for a notice."""

    message: str
    start: int


class Prompt(msgspec.Struct, array_like=True):
    """A prompt below another message; `noted` messages were read with it."""

    uuid: str
    line: int
    noted: int


class LeftBranch(msgspec.Struct, array_like=True):
    """The lines from `start` to the one before `end`."""

    start: int
    end: int


class SentAnswer(msgspec.Struct):
    """The place of the receipt of a call, and a digest of its content. `is_sent`: a recorded request had it."""

    line: int
    at: str | None
    digest: str
    is_sent: bool = False


class UnsentMessage(msgspec.Struct):
    """A message with answers of tools that no request had yet, as JSON, with the content of each receipt by call.

    `step` is the id of the message that asked for them.
    """

    raw: str
    receipts: dict[str, str]
    step: str


class ReaderState(msgspec.Struct):
    """A summary of what was read of one session. The field names are part of stored states.

    The lists and tables hold their newest entries only.

    `has_own_messages` a message of this session was read: later ones are copied only where they state a fork
    `facts`      of the file's own run, as already yielded in a RunRecord
    `lines`      the lines of the last messages, by their ids; 0 for an id that several lines have
    `recent`     ids of the last messages; with `summaries` they decide which summaries belong to this file:
                 older releases write those of other sessions at its top, and only `leafUuid` distinguishes them
    `children`   runs that were yielded, with the call that spawned each
    `sidechains` the first message of the sidechain of each message
    `prompts`    the call that sent each prompt, by the prompt's digest
    `agents`     the run of the subagent that a call spawned, which a stream names only in the call's result
    `contents`   the digest of each message's content, for ids that occur again with other content
    `copied`     the session of each copied call whose id is unique within its session only
    `step`       the id of the last assistant message
    `queue`      messages that wait for the end of the step, see `conversation`
    `unqueued`   digests of messages that left the queue, for attachments that repeat them
    `attached`   how many messages an attachment took from the queue before the queue's own line
    `renders`    the client writes what its attachments became for the model
    `standing`   a digest of the last system prompt and of the last definitions of tools
    `noted`      how many messages were read
    `prompts_below` the newest prompt below each message that has one
    `people_below` the newest prompt of a person below each message, beside lines of the client between them
    `client_lines` the message above each line of the client, and the first of such lines in a row; 0 for a notice
    `left`       branches that a rewind left, by their last messages
    `root`       the last line of a conversation that began anew, while none of its lines is a message
    `compacted`  whether a boundary was read, or a summary, and no answer behind the summary
    `requests`   the last request of each run, with a digest of its usage
    `other_ids`  sessions that lines of this one name after `/clear`
    `unknown`    types of lines that no reader knows
    `sends`      the client records its requests, see `requests`
    `unsent`     messages with answers of tools that no request had yet
    `answers`    the receipts that were read, by call
    `blocked`    the error kind of each call that a hook did not allow to run
    """

    session: str | None = None
    began: bool = False
    has_own_messages: bool = False
    title_rank: int = 0
    facts: dict[str, str] = {}
    last_at: str | None = None
    lines: dict[str, int] = {}
    recent: list[str] = []
    summaries: dict[str, str] = {}
    children: dict[str, str] = {}
    sidechains: dict[str, str] = {}
    prompts: dict[str, str] = {}
    agents: dict[str, str] = {}
    contents: dict[str, str] = {}
    copied: dict[str, str] = {}
    step: str = ""
    queue: list[QueuedMessage] = []
    unqueued: list[str] = []
    attached: int = 0
    renders: bool = False
    standing: dict[str, str] = {}
    noted: int = 0
    prompts_below: dict[str, Prompt] = {}
    people_below: dict[str, Prompt] = {}
    client_lines: dict[str, ClientLine] = {}
    left: dict[str, LeftBranch] = {}
    root: Prompt | None = None
    compacted: Literal["", "boundary", "summary"] = ""
    requests: dict[str, str] = {}
    other_ids: list[str] = []
    unknown: list[str] = []
    sends: bool = False
    unsent: list[UnsentMessage] = []
    answers: dict[str, SentAnswer] = {}
    blocked: dict[str, str] = {}

    @classmethod
    def load(cls, saved: dict[str, object]) -> ReaderState:
        return msgspec.convert(saved.get(_SLOT, {}), cls)

    def save(self, saved: dict[str, object]) -> None:
        saved[_SLOT] = msgspec.to_builtins(self)

    @property
    def knows_run(self) -> bool:
        """Nothing about the file's own run can be added any more."""
        return self.title_rank >= PROMPT and self.facts.keys() >= _RUN_FACTS

    def learn(self, facts: dict[str, str | None]) -> dict[str, str]:
        """Stores and returns the facts that are new; the first value of each is final."""
        fresh = {name: value for name, value in facts.items() if value and name not in self.facts}
        self.facts.update({name: value[:ENTRY_CHARACTERS] for name, value in fresh.items()})
        return fresh

    def offer_title(self, rank: int) -> bool:
        """Accepts a title that outranks the current one. Of titles that a person typed the first is kept."""
        if rank < self.title_rank or rank == self.title_rank <= PROMPT:
            return False
        self.title_rank = rank
        return True

    def add_other_id(self, session: str) -> None:
        if session not in self.other_ids and len(session) <= ENTRY_CHARACTERS:
            self.other_ids = [*self.other_ids, session][-_OTHER_SESSIONS_SIZE:]

    def note_message(self, uuid: str, line: int) -> str | None:
        """Remembers that `uuid` was read. Returns a summary that named this message before it was read."""
        if len(uuid) <= ENTRY_CHARACTERS:
            self.noted += 1
            self.lines[uuid] = 0 if uuid in self.lines else line
            if len(self.lines) > TABLE_SIZE:
                del self.lines[next(iter(self.lines))]
            self.recent.append(uuid)
            del self.recent[:-_RECENT]
        return self.summaries.pop(uuid, None)


def unknown_remarks(state: ReaderState, line: int, run: str, kind: str) -> Iterator[RemarkRecord]:
    """Yields a remark on the first line of a kind that no reader knows: a log may have thousands of them."""
    if kind not in state.unknown and len(state.unknown) < _UNKNOWN_KINDS:
        state.unknown.append(kind[:ENTRY_CHARACTERS])
        became = "an event without a meaning, like later lines of its kind: it is unknown"
        yield remark("line", "$.type", kind.encode("utf-8", "surrogatepass"), became, line=line, run=run)


def switch_session(session: str, state: ReaderState, saved: dict[str, object]) -> ReaderState:
    """Returns the state of `session`. The state of another session is put into `saved` until its next line."""
    if state.session in (None, session):
        state.session = session
        return state
    others = msgspec.convert(saved.get(_OTHER_SESSIONS, {}), dict[str, ReaderState])
    if len(state.session) <= ENTRY_CHARACTERS:
        others[state.session] = state
    resumed = others.pop(session, ReaderState(session=session))
    saved[_OTHER_SESSIONS] = msgspec.to_builtins(dict(list(others.items())[-_OTHER_SESSIONS_SIZE:]))
    return resumed


def remember(table: dict[str, str], key: str, value: str, size: int = TABLE_SIZE) -> None:
    """Adds an entry and removes the oldest beyond `size`.

    Long entries are not stored: a file may hold megabytes in the place of an id.
    """
    if len(key) + len(value) > ENTRY_CHARACTERS:
        return
    table[key] = value
    for oldest in list(table)[:-size] if len(table) > size else ():
        del table[oldest]


def disambiguate(state: ReaderState, record: Record | LineProblem) -> Record | LineProblem:
    """Changes the key of a message whose id occurred before with other content (ids masked to one value)."""
    if not isinstance(record, MessageRecord):
        return record
    content = digest(record.content)
    known = state.contents.get(record.key)
    if known is None:
        remember(state.contents, record.key, content, _RECENT)
    is_other = known not in (None, content)
    return msgspec.structs.replace(record, key=f"{record.key}-{content}") if is_other else record


def is_global_call_id(call: str) -> bool:
    """Ids that the API gives are unique everywhere; others (`call_0`) are not."""
    return call.startswith("toolu_")


def run_alias(run: str, call: str) -> str | None:
    """The name by which a stream calls a subagent's run before it knows the agent; None for a call id that is local."""
    return f"{run.partition('/')[0]}/{call}" if is_global_call_id(call) else None


def spawning_call(run: str) -> str | None:
    call = run.partition("/")[2]
    return call if is_global_call_id(call) else None


def run_updates(
    state: ReaderState, line: int, run: str, *, parent: str | None, prompt: msgspec.Raw, **facts: str | None
) -> Iterator[RunRecord]:
    """Yields the file's own run when `facts` or `prompt`, the content of a message, add something to it."""
    if facts.get("model") == SYNTHETIC:
        del facts["model"]
    fresh = state.learn(facts)
    title = _first_title(state, prompt)
    if fresh or title or not state.began:
        state.began = True
        yield RunRecord(
            line=line,
            run=run,
            parent_run=parent,
            agent=_AGENT,
            title=title,
            model=fresh.get("model"),
            version=fresh.get("version"),
            cwd=fresh.get("cwd"),
            branch=fresh.get("branch"),
            started_at=fresh.get("started_at"),
        )


def child_run_updates(
    state: ReaderState,
    line: int,
    run: str,
    *,
    parent: str,
    call: str | None,
    at: str | None,
    prompt: bytes,
    origin: Literal["message", "progress"] = "message",
) -> Iterator[RunRecord]:
    """Yields a run that another run's file reports, once."""
    if run in state.children:
        return
    remember(state.children, run, call or "")
    yield RunRecord(
        line=line,
        run=run,
        parent_run=parent,
        parent_call=call,
        agent=_AGENT,
        title=_prompt_title(prompt),
        started_at=at,
        origin=origin,
    )


def follow_up_records(state: ReaderState, record: Record | LineProblem) -> Iterator[Record]:
    """Yields what a record of a message adds: the plan of its run, or an event when a background task ended."""
    match record:
        case CallRecord() if record.tool in _PLANNING:
            yield RunRecord(line=record.line, run=record.run, plan=record.args, origin=record.origin)
        case CallRecord() if record.tool in _SPAWNING:
            try:
                prompt = object_slices(record.args or b"{}").get("prompt", b"")
            except Untrusted:
                return
            remember(state.prompts, digest(prompt), record.call)
        # The notification is a string, or the first text in a list of blocks.
        case MessageRecord(content=content) if _TASK_NOTIFICATION[1:] in content and text_slice(content).startswith(
            _TASK_NOTIFICATION
        ):
            call = _NOTIFIED.search(content)
            yield EventRecord(
                line=record.line,
                run=record.run,
                kind="task_notification",
                message="a background task reports",
                call=call[1].decode() if call else None,
                payload=content,
                at=record.at,
            )


def note_request(state: ReaderState, run: str, request: str, usage: bytes) -> bool:
    """Remembers the usage of a run's request. Returns whether the line before it did not report the same."""
    noted = f"{request} {digest(usage)}"
    is_new = state.requests.get(run) != noted
    remember(state.requests, run, noted)
    return is_new


def message_key(uuid: str | None, number: int, raw: bytes) -> str:
    """A key that is unique in a run, which several files may report: without an id, the line's number and digest."""
    return uuid or f"{number}-{digest(raw)}"


def _first_title(state: ReaderState, prompt: msgspec.Raw) -> str | None:
    """A session that opens with a slash command has it as its title until a person writes something."""
    if state.title_rank >= PROMPT:
        return None
    content = bytes(prompt)
    for rank, title in ((PROMPT, _prompt_title(content)), (COMMAND, _command_title(content))):
        if title and state.offer_title(rank):
            return title
    return None


def _prompt_title(content: bytes) -> str | None:
    """One line of a person's message; None for text that the program put into a user's message."""
    text = _prompt_text(content)
    if text.lstrip().startswith(_NO_PROMPT):
        return None
    return storable(summarize(text)) or None


def _command_title(content: bytes) -> str | None:
    parts = dict(_COMMAND.findall(_prompt_text(content)))
    name = parts.get("name", "")
    if not name or name in _IDLE_COMMANDS:
        return None
    return storable(summarize(f"{name} {parts.get('args', '')}"))


def _prompt_text(content: bytes) -> str:
    try:
        return str(parse_json(text_slice(content) or b'""'))
    except Untrusted:
        return ""


def is_report(content: bytes) -> bool:
    """True for a message that a background task wrote."""
    return text_slice(content).startswith(_REPORTS)


def text_slice(content: bytes) -> bytes:
    """The JSON string that is a message's content, or that its first text block holds."""
    if not content.startswith(b"["):
        return content if content.startswith(b'"') else b""
    for block in array_slices(content):
        slices = object_slices(block) if block.startswith(b"{") else {}
        if slices.get("type") == b'"text"' and slices.get("text", b"").startswith(b'"'):
            return slices["text"]
    return b""


def digest(content: bytes) -> str:
    return blake2s(content, digest_size=16).hexdigest()
