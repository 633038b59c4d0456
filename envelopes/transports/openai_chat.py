"""OpenAI Chat Completions: a message of the role `tool`. It carries text only and has no error flag.

{"role": "tool", "tool_call_id": …, "content": text or text parts}
"""

from __future__ import annotations

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
    input_schema,
    read_text,
    text_block,
)


class _ToolMessage(msgspec.Struct, frozen=True):
    role: Literal["tool"]
    tool_call_id: str
    content: str | list[Block]


def encode(receipt: Receipt, _result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the message. Raises UnsupportedPart for any part but text: the API takes images from the user only."""
    return {"role": "tool", "tool_call_id": call_ids.provider, "content": BLOCKS.content(receipt)}


def decode(body: JsonValue) -> DecodedBody:
    message = msgspec.convert(body, _ToolMessage)
    return DecodedBody(receipt=BLOCKS.receipt(message.content), provider_call_id=message.tool_call_id)


def declare(definition: ToolDefinition) -> Body:
    """An entry of `tools`."""
    return {
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": input_schema(definition),
        },
    }


def _image(part: ImagePart) -> Block:
    raise UnsupportedPart(f"openai_chat: a tool message contains no image ({part.media_type or 'by address'})")


BLOCKS = BlockCodec(provider="openai_chat", text=text_block, image=_image, readers={"text": read_text})
TRANSPORT = Transport(
    name="openai_chat", title="OpenAI Chat Completions", encode=encode, decode=decode, declare=declare
)
