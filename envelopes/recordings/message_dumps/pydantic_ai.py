"""Messages of Pydantic AI."""

from __future__ import annotations

from envelopes.recordings.document_fields import failed_member, list_member, note_unknown, text_member, time_member
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.recordings.message_dumps.bodies import FAILED, Dump, read_usage

_ROLES = {"user-prompt": "user", "system-prompt": "system"} | dict.fromkeys(("text", "thinking", "file"), "assistant")


def read_pydantic_ai(dump: Dump, messages: list[DocumentValue]) -> None:
    for node in messages:
        dump.number += 1
        message = node.members()
        if "parts" not in message:
            dump.problem(node, "no message: it has no parts")
            continue
        at = time_member(message, "timestamp")
        dump.model(text_member(message, "model_name"), node.line)
        for index, part in enumerate(list_member(message, "parts")):
            _pydantic_part(dump, part, index, at)
        if "usage" in message and text_member(message, "kind") == "response":
            dump.records.append(read_usage(dump, message["usage"], f"message-{dump.number}", at))


def _pydantic_part(dump: Dump, node: DocumentValue, index: int, message_at: str | None) -> None:
    part = node.members()
    kind, call, tool = (text_member(part, name) for name in ("part_kind", "tool_call_id", "tool_name"))
    step, content = f"message-{dump.number}", part.get("content")
    at = time_member(part, "timestamp") or message_at
    match kind:
        case "tool-call" | "builtin-tool-call" if call and tool:
            args = part.get("args")
            dump.add_call(call, node, tool, decode_arguments(args.raw) if args else b"null", step=step, at=at)
        case "tool-return" | "builtin-tool-return" if call:
            failed, metadata = failed_member(part, "outcome", FAILED), part.get("metadata")
            recorded = metadata or (content if content and not content.is_text else None)
            if recorded or failed is not None:
                dump.add_result(call, recorded, is_error=failed, at=at, line=node.line)
            if content and not content.is_text and not _has_files(content):
                dump.add_json_receipt(call, content, at)
            elif content:
                dump.add_receipt(call, content, fidelity="recorded" if content.is_text else "reconstructed", at=at)
        case "retry-prompt" if call and tool and content:
            dump.add_result(call, None, is_error=True, at=at, line=node.line)
            dump.add_receipt(call, content, fidelity="recorded" if content.is_text else "reconstructed", at=at)
        case "tool-call" | "tool-return":
            dump.problem(node, "a call or an answer without an id")
        case _ if content is not None:
            note_unknown(part, "part_kind", _ROLES, "read as a part of the model: not a known kind")
            role = _ROLES.get(kind or "", "assistant")
            if role == "user":
                dump.title(content.text() or "", content.line)
            dump.add_message(f"{step}-{index}", content, role, step=step, at=at)


def _has_files(content: DocumentValue) -> bool:
    """Files and addresses in a content, which go to the model in another form, have a `kind`."""
    return any("kind" in element.members() for element in (content, *content.elements()))
