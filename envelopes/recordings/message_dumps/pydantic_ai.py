"""Messages of Pydantic AI.

1. A part of a request or of a response has a `part_kind`. `instructions` of a request are the system prompt that it was
   sent with, where a release records it.
2. The return of a call that failed, and feedback for the model, are sent in a wording that depends on the provider: the
   receipt is reconstructed, and the message has another wording. `retry-prompt` ends in a fixed sentence.
3. `compaction` of a response is the provider's summary of what stands before it, and empty where it is encrypted. In a
   request a program wrote it, which also left out what it sums up.
4. Changes of instructions, tools and capabilities are parts too. Those that never go to the model are events.
"""

from __future__ import annotations

from envelopes.recordings.base import COMPACTION_SUMMARY, META, SYSTEM_PROMPT, EventRecord
from envelopes.recordings.document_fields import failed_member, list_member, note_unknown, text_member, time_member
from envelopes.recordings.documents import DocumentValue, read_arguments
from envelopes.recordings.message_dumps.bodies import FAILED, Dump, Members, read_usage
from envelopes.text.untrusted_json import join_object, object_slices

_ROLES = {"user-prompt": "user", "system-prompt": "system"} | dict.fromkeys(("text", "thinking", "file"), "assistant")
_CALLS, _RETURNS = ("tool-call", "builtin-tool-call"), ("tool-return", "builtin-tool-return")
_UNSENT = frozenset({"instruction-baseline", "capability-load-delta", "tool-availability-delta"})
_REWORDED = ("failed", "retried")  # outcomes of which the provider decides how they are sent
_STOPPED = ("denied", "interrupted")  # outcomes of calls that did not end by themselves
_RETRY = "\n\nFix the errors and try again."


def read_pydantic_ai(dump: Dump, messages: list[DocumentValue]) -> None:
    instructions = b""
    for node in messages:
        dump.number += 1
        message = node.members()
        if "parts" not in message:
            dump.problem(node, "no message: it has no parts")
            continue
        at = time_member(message, "timestamp")
        dump.model(text_member(message, "model_name"), node.line)
        sent = message.get("instructions")
        if sent is not None and sent.is_text and sent.raw != instructions:
            instructions = sent.raw
            dump.add_message(f"instructions-{dump.number}", sent, "system", at=at, kind=SYSTEM_PROMPT)
        is_response = text_member(message, "kind") == "response"
        for index, part in enumerate(list_member(message, "parts")):
            members = part.members()
            if text_member(members, "part_kind") in (*_CALLS, *_RETURNS, "retry-prompt"):
                _read_tool_part(dump, part, members, time_member(members, "timestamp") or at, index)
            else:
                _read_part(dump, part, members, time_member(members, "timestamp") or at, index, is_response=is_response)
        if "usage" in message and is_response:
            dump.records.append(read_usage(dump, message["usage"], f"message-{dump.number}", at))


def _read_tool_part(dump: Dump, node: DocumentValue, part: Members, at: str | None, index: int) -> None:
    kind, call, tool = (text_member(part, name) for name in ("part_kind", "tool_call_id", "tool_name"))
    content = part.get("content")
    if kind == "retry-prompt" and not tool:
        _add_message(dump, content, "user", at, index, is_own=False)
    elif not call or (kind in _CALLS and not tool):
        dump.problem(node, "a call or an answer without an id")
    elif kind in _CALLS:
        args = part.get("args")
        raw = read_arguments(args)
        dump.call(call, node, tool or "", raw, step=f"message-{dump.number}", at=at)
    elif kind in _RETURNS:
        _read_return(dump, node, part, dump.answer(call), at)
    elif content is not None:
        call = dump.answer(call)
        dump.add_result(call, None, is_error=True, at=at, line=node.line)
        if text := content.text():
            dump.add_text_receipt(call, text + _RETRY, content.line, at)
        else:
            dump.add_receipt(call, content, fidelity="reconstructed", at=at)


def _read_return(dump: Dump, node: DocumentValue, part: Members, call: str, at: str | None) -> None:
    failed, metadata = failed_member(part, "outcome", FAILED), part.get("metadata")
    content = part.get("content") or _null_content(node)
    recorded = metadata or (content if content and not content.is_text else None)
    ended = part["outcome"] if text_member(part, "outcome") in _STOPPED else None
    if recorded or failed is not None:
        dump.add_result(
            call,
            recorded,
            is_error=failed,
            status=ended.text() if ended else None,
            at=at,
            line=node.line,
            extra=join_object({"outcome": ended.raw}) if ended else None,
        )
    if content and not content.is_text and not _has_files(content):
        dump.add_json_receipt(call, content, at)
    elif content:
        is_recorded = content.is_text and text_member(part, "outcome") not in _REWORDED
        dump.add_receipt(call, content, fidelity="recorded" if is_recorded else "reconstructed", at=at)


def _null_content(node: DocumentValue) -> DocumentValue | None:
    """The content of a part that is null: the tool returned nothing, and the model gets this word."""
    if object_slices(node.raw).get("content") != b"null":
        return None
    return DocumentValue(node.document, b"null", node.start, f"{node.path}.content")


def _read_part(
    dump: Dump, node: DocumentValue, part: Members, at: str | None, index: int, *, is_response: bool
) -> None:
    kind, content = text_member(part, "part_kind") or "", part.get("content")
    if kind in _UNSENT:
        event = EventRecord(line=node.line, run=dump.run, kind=kind, message=kind, payload=node.raw, at=at)
        dump.records.append(event)
    elif kind == "compaction":
        if is_response:
            dump.provider_compaction(node, at)
        if content is not None and content.is_text:
            role = "assistant" if is_response else "user"
            _add_message(dump, content, role, at, index, kind=COMPACTION_SUMMARY)
    elif kind == "retry-feedback":
        _add_message(dump, content, "user", at, index, is_own=False)
    elif kind == "instruction-delta":
        _add_message(dump, content, "system", at, index, is_own=False)
    elif kind == "speech":
        _add_message(dump, part.get("transcript"), text_member(part, "speaker") or "user", at, index)
    else:
        note_unknown(part, "part_kind", _ROLES, "read as a part of the model: not a known kind")
        _add_message(dump, content, _ROLES.get(kind, "assistant"), at, index)


def _add_message(
    dump: Dump,
    content: DocumentValue | None,
    role: str,
    at: str | None,
    index: int,
    *,
    kind: str | None = None,
    is_own: bool = True,
) -> None:
    """Not `is_own`: the framework wrote it, and sends it in another wording."""
    if content is None or content.raw == b"null":
        return
    if role == "user" and is_own and kind is None:
        dump.title(content.text() or "", content.line)
    step = f"message-{dump.number}"
    dump.add_message(
        f"{step}-{index}",
        content,
        role,
        step=step,
        at=at,
        kind=kind if is_own else META,
        delivery="sent" if is_own else "reworded",
    )


def _has_files(content: DocumentValue) -> bool:
    """Files and addresses in a content, which go to the model in another form, have a `kind`."""
    return any("kind" in element.members() for element in (content, *content.elements()))
