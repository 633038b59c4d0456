"""Reports about subagents in another run's file, and the journals of workflows.

1. `agent_progress` carries whole messages of a subagent. Where the subagent has a file of its own, the same
   calls come from there too; `origin` distinguishes them.
2. Before subagents had files, their lines were part of the session's, marked `isSidechain`. The oldest have no
   agent id: a sidechain is then identified by its first message, which is found through `parentUuid`.
3. Other progress (`bash_progress`, `hook_progress`, `mcp_progress` ...) is an event of its call.
4. `subagents/workflows/<run>/journal.jsonl` lists which agents of a workflow were started and what they
   returned. The agents' own files contain all of that and more, so journal lines are checked, and no records
   are made of them:

    {"type": "started", "key": …, "agentId": …}
    {"type": "result", "key": …, "agentId": …, "result": …}

5. `agent-<id>.meta.json` beside a subagent's file names the call that spawned it. Its result does too, but a call that
   is still open or failed has none. Of a subagent's subagent the result of that call decides alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import LineProblem, Record, RunRecord, SourceLine, SourcePath
from envelopes.recordings.claude_code.line import SessionLine, identify_file, read_entry
from envelopes.recordings.claude_code.messages import ApiMessage, MessageContext, message_records, read_message
from envelopes.recordings.claude_code.reader_state import (
    child_run_updates,
    digest,
    is_global_call_id,
    message_key,
    remember,
    text_slice,
)
from envelopes.recordings.json_lines import (
    NOTHING,
    entry_remarks,
    parsed_lines,
    read_json_lines,
    struct_reader,
    valid_timestamp,
)
from envelopes.text.untrusted_json import Untrusted

_META = ".meta.json"


class AgentMeta(msgspec.Struct, frozen=True, rename="camel"):
    tool_use_id: str | None = None
    parent_agent_id: str | None = None


class AgentProgress(msgspec.Struct, frozen=True, rename="camel"):
    """`data` of a progress line."""

    type: str | None = None
    agent_id: str | None = None
    prompt: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING


class JournalEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A line of a workflow's journal."""

    type: str | None = None
    key: str | None = None
    agent_id: str | None = None
    session_id: str | None = None


_read_progress = struct_reader(AgentProgress)
_read_agent_meta = struct_reader(AgentMeta)
_read_journal_entry = struct_reader(JournalEntry)


def progress_records(line: SessionLine) -> Iterator[Record | LineProblem]:
    call = line.entry.parent_tool_use_id
    call = call if call and is_global_call_id(call) else None
    try:
        progress = _read_progress(line.entry.data)
    except Untrusted:
        yield line.event("progress", "progress", line.raw, call)
        return
    if progress.agent_id and progress.type == "agent_progress":
        yield from _reported_message(line, progress, call)
    else:
        kind = progress.type or "progress"
        yield line.event(kind, kind, bytes(line.entry.data), call)


def _reported_message(line: SessionLine, progress: AgentProgress, call: str | None) -> Iterator[Record | LineProblem]:
    run = f"{line.session}/{progress.agent_id}"
    try:
        entry = read_entry(progress.message)
        message = read_message(entry.message)
    except Untrusted as refusal:
        yield line.problem("$.data.message", refusal.reason, bytes(progress.message), part=True)
        return
    at = valid_timestamp(entry.timestamp) or line.at
    prompt = bytes(progress.prompt)
    yield from child_run_updates(
        line.state, line.number, run, parent=line.run, call=call, at=at, prompt=prompt, origin="progress"
    )
    context = MessageContext(
        line=line.number,
        run=run,
        session=line.session,
        role=entry.type or "",
        key=message_key(entry.uuid, line.number, line.raw),
        at=at,
        path="$.data.message.message",
        result=entry.tool_use_result,
        origin="progress",
        inherited=line.inherited,
        names_other=line.names_other,
    )
    records = list(message_records(context, message, line.state))
    yield from records
    yield from entry_remarks(entry, records, "$.data.message", line=line.number, run=run)


def sidechain_records(line: SessionLine, message: ApiMessage) -> Iterator[Record | LineProblem]:
    run = f"{line.session}/{line.entry.agent_id or _sidechain_name(line)}"
    content = bytes(message.content)
    if run not in line.state.children:
        call = line.state.prompts.get(digest(text_slice(content)))  # the texts are the same, byte for byte
        yield from child_run_updates(
            line.state, line.number, run, parent=line.run, call=call, at=line.at, prompt=content
        )
    yield from message_records(line.message_context(run), message, line.state)


def _sidechain_name(line: SessionLine) -> str:
    known = line.state.sidechains
    uuid = line.entry.uuid or str(line.number)
    first = known.get(str(line.entry.parent_uuid), uuid)
    remember(known, uuid, first)
    return f"sidechain-{first}"


def sniff_meta(head: bytes, path: SourcePath) -> bool:
    """The name is that of such a file, and the content an object with the type of an agent."""
    return path.path.endswith(_META) and path.stem.startswith("agent-") and b'"agentType"' in head


def read_meta(
    lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Iterator[Record | LineProblem]:
    """Nothing for a file that is in no session's folder: the subagent's own lines name its session."""
    content = list(lines)
    if not content:
        return
    line, raw = content[0], b"".join(part.raw for part in content)
    try:
        meta = _read_agent_meta(raw)
    except Untrusted as refusal:
        yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw, lines=len(content))
        return
    file = identify_file(SourcePath(path.path.removesuffix(_META)))
    if file.session and file.agent and not meta.parent_agent_id:
        run = f"{file.session}/{file.agent}"
        yield RunRecord(line=line.number, run=run, parent_run=file.session, parent_call=meta.tool_use_id)


def sniff_journal(head: bytes, path: SourcePath) -> bool:
    """The first line that is JSON has a `type`, a `key` and an `agentId`, and no session."""
    entry = next(parsed_lines(head, _read_journal_entry), JournalEntry())
    return bool(entry.type and entry.key and entry.agent_id and not entry.session_id)


def read_journal(
    lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Iterator[Record | LineProblem]:
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            _read_journal_entry(line.raw)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
