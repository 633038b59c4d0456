"""Messages as programs keep them: bodies of OpenAI's and Anthropic's APIs, and messages of LangChain and Pydantic AI.

A document is a list of messages, or an object with them; a file of lines has one such object a line, for example each
request of a conversation with all of its history. Lines with the same beginning are one run, so what they repeat is
stored once, and a later line may prove that a receipt was replaced or left out (`histories.py`).

    chat.py, blocks.py   OpenAI Chat: `messages[]` with `tool_calls` and the role `tool`, and of a response `choices[]`;
                         Anthropic: blocks `tool_use` and `tool_result`
    responses.py         OpenAI Responses: items `function_call`, `function_call_output` and the like
    langchain.py         LangChain: `messages_to_dict` (`{type, data}`) or `dumpd` (`{lc, id, kwargs}`). `artifact` of a
                         ToolMessage is what the model did not get: the result
    pydantic_ai.py       Pydantic AI: `parts[]` with a `part_kind`. `metadata` of a tool return is the result, else a
                         content that is no text, which the model gets as JSON: that receipt is reconstructed. A call is
                         as old as the response that it is in

The first three have one half, the receipt; the result is absent. A body `{request, response}` is both, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from envelopes.recordings.base import Format, SourcePath
from envelopes.recordings.documents import outline
from envelopes.recordings.message_dumps.bodies import ReadMessages, read_document
from envelopes.recordings.message_dumps.chat import read_chat
from envelopes.recordings.message_dumps.langchain import read_langchain
from envelopes.recordings.message_dumps.pydantic_ai import read_pydantic_ai
from envelopes.recordings.message_dumps.responses import read_items
from envelopes.recordings.places import name_position

_ITEM = re.compile(rb'"type":\s*"(?:\w+_call(?:_output)?|program)"')
_BLOCK = re.compile(rb'"type":\s*"(?:(?:server_|mcp_)?tool_use|\w*tool_result)"')


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
    return has_messages and _BLOCK.search(head) is not None and b'"sessionId"' not in head


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
        version=5,
        is_document=True,
        sniff=sniff,
        read=partial(read_document, agent, read_messages),
        is_global_call_id=_is_global_call_id,
        name_place=name_position,
    )


FORMATS: tuple[Format, ...] = (
    _format("pydantic-ai", "Pydantic AI messages", "messages with parts", _sniff_pydantic_ai, read_pydantic_ai),
    _format("langchain", "LangChain messages", "messages with tool_calls", _sniff_langchain, read_langchain),
    _format("openai-responses", "OpenAI Responses", "items with function calls", _sniff_responses, read_items),
    _format("anthropic", "Anthropic messages", "messages with tool_use or tool_result", _sniff_anthropic, read_chat),
    _format("openai-chat", "OpenAI Chat messages", "messages with a role and tool_calls", _sniff_chat, read_chat),
)
