"""Sessions of Qwen Code, `projects/<folder>/chats/<session>.jsonl`, as releases 0.12 to 0.24 write them.

    {uuid, parentUuid, sessionId, timestamp, type, subtype?, cwd, version, gitBranch?, model?, message?, …}

1. `message` is a content of the Gemini API, `{role, parts}`, whatever the provider. `user`, `assistant` and
   `tool_result` lines together are the conversation; a part of an assistant with `functionCall` is a call.
2. A `tool_result` has the `functionResponse` that went to the model: the receipt is its one text, or the parts where it
   has others. `toolCallResult` is `{callId, status, resultDisplay, error?, errorType?}`; `resultDisplay` is the result
   where it is an object, or a text that is the output itself. Another text is a view for a person, kept as extra data.
   Of a failure without such a result it is `{errorType}`. Lines of a subagent have no status: a response `{error}` is a
   failure.
3. `usageMetadata` of an assistant is the usage of its request.
4. `system` lines are the program's own. `chat_compression` has the new history in `compressedHistory`: what of it is
   known stayed, the rest is the summary. What was recorded since the last answer of the model is not in it and goes out
   behind it. Written late, it ends in the answer that a later line has, other than the one made up for the summary. A
   `rewind` stands below the line after which the conversation goes on.
5. Ids of calls are those of the provider, which need not be unique: some count the calls of each answer. A call whose
   id was there before is named by it and its line, and an answer is that of the last call with its id that has none.
6. Lines of a subagent are in a file of its own and have `isSidechain`, the `sessionId` of its parent and an `agentId`,
   `<agentName>-<id of the call>`: its run is `<session>/<agentId>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from envelopes.alignment.failure_sentences import ERROR_TYPE
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    TASK_REPORT,
    ArtifactRecord,
    CallRecord,
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
    UsageRecord,
)
from envelopes.recordings.document_fields import integer_member, list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, unused_id
from envelopes.recordings.gemini_answers import find_response_text, is_error_response, read_answer
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, storable, struct_reader
from envelopes.recordings.session_lines import read_session
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT = "qwen-code"
_TYPES = ("user", "assistant", "tool_result", "system")
_CLIENT_KINDS = {"notification": TASK_REPORT, "cron": META}  # of messages in the role of the user, by subtype
_KNOWN = 4_096  # lines, and calls


class QwenLine(ForeignEntry, frozen=True, gc=False, rename="camel"):
    """The members by which a line of this format differs from one of another agent with sessions of the same form."""

    uuid: str | None = None
    session_id: str | None = None
    type: str | None = None
    message: msgspec.Raw = msgspec.Raw()


class QwenMessage(ForeignEntry, frozen=True, gc=False):
    parts: msgspec.Raw = msgspec.Raw()


class QwenState(msgspec.Struct):
    """`lines` are those of the conversation by their ids, `calls` the lines of each call and of its receipt, by name.

    `names` are those of the calls with an id that came again, in order, `args` the digests of arguments by name.
    `asked` and `answered` are the names of calls by the places that asked and answered: a line may be repeated.
    `texts` are the lines of the messages by a digest of their parts, `pending` the lines since the model's last answer.
    """

    run: str = ""
    title: bool = False
    facts: bool = False
    model: bool = False
    lines: dict[str, int] = {}
    calls: dict[str, list[int]] = {}
    names: dict[str, list[str]] = {}
    args: dict[str, str] = {}
    asked: dict[str, str] = {}
    answered: dict[str, str] = {}
    texts: dict[str, int] = {}
    pending: list[int] = []

    def forget_oldest(self) -> None:
        del self.pending[:-_KNOWN]
        named: tuple[dict[str, Any], ...] = (self.calls, self.names, self.args, self.asked, self.answered)
        for table in (*named, self.lines, self.texts):
            while len(table) > _KNOWN:
                del table[next(iter(table))]

    def named(self, call: str) -> list[str]:
        """The names of the calls with this id, in order."""
        return self.names.get(call, [call] if call in self.calls else [])


_read_entry = struct_reader(QwenLine)
_read_message = struct_reader(QwenMessage)


def sniff(head: bytes, path: SourcePath) -> bool:
    """Some line has a session, and a message with parts."""
    for entry in parsed_lines(head, _read_entry):
        message = bytes(entry.message)
        if entry.uuid and entry.session_id and entry.type in _TYPES and message.startswith(b"{"):
            try:
                return bytes(_read_message(message).parts).startswith(b"[")
            except Untrusted:
                return False
    return False


def is_global_call_id(call: str) -> bool:
    return False


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(AGENT, {}), QwenState)
    state.run = state.run or path.stem
    yield from read_session(lines, saved, AGENT, state, lambda node: _line_records(node, state))


def _line_records(node: DocumentValue, state: QwenState) -> Records:
    members = node.members()
    kind, key = text_member(members, "type"), text_member(members, "uuid") or f"line-{node.line}"
    if kind is None:
        raise Untrusted("no message: it has no type", "$.type")
    state.run = _run_name(members) or state.run
    yield from _run_facts(node, members, state)
    state.lines[key] = node.line
    parts = list_member(object_member(members, "message"), "parts")
    if kind != "system":
        state.pending = [] if kind == "assistant" else [*state.pending, node.line]
    if kind == "tool_result":
        yield from _answers(node, members, parts, state)
    elif kind in ("user", "assistant"):
        client_kind = _CLIENT_KINDS.get(text_member(members, "subtype") or "") if kind == "user" else None
        yield from _message(node, members, parts, state, key, kind, client_kind)
    elif kind == "system":
        yield from _system(node, members, state)
    else:
        yield _event(node, members, state, kind)


def _run_name(members: Members) -> str:
    session, agent = text_member(members, "sessionId") or "", _subagent(members)
    return f"{session}/{agent}" if session and agent else session


def _subagent(members: Members) -> str:
    is_sidechain = "isSidechain" in members and members["isSidechain"].raw == b"true"
    return (text_member(members, "agentId") or "") if is_sidechain else ""


def _spawning_call(members: Members) -> str | None:
    before = f"{text_member(members, 'agentName')}-"
    agent = _subagent(members)
    return agent.removeprefix(before) or None if agent.startswith(before) else None


def _child_run(shown: Members, call: str, state: QwenState) -> str | None:
    """The run of the subagent that a call started; without a file of its own it is in no recording."""
    name = text_member(shown, "subagentName")
    return f"{state.run.split('/')[0]}/{name}-{call}" if name else None


def _run_facts(node: DocumentValue, members: Members, state: QwenState) -> Records:
    model = text_member(members, "model")
    if not state.facts:
        yield RunRecord(
            line=node.line,
            run=state.run,
            parent_run=text_member(members, "sessionId") if _subagent(members) else None,
            parent_call=_spawning_call(members),
            agent=AGENT,
            version=text_member(members, "version"),
            cwd=text_member(members, "cwd"),
            branch=text_member(members, "gitBranch"),
            started_at=time_member(members, "timestamp"),
        )
        state.facts = True
    if model and not state.model:
        state.model = True
        yield RunRecord(line=node.line, run=state.run, model=model)


def _event(node: DocumentValue, members: Members, state: QwenState, kind: str, text: str = "") -> EventRecord:
    at = time_member(members, "timestamp")
    message = storable(summarize(text or kind))
    return EventRecord(line=node.line, run=state.run, kind=kind, message=message, payload=node.raw, at=at)


def _message(
    node: DocumentValue,
    members: Members,
    parts: Sequence[DocumentValue],
    state: QwenState,
    key: str,
    role: str,
    kind: str | None,
) -> Records:
    at = time_member(members, "timestamp")
    sent, calls = [], []
    for part in parts:
        content = part.members()
        if "functionCall" in content:
            calls.append(content["functionCall"])
        elif "thought" in content:
            yield _event(part, members, state, "reasoning", text_member(content, "text") or "")
        else:
            sent.append(part)
    if role == "user" and kind is None and not state.title and (title := summarize(_text(sent).strip())):
        state.title = True
        yield RunRecord(line=node.line, run=state.run, title=title)
    if sent:
        content_raw = join_array([part.raw for part in sent])
        state.texts[_digest(content_raw)] = node.line
        yield MessageRecord(
            line=node.line, run=state.run, key=key, role=role, content=content_raw, step=key, at=at, kind=kind
        )
    for number, call in enumerate(calls):
        yield from _call(call, state, key, at, f"$.message.parts[{number}].functionCall")
    if (usage := members.get("usageMetadata")) and usage.is_object:
        yield _usage(usage, state, key)


def _text(parts: Iterable[DocumentValue]) -> str:
    return "".join(text_member(part.members(), "text") or "" for part in parts)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _call(node: DocumentValue, state: QwenState, step: str, at: str | None, path: str) -> Records:
    members = node.members()
    call, tool, args = text_member(members, "id"), text_member(members, "name"), members.get("args")
    if not call or not tool:
        yield node.problem(path, "a call without an id or a name")
        return
    place = f"{step}{path}"
    name = state.asked.get(place) or unused_id(call, f"{call}-{node.line}", state.args)
    if name != call and name not in state.args:
        state.names[call] = [*state.named(call), name][-_KNOWN:]
    state.asked[place], state.args[name] = name, _digest(args.raw if args else b"{}")
    state.calls[name] = [node.line]
    yield CallRecord(
        line=node.line, run=state.run, call=name, tool=tool, args=args.raw if args else b"{}", step=step, at=at
    )


def _usage(usage: DocumentValue, state: QwenState, request: str) -> UsageRecord:
    members = usage.members()
    total, cached = integer_member(members, "promptTokenCount"), integer_member(members, "cachedContentTokenCount")
    return UsageRecord(
        line=usage.line,
        run=state.run,
        request=request,
        input_tokens=max(0, total - cached),
        cache_read_tokens=min(total, cached),
        cache_creation_tokens=0,
        output_tokens=integer_member(members, "candidatesTokenCount"),
        usage=usage.raw,
    )


def _answers(node: DocumentValue, members: Members, parts: Sequence[DocumentValue], state: QwenState) -> Records:
    at = time_member(members, "timestamp")
    recorded = object_member(members, "toolCallResult")
    responses = [(part, object_member(part.members(), "functionResponse")) for part in parts]
    named = [text_member(response, "id") for _, response in responses if response]
    if not named or not all(named):
        raise Untrusted("no answer of a tool: it has no functionResponse with an id", "$.message.parts")
    for part, response in responses:
        call, tool = text_member(response, "id") or "", text_member(response, "name") or ""
        if not response:  # an image or a file behind the one response
            continue
        receipt = find_response_text(response) if len(parts) == 1 else None
        content = receipt.raw if receipt else join_array([other.raw for other in parts])
        place = f"{text_member(members, 'uuid')} {call}"
        name = state.answered[place] = state.answered.get(place) or _answered_call(call, state)
        state.calls[name] = [*state.calls.get(name, ())[:1], node.line]
        yield ReceiptRecord(line=part.line, run=state.run, call=name, content=content, at=at)
        if preview := find_output_preview(receipt.text() or "") if receipt else None:
            path = storable(preview.path)
            yield ArtifactRecord(line=part.line, run=state.run, call=name, role="output", path=path)
        if (text_member(recorded, "callId") or call) == call:
            shown = (receipt.text() or "") if receipt else ""
            display = recorded.get("resultDisplay")  # often a text for a person, which is no value of the wrong type
            child = _child_run(display.members() if display else {}, call, state)
            failed = True if is_error_response(response) else None  # where it is not stated
            record = ResultRecord(
                line=node.line, run=state.run, call=name, result=None, is_error=failed, at=at, child_run=child
            )
            status, error_type = text_member(recorded, "status"), recorded.get(ERROR_TYPE)
            yield read_answer(display, status, shown, tool, record, error_type)


def _answered_call(call: str, state: QwenState) -> str:
    """The name of the call with this id that an answer is of: of those in one line the first without an answer."""
    names = state.named(call) or [call]
    waiting = [name for name in names if len(state.calls.get(name, ())) == 1]
    last = state.calls[waiting[-1]] if waiting else []
    return next((name for name in waiting if state.calls[name] == last), names[-1])


def _system(node: DocumentValue, members: Members, state: QwenState) -> Records:
    subtype = text_member(members, "subtype") or "system"
    payload = object_member(members, "systemPayload")
    if subtype == "chat_compression" and "compressedHistory" in payload:
        yield from _compression(node, members, list_member(payload, "compressedHistory"), state)
    elif subtype == REWIND:
        yield _rewind(node, members, state)
    else:
        yield _event(node, members, state, subtype)
        if subtype == "custom_title" and (title := summarize(text_member(payload, "customTitle") or "")):
            yield RunRecord(line=node.line, run=state.run, title=title)


def _compression(node: DocumentValue, members: Members, history: Sequence[DocumentValue], state: QwenState) -> Records:
    """The event stands before the new messages, at the line before its own. What is kept keeps its line."""
    kept, added = {*state.pending, *_kept_calls(history, state)}, []
    for number, content in enumerate(history):
        parts = list_member(content.members(), "parts")
        texts = [part for part in parts if part.members().keys().isdisjoint({"functionCall", "functionResponse"})]
        raw = join_array([part.raw for part in texts])
        if _digest(raw) in state.texts:
            kept.add(state.texts[_digest(raw)])
        elif texts and not _is_next_answer(content, number, len(history)):
            role = text_member(content.members(), "role")
            added.append((number, "assistant" if role == "model" else role or "user", raw))
    message = "the conversation was compacted" + (", but for what stayed" if kept else "")
    event = _event(node, members, state, PARTIAL_COMPACTION if kept else COMPACTION, message)
    payload = msgspec.json.encode({"kept": sorted(kept)}) if kept else node.raw
    yield msgspec.structs.replace(event, position=node.line - 1, payload=payload)
    for number, role, raw in added:
        kind = COMPACTION_SUMMARY if role == "user" else META
        yield MessageRecord(
            line=node.line, run=state.run, key=f"line-{node.line}-{number}", role=role, content=raw, kind=kind
        )


def _kept_calls(history: Sequence[DocumentValue], state: QwenState) -> Iterator[int]:
    """The lines of calls and of their receipts. Of several calls with one id it is that with the arguments."""
    found: dict[str, str] = {}
    for part in (part for content in history for part in list_member(content.members(), "parts")):
        members = part.members()
        asked, answer = object_member(members, "functionCall"), object_member(members, "functionResponse")
        if call := text_member(asked, "id"):
            args, names = asked.get("args"), state.named(call)
            same = [name for name in names if state.args.get(name) == _digest(args.raw if args else b"{}")]
            found[call] = next(reversed(same if len(names) > 1 else names), "")
            yield from state.calls.get(found[call], [])[:1]
        elif call := text_member(answer, "id"):
            yield from state.calls.get(found.get(call, "" if call in state.names else call), [])[1:]


def _is_next_answer(content: DocumentValue, number: int, count: int) -> bool:
    """True for the model's last content; the one right behind the summary is made up."""
    return text_member(content.members(), "role") == "model" and 1 < number == count - 1


def _rewind(node: DocumentValue, members: Members, state: QwenState) -> EventRecord:
    """A rewind to a line that is not known is an event without a meaning."""
    parent = text_member(members, "parentUuid")
    start = state.lines.get(parent or "", 0 if parent is None else None)
    if start is None or start + 1 >= node.line:
        return _event(node, members, state, "rewind_to_unknown_line")
    text = f"the person went back: lines {start + 1} to {node.line - 1} left the conversation"
    payload = msgspec.json.encode({"left": [start + 1, node.line], "returned": None})
    return msgspec.structs.replace(_event(node, members, state, REWIND, text), payload=payload)


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="Qwen Code session",
        agent=AGENT,
        namespace=AGENT,
        mark="lines with a uuid, a sessionId and a message with parts",
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
        version=4,
    ),
)
