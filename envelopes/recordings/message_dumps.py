"""Messages as programs keep them: bodies of OpenAI's and Anthropic's APIs, and messages of LangChain and Pydantic AI.

A document is a list of messages, or an object with them; a file of lines has one such object a line, for example each
request of a conversation with all of its history. Lines with the same beginning are one run, so what they repeat is
stored once.

1. OpenAI Chat: `messages[]` with `tool_calls` and the role `tool`, and of a response `choices[]`.
2. OpenAI Responses: items `function_call` and `function_call_output`, in `input` or `output`.
3. Anthropic: blocks `tool_use` and `tool_result`; `is_error` is the flag of a failed call.
4. LangChain: `messages_to_dict` (`{type, data}`) or `dumpd` (`{lc, id, kwargs}`). `artifact` of a ToolMessage is what
   the model did not get: the result.
5. Pydantic AI: `parts[]` with a `part_kind`. `metadata` of a tool return is the result, else a content that is no text,
   which the model gets as JSON: that receipt is reconstructed. A call is as old as the response that it is in.

The first three have one half, the receipt; the result is absent. A body `{request, response}` is both, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from envelopes.recordings.base import Format, LineProblem, LineRecord, Record, SourceLine, SourcePath, UsageRecord
from envelopes.recordings.document_fields import (
    failed_member,
    flag_member,
    integer_member,
    list_member,
    note_unknown,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import (
    Conversation,
    DocumentValue,
    JsonDocument,
    decode_arguments,
    name_run,
    outline,
    place_records,
)
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, is_blank, read_json_lines
from envelopes.text.untrusted_json import Untrusted

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
ReadMessages = Callable[["_Dump", list[DocumentValue]], None]
_LISTS = ("messages", "input", "output", "choices")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = tuple(f"{kind}_output" for kind in _CALLS)
_FAILED = frozenset({"failed", "denied", "interrupted", "retried", "error"})
_ROLES = {"user-prompt": "user", "system-prompt": "system"} | dict.fromkeys(("text", "thinking", "file"), "assistant")
_PROMPTS = (b'"user"', b'"human"')  # the run is named by what stands before and in the first prompt
_ITEM = re.compile(rb'"type":\s*"(?:function_call|function_call_output|custom_tool_call|custom_tool_call_output)"')
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")


class _Dump(Conversation):
    """One conversation; `number` counts its messages over all lists of a body."""

    def __init__(self, root: DocumentValue, run: str, agent: str, model: str | None) -> None:
        super().__init__(root, run, agent, model=model)
        self.number = 0

    def message(self, members: Members, role: str, content: DocumentValue | None) -> str:
        """Adds a message and returns the name of its step."""
        step = text_member(members, "id") or f"message-{self.number}"
        if content is None:
            return step
        if role in ("user", "human"):
            blocks = content.elements()
            self.title(
                content.text() or (text_member(blocks[0].members(), "text") if blocks else "") or "", content.line
            )
        self.add_message(step, content, role, step=step)
        return step

    def problem(self, node: DocumentValue, reason: str) -> None:
        self.records.append(node.problem(f"$[{self.number}]", reason))


def _read_chat(dump: _Dump, messages: list[DocumentValue]) -> None:
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
            _read_blocks(dump, role, blocks)
            continue
        step = dump.message({}, role, content)
        for entry in list_member(message, "tool_calls"):
            _chat_call(dump, entry, step)


def _chat_call(dump: _Dump, node: DocumentValue, step: str) -> None:
    members = node.members()
    function = next((members[name].members() for name in ("function", "custom") if name in members), {})
    call, tool = text_member(members, "id"), text_member(function, "name")
    if not call or not tool:
        dump.problem(node, "a call without an id or a name")
        return
    args = function.get("arguments") or function.get("input")
    dump.add_call(call, node, tool, decode_arguments(args.raw) if args else b"null", step=step)


def _read_blocks(dump: _Dump, role: str, blocks: list[DocumentValue]) -> None:
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


def _tool_result(dump: _Dump, node: DocumentValue, block: Members) -> None:
    call = text_member(block, "tool_use_id")
    if not call:
        dump.problem(node, "an answer without the id of its call")
        return
    if "is_error" in block:
        dump.add_result(call, None, is_error=flag_member(block, "is_error"), line=node.line)
    if "content" in block:
        dump.add_receipt(call, block["content"])


def _read_items(dump: _Dump, items: list[DocumentValue]) -> None:
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


def _read_langchain(dump: _Dump, messages: list[DocumentValue]) -> None:
    for node in messages:
        dump.number += 1
        members = node.members()
        data = next((object_member(members, name) for name in ("data", "kwargs") if name in members), members)
        kind = text_member(data, "type") or text_member(members, "type")
        if kind is None:
            dump.problem(node, "no message: it has no type")
            continue
        if kind != "tool":
            step = dump.message(data, {"ai": "assistant", "human": "user"}.get(kind, kind), data.get("content"))
            for entry in list_member(data, "tool_calls"):
                call = entry.members()
                name, tool = text_member(call, "id"), text_member(call, "name")
                if name and tool:
                    dump.add_call(name, entry, tool, call["args"].raw if "args" in call else b"null", step=step)
                else:
                    dump.problem(entry, "a call without an id or a name")
            facts = object_member(data, "response_metadata")
            dump.model(text_member(facts, "model_name", "model"), node.line)
            if object_member(data, "usage_metadata"):
                dump.records.append(_usage(dump, data["usage_metadata"], step))
            continue
        call_id = text_member(data, "tool_call_id")
        if not call_id:
            dump.problem(node, "an answer without the id of its call")
            continue
        artifact, failed = data.get("artifact"), failed_member(data, "status", _FAILED)
        if artifact or failed is not None:
            dump.add_result(call_id, artifact, is_error=failed, line=node.line)
        if "content" in data:
            dump.add_receipt(call_id, data["content"])


def _read_pydantic_ai(dump: _Dump, messages: list[DocumentValue]) -> None:
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
            dump.records.append(_usage(dump, message["usage"], f"message-{dump.number}", at))


def _pydantic_part(dump: _Dump, node: DocumentValue, index: int, message_at: str | None) -> None:
    part = node.members()
    kind, call, tool = (text_member(part, name) for name in ("part_kind", "tool_call_id", "tool_name"))
    step, content = f"message-{dump.number}", part.get("content")
    at = time_member(part, "timestamp") or message_at
    match kind:
        case "tool-call" | "builtin-tool-call" if call and tool:
            args = part.get("args")
            dump.add_call(call, node, tool, decode_arguments(args.raw) if args else b"null", step=step, at=at)
        case "tool-return" | "builtin-tool-return" if call:
            failed, metadata = failed_member(part, "outcome", _FAILED), part.get("metadata")
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


def _usage(dump: _Dump, node: DocumentValue, request: str, at: str | None = None) -> UsageRecord:
    """The usage of a request; only Anthropic's input is without what was read from the cache."""
    usage = node.members()
    details = next((usage[name].members() for name in _DETAILS if name in usage), {})
    is_anthropic = "cache_read_input_tokens" in usage
    read = integer_member(usage, "cache_read_input_tokens") or integer_member(usage, "cache_read_tokens")
    read = read or integer_member(details, "cached_tokens") or integer_member(details, "cache_read")
    written = integer_member(usage, "cache_creation_input_tokens") or integer_member(usage, "cache_write_tokens")
    written = written or integer_member(details, "cache_creation")
    total = integer_member(usage, "input_tokens") or integer_member(usage, "prompt_tokens")
    return UsageRecord(
        line=node.line,
        run=dump.run,
        request=request,
        input_tokens=total if is_anthropic else max(0, total - read - written),
        cache_read_tokens=read,
        cache_creation_tokens=written,
        output_tokens=integer_member(usage, "output_tokens") or integer_member(usage, "completion_tokens"),
        usage=node.raw,
        at=at,
    )


def _read_body(
    root: DocumentValue, path: SourcePath, agent: str, read_messages: ReadMessages
) -> list[Record | LineProblem]:
    """The records of a list of messages, or of an object that has them."""
    bodies = [root]
    members = root.members()
    if "request" in members and "response" in members:
        bodies = [members["request"], members["response"]]
    lists = [nodes for body in bodies for nodes in _lists_in(body)]
    if not lists:
        raise Untrusted("no list of messages")
    first = lists[0]
    model = next((name for body in bodies if (name := text_member(body.members(), "model"))), None)
    named = text_member(first[0].members(), "conversation_id", "run_id") if first else None
    prompt = next((index for index, node in enumerate(first) if any(role in node.raw for role in _PROMPTS)), 0)
    dump = _Dump(root, named or name_run(path, first[: prompt + 1]), agent, model)
    for body in bodies:
        facts = body.members()
        dump.add_standing(facts)
        for nodes in _lists_in(body):
            read_messages(dump, nodes)
        if text_member(facts, "type") == "message" and "content" in facts:  # the response of Anthropic
            read_messages(dump, [body])
        if object_member(facts, "usage"):
            dump.records.append(_usage(dump, facts["usage"], text_member(facts, "id") or f"message-{dump.number}"))
    return [*dump.records, *root.document.take_remarks(dump.run)]


def _lists_in(body: DocumentValue) -> list[list[DocumentValue]]:
    """The list that a body is, those under the names of an API, or those of serialised messages under any name."""
    if body.is_list:
        return [body.elements()]
    members = body.members()
    named = [members[name].elements() for name in _LISTS if name in members and members[name].is_list]
    if named or "lc" in members:
        return named
    others = [node.elements() for node in members.values() if node.is_list]
    return [nodes for nodes in others if nodes and nodes[0].members().keys() & {"lc", "data", "parts"}]


def _read_document(
    agent: str, read_messages: ReadMessages, lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Records:
    """Reads a document, or lines of objects. An object on one line is the first of a file of lines."""
    listed = list(lines)
    filled = [line for line in listed if not is_blank(line.raw)]
    is_later = bool(listed) and listed[0].offset > 0  # a file of lines that has grown
    if (len(filled) > 1 or is_later) and all(_is_object(line) for line in filled):
        yield from _read_lines(agent, read_messages, listed, path, saved)
        return
    document = JsonDocument(listed)
    root = document.parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    try:
        yield from place_records(_read_body(root, path, agent, read_messages))
    except Untrusted as refusal:
        yield document.refuse(refusal)


def _is_object(line: SourceLine) -> bool:
    return line.raw.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b'{"')


def _read_lines(
    agent: str, read_messages: ReadMessages, lines: list[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Records:
    """Each line by itself: its records have the place that they have in the conversation, which lines repeat."""
    for line in read_json_lines(lines, dict(saved)):
        if isinstance(line, LineProblem):
            yield line
            continue
        root = DocumentValue(JsonDocument([line]), line.raw.strip(), 0)
        try:
            records = _read_body(root, path, agent, read_messages)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        for number, record in enumerate(records, start=1):
            is_placed = isinstance(record, LineRecord)
            yield msgspec.structs.replace(record, position=number) if is_placed else record


def _sniff_pydantic_ai(head: bytes, path: SourcePath) -> bool:
    return {"parts", "kind"} <= outline(head).element_keys and b'"part_kind"' in head


def _sniff_langchain(head: bytes, path: SourcePath) -> bool:
    content = outline(head)
    is_list = bool({"lc", "kwargs"} <= content.element_keys or {"type", "data"} == content.element_keys)
    is_named = bool(content.keys & {"messages_to_dict", "dumpd", "messages"}) and b'"role"' not in head
    return b'"tool_calls"' in head and (is_list or (is_named and (b'"data"' in head or b'"lc"' in head)))


def _sniff_responses(head: bytes, path: SourcePath) -> bool:
    content = outline(head)
    is_body = bool({"input", "output", "request"} & content.keys or {"type", "role"} & content.element_keys)
    return is_body and _ITEM.search(head) is not None


def _sniff_anthropic(head: bytes, path: SourcePath) -> bool:
    content = outline(head)
    is_list = {"role", "content"} <= content.element_keys
    has_messages = bool({"messages", "request"} & content.keys) or is_list
    return has_messages and (b'"tool_use"' in head or b'"tool_result"' in head) and b'"sessionId"' not in head


def _sniff_chat(head: bytes, path: SourcePath) -> bool:
    content = outline(head)
    is_list = {"role", "content"} <= content.element_keys
    has_messages = bool({"messages", "choices", "request"} & content.keys) or is_list
    return has_messages and b'"role"' in head and (b'"tool_calls"' in head or b'"tool_call_id"' in head)


def _is_global_call_id(call: str) -> bool:
    """Scripted models and other providers count their calls."""
    return False


def _format(
    name: str, title: str, mark: str, sniff: Callable[[bytes, SourcePath], bool], read_messages: ReadMessages
) -> Format:
    agent = name.removesuffix("-chat").removesuffix("-responses")
    return Format(
        name=name,
        title=title,
        agent=agent,
        namespace=agent,
        mark=mark,
        version=2,
        is_document=True,
        sniff=sniff,
        read=partial(_read_document, agent, read_messages),
        is_global_call_id=_is_global_call_id,
    )


FORMATS: tuple[Format, ...] = (
    _format("pydantic-ai", "Pydantic AI messages", "messages with parts", _sniff_pydantic_ai, _read_pydantic_ai),
    _format("langchain", "LangChain messages", "messages with tool_calls", _sniff_langchain, _read_langchain),
    _format("openai-responses", "OpenAI Responses", "items with function calls", _sniff_responses, _read_items),
    _format("anthropic", "Anthropic messages", "messages with tool_use or tool_result", _sniff_anthropic, _read_chat),
    _format("openai-chat", "OpenAI Chat messages", "messages with a role and tool_calls", _sniff_chat, _read_chat),
)
