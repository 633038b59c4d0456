"""Model Context Protocol: the `CallToolResult` of a server. Its request's id is JSON-RPC's, not the body's.

    {"content": [blocks], "isError": true or false, "resultType": "complete"}

The canonical result is not sent as `structuredContent`: a client may show that to its model, and the
receipt is what the model is to see. `resultType` is mandatory from 2026-07-28 on; older peers ignore it.
"""

from __future__ import annotations

import msgspec

from envelopes.schema.receipt import ImagePart, Receipt
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.settlement import native_is_error
from envelopes.schema.tool import ToolDefinition
from envelopes.transports.base import (
    Block,
    Blocks,
    Body,
    CallIds,
    Delivered,
    NotCarried,
    Transport,
    image_part,
    is_address,
    parameters,
    read_text,
)


class _CallToolResult(msgspec.Struct, frozen=True, rename="camel"):
    content: list[Block]
    is_error: bool = False


def encode(receipt: Receipt, result: CanonicalResult, _call_ids: CallIds) -> Body:
    """Raises NotCarried for an image by address, and for a part of a kind that the protocol does not know."""
    return {"content": BLOCKS.blocks(receipt), "isError": native_is_error(result), "resultType": "complete"}


def decode(body: JsonValue) -> Delivered:
    found = msgspec.convert(body, _CallToolResult)
    return Delivered(receipt=BLOCKS.receipt(found.content), is_error=found.is_error)


def declare(definition: ToolDefinition) -> Body:
    """A `Tool` of `tools/list`. Without `outputSchema`: a server that names one must send `structuredContent`."""
    return {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": parameters(definition),
        "annotations": {"readOnlyHint": definition.risk == "read-only"},
    }


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Block:
    if is_address(part):
        raise NotCarried("mcp: an image block holds its data, not an address")
    return {"type": "image", "data": part.data, "mimeType": part.media_type}


def _read_image(block: Block) -> ImagePart | None:
    match block:
        case {"data": str(data), "mimeType": str(media_type)}:
            return image_part(media_type, data)
    return None


BLOCKS = Blocks(
    provider="mcp",
    text=_text,
    image=_image,
    readers={"text": read_text, "image": _read_image},
    passed=frozenset({"audio", "resource_link", "resource"}),
)
TRANSPORT = Transport(name="mcp", title="Model Context Protocol", encode=encode, decode=decode, declare=declare)
