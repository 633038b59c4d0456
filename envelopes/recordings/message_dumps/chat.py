"""Messages of OpenAI Chat and of Anthropic, whose blocks stand in their contents."""

from __future__ import annotations

from envelopes.recordings.document_fields import flag_member, list_member, text_member
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.recordings.message_dumps.bodies import Dump, Members


def read_chat(dump: Dump, messages: list[DocumentValue]) -> None:
    """Messages of OpenAI Chat and of Anthropic, whose blocks stand in their contents."""
    for node in messages:
        dump.number += 1
        message = node.members()
        if "message" in message and "role" not in message:  # an entry of `choices`
            message = message["message"].members()
        role, content = text_member(message, "role"), message.get("content")
        if role is None:
            dump.problem(node, "no message: it has no role")
            continue
        if role == "tool":
            call = text_member(message, "tool_call_id")
            if not call or content is None:
                dump.problem(node, "an answer without a content or the id of its call")
            else:
                dump.add_receipt(call, content)
            continue
        blocks = content.elements() if content else []
        if any(text_member(block.members(), "type") in ("tool_use", "tool_result") for block in blocks):
            read_blocks(dump, role, blocks)
            continue
        step = dump.message({}, role, content)
        for entry in list_member(message, "tool_calls"):
            _chat_call(dump, entry, step)


def _chat_call(dump: Dump, node: DocumentValue, step: str) -> None:
    members = node.members()
    function = next((members[name].members() for name in ("function", "custom") if name in members), {})
    call, tool = text_member(members, "id"), text_member(function, "name")
    if not call or not tool:
        dump.problem(node, "a call without an id or a name")
        return
    args = function.get("arguments") or function.get("input")
    dump.add_call(call, node, tool, decode_arguments(args.raw) if args else b"null", step=step)


def read_blocks(dump: Dump, role: str, blocks: list[DocumentValue]) -> None:
    """Anthropic's blocks: the calls, the answers, and the others as a message of their own each."""
    step = f"message-{dump.number}"  # a response has an id, which the next request does not repeat
    for index, node in enumerate(blocks):
        block = node.members()
        kind = text_member(block, "type")
        if kind == "tool_use":
            call, tool = text_member(block, "id"), text_member(block, "name")
            if call and tool:
                dump.add_call(call, node, tool, block["input"].raw if "input" in block else b"null", step=step)
            else:
                dump.problem(node, "a call without an id or a name")
        elif kind == "tool_result":
            _tool_result(dump, node, block)
        elif "text" in block:
            dump.add_message(f"{step}-{index}", block["text"], role, step=step)


def _tool_result(dump: Dump, node: DocumentValue, block: Members) -> None:
    call = text_member(block, "tool_use_id")
    if not call:
        dump.problem(node, "an answer without the id of its call")
        return
    if "is_error" in block:
        dump.add_result(call, None, is_error=flag_member(block, "is_error"), line=node.line)
    if "content" in block:
        dump.add_receipt(call, block["content"])
