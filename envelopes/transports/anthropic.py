"""Anthropic Messages: one `tool_result` block a call, all of a turn in one message of the role `user`.

    {"type": "tool_result", "tool_use_id": …, "content": text or blocks, "is_error": true or false}

The API refuses a text of white space alone, which is left out, and anything but text beside `is_error`: there a
sentence stands in the place of an image or a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from envelopes.schema.conversion import convert_json
from envelopes.schema.receipt import ImagePart, Part, Receipt, TextPart, image_part
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.settlement import native_is_error
from envelopes.schema.tool import ToolDefinition
from envelopes.transports.base import (
    AnsweredCall,
    Block,
    BlockCodec,
    Body,
    CallIds,
    DecodedBody,
    NameRule,
    Transport,
    checked_media_type,
    describe_part,
    input_schema,
    is_url,
    read_text,
    text_block,
    unsourced_text,
)

MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class _ToolResult(msgspec.Struct, frozen=True):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Block] = ""
    is_error: bool = False


def encode(receipt: Receipt, result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the block. Raises UnsupportedPart for a part that the API refuses."""
    is_error = native_is_error(result)
    parts = [part for part in receipt.parts if not isinstance(part, TextPart) or part.text.strip()]
    if is_error:
        parts = [_text_for(part) for part in parts]
    return {
        "type": "tool_result",
        "tool_use_id": call_ids.provider,
        "content": BLOCKS.content(Receipt(tuple(parts))),
        "is_error": is_error,
    }


def gather(answers: Sequence[AnsweredCall]) -> list[Body]:
    """One message. What else the user says to the model stands behind these blocks, or in a later message."""
    blocks = [encode(answer.receipt, answer.result, answer.call_ids) for answer in answers]
    return [{"role": "user", "content": blocks}] if blocks else []


def decode(body: JsonValue) -> DecodedBody:
    block = convert_json(body, _ToolResult)
    return DecodedBody(
        receipt=BLOCKS.receipt(block.content), provider_call_id=block.tool_use_id, is_error=block.is_error
    )


def declare(definition: ToolDefinition) -> Body:
    """An entry of `tools`."""
    return {
        "name": TRANSPORT.wire_name(definition.name),
        "description": definition.description,
        "input_schema": input_schema(definition),
    }


def _image(part: ImagePart) -> Block:
    if is_url(part):
        return {"type": "image", "source": {"type": "url", "url": part.data}}
    media_type = checked_media_type(part, MEDIA_TYPES, "anthropic")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": part.data}}


def _text_for(part: Part) -> TextPart:
    """The part, or a sentence in the place of one that a failed result cannot contain."""
    if isinstance(part, TextPart):
        return part
    return unsourced_text(f"[Not sent: {describe_part(part)}. A failed result can contain only text.]")


def _read_image(block: Block) -> ImagePart | None:
    match block.get("source"):
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return image_part(media_type, data)
        case {"type": "url", "url": str(address)}:
            return ImagePart("", address, 0)
    return None


BLOCKS = BlockCodec(
    provider="anthropic",
    text=text_block,
    image=_image,
    readers={"text": read_text, "image": _read_image},
    passed=frozenset({"document", "search_result", "tool_reference", "browser_state", "image"}),
)
TRANSPORT = Transport(
    name="anthropic",
    title="Anthropic Messages",
    encode=encode,
    decode=decode,
    declare=declare,
    gather=gather,
    names=NameRule(longest=128),
)
