"""Chats of the Gemini CLI, `chats/session-….json` up to release 0.39 and `.jsonl` from 0.40.

1. A document is `{sessionId, projectHash, startTime, lastUpdated, messages[]}`. A file of lines has a header without
   `messages`, then a message a line. A message that changed comes again under its `id`; `{"$set": {…}}` changes the
   header, `{"$rewindTo": id}` takes away that message and all behind it.
2. A message has `type` user, gemini, info, warning or error, `content` and, of the model, `toolCalls` and `tokens`.
3. A tool call is `{id, name, args, status, timestamp, result, resultDisplay}`. `result` is what went to the model, a
   list of parts: the receipt is the text of its one `functionResponse`, or the list where it has other parts.
4. `resultDisplay` is what a person saw. An object (`{fileDiff, originalContent, newContent, diffStat}` of an edit) is
   the runtime's own record and the result; a text is a summary for a person, kept as extra data and no result.
5. `timestamp` of a call is when its end was recorded, with all calls of the same round. Its beginning is in its id,
   `<tool>-<milliseconds since 1970>-<random>`; ids of another form leave it open.
6. Ids of calls are unique within their chat only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import (
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
from envelopes.recordings.documents import DocumentValue, JsonDocument, outline, place_records
from envelopes.recordings.json_lines import (
    ForeignEntry,
    epoch_time,
    parsed_lines,
    read_json_lines,
    struct_reader,
)
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_object

Records = Iterator[Record | LineProblem]
_SLOT = "gemini-cli"
_KNOWN_MESSAGES = 4_096
_LEVELS = ("info", "warning", "error")
_FAILED = {"success": False, "error": True, "cancelled": True}  # by the status; others are shown as recorded
_STAMPED_ID = re.compile(r"(?P<tool>.+)-(?P<milliseconds>\d{13})-[0-9a-f]{1,16}")


class KnownMessage(msgspec.Struct, frozen=True):
    """The line of a message, and the digest of its content when it last came."""

    line: int
    digest: str


class ChatState(msgspec.Struct):
    """`messages` are those so far, by id."""

    run: str = ""
    title: bool = False
    model: bool = False
    messages: dict[str, KnownMessage] = {}


class ChatHeader(ForeignEntry, frozen=True, gc=False, rename="camel"):
    """The first line of a file of lines."""

    session_id: str | None = None
    project_hash: str | None = None
    start_time: str | None = None
    messages: msgspec.Raw = msgspec.Raw()


_read_header = struct_reader(ChatHeader)


def sniff_document(head: bytes, path: SourcePath) -> bool:
    """The document has a session, the hash of its project, and messages."""
    return {"sessionId", "projectHash", "messages"} <= outline(head).keys


def sniff_lines(head: bytes, path: SourcePath) -> bool:
    """The first line has a session and the hash of its project, and no messages."""
    header = next(parsed_lines(head, _read_header), ChatHeader())
    return bool(header.session_id and header.project_hash and not bytes(header.messages))


def is_global_call_id(call: str) -> bool:
    """Some releases count the calls of a chat."""
    return False


def read_document(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    members = root.members()
    state = ChatState(run=text_member(members, "sessionId") or path.stem)
    records = list(_header_records(root, members, state))
    for number, message in enumerate(list_member(members, "messages")):
        records += _checked(message, state, f"$.messages[{number}]")
    yield from place_records([*records, *root.document.take_remarks(state.run)])


def read_lines(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(_SLOT, {}), ChatState)
    state.run = state.run or path.stem
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        node = DocumentValue(JsonDocument([line]), line.raw, 0)
        try:
            yield from _line_records(node, state)
            yield from node.document.take_remarks(state.run)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
        for oldest in list(state.messages)[:-_KNOWN_MESSAGES]:
            del state.messages[oldest]
        saved[_SLOT] = msgspec.to_builtins(state)


def _line_records(node: DocumentValue, state: ChatState) -> Records:
    members = node.members()
    if not node.is_object:
        raise Untrusted("expected a JSON object")
    if "sessionId" in members:
        state.run = text_member(members, "sessionId") or state.run
        yield from _header_records(node, members, state)
    elif "$set" in members:
        changes = members["$set"].members()
        yield from _header_records(node, changes, state)
        for number, message in enumerate(list_member(changes, "messages")):
            yield from _checked(message, state, f"$.$set.messages[{number}]")
    elif "$rewindTo" in members:
        known = state.messages.get(text_member(members, "$rewindTo") or "")
        line = known.line if known else node.line
        text = f"the person went back: lines {line} to {node.line - 1} left the conversation"
        payload = msgspec.json.encode({"left": [line, node.line], "returned": None})
        yield EventRecord(line=node.line, run=state.run, kind="rewind", message=text, payload=payload)
    else:
        yield from _message_records(node, state, "$")


def _header_records(node: DocumentValue, members: dict[str, DocumentValue], state: ChatState) -> Records:
    started, ended = (time_member(members, name) for name in ("startTime", "lastUpdated"))
    yield RunRecord(
        line=node.line,
        run=state.run,
        agent="gemini-cli",
        title=summarize(text_member(members, "summary") or "") or None,
        started_at=started,
        last_at=ended,
    )


def _checked(message: DocumentValue, state: ChatState, path: str) -> Records:
    """The records of a message; a problem for one that cannot be read."""
    try:
        yield from list(_message_records(message, state, path))
    except Untrusted as refusal:
        yield message.problem(path, refusal.reason)


def _message_records(node: DocumentValue, state: ChatState, path: str) -> Records:
    members = node.members()
    kind, key = text_member(members, "type"), text_member(members, "id") or f"line-{node.line}"
    if not node.is_object or kind is None:
        raise Untrusted("no message: it has no type", f"{path}.type")
    at = time_member(members, "timestamp")
    content = members.get("content")
    digest = hashlib.sha256(content.raw).hexdigest()[:16] if content else ""
    known = state.messages.get(key)
    state.messages[key] = KnownMessage(known.line if known else node.line, digest)
    if kind in _LEVELS:
        text = summarize((content.text() if content else None) or kind)
        yield EventRecord(line=node.line, run=state.run, kind=kind, message=text, payload=node.raw, at=at)
        return
    yield from _run_facts(node, members, state, kind)
    if content and content.raw not in (b'""', b"[]") and (known is None or known.digest != digest):
        role = "assistant" if kind == "gemini" else kind
        yield MessageRecord(
            line=content.line,
            run=state.run,
            key=key if known is None else f"{key}-{digest}",
            role=role,
            content=content.raw,
            step=key,
            at=at,
        )
    for number, call in enumerate(list_member(members, "toolCalls")):
        yield from _call_records(call, state, key, f"{path}.toolCalls[{number}]")
    if "tokens" in members:
        yield from _usage(members["tokens"], state, key)


def _run_facts(node: DocumentValue, members: dict[str, DocumentValue], state: ChatState, kind: str) -> Records:
    model = text_member(members, "model")
    if model and not state.model:
        state.model = True
        yield RunRecord(line=node.line, run=state.run, model=model)
    content = members.get("content")
    if kind == "user" and content and not state.title:
        parts = content.elements()
        text = content.text() or (text_member(parts[0].members(), "text") if parts else None)
        if title := summarize((text or "").strip()):
            state.title = True
            yield RunRecord(line=node.line, run=state.run, title=title)


def _usage(tokens: DocumentValue, state: ChatState, request: str) -> Records:
    members = tokens.members()
    total, cached = integer_member(members, "input"), integer_member(members, "cached")
    yield UsageRecord(
        line=tokens.line,
        run=state.run,
        request=request,
        input_tokens=max(0, total - cached),
        cache_read_tokens=cached,
        cache_creation_tokens=0,
        output_tokens=integer_member(members, "output"),
        usage=tokens.raw,
    )


def _call_records(node: DocumentValue, state: ChatState, step: str, path: str) -> Records:
    members = node.members()
    call, tool = text_member(members, "id"), text_member(members, "name")
    if not call or not tool:
        yield node.problem(path, "a call without an id or a name")
        return
    args = members.get("args")
    ended = time_member(members, "timestamp")
    run, started = state.run, _began(call, tool)
    yield CallRecord(
        line=node.line, run=run, call=call, tool=tool, args=args.raw if args else b"null", step=step, at=started
    )
    status, display = text_member(members, "status"), members.get("resultDisplay")
    is_record = display is not None and (display.is_object or display.is_list)
    if status is not None or display is not None:
        yield ResultRecord(
            line=display.line if display else node.line,
            run=run,
            call=call,
            result=display.raw if display and is_record else None,
            is_error=_FAILED.get(status or ""),
            status=None if status in ("success", "error") else status,
            at=ended,
            extra=join_object({"resultDisplay": display.raw}) if display and not is_record else None,
        )
    if "result" in members:
        receipt = _response_text(members["result"])
        yield ReceiptRecord(line=receipt.line, run=run, call=call, content=receipt.raw)


def _began(call: str, tool: str) -> str | None:
    stamp = _STAMPED_ID.fullmatch(call)
    return epoch_time(int(stamp["milliseconds"])) if stamp and stamp["tool"] == tool else None


def _response_text(result: DocumentValue) -> DocumentValue:
    """The text of the one response in the list, or the whole list."""
    parts = result.elements()
    response = parts[0].members().get("functionResponse") if len(parts) == 1 else None
    members = response.members() if response else {}
    answer = object_member(members, "response")
    texts = [answer[name] for name in ("output", "error") if name in answer and answer[name].is_text]
    return texts[0] if len(texts) == len(answer) == 1 else result


_TITLE = "Gemini CLI chat"
FORMATS: tuple[Format, ...] = (
    Format(
        name="gemini-cli-jsonl",
        title=f"{_TITLE} (JSON lines)",
        agent="gemini-cli",
        namespace="gemini-cli",
        mark="a first line with sessionId and projectHash",
        sniff=sniff_lines,
        read=read_lines,
        is_global_call_id=is_global_call_id,
    ),
    Format(
        name="gemini-cli",
        title=_TITLE,
        agent="gemini-cli",
        namespace="gemini-cli",
        mark="a document with sessionId, projectHash and messages",
        is_document=True,
        sniff=sniff_document,
        read=read_document,
        is_global_call_id=is_global_call_id,
    ),
)
