"""Messages of OpenAI Chat and of Anthropic, whose blocks stand in their contents."""

from __future__ import annotations

from envelopes.recordings.document_fields import list_member, text_member
from envelopes.recordings.documents import DocumentValue, read_arguments
from envelopes.recordings.message_dumps.blocks import has_tools, read_blocks
from envelopes.recordings.message_dumps.bodies import Dump


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
                dump.add_receipt(dump.answer(call), content)
            continue
        blocks = content.elements() if content else []
        if has_tools(blocks):
            # A response has an id, which the next request does not repeat.
            read_blocks(dump, role, blocks, f"message-{dump.number}")
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
    dump.call(call, node, tool, read_arguments(args), step=step)
