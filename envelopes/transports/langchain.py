"""LangChain: a `ToolMessage`, as the dictionary from which its client builds one.

    {"type": "tool", "tool_call_id": …, "name": tool, "content": text or blocks, "artifact": envelope, "status": …}

`artifact` is not sent to the model: the canonical envelope goes there, so that a chain has both halves. `status` is
`error` where a native error flag would be set. Names follow OpenAI's rule, which every provider behind it accepts.
"""

from __future__ import annotations

from typing import Any, Literal

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
    checked_media_type,
    input_schema,
    is_url,
    read_text,
    text_block,
    unsourced_text,
)


class _ToolMessage(msgspec.Struct, frozen=True):
    type: Literal["tool"]
    tool_call_id: str
    content: str | list[str | Block]
    name: str | None = None
    artifact: Any = None
    status: Literal["success", "error"] = "success"


def encode(receipt: Receipt, result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the message. Raises UnsupportedPart for an image of another kind, and for parts unknown to LangChain."""
    return {
        "type": "tool",
        "tool_call_id": call_ids.provider,
        "name": TRANSPORT.wire_name(result.tool_name),
        "content": BLOCKS.content(receipt),
        "artifact": result.to_json(),
        "status": "error" if native_is_error(result) else "success",
    }


def decode(body: JsonValue) -> DecodedBody:
    """Reads the message; a plain string among its blocks is a text."""
    message = convert_json(body, _ToolMessage)
    if isinstance(message.content, str):
        receipt = Receipt((unsourced_text(message.content),))
    else:
        receipt = BLOCKS.receipt([text_block(each) if isinstance(each, str) else each for each in message.content])
    return DecodedBody(
        receipt=receipt,
        provider_call_id=message.tool_call_id,
        is_error=message.status == "error",
        tool_name=message.name,
        structured=message.artifact,
    )


def declare(definition: ToolDefinition) -> Body:
    """An argument of `bind_tools`, in OpenAI's form, which LangChain converts for the other providers."""
    function = {
        "name": TRANSPORT.wire_name(definition.name),
        "description": definition.description,
        "parameters": input_schema(definition),
    }
    return {"type": "function", "function": function}


def _image(part: ImagePart) -> Block:
    if is_url(part):
        return {"type": "image", "url": part.data}
    return {"type": "image", "base64": part.data, "mime_type": checked_media_type(part, None, "langchain")}


def _read_image(block: Block) -> ImagePart | None:
    match block:
        case {"base64": str(data), "mime_type": str(media_type)}:
            return image_part(media_type, data)
        case {"url": str(address)}:
            return ImagePart("", address, 0)
    return None


BLOCKS = BlockCodec(
    provider="langchain",
    text=text_block,
    image=_image,
    readers={"text": read_text, "image": _read_image},
    passed=frozenset({"audio", "file", "video", "image"}),
)
TRANSPORT = Transport(name="langchain", title="LangChain", encode=encode, decode=decode, declare=declare)
