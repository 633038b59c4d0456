"""The session and the messages around the calls of a rollout, and the changes of its conversation.

1. After a compaction the model has the items of `replacement_history`, where a release records them. Earlier releases
   kept what people wrote, or the newest of it, and added the summary in `message`. The compaction stands before its
   messages, at the line before its own. A summary that the provider encrypted is no message.
2. `thread_rolled_back` takes the last turns out of the conversation, as many as it names. A turn begins with what a
   person wrote. The context that the client adds in the role of the user is none: a block of it is a text between
   two known tags, and Codex counts no message that has such a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    PARTIAL_COMPACTION,
    REWIND,
    SYSTEM_PROMPT,
    LineProblem,
    MessageRecord,
    Record,
    RunRecord,
)
from envelopes.recordings.codex.lines import (
    TOKEN_BYTES,
    RolloutRead,
    Turn,
    digest,
    member,
    part_remark,
    policy_bytes,
    read_blocks,
    read_item,
    session_remarks,
    text_of_blocks,
)
from envelopes.recordings.json_lines import first_byte, storable, valid_timestamp
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import array_slices, parse_json

Records = Iterator[Record | LineProblem]
PROMPT_BYTES = 20_000 * TOKEN_BYTES  # of the messages that an early compaction keeps
_REQUEST_HEADING = "## My request for Codex:"
_CONTEXT_TAGS = (
    *("environment_context", "user_instructions", "turn_aborted", "user_shell_command", "subagent_notification"),
    *("skill", "hook_prompt", "goal_context", "codex_internal_context", "additional_context", "extension_context"),
    *("recommended_plugins", "agent_message_board_notification", r"external_[^\s<>]+"),
)
_CONTEXT = re.compile(
    rf"<(?P<tag>{'|'.join(_CONTEXT_TAGS)})(?:\s[^<>]*)?>.*</(?P=tag)>|# AGENTS\.md instructions\b.*</INSTRUCTIONS>",
    re.DOTALL | re.IGNORECASE,
)


def build_message(line: RolloutRead, role: str, content: bytes, **fields: object) -> MessageRecord:
    key = line.item.id or f"line-{line.number}"
    step = line.state.name_step(line.item.id or "") if role == "assistant" else None
    shared = {"line": line.number, "run": line.run, "key": key, "step": step, "at": line.at}
    return MessageRecord(role=role, content=content, **{**shared, **fields})  # type: ignore[arg-type]


def session_records(line: RolloutRead) -> Records:
    """The first is that of the file; those of the threads that it was forked from may follow."""
    item, state = line.item, line.state
    if state.began:
        yield line.event("session_meta")
        return
    state.began = True
    state.run = item.id or state.run
    state.version = item.cli_version or ""
    state.own_from = item.subagent_history_start_ordinal or 0
    spawn = member(member(member(bytes(item.source), "subagent"), "thread_spawn"), "parent_thread_id")
    parent = item.parent_thread_id or (parse_json(spawn) if spawn else None)
    branch = member(bytes(item.git), "branch")
    yield RunRecord(
        line=line.number,
        run=state.run,
        parent_run=parent if isinstance(parent, str) else None,
        agent="codex",
        version=item.cli_version,
        cwd=item.cwd,
        branch=str(parse_json(branch)) if branch and branch.startswith(b'"') else None,
        started_at=valid_timestamp(item.timestamp) or line.at,
    )
    instructions = member(bytes(item.base_instructions), "text")
    if instructions.startswith(b'"'):
        yield build_message(line, "system", instructions, kind=SYSTEM_PROMPT)
    yield from session_remarks(line)


def turn_records(line: RolloutRead) -> Records:
    item, state = line.item, line.state
    state.turn, state.answer = item.turn_id or state.turn, ""
    state.output_bytes = policy_bytes(bytes(item.truncation_policy)) or state.output_bytes
    if item.model and not state.model:
        yield RunRecord(line=line.number, run=line.run, model=item.model)
    state.model = item.model or state.model


def reasoning_records(line: RolloutRead) -> Records:
    text = text_of_blocks(bytes(line.item.summary))
    if text:
        yield line.event("reasoning", message=storable(summarize(text)))


def message_records(line: RolloutRead) -> Records:
    item, content = line.item, bytes(line.item.content)
    if item.role != "assistant":
        line.state.answer = ""
    if item.role == "user" and (text := text_of_blocks(content)):
        line.state.prompts.append(digest(text))
        if not any(_CONTEXT.fullmatch(block.strip()) for block in read_blocks(content)):
            line.state.turns.append(Turn(line.number, len(content)))
            yield from _title(line, text)
    yield build_message(line, item.role or "unknown", content or b'""')


def prompt_records(line: RolloutRead) -> Records:
    """The prompt, which most releases also wrote as the item that went to the model."""
    content = bytes(line.item.message)
    text = text_of_blocks(content)
    yield from part_remark(line, "$.payload.message", content, b'"', b"[")
    yield from _title(line, text)
    if text and digest(text) not in line.state.prompts:
        yield build_message(line, "user", content, delivery="unclear")


def _title(line: RolloutRead, text: str) -> Records:
    prompt = text.partition(_REQUEST_HEADING)[2] or text
    if not line.state.title and (title := summarize(prompt.strip())):
        line.state.title = True
        yield RunRecord(line=line.number, run=line.run, title=storable(title))


def compaction_records(line: RolloutRead) -> Records:
    history, message = bytes(line.item.replacement_history), bytes(line.item.message)
    if not history.startswith(b"["):
        event = line.event(PARTIAL_COMPACTION, message="the conversation was compacted, but for what people wrote")
        kept = msgspec.json.encode({"kept": _kept_prompts(line.state.turns)})
        yield msgspec.structs.replace(event, position=line.number - 1, payload=kept)
        if message.startswith(b'"') and message != b'""':
            yield build_message(line, "user", message)
        return
    event = line.event(COMPACTION, message="the conversation was compacted")
    yield msgspec.structs.replace(event, position=line.number - 1)
    for index, raw in enumerate(array_slices(history)):
        item = read_item(raw) if raw.startswith(b"{") else None
        if item and item.type in ("message", None) and first_byte(item.content) in (b'"', b"["):
            key = f"line-{line.number}-{index}"  # not its id, which a message that was kept has from before
            yield build_message(line, item.role or "unknown", bytes(item.content), key=key)


def _kept_prompts(turns: Sequence[Turn]) -> list[int]:
    """The lines of the newest messages of people, as far as a compaction keeps them whole."""
    sizes = accumulate(turn.size for turn in reversed(turns))
    return [turn.line for turn, size in zip(reversed(turns), sizes, strict=True) if size <= PROMPT_BYTES][::-1]


def rollback_records(line: RolloutRead) -> Records:
    turns, number = line.state.turns, line.item.num_turns or 0
    if number < 1 or not turns:
        yield line.event("thread_rolled_back")
        return
    start = turns[-number:][0].line
    del turns[-number:]
    message = f"the person went back: lines {start} to {line.number - 1} left the conversation"
    payload = {"left": [start, line.number], "returned": None}
    yield msgspec.structs.replace(line.event(REWIND, message=message), payload=msgspec.json.encode(payload))
