"""OpenAI Responses: an input item that answers a function call or a custom tool call.

    {"type": "function_call_output",    "call_id": …, "output": text or content}
    {"type": "custom_tool_call_output", "call_id": …, "output": text or content}

Neither has an error flag: the receipt states the error. A custom tool takes raw text instead of arguments: the
only field of a tool with one text field, such as the patch of ApplyPatch.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from envelopes.schema.receipt import ImagePart, Receipt
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.tool import ToolDefinition
from envelopes.transports.base import (
    Block,
    BlockCodec,
    Body,
    CallIds,
    DecodedBody,
    Transport,
    UnsupportedPart,
    image_part,
    input_schema,
    is_url,
    read_text,
)

DATA_ADDRESS = re.compile(r"data:(?P<media_type>[^;,]*);base64,(?P<data>.*)", re.DOTALL)


class _Output(msgspec.Struct, frozen=True):
    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str | list[Block]


def encode(receipt: Receipt, _result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the item. Raises UnsupportedPart for parts unknown to the API."""
    return {"type": "function_call_output", "call_id": call_ids.provider, "output": BLOCKS.content(receipt)}


def encode_custom(receipt: Receipt, _result: CanonicalResult, call_ids: CallIds) -> Body:
    """The answer to a custom tool call, whose input was free text and not JSON."""
    return {"type": "custom_tool_call_output", "call_id": call_ids.provider, "output": BLOCKS.content(receipt)}


def decode(body: JsonValue) -> DecodedBody:
    """Reads either of the two items."""
    item = msgspec.convert(body, _Output)
    return DecodedBody(receipt=BLOCKS.receipt(item.output), provider_call_id=item.call_id)


def declare(definition: ToolDefinition) -> Body:
    """An entry of `tools`, not `strict`: that requires every field, and these inputs have optional ones."""
    return {
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": input_schema(definition),
        "strict": False,
    }


def declare_custom(definition: ToolDefinition) -> Body:
    """A custom entry of `tools`. Raises UnsupportedPart for a tool whose input is not one text."""
    if [field.get("type") for field in input_schema(definition)["properties"].values()] != ["string"]:
        raise UnsupportedPart(f"openai_responses_custom: the input of {definition.name} is not one text")
    return {
        "type": "custom",
        "name": definition.name,
        "description": definition.description,
        "format": {"type": "text"},
    }


def _text(text: str) -> Block:
    return {"type": "input_text", "text": text}


def _image(part: ImagePart) -> Block:
    address = part.data if is_url(part) else f"data:{part.media_type};base64,{part.data}"
    return {"type": "input_image", "image_url": address, "detail": "auto"}


def _read_image(block: Block) -> ImagePart | None:
    address = block.get("image_url")
    if not isinstance(address, str):
        return None
    inline = DATA_ADDRESS.fullmatch(address)
    return image_part(inline["media_type"], inline["data"]) if inline else ImagePart("", address, 0)


BLOCKS = BlockCodec(
    provider="openai_responses",
    text=_text,
    image=_image,
    readers={"input_text": read_text, "input_image": _read_image},
    passed=frozenset({"input_file", "input_image"}),
)
TRANSPORT = Transport(name="openai_responses", title="OpenAI Responses", encode=encode, decode=decode, declare=declare)
CUSTOM = Transport(
    name="openai_responses_custom",
    title="OpenAI Responses, custom tool",
    encode=encode_custom,
    decode=decode,
    declare=declare_custom,
)
