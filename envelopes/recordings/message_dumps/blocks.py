"""Blocks of Anthropic's contents: the calls, their answers, and the others as messages.

1. `tool_use` is a call of the program, `server_tool_use` and `mcp_tool_use` are calls that the provider ran itself: the
   answer `…_tool_result` is then in the same message. The model got its content.
2. `compaction` is the provider's summary of what stands before it. Of a later request it reads only what follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from envelopes.recordings.base import COMPACTION_SUMMARY
from envelopes.recordings.document_fields import flag_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.message_dumps.bodies import Dump, Members

CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
ANSWER = "tool_result"  # the end of the names of all answers
SUMMARY = "compaction"


def has_tools(blocks: Iterable[DocumentValue]) -> bool:
    """True where a block is a call, an answer or a compaction, which are no part of a message."""
    kinds = (text_member(block.members(), "type") or "" for block in blocks)
    return any(kind in (*CALLS, SUMMARY) or kind.endswith(ANSWER) for kind in kinds)


def read_blocks(
    dump: Dump, role: str, blocks: Iterable[DocumentValue], step: str, listed: Collection[str] = ()
) -> None:
    """`listed` are the ids of calls that the message has beside its blocks, too."""
    for index, node in enumerate(blocks):
        block = node.members()
        kind = text_member(block, "type") or ""
        if kind in CALLS:
            call, tool = text_member(block, "id"), text_member(block, "name")
            if not call or not tool:
                dump.problem(node, "a call without an id or a name")
            elif call not in listed:
                dump.call(call, node, tool, block["input"].raw if "input" in block else b"null", step=step)
        elif kind.endswith(ANSWER):
            _answer(dump, node, block)
        elif kind == SUMMARY:
            _compaction(dump, node, block, f"{step}-{index}")
        elif "text" in block:
            dump.add_message(f"{step}-{index}", block["text"], role, step=step)
        elif kind:
            dump.add_message(f"{step}-{index}", node, role, step=step)


def _answer(dump: Dump, node: DocumentValue, block: Members) -> None:
    own, content = text_member(block, "tool_use_id"), block.get("content")
    if not own:
        dump.problem(node, "an answer without the id of its call")
        return
    call = dump.answer(own)
    error = text_member(content.members(), "type") if content and content.is_object else None
    if error and error.endswith("_error"):
        dump.add_result(call, None, is_error=True, line=node.line)
    elif "is_error" in block:
        dump.add_result(call, None, is_error=flag_member(block, "is_error"), line=node.line)
    if content:
        dump.add_receipt(call, content)
    else:  # an empty result
        dump.add_text_receipt(call, "", node.line, None)


def _compaction(dump: Dump, node: DocumentValue, block: Members, key: str) -> None:
    dump.provider_compaction(node)
    if block.get("content") and block["content"].is_text:
        dump.add_message(key, block["content"], "assistant", step=key, kind=COMPACTION_SUMMARY)
