"""A message of a Gemini CLI chat, its calls and its usage.

1. A message has `type` user, gemini, info, warning or error, `content` and, of the model, `toolCalls`, `thoughts` and
   `tokens`. `content` is a text, or a list of parts as the API has them. Its calls and their responses are parts too
   where the client copied its history into the file: these are read from `toolCalls` alone, but for masked responses.
   Such a copy begins with the client's context, and may have several messages of one role as the parts of one.
2. A tool call is `{id, name, args, status, timestamp, agentId?, result, resultDisplay}`. `result` is what went to the
   model, a list of parts: the receipt is the text of its one `functionResponse`, or the list where it has other parts.
3. When tool outputs fill the context, the client replaces old ones by `<tool_output_masked>` with a preview, in the
   file too. The model got the whole output first where it answered in between. A document keeps the preview alone.
4. `resultDisplay` is what a person saw. An object (`{fileDiff, originalContent, newContent, diffStat}` of an edit) is
   the runtime's own record and the result. A text is the result where it is the output itself: the receipt has it too,
   or its beginning and its end. Another text, or the lines of a terminal, is a view for a person, kept as extra data.
5. `timestamp` of a call is when its end was recorded, with all calls of the same round. Its beginning is in its id,
   `<tool>-<milliseconds since 1970>-<random>` and later forms; ids of another form leave it open.
6. Ids of calls are unique within their chat only, and those of some providers not even there: a call of another message
   whose id was there before is named by it and its line.
7. The client adds its own messages in the role of the user: `<session_context>` at the beginning, and after a
   compression `<state_snapshot>` with the answer of the model that it makes up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from envelopes.alignment.saved_outputs import MASKED_TAG, find_output_preview
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    META,
    REPLACEMENT,
    ArtifactRecord,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
    UsageRecord,
    describe_later_text,
)
from envelopes.recordings.document_fields import integer_member, list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, unused_id
from envelopes.recordings.gemini_answers import find_response_text, read_answer
from envelopes.recordings.json_lines import epoch_time, storable
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array

Records = Iterator[Record | LineProblem]
LEVELS = ("info", "warning", "error")
TOOL_PARTS = ("functionCall", "functionResponse")
_KNOWN = 4_096  # messages, and calls
_STAMPED_ID = re.compile(r"(?:(?P<prefix>.+)__)?(?P<tool>.+)[-_](?P<milliseconds>\d{13})[-_][0-9a-f]{1,16}")
SESSION_CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context for our chat.")
_FOLDER = re.compile(r"(?:Workspace Directories:\**\n\s*- |working in the directory: )(?P<path>[^\n]+)")
_SNAPSHOT = "<state_snapshot>"
_MASKED = "masked by the client"  # the reason of a receipt's end
_MADE_UP_ANSWER = "Got it. Thanks for the additional context!"


class KnownMessage(msgspec.Struct):
    """The line of a message, the digest of its text when it last came, and how many of its thoughts were read."""

    line: int
    text: str
    thoughts: int = 0


class KnownCall(msgspec.Struct):
    """The digest of what a call last returned to the model, the id of its message, and the first line of the two."""

    sent: str
    message: str
    line: int = 0


class HeldHistory(msgspec.Struct):
    """The messages and the calls that the history in a line lacks: they leave once the conversation goes on."""

    line: int
    messages: list[str]
    calls: list[str]


class ChatState(msgspec.Struct):
    """`messages` are those of the conversation so far, by id, `calls` those that have returned something.

    `asked` are the messages of all calls, `names` those of calls with an id that came again, in order.
    `answered` is the line of the model's last answer. `is_copying`: messages are those of the history once more.
    """

    run: str = ""
    title: bool = False
    model: bool = False
    messages: dict[str, KnownMessage] = {}
    calls: dict[str, KnownCall] = {}
    asked: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    answered: int = 0
    is_copying: bool = False
    held: HeldHistory | None = None

    def forget_oldest(self) -> None:
        tables: tuple[dict[str, Any], ...] = (self.messages, self.calls, self.asked, self.names)
        for table in tables:
            for key in list(table)[:-_KNOWN]:
                del table[key]


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def content_digest(content: DocumentValue | None) -> str:
    """The digest of the text of a content, or of its other parts where it has none; empty for no content."""
    sent = content_text(content).encode("utf-8", "surrogatepass") or _message_content(content)
    return digest(sent) if sent else ""


def part_digests(content: DocumentValue | None) -> list[str]:
    """The digests of the texts that are parts of a content."""
    parts = content.elements() if content is not None and content.is_list else ()
    texts = [text_member(part.members(), "text") for part in parts]
    return [digest(text.encode("utf-8", "surrogatepass")) for text in texts if text]


def has_known_parts(content: DocumentValue | None, state: ChatState) -> bool:
    """True for a content whose parts are texts of messages that came before."""
    digests = set(part_digests(content))
    return bool(digests) and digests <= {message.text for message in state.messages.values()}


def content_text(content: DocumentValue | None) -> str:
    """The text of a content: a string, or the texts of its parts."""
    if content is None:
        return ""
    texts = [part.text() or text_member(part.members(), "text") or "" for part in content.elements()]
    return (content.text() or "") + "".join(texts)


def checked_records(message: DocumentValue, state: ChatState, path: str, *, is_history: bool = False) -> Records:
    """The records of a message; a problem for one that cannot be read."""
    try:
        yield from list(message_records(message, state, path, is_history=is_history))
    except Untrusted as refusal:
        yield message.problem(path, refusal.reason)


def message_records(node: DocumentValue, state: ChatState, path: str, *, is_history: bool = False) -> Records:
    """The records of a message. `is_history`: it is in a copy of the history, in which messages have other ids."""
    members = node.members()
    kind, key = text_member(members, "type"), text_member(members, "id") or f"line-{node.line}"
    if not node.is_object or kind is None:
        raise Untrusted("no message: it has no type", f"{path}.type")
    at, content = time_member(members, "timestamp"), members.get("content")
    if kind in LEVELS:
        text = summarize(content_text(content) or kind)
        yield EventRecord(line=node.line, run=state.run, kind=kind, message=text, payload=node.raw, at=at)
        return
    yield from _run_facts(node, members, state, kind)
    known, sent, text = state.messages.get(key), _message_content(content), content_text(content)
    now = KnownMessage(known.line if known else node.line, content_digest(content), known.thoughts if known else 0)
    is_known = known is not None and known.text == now.text
    if is_history and not is_known:
        is_known = any(message.text == now.text for message in state.messages.values())
        if not is_known and has_known_parts(content, state):
            is_known, now.text = True, ""  # several messages that are counted by themselves
    state.messages[key] = now
    if content and sent and not is_known:
        yield MessageRecord(
            line=content.line,
            run=state.run,
            key=key if known is None else f"{key}-{now.text}",
            role="assistant" if kind == "gemini" else kind,
            content=sent,
            step=key,
            at=at,
            kind=_message_kind(kind, text),
        )
    for thought in list_member(members, "thoughts")[now.thoughts :]:
        now.thoughts += 1
        yield _reasoning(thought, state)
    for number, call in enumerate(list_member(members, "toolCalls")):
        yield from _call_records(call, state, key, f"{path}.toolCalls[{number}]", is_history=is_history)
    yield from _masked_records(content, state, key)
    if members.get("tokens") and members["tokens"].is_object:
        state.answered = state.answered if known or is_history else node.line
        yield from _usage(members["tokens"], state, key)


def _message_content(content: DocumentValue | None) -> bytes:
    """The content without the parts of calls; empty when nothing is left."""
    if content is None:
        return b""
    if content.is_list:
        parts = content.elements()
        sent = [part for part in parts if not any(name in part.members() for name in TOOL_PARTS)]
        if len(sent) < len(parts):
            return join_array([part.raw for part in sent]) if sent else b""
    return b"" if content.raw in (b'""', b"[]", b"null") else content.raw


def _message_kind(role: str, text: str) -> str | None:
    if role != "user":
        return META if text == _MADE_UP_ANSWER else None
    if text.lstrip().startswith(SESSION_CONTEXT):
        return META
    return COMPACTION_SUMMARY if _SNAPSHOT in text else None


def _run_facts(node: DocumentValue, members: dict[str, DocumentValue], state: ChatState, kind: str) -> Records:
    model = text_member(members, "model")
    if model and not state.model:
        state.model = True
        yield RunRecord(line=node.line, run=state.run, model=model)
    text = content_text(members.get("content")) if kind == "user" and not state.title else ""
    if _message_kind(kind, text) == META:
        if folder := _FOLDER.search(text):
            yield RunRecord(line=node.line, run=state.run, cwd=storable(folder["path"].strip()))
    elif (title := summarize(text.strip())) and _SNAPSHOT not in text:
        state.title = True
        yield RunRecord(line=node.line, run=state.run, title=title)


def _reasoning(thought: DocumentValue, state: ChatState) -> EventRecord:
    members = thought.members()
    text = text_member(members, "subject") or text_member(members, "description") or "reasoning"
    at = time_member(members, "timestamp")
    message = storable(summarize(text))
    return EventRecord(line=thought.line, run=state.run, kind="reasoning", message=message, payload=thought.raw, at=at)


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


def _call_records(node: DocumentValue, state: ChatState, step: str, path: str, *, is_history: bool) -> Records:
    members = node.members()
    own, tool = text_member(members, "id"), text_member(members, "name")
    if not own or not tool:
        yield node.problem(path, "a call without an id or a name")
        return
    if not (call := _name_call(own, state, step, node.line, is_history=is_history)):
        return
    args = members.get("args")
    ended = time_member(members, "timestamp")
    run, started = state.run, _began(own, tool)
    yield CallRecord(
        line=node.line, run=run, call=call, tool=tool, args=args.raw if args else b"null", step=step, at=started
    )
    status, display = text_member(members, "status"), members.get("resultDisplay")
    if status is not None or display is not None:
        receipt = _receipt(members["result"]).text() if "result" in members else None
        child = f"{run}/{agent}" if (agent := text_member(members, "agentId")) else None
        line = display.line if display else node.line
        record = ResultRecord(line=line, run=run, call=call, result=None, at=ended, child_run=child)
        yield read_answer(display, status, receipt or "", tool, record)
    if "result" in members and members["result"].raw != b"null":
        yield from _receipt_records(_receipt(members["result"]), state, call, step)


def _name_call(call: str, state: ChatState, message: str, line: int, *, is_history: bool) -> str:
    """The name of the call with this id in a message; empty where a copy of the history may have any of several."""
    names = state.names.get(call, [call])
    name = next((name for name in names if state.asked.get(name, message) == message), "")
    if not name and is_history:
        return names[0] if len(names) == 1 else ""
    if not name:
        name = unused_id(call, f"{call}-{line}", state.asked)
        state.names[call] = [*names, name][-_KNOWN:]
    state.asked[name] = message
    return name


def _began(call: str, tool: str) -> str | None:
    stamp = _STAMPED_ID.fullmatch(call)
    is_own = stamp and stamp["tool"] == tool and stamp["prefix"] in (None, tool)
    return epoch_time(int(stamp["milliseconds"])) if stamp and is_own else None


def _masked_records(content: DocumentValue | None, state: ChatState, message: str) -> Records:
    """Reads the masks of receipts in a copy of the history."""
    for part in content.elements() if content is not None and content.is_list else ():
        response = object_member(part.members(), "functionResponse")
        call, receipt = text_member(response, "id") or "", find_response_text(response)
        is_known = call in state.calls and call not in state.names
        if is_known and receipt and (receipt.text() or "").startswith(MASKED_TAG):
            yield from _receipt_records(receipt, state, call, message)


def _receipt_records(receipt: DocumentValue, state: ChatState, call: str, message: str) -> Records:
    """The receipt of a call; what replaces it where the call comes again with another one, or is masked."""
    sent, known, text = digest(receipt.raw), state.calls.get(call), receipt.text() or ""
    is_same = known is not None and known.sent == sent
    state.calls[call] = KnownCall(sent, message, known.line if known and is_same else receipt.line)
    if is_same:
        return
    is_masked = text.startswith(MASKED_TAG)
    if known is not None or is_masked:
        was_sent = is_masked and known is not None and known.line < state.answered
        reason = describe_later_text(_MASKED) if was_sent else REPLACEMENT
        yield SupersedeRecord(line=receipt.line, run=state.run, call=call, reason=reason, content=receipt.raw)
    else:
        yield ReceiptRecord(line=receipt.line, run=state.run, call=call, content=receipt.raw)
    if preview := find_output_preview(text):
        path = storable(preview.path)
        yield ArtifactRecord(line=receipt.line, run=state.run, call=call, role="output", path=path)


def _receipt(result: DocumentValue) -> DocumentValue:
    """The text of the one response in the list, or the whole list."""
    parts = result.elements()
    response = object_member(parts[0].members(), "functionResponse") if len(parts) == 1 else {}
    return find_response_text(response) or result
