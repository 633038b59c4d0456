"""What a run is called, what it plans, and when there is more to tell of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2s

import msgspec

from envelopes.recordings.base import CallRecord, EventRecord, LineProblem, MessageRecord, Record, RunRecord
from envelopes.recordings.claude_code.reader_state import COMMAND, PROMPT, Memory, remember
from envelopes.recordings.claude_code.schema import storable
from envelopes.schema.result import summary
from envelopes.text.untrusted_json import Untrusted, elements, members, tame

AGENT = "claude-code"
BOUNDARIES = frozenset({"compact_boundary", "microcompact_boundary"})
_TASK_NOTIFICATION = b'"<task-notification>'
_PLANNING = frozenset({"TodoWrite", "ExitPlanMode", "exit_plan_mode"})
_SPAWNING = frozenset({"Task", "Agent"})
_SYNTHETIC = "<synthetic>"  # the model's name on messages that the program wrote itself
_NOTIFIED = re.compile(rb"<tool-use-id>([\w-]+)</tool-use-id>")
_COMMAND = re.compile(r"<command-(name|args)>([^<]*)</command-")
_IDLE_COMMANDS = frozenset({"/clear", "/exit", "/compact", "/mcp", "/model", "/login", "/resume", "/config"})
_NO_PROMPT = (
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<bash-",
    "Caveat: The messages below",
    "This session is being continued",
    "[Request interrupted",
)


def own_run(
    memory: Memory, line: int, run: str, *, parent: str | None, prompt: msgspec.Raw, **found: str | None
) -> Iterator[RunRecord]:
    """The file's own run, when `found` holds something new. `prompt` is a message's content, or nothing."""
    if found.get("model") == _SYNTHETIC:
        del found["model"]
    fresh = memory.learn(found)
    title = _first_title(memory, prompt)
    if fresh or title or not memory.began:
        memory.began = True
        yield RunRecord(
            line=line,
            run=run,
            parent_run=parent,
            agent=AGENT,
            title=title,
            model=fresh.get("model"),
            version=fresh.get("version"),
            cwd=fresh.get("cwd"),
            branch=fresh.get("branch"),
            started_at=fresh.get("started_at"),
        )


def child_run(
    memory: Memory, line: int, run: str, *, parent: str, call: str | None, at: str | None, prompt: bytes
) -> Iterator[RunRecord]:
    """A run that another run's file tells of, once."""
    if run in memory.children:
        return
    remember(memory.children, run, call or "")
    yield RunRecord(
        line=line,
        run=run,
        parent_run=parent,
        parent_call=call,
        agent=AGENT,
        title=prompt_title(prompt),
        started_at=at,
    )


def after(memory: Memory, record: Record | LineProblem) -> Iterator[Record]:
    """What a record of a turn tells beyond itself: of the run, or of a task that ended in the background."""
    match record:
        case CallRecord():
            yield from _after_call(memory, record)
        case MessageRecord() if _is_notification(record.content):
            yield EventRecord(
                line=record.line,
                run=record.run,
                kind="task_notification",
                message="a background task reports",
                call=_notified_call(record.content),
                payload=record.content,
                at=record.at,
            )
        case _:
            pass


def _after_call(memory: Memory, call: CallRecord) -> Iterator[RunRecord]:
    if call.tool in _PLANNING:
        yield RunRecord(line=call.line, run=call.run, plan=call.args)
    if call.tool in _SPAWNING:
        try:
            prompt = members(call.args).get("prompt", b"")
        except Untrusted:
            return
        remember(memory.prompts, _digest(prompt), call.call)


def find_spawning_call(memory: Memory, content: bytes) -> str | None:
    """The call that sent this first message to a subagent: the texts are the same, byte for byte."""
    return memory.prompts.get(_digest(_text_slice(content)))


def _is_notification(content: bytes) -> bool:
    """As a string, or as the first text of a list of blocks."""
    return _TASK_NOTIFICATION[1:] in content and _text_slice(content).startswith(_TASK_NOTIFICATION)


def _notified_call(content: bytes) -> str | None:
    found = _NOTIFIED.search(content)
    return found[1].decode() if found else None


def prompt_title(content: bytes) -> str | None:
    """One line of what a person asked; None for what the program put into a user's message."""
    text = _prompt_text(content)
    if text.lstrip().startswith(_NO_PROMPT):
        return None
    return storable(summary(text)) or None


def _first_title(memory: Memory, prompt: msgspec.Raw) -> str | None:
    """A session that opens with a slash command is called by it until a person writes something."""
    if memory.title_rank >= PROMPT:
        return None
    content = bytes(prompt)
    for rank, title in ((PROMPT, prompt_title(content)), (COMMAND, _command_title(content))):
        if title and memory.offer_title(rank):
            return title
    return None


def _command_title(content: bytes) -> str | None:
    found = dict(_COMMAND.findall(_prompt_text(content)))
    name = found.get("name", "")
    if not name or name in _IDLE_COMMANDS:
        return None
    return storable(summary(f"{name} {found.get('args', '')}"))


def _prompt_text(content: bytes) -> str:
    try:
        return str(tame(_text_slice(content) or b'""'))
    except Untrusted:
        return ""


def _text_slice(content: bytes) -> bytes:
    """The JSON string that a message's content is, or that its first text block holds."""
    if not content.startswith(b"["):
        return content if content.startswith(b'"') else b""
    for block in elements(content):
        found = members(block) if block.startswith(b"{") else {}
        if found.get("type") == b'"text"' and found.get("text", b"").startswith(b'"'):
            return found["text"]
    return b""


def message_key(uuid: str | None, number: int, raw: bytes) -> str:
    """Unique in a run, which may be told by several files: without an id, a line's place and what it says."""
    return uuid or f"{number}-{_digest(raw)}"


def _digest(prompt: bytes) -> str:
    return blake2s(prompt, digest_size=16).hexdigest()
