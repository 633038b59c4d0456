"""Anthropic Messages: one `tool_result` block, which goes into a message of the role `user`.

{"type": "tool_result", "tool_use_id": …, "content": text or blocks, "is_error": true or false}
"""

from __future__ import annotations

from typing import Literal

import msgspec

from envelopes.schema.conversion import convert_json
from envelopes.schema.receipt import ImagePart, Receipt, image_part
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.settlement import native_is_error
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
    is_url,
    read_text,
    text_block,
)

MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class _ToolResult(msgspec.Struct, frozen=True):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Block] = ""
    is_error: bool = False


def encode(receipt: Receipt, result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the block. Raises UnsupportedPart for a part that the API refuses."""
    return {
        "type": "tool_result",
        "tool_use_id": call_ids.provider,
        "content": BLOCKS.content(receipt),
        "is_error": native_is_error(result),
    }


def decode(body: JsonValue) -> DecodedBody:
    block = convert_json(body, _ToolResult)
    return DecodedBody(
        receipt=BLOCKS.receipt(block.content), provider_call_id=block.tool_use_id, is_error=block.is_error
    )


def declare(definition: ToolDefinition) -> Body:
    """An entry of `tools`."""
    return {
        "name": definition.name,
        "description": definition.description,
        "input_schema": input_schema(definition),
    }


def _image(part: ImagePart) -> Block:
    if is_url(part):
        return {"type": "image", "source": {"type": "url", "url": part.data}}
    if part.media_type not in MEDIA_TYPES:
        raise UnsupportedPart(f"anthropic does not accept images of the type {part.media_type!r}")
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


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
TRANSPORT = Transport(name="anthropic", title="Anthropic Messages", encode=encode, decode=decode, declare=declare)
