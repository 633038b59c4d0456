"""Sessions of the GitHub Copilot CLI, `session-state/<session>/events.jsonl`, as releases 1.0.12 to 1.0.102 write them.

    {type, data, id, timestamp, parentId, agentId?}

1. An `assistant.message` is an answer with its `toolRequests`. What a `user.message` sent is its `transformedContent`.
2. `tool.execution_complete` of a success has `result.content`, the text that the model gets, and beside it what is
   there for the client: `detailedContent`, a difference or the lines of a file, `structuredContent` of an MCP server,
   in later releases `shellExecution` with the exit code and `fileEdits`. Those are the result. A `detailedContent` that
   repeats the content is none, but where a `view` sent no text the record has it in place of the content.
3. Of a failure there is `error: {message, code}`, which is often not the sentence that was sent: the receipt is
   reconstructed from it. A session that is resumed sends what was recorded.
4. A compaction works beside the agent: what was recorded before its start has left the context with its end, in whose
   place the client sends the summary in a wording of its own. What came after the start stays.
5. Events of a subagent are in the same file, with an `agentId` or, in earlier releases, the `parentToolCallId` of the
   call that started it: its run is `<session>/<call>`.
6. Whether the model got an image depends on the model, and is not recorded. Ids of calls are those of the provider,
   which need not be unique: a call whose id was there before is named by it and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    LATER_TEXT,
    META,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
    TASK_REPORT,
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    Format,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue, JsonDocument, unused_id
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, read_json_lines, storable, struct_reader
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_object

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT = "copilot-cli"
_START = "session.start"
_UNSPOKEN = (  # events that only mark a place, or repeat what others have
    "assistant.turn_start",
    "assistant.turn_end",
    "session.binary_asset",
    "session.usage_checkpoint",
    "subagent.configured",
    "subagent.selected",
)
_LEVELS = {"session.error": "error", "model.call_failure": "error", "abort": "warn", "session.warning": "warn"}
_DENIED = {"denied": "write_denied", "rejected": "write_denied"}  # codes of errors
_FOR_THE_CLIENT = ("structuredContent", "contents")  # members of a result
_OF_THE_CALL = ("shellExecution", "fileEdits")  # the same beside it
_EMPTY_VIEW = "\ndiff --git "
_KNOWN = 4_096  # calls, and lines


class CopilotLine(ForeignEntry, frozen=True, gc=False):
    """The members by which the first line of a session is recognised."""

    type: str | None = None
    data: msgspec.Raw = msgspec.Raw()


class CopilotState(msgspec.Struct):
    """`calls` are the names of calls by their ids, `tools` their tools and `started` their beginnings, by name.

    `agents` are the calls that started subagents, by the ids of these; `modelled` the runs whose model is known.
    `since` are the lines of each run since the start of a compaction. `unsent` are recorded texts of calls whose model
    got nothing, by run and call, until the session is resumed.
    """

    run: str = ""
    title: bool = False
    calls: dict[str, str] = {}
    tools: dict[str, str] = {}
    started: dict[str, str] = {}
    agents: dict[str, str] = {}
    modelled: list[str] = []
    since: dict[str, list[int]] = {}
    unsent: list[tuple[str, str, str]] = []

    def forget_oldest(self) -> None:
        for table in (self.calls, self.tools, self.started, self.agents):
            while len(table) > _KNOWN:
                del table[next(iter(table))]
        for lines in self.since.values():
            del lines[:-_KNOWN]
        del self.modelled[:-_KNOWN]
        del self.unsent[:-_KNOWN]

    def run_of(self, agent: str | None, call: str | None) -> str:
        """The run of an event: that of the session, or of the subagent that a call started."""
        spawning = call or self.agents.get(agent or "", agent)
        return f"{self.run}/{spawning}" if spawning else self.run


class _Event(msgspec.Struct, frozen=True):
    node: DocumentValue
    data: Members
    kind: str
    key: str
    at: str | None
    run: str

    @property
    def line(self) -> int:
        return self.node.line


_read_entry = struct_reader(CopilotLine)


def sniff(head: bytes, path: SourcePath) -> bool:
    """The first line starts a session of a release."""
    entry = next(parsed_lines(head, _read_entry), None)
    return entry is not None and entry.type == _START and b'"copilotVersion"' in bytes(entry.data)


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(AGENT, {}), CopilotState)
    state.run = state.run or path.path.rpartition("/")[0].rpartition("/")[2] or path.stem
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        node = DocumentValue(JsonDocument([line]), line.raw, 0)
        try:
            yield from list(_line_records(node, state))
            yield from node.document.take_remarks(state.run)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
        state.forget_oldest()
        saved[AGENT] = msgspec.to_builtins(state)


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
    event = _Event(node, data, kind, key, at, state.run_of(agent, text_member(data, "parentToolCallId")))
    model = text_member(data, "selectedModel", "newModel", "model")
    if model and event.run not in state.modelled and kind != "tool.execution_complete":
        state.modelled.append(event.run)
        yield RunRecord(line=node.line, run=event.run, model=model)
    if reader := _READERS.get(kind):
        yield from reader(event, state)
    elif kind not in _UNSPOKEN:
        yield _note(event)


def _note(event: _Event, text: str | None = None, kind: str | None = None, call: str | None = None) -> EventRecord:
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


def _message(
    event: _Event, state: CopilotState, role: str, content: DocumentValue | None, kind: str | None = None
) -> Records:
    """A text of the conversation; nothing for an empty one."""
    if content is None or not content.is_text or content.raw == b'""':
        return
    delivery: Delivery = "unclear" if list_member(event.data, "attachments") else "sent"
    if event.run in state.since:
        state.since[event.run].append(event.line)
    yield MessageRecord(
        line=event.line,
        run=event.run,
        key=event.key,
        role=role,
        content=content.raw,
        step=text_member(event.data, "messageId") if role == "assistant" else None,
        at=event.at,
        kind=kind,
        delivery=delivery,
    )


def _session(event: _Event, state: CopilotState) -> Records:
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


def _resume(event: _Event, state: CopilotState) -> Records:
    """From here on, the model gets recorded texts where it had got none."""
    yield _note(event, "the session was resumed")
    for run, call, text in state.unsent:
        yield SupersedeRecord(
            line=event.line, run=run, call=call, reason=LATER_TEXT, content=text.encode(), at=event.at
        )
    state.unsent = []


def _user(event: _Event, state: CopilotState) -> Records:
    source = text_member(event.data, "source")
    written = event.data.get("content")
    if not state.title and source is None and written and (title := summarize((written.text() or "").strip())):
        state.title = True
        yield RunRecord(line=event.line, run=event.run, title=title)
    kind = None if source is None or source.startswith("agent-") else META
    yield from _message(event, state, "user", event.data.get("transformedContent") or written, kind)


def _system(event: _Event, state: CopilotState) -> Records:
    yield from _message(event, state, "system", event.data.get("content"), SYSTEM_PROMPT)


def _notification(event: _Event, state: CopilotState) -> Records:
    yield from _message(event, state, "user", event.data.get("content"), TASK_REPORT)


def _answer(event: _Event, state: CopilotState) -> Records:
    if reasoning := text_member(event.data, "reasoningText"):
        yield _note(event, reasoning, "reasoning")
    yield from _message(event, state, "assistant", event.data.get("content"))
    for number, request in enumerate(list_member(event.data, "toolRequests")):
        members = request.members()
        call, tool = text_member(members, "toolCallId"), text_member(members, "name")
        if not call or not tool:
            yield request.problem(f"$.data.toolRequests[{number}]", "a call without an id or a name")
            continue
        yield _call(event, state, call, tool, members.get("arguments"))


def _call(event: _Event, state: CopilotState, call: str, tool: str, args: DocumentValue | None) -> CallRecord:
    name = state.calls[call] = unused_id(call, f"{call}-{event.line}", state.tools)
    state.tools[name] = tool
    if event.run in state.since:
        state.since[event.run].append(event.line)
    return CallRecord(
        line=event.line,
        run=event.run,
        call=name,
        tool=tool,
        args=args.raw if args else b"{}",
        step=text_member(event.data, "messageId"),
        at=event.at,
    )


def _begin(event: _Event, state: CopilotState) -> Records:
    """The beginning of a call; that of a call which no answer asked for is the call itself."""
    call, tool = text_member(event.data, "toolCallId"), text_member(event.data, "toolName")
    if call and tool and call not in state.calls:
        yield _call(event, state, call, tool, event.data.get("arguments"))
    if event.at and call in state.calls:
        state.started[state.calls[call]] = event.at


def _complete(event: _Event, state: CopilotState) -> Records:
    call, success = text_member(event.data, "toolCallId"), flag_member(event.data, "success")
    if not call or success is None:
        raise Untrusted("no end of a call: it has no toolCallId, or no success", "$.data")
    name = state.calls.get(call, call)
    if event.run in state.since:
        state.since[event.run].append(event.line)
    child = f"{state.run}/{call}" if call in state.agents.values() else None
    end = ResultRecord(
        line=event.line,
        run=event.run,
        call=name,
        result=None,
        is_error=not success,
        at=event.at,
        started_at=state.started.get(name),
        child_run=child,
    )
    yield from _success(event, state, end) if success else _failure(event, end)


def _failure(event: _Event, end: ResultRecord) -> Records:
    error = object_member(event.data, "error")
    message = error.get("message")
    if message is None or not message.is_text:
        yield end
        return
    denied = _DENIED.get(text_member(error, "code") or "")
    yield msgspec.structs.replace(end, result=message.raw, fidelity="stringified", stated_kind=denied)
    yield ReceiptRecord(
        line=event.line, run=event.run, call=end.call, content=message.raw, fidelity="reconstructed", at=event.at
    )


def _success(event: _Event, state: CopilotState, end: ResultRecord) -> Records:
    result = object_member(event.data, "result")
    content, detailed = result.get("content"), result.get("detailedContent")
    kept = {name: result[name].raw for name in _FOR_THE_CLIENT if name in result}
    kept |= {name: event.data[name].raw for name in _OF_THE_CALL if name in event.data}
    is_repeated = bool(content and detailed and content.raw == detailed.raw)
    text = (content.text() if content and content.is_text else None) or ""
    is_unsent = is_repeated and state.tools.get(end.call) == "view" and text.startswith(_EMPTY_VIEW)
    if detailed and (is_unsent or not is_repeated):
        kept = {"detailedContent": detailed.raw, **kept}
    yield msgspec.structs.replace(end, result=join_object(kept) if kept else None)
    if content is None or not content.is_text:
        return
    receipt = ReceiptRecord(line=event.line, run=event.run, call=end.call, content=content.raw, at=event.at)
    if is_unsent:
        state.unsent.append((event.run, end.call, content.raw.decode()))
        receipt = msgspec.structs.replace(receipt, content=b'""', fidelity="reconstructed")
    yield receipt
    if preview := find_output_preview(text):
        path = storable(preview.path)
        yield ArtifactRecord(line=event.line, run=event.run, call=end.call, role="output", path=path)
    for asset in list_member(result, "binaryResultsForLlm"):
        words = f"{text_member(asset.members(), 'mimeType') or 'a file'} was read for the model"
        yield msgspec.structs.replace(_note(event, words, "attachment", end.call), payload=asset.raw)


def _subagent(event: _Event, state: CopilotState) -> Records:
    call = text_member(event.data, "toolCallId")
    if not call:
        raise Untrusted("no subagent: it has no toolCallId", "$.data.toolCallId")
    state.agents.setdefault(call, call)  # earlier releases name a subagent by nothing else
    yield RunRecord(
        line=event.line,
        run=f"{state.run}/{call}",
        parent_run=state.run,
        parent_call=state.calls.get(call, call),
        title=summarize(text_member(event.data, "agentDisplayName", "agentName") or "") or None,
        agent=AGENT,
        started_at=event.at,
    )


def _usage(event: _Event, state: CopilotState) -> Records:
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


def _start_compaction(event: _Event, state: CopilotState) -> Records:
    state.since[event.run] = []
    yield _note(event, "a compaction began")


def _compaction(event: _Event, state: CopilotState) -> Records:
    """The event stands before the summary, at the line before its own."""
    kept = sorted(set(state.since.pop(event.run, [])))
    summary = event.data.get("summaryContent")
    outcome = text_member(event.data, "outcome") or "applied"
    if not flag_member(event.data, "success") or outcome != "applied":
        yield _note(event, text_member(event.data, "error") or f"a compaction ended: {outcome}")
        return
    words = "the conversation was compacted" + (", but for what was added meanwhile" if kept else "")
    done = _note(event, words, PARTIAL_COMPACTION if kept else COMPACTION)
    payload = msgspec.json.encode({"kept": kept}) if kept else event.node.raw
    yield msgspec.structs.replace(done, position=event.line - 1, payload=payload)
    for message in _message(event, state, "user", summary, COMPACTION_SUMMARY):
        yield msgspec.structs.replace(message, delivery="reworded")


_READERS: dict[str, Callable[[_Event, CopilotState], Records]] = {
    _START: _session,
    "session.resume": _resume,
    "user.message": _user,
    "system.message": _system,
    "system.notification": _notification,
    "assistant.message": _answer,
    "tool.execution_start": _begin,
    "tool.execution_complete": _complete,
    "subagent.started": _subagent,
    "session.usage_record": _usage,
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
