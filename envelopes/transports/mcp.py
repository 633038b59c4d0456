"""Model Context Protocol: the `CallToolResult` of a server. Its request's id is JSON-RPC's, not the body's.

    {"content": [blocks], "isError": true or false, "resultType": "complete"}

The canonical result is not sent as `structuredContent`: a client may show that to its model, which is to see the
receipt. `resultType` is mandatory from 2026-07-28 on; older peers ignore it.
"""

from __future__ import annotations

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


class _CallToolResult(msgspec.Struct, frozen=True, rename="camel"):
    content: list[Block]
    is_error: bool = False


def encode(receipt: Receipt, result: CanonicalResult, _call_ids: CallIds) -> Body:
    """Builds the result. Raises UnsupportedPart for an image by address, and for parts unknown to the protocol."""
    return {"content": BLOCKS.blocks(receipt), "isError": native_is_error(result), "resultType": "complete"}


def decode(body: JsonValue) -> DecodedBody:
    result = convert_json(body, _CallToolResult)
    return DecodedBody(receipt=BLOCKS.receipt(result.content), is_error=result.is_error)


def declare(definition: ToolDefinition) -> Body:
    """A `Tool` of `tools/list`, without `outputSchema`: a server that has one must send `structuredContent`."""
    return {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": input_schema(definition),
        "annotations": {"readOnlyHint": definition.risk == "read-only"},
    }


def _image(part: ImagePart) -> Block:
    if is_url(part):
        raise UnsupportedPart("mcp: an image block contains its data, not an address")
    return {"type": "image", "data": part.data, "mimeType": part.media_type}


def _read_image(block: Block) -> ImagePart | None:
    match block:
        case {"data": str(data), "mimeType": str(media_type)}:
            return image_part(media_type, data)
    return None


BLOCKS = BlockCodec(
    provider="mcp",
    text=text_block,
    image=_image,
    readers={"text": read_text, "image": _read_image},
    passed=frozenset({"audio", "resource_link", "resource"}),
)
TRANSPORT = Transport(name="mcp", title="Model Context Protocol", encode=encode, decode=decode, declare=declare)
