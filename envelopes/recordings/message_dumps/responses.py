"""Items of OpenAI Responses.

1. `function_call` and the like are calls of the program, their `…_output` the receipt. `mcp_call`, `web_search_call`,
   `file_search_call` and `code_interpreter_call` are calls that the provider ran itself: the item has the output too,
   where the program asked for it. A shell command states its exit code in the `outcome` of its output.
2. `program` is code that the provider ran, `program_output` its output.
3. The other items are no messages but events: reasoning, lists and approvals of MCP tools, compactions that the
   provider encrypted.
"""

from __future__ import annotations

from envelopes.recordings.base import EventRecord
from envelopes.recordings.document_fields import list_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue, read_arguments
from envelopes.recordings.json_lines import storable
from envelopes.recordings.message_dumps.bodies import Dump, Members
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import join_object

_PROGRAM = "program"
_ARGUMENTS = ("arguments", "input", "action", "actions", "operation", "code", "queries")
_OUTPUTS = ("output", "outputs", "results", "result", "tools")
_FAILED = ("failed", "incomplete")
_REFERENCE = "item_reference"  # to an item that the server has
_UNSENT = "image_generation_call"  # its result is an image for the person


def read_items(dump: Dump, items: list[DocumentValue]) -> None:
    for node in items:
        dump.number += 1
        item = node.members()
        kind = text_member(item, "type")
        if kind == _REFERENCE:
            dump.is_history = False
        if kind is not None and (kind.endswith("_call") or kind == _PROGRAM):
            _read_call(dump, node, item, kind)
        elif kind is not None and kind.endswith("_output"):
            _read_output(dump, node, item)
        elif (role := text_member(item, "role")) and "content" in item:
            dump.message(item, role, item["content"])
        elif kind is None:
            dump.problem(node, "no item: it has no type and no role")
        else:
            message = storable(summarize(_summary(item)) or kind)
            dump.records.append(EventRecord(line=node.line, run=dump.run, kind=kind, message=message, payload=node.raw))


def _read_call(dump: Dump, node: DocumentValue, item: Members, kind: str) -> None:
    own, name = text_member(item, "call_id", "id"), text_member(item, "name")
    if not own:
        dump.problem(node, "a call without an id")
        return
    args = next((item[name] for name in _ARGUMENTS if name in item), None)
    call = dump.call(own, node, name or kind.removesuffix("_call"), read_arguments(args))
    error = item.get("error")
    error = error if error and error.raw != b"null" else None
    is_failed = error is not None or text_member(item, "status") in _FAILED
    if is_failed:
        dump.add_result(dump.answer(own), None, is_error=True, line=node.line)
    outputs = (item[name] for name in _OUTPUTS if name in item and item[name].raw != b"null")
    receipt = error or next(outputs, None)
    if receipt is not None and kind != _UNSENT:
        dump.add_receipt(call if is_failed else dump.answer(own), receipt)


def _read_output(dump: Dump, node: DocumentValue, item: Members) -> None:
    own = text_member(item, "call_id", "id")
    output = next((item[name] for name in _OUTPUTS if name in item), None)
    if not own or (output is None and "status" not in item):
        dump.problem(node, "an output without a text or the id of its call")
        return
    call = dump.answer(own)
    commands = [object_member(part.members(), "outcome") for part in output.elements()] if output else []
    codes = [facts["exit_code"] for facts in commands if "exit_code" in facts]
    late = next((facts["type"] for facts in commands if text_member(facts, "type") == "timeout"), None)
    if late:
        extra = join_object({"outcome": late.raw})
        dump.add_result(call, None, is_error=True, status="timeout", line=node.line, extra=extra)
    elif text_member(item, "status") in _FAILED or any(code.raw != b"0" for code in codes):
        dump.add_result(call, None, is_error=True, line=node.line)
    if output is not None:
        dump.add_receipt(call, output)


def _summary(item: Members) -> str:
    texts = (text_member(part.members(), "text") for part in list_member(item, "summary"))
    return " ".join(text for text in texts if text)
