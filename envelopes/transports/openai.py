"""OpenAI's two APIs. Neither has an error flag: the receipt states the error.

Responses takes an input item that answers a function call or a custom tool call:

    {"type": "function_call_output",    "call_id": …, "output": text or content}
    {"type": "custom_tool_call_output", "call_id": …, "output": text or content}

A custom tool takes raw text instead of arguments: the only field of a tool with one text field, such as the patch of
ApplyPatch. Chat Completions takes a message of the role `tool`, which carries text only:

    {"role": "tool", "tool_call_id": …, "content": text or text parts}

Function calls and custom tool calls of one turn are answered by two transports. The images of tool messages go into a
message of the role `user` behind the answers of all calls, and a sentence in the answer refers to them. One body cannot
hold both, so `encode` refuses images and `answers` sends them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from envelopes.schema.conversion import convert_json
from envelopes.schema.receipt import ImagePart, Part, Receipt, image_part
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.tool import ToolDefinition
from envelopes.transports.base import (
    AnsweredCall,
    Block,
    BlockCodec,
    Body,
    CallIds,
    DecodedBody,
    Transport,
    UnsupportedPart,
    checked_media_type,
    describe_part,
    input_schema,
    is_url,
    read_text,
    text_block,
    unsourced_text,
)

MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
DATA_ADDRESS = re.compile(r"data:(?P<media_type>[^;,]*);base64,(?P<data>.*)", re.DOTALL)


class _Output(msgspec.Struct, frozen=True):
    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str | list[Block]


class _ToolMessage(msgspec.Struct, frozen=True):
    role: Literal["tool"]
    tool_call_id: str
    content: str | list[Block]


def _encode_output(receipt: Receipt, _result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the item. Raises UnsupportedPart for parts unknown to the API."""
    return {"type": "function_call_output", "call_id": call_ids.provider, "output": ITEMS.content(receipt)}


def _encode_custom_output(receipt: Receipt, _result: CanonicalResult, call_ids: CallIds) -> Body:
    """The answer to a custom tool call, whose input was free text and not JSON."""
    return {"type": "custom_tool_call_output", "call_id": call_ids.provider, "output": ITEMS.content(receipt)}


def _decode_output(body: JsonValue) -> DecodedBody:
    """Reads either of the two items."""
    item = convert_json(body, _Output)
    return DecodedBody(receipt=ITEMS.receipt(item.output), provider_call_id=item.call_id)


def _declare_function(definition: ToolDefinition) -> Body:
    """An entry of `tools`, not `strict`: that requires every field, and these inputs have optional ones."""
    return {"type": "function", **_function(definition), "strict": False}


def _declare_custom(definition: ToolDefinition) -> Body:
    """A custom entry of `tools`. Raises UnsupportedPart for a tool whose input is not one text."""
    if [field.get("type") for field in input_schema(definition)["properties"].values()] != ["string"]:
        raise UnsupportedPart(f"openai_responses_custom: the input of {definition.name} is not one text")
    return {
        "type": "custom",
        "name": CUSTOM.wire_name(definition.name),
        "description": definition.description,
        "format": {"type": "text"},
    }


def _encode_message(receipt: Receipt, _result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the message. Raises UnsupportedPart for any part but text: the API takes images from the user only."""
    return {"role": "tool", "tool_call_id": call_ids.provider, "content": PARTS.content(receipt)}


def _gather_messages(answers: Sequence[AnsweredCall]) -> list[Body]:
    """A message a call, then one of the user with the images of all, each behind the id of its call."""
    messages: list[Body] = []
    images: list[Block] = []
    for answer in answers:
        provider_id = answer.call_ids.provider
        parts: list[Part] = []
        for part in answer.receipt.parts:
            if isinstance(part, ImagePart):
                images += [text_block(f"Image of the tool call {provider_id}:"), _nested_image(part)]
                parts.append(unsourced_text(f"[In the next user message: {describe_part(part)}]"))
            else:
                parts.append(part)
        messages.append(_encode_message(Receipt(tuple(parts)), answer.result, answer.call_ids))
    return [*messages, {"role": "user", "content": images}] if images else messages


def _decode_message(body: JsonValue) -> DecodedBody:
    message = convert_json(body, _ToolMessage)
    return DecodedBody(receipt=PARTS.receipt(message.content), provider_call_id=message.tool_call_id)


def _declare_nested_function(definition: ToolDefinition) -> Body:
    """An entry of `tools`."""
    return {"type": "function", "function": _function(definition)}


def _function(definition: ToolDefinition) -> Body:
    return {
        "name": CHAT.wire_name(definition.name),
        "description": definition.description,
        "parameters": input_schema(definition),
    }


def _text(text: str) -> Block:
    return {"type": "input_text", "text": text}


def _image(part: ImagePart) -> Block:
    return {"type": "input_image", "image_url": _address(part, "openai_responses"), "detail": "auto"}


def _nested_image(part: ImagePart) -> Block:
    return {"type": "image_url", "image_url": {"url": _address(part, "openai_chat")}}


def _address(part: ImagePart, provider: str) -> str:
    if is_url(part):
        return part.data
    return f"data:{checked_media_type(part, MEDIA_TYPES, provider)};base64,{part.data}"


def _read_image(block: Block) -> ImagePart | None:
    address = block.get("image_url")
    if not isinstance(address, str):
        return None
    inline = DATA_ADDRESS.fullmatch(address)
    return image_part(inline["media_type"], inline["data"]) if inline else ImagePart("", address, 0)


def _refuse_image(part: ImagePart) -> Block:
    raise UnsupportedPart(f"openai_chat: a tool message contains no image ({part.media_type or 'by address'})")


ITEMS = BlockCodec(
    provider="openai_responses",
    text=_text,
    image=_image,
    readers={"input_text": read_text, "input_image": _read_image},
    passed=frozenset({"input_file", "input_image"}),
)
PARTS = BlockCodec(provider="openai_chat", text=text_block, image=_refuse_image, readers={"text": read_text})
RESPONSES = Transport(
    name="openai_responses",
    title="OpenAI Responses",
    encode=_encode_output,
    decode=_decode_output,
    declare=_declare_function,
)
CUSTOM = Transport(
    name="openai_responses_custom",
    title="OpenAI Responses, custom tool",
    encode=_encode_custom_output,
    decode=_decode_output,
    declare=_declare_custom,
)
CHAT = Transport(
    name="openai_chat",
    title="OpenAI Chat Completions",
    encode=_encode_message,
    decode=_decode_message,
    declare=_declare_nested_function,
    gather=_gather_messages,
)
