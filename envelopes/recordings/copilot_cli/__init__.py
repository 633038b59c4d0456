"""Sessions of the GitHub Copilot CLI, `session-state/<session>/events.jsonl`, as releases 1.0.12 to 1.0.102 write them.

    {type, data, id, timestamp, parentId, agentId?}

    events.py   what the readers of events share
    calls.py    calls of tools, and the subagents that they start

1. An `assistant.message` is an answer with its `toolRequests`. What a `user.message` sent is its `transformedContent`.
2. `tool.execution_complete` of a success has `result.content`, the text that the model gets, and beside it what is
   there for the client: `detailedContent`, a difference or the lines of a file, `structuredContent` of an MCP server,
   in later releases `shellExecution` with the exit code and `fileEdits`. Those are the result. A `detailedContent` that
   repeats the content is ignored. For a `view` that sent no text, the record has it in place of the content.
3. Of a failure there is `error: {message, code}`, which is often not the sentence that was sent: the receipt is
   reconstructed from it. A session that is resumed sends what was recorded, and of a call that had no end a sentence.
4. A compaction works beside the agent: what was recorded before its start has left the context with its end, in whose
   place the client sends the summary in a wording of its own. What came after the start stays.
5. Events of a subagent are in the same file, with an `agentId` or, in earlier releases, the `parentToolCallId` of the
   call that started it: its run is `<session>/<call>`.
6. Whether the model got an image depends on the model, and is not recorded. Ids of calls are those of the provider,
   which need not be unique: a call whose id was there before is named by it and its line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    META,
    NEW_CONVERSATION,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
    TASK_REPORT,
    Format,
    RunRecord,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.copilot_cli.calls import (
    begin_call,
    end_call,
    end_program,
    read_call,
    resume_session,
    start_subagent,
)
from envelopes.recordings.copilot_cli.events import AGENT, CopilotEvent, CopilotState, Records, note_event, read_text
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, struct_reader
from envelopes.recordings.session_lines import read_session
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, dump_json

_START = "session.start"
_UNSPOKEN = (  # events that only mark a place, or repeat what others have
    "assistant.turn_start",
    "assistant.turn_end",
    "session.binary_asset",
    "session.usage_checkpoint",
    "subagent.configured",
    "subagent.selected",
)


class CopilotLine(ForeignEntry, frozen=True, gc=False):
    """The members by which the first line of a session is recognised."""

    type: str | None = None
    data: msgspec.Raw = msgspec.Raw()


_read_entry = struct_reader(CopilotLine)


def sniff(head: bytes, path: SourcePath) -> bool:
    """The first line starts a session of a release."""
    entry = next(parsed_lines(head, _read_entry), None)
    return entry is not None and entry.type == _START and b'"copilotVersion"' in bytes(entry.data)


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(AGENT, {}), CopilotState)
    state.run = state.run or path.path.rpartition("/")[0].rpartition("/")[2] or path.stem
    yield from read_session(lines, saved, AGENT, state, lambda node: _line_records(node, state))


def _line_records(node: DocumentValue, state: CopilotState) -> Records:
    members = node.members()
    kind, data = text_member(members, "type"), object_member(members, "data")
    if kind is None:
        raise Untrusted("no event: it has no type", "$.type")
    key, at = text_member(members, "id") or f"line-{node.line}", time_member(members, "timestamp")
    if kind == _START:
        state.run = text_member(data, "sessionId") or state.run
    agent = text_member(members, "agentId")
    if kind == "subagent.started" and agent:
        state.agents[agent] = text_member(data, "toolCallId") or agent
    event = CopilotEvent(node, data, kind, key, at, state.run_of(agent, text_member(data, "parentToolCallId")))
    model = text_member(data, "selectedModel", "newModel", "model")
    if model and event.run not in state.modelled and kind != "tool.execution_complete":
        state.modelled.append(event.run)
        yield RunRecord(line=node.line, run=event.run, model=model)
    if reader := _READERS.get(kind):
        yield from reader(event, state)
    elif kind not in _UNSPOKEN:
        yield note_event(event)


def _session(event: CopilotEvent, state: CopilotState) -> Records:
    context = object_member(event.data, "context")
    yield RunRecord(
        line=event.line,
        run=event.run,
        agent=AGENT,
        version=text_member(event.data, "copilotVersion"),
        cwd=text_member(context, "cwd"),
        branch=text_member(context, "branch"),
        started_at=event.at,
    )


def _user(event: CopilotEvent, state: CopilotState) -> Records:
    source = text_member(event.data, "source")
    written = event.data.get("content")
    if not state.title and source is None and written and (title := summarize((written.text() or "").strip())):
        state.title = True
        yield RunRecord(line=event.line, run=event.run, title=title)
    kind = None if source is None or source.startswith("agent-") else META
    sent = event.data.get("transformedContent") or written
    yield from read_text(event, state, "user", sent.raw if sent else None, kind)


def _system(event: CopilotEvent, state: CopilotState) -> Records:
    yield from read_text(event, state, "system", _content(event), SYSTEM_PROMPT)


def _notification(event: CopilotEvent, state: CopilotState) -> Records:
    yield from read_text(event, state, "user", _content(event), TASK_REPORT)


def _content(event: CopilotEvent) -> bytes | None:
    return event.data["content"].raw if "content" in event.data else None


def _skill(event: CopilotEvent, state: CopilotState) -> Records:
    state.skill = text_member(event.data, "content") or ""
    yield note_event(event, f"the skill {text_member(event.data, 'name')} was loaded")


def _skill_context(event: CopilotEvent, state: CopilotState) -> Records:
    """The text of a skill as it was sent, of releases that refer to it; earlier ones have it in a message."""
    before, behind = (text_member(event.data, name) or "" for name in ("prefix", "suffix"))
    text = dump_json(f"{before}{state.skill}{behind}")
    is_same = text_member(event.data, "contentId") == f"sha256:{hashlib.sha256(state.skill.encode()).hexdigest()}"
    for message in read_text(event, state, "user", text, META):
        yield message if is_same else msgspec.structs.replace(message, delivery="reworded")


def _clear(event: CopilotEvent, state: CopilotState) -> Records:
    yield note_event(event, "the conversation was cleared", NEW_CONVERSATION)


def _answer(event: CopilotEvent, state: CopilotState) -> Records:
    if reasoning := text_member(event.data, "reasoningText"):
        yield note_event(event, reasoning, "reasoning")
    yield from read_text(event, state, "assistant", _content(event))
    for number, request in enumerate(list_member(event.data, "toolRequests")):
        members = request.members()
        call, tool = text_member(members, "toolCallId"), text_member(members, "name")
        if not call or not tool:
            yield request.problem(f"$.data.toolRequests[{number}]", "a call without an id or a name")
            continue
        yield read_call(event, state, call, tool, members.get("arguments"))


def _usage(event: CopilotEvent, state: CopilotState) -> Records:
    usage = event.data.get("usage")
    if usage is None or not usage.is_object:
        return
    counts = usage.members()
    read, written = integer_member(counts, "cacheReadTokens"), integer_member(counts, "cacheWriteTokens")
    yield UsageRecord(
        line=event.line,
        run=event.run,
        request=text_member(counts, "apiCallId") or event.key,
        input_tokens=max(0, integer_member(counts, "inputTokens") - read - written),
        cache_read_tokens=read,
        cache_creation_tokens=written,
        output_tokens=integer_member(counts, "outputTokens"),
        usage=usage.raw,
        at=event.at,
    )


def _start_compaction(event: CopilotEvent, state: CopilotState) -> Records:
    state.since[event.run] = []
    yield note_event(event, "a compaction began")


def _compaction(event: CopilotEvent, state: CopilotState) -> Records:
    """The event stands before the summary, at the line before its own."""
    if event.key == state.compacted:  # a repeated line
        return
    state.compacted, kept = event.key, sorted(set(state.since.pop(event.run, [])))
    summary = event.data.get("summaryContent")
    outcome = text_member(event.data, "outcome") or "applied"
    if not flag_member(event.data, "success") or outcome != "applied":
        yield note_event(event, text_member(event.data, "error") or f"a compaction ended: {outcome}")
        return
    state.unsent = {
        call: unsent for call, unsent in state.unsent.items() if unsent.run != event.run or unsent.line in kept
    }
    words = "the conversation was compacted" + (", but for what was added meanwhile" if kept else "")
    done = note_event(event, words, PARTIAL_COMPACTION if kept else COMPACTION)
    payload = msgspec.json.encode({"kept": kept}) if kept else event.node.raw
    yield msgspec.structs.replace(done, position=event.line - 1, payload=payload)
    for message in read_text(event, state, "user", summary.raw if summary else None, COMPACTION_SUMMARY):
        yield msgspec.structs.replace(message, delivery="reworded")


_READERS: dict[str, Callable[[CopilotEvent, CopilotState], Records]] = {
    _START: _session,
    "session.resume": resume_session,
    "session.shutdown": end_program,
    "user.message": _user,
    "system.message": _system,
    "system.notification": _notification,
    "assistant.message": _answer,
    "tool.execution_start": begin_call,
    "tool.execution_complete": end_call,
    "subagent.started": start_subagent,
    "session.usage_record": _usage,
    "session.context_cleared": _clear,
    "skill.invoked": _skill,
    "skill.context_delivered_ref": _skill_context,
    "session.compaction_start": _start_compaction,
    "session.compaction_complete": _compaction,
}

FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="GitHub Copilot CLI session",
        agent=AGENT,
        namespace=AGENT,
        mark="a first line session.start with a copilotVersion",
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
    ),
)
