"""Items of OpenAI Responses."""

from __future__ import annotations

from envelopes.recordings.document_fields import text_member
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.recordings.message_dumps.bodies import Dump

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = tuple(f"{kind}_output" for kind in _CALLS)


def read_items(dump: Dump, items: list[DocumentValue]) -> None:
    """Items of OpenAI Responses."""
    for node in items:
        dump.number += 1
        item = node.members()
        kind, call = text_member(item, "type"), text_member(item, "call_id", "id")
        if kind in _CALLS:
            args = item.get("arguments") or item.get("input") or item.get("action")
            tool = text_member(item, "name") or str(kind).removesuffix("_call")
            if call:
                dump.add_call(call, node, tool, decode_arguments(args.raw) if args else b"null", step=call)
            else:
                dump.problem(node, "a call without an id")
        elif kind in _OUTPUTS:
            if call and "output" in item:
                dump.add_receipt(call, item["output"])
            else:
                dump.problem(node, "an output without a text or the id of its call")
        elif role := text_member(item, "role"):
            dump.message(item, role, item.get("content"))
        elif kind is None:
            dump.problem(node, "no item: it has no type and no role")
