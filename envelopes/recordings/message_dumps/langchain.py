"""Messages of LangChain.

The content of an answer may have the blocks of its provider: the calls in them are those of `tool_calls`, and calls
that the provider ran itself.
"""

from __future__ import annotations

from envelopes.recordings.document_fields import failed_member, list_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.message_dumps.blocks import has_tools, read_blocks
from envelopes.recordings.message_dumps.bodies import FAILED, Dump, Members, read_usage

_ROLES = {"ai": "assistant", "human": "user"}


def read_langchain(dump: Dump, messages: list[DocumentValue]) -> None:
    for node in messages:
        dump.number += 1
        members = node.members()
        data = next((object_member(members, name) for name in ("data", "kwargs") if name in members), members)
        kind = text_member(data, "type") or text_member(members, "type")
        if kind is None:
            dump.problem(node, "no message: it has no type")
        elif kind == "tool":
            _read_answer(dump, node, data)
        else:
            _read_message(dump, node, data, _ROLES.get(kind, kind))


def _read_message(dump: Dump, node: DocumentValue, data: Members, role: str) -> None:
    content, entries = data.get("content"), list_member(data, "tool_calls")
    blocks = content.elements() if content else []
    is_mixed = has_tools(blocks)
    step = dump.message(data, role, None if is_mixed else content)
    if is_mixed:
        read_blocks(dump, role, blocks, step, {text_member(entry.members(), "id") or "" for entry in entries})
    for entry in entries:
        call = entry.members()
        name, tool = text_member(call, "id"), text_member(call, "name")
        if name and tool:
            dump.call(name, entry, tool, call["args"].raw if "args" in call else b"null", step=step)
        else:
            dump.problem(entry, "a call without an id or a name")
    facts = object_member(data, "response_metadata")
    dump.model(text_member(facts, "model_name", "model"), node.line)
    if object_member(data, "usage_metadata"):
        dump.records.append(read_usage(dump, data["usage_metadata"], step))


def _read_answer(dump: Dump, node: DocumentValue, data: Members) -> None:
    call = text_member(data, "tool_call_id")
    if not call:
        dump.problem(node, "an answer without the id of its call")
        return
    call = dump.answer(call)
    artifact, failed = data.get("artifact"), failed_member(data, "status", FAILED)
    if artifact or failed is not None:
        dump.add_result(call, artifact, is_error=failed, line=node.line)
    if "content" in data:
        dump.add_receipt(call, data["content"])
