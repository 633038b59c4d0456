"""Model Context Protocol: the `CallToolResult` of a server. Its request's id is JSON-RPC's, not the body's.

    {"content": [blocks], "isError": true or false, "resultType": "complete"}

The structured form adds the canonical envelope as `structuredContent`, and a `resource_link` for each artifact behind
the receipt. It is a transport of its own because some clients show `structuredContent` to their model, which is to see
the receipt. `resultType` is mandatory from 2026-07-28 on; older peers ignore it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import msgspec

from envelopes.schema.conversion import convert_json, struct_schemas
from envelopes.schema.receipt import ImagePart, Receipt, image_part
from envelopes.schema.result import ArtifactRef, CanonicalResult, JsonValue, ToolError
from envelopes.schema.settlement import native_is_error
from envelopes.schema.tool import ToolAnnotations, ToolDefinition
from envelopes.transports.base import (
    Block,
    BlockCodec,
    Body,
    CallIds,
    DecodedBody,
    NameRule,
    Transport,
    UnsupportedPart,
    checked_media_type,
    input_schema,
    is_url,
    read_text,
    text_block,
)

ARTIFACT = "artifact:"  # the scheme of a resource whose path is an artifact's


class _CallToolResult(msgspec.Struct, frozen=True, rename="camel"):
    content: list[Block]
    is_error: bool = False
    structured_content: dict[str, Any] | None = None


class Declaration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server declares it; an annotation that the server leaves out is None."""

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations = ToolAnnotations()


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The members of `CanonicalResult.to_json`, as a schema."""

    tool_name: str
    status: str
    summary_text: str
    result: Any
    error: ToolError | None
    artifacts: list[ArtifactRef] = []


def encode(receipt: Receipt, result: CanonicalResult, _call_ids: CallIds) -> Body:
    """Builds the result. Raises UnsupportedPart for an image by address, and for parts unknown to the protocol."""
    return {"content": BLOCKS.blocks(receipt), "isError": native_is_error(result), "resultType": "complete"}


def encode_structured(receipt: Receipt, result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the result with the envelope and its artifacts. Raises UnsupportedPart, like `encode`."""
    body = encode(receipt, result, call_ids)
    body["content"] += [_resource_link(artifact) for artifact in result.artifacts]
    return {**body, "structuredContent": result.to_json()}


def decode(body: JsonValue) -> DecodedBody:
    """Reads either form. A link to an artifact is a part of the receipt: the model may have got it."""
    result = convert_json(body, _CallToolResult)
    receipt = BLOCKS.receipt(result.content)
    return DecodedBody(receipt=receipt, is_error=result.is_error, structured=result.structured_content)


def artifact_path(uri: str) -> str | None:
    """The path of the artifact that a link of the structured form leads to; None for other addresses.

    >>> artifact_path("artifact:output/make%20test.txt")
    'output/make test.txt'
    """
    return unquote(uri.removeprefix(ARTIFACT)) if uri.startswith(ARTIFACT) else None


def declare_structured(definition: ToolDefinition) -> Body:
    """A `Tool` with the envelope's schema, which a server that sends `structuredContent` publishes."""
    (own,), components = struct_schemas([_Envelope])
    schema = components.pop(own["$ref"].rpartition("/")[2])
    return {**declare(definition), "outputSchema": {**schema, "title": "Envelope", "$defs": components}}


def declare(definition: ToolDefinition) -> Body:
    """A `Tool` of `tools/list`, without `outputSchema`: a server that has one must send `structuredContent`."""
    return {
        "name": TRANSPORT.wire_name(definition.name),
        "description": definition.description,
        "inputSchema": input_schema(definition),
        "annotations": msgspec.to_builtins(definition.annotations),
    }


def read_declaration(body: JsonValue) -> Declaration:
    """Reads a `Tool` of `tools/list`. Raises msgspec.ValidationError.

    >>> read_declaration({"name": "find", "inputSchema": {"type": "object"}}).annotations.read_only_hint is None
    True
    """
    return convert_json(body, Declaration)


def _resource_link(artifact: ArtifactRef) -> Block:
    """The link; its name is the last part of the path."""
    uri = ARTIFACT + quote(artifact.path, safe="/")
    return {"type": "resource_link", "uri": uri, "name": artifact.path.rpartition("/")[2] or artifact.path}


def _image(part: ImagePart) -> Block:
    if is_url(part):
        raise UnsupportedPart("mcp: an image block contains its data, not an address")
    return {"type": "image", "data": part.data, "mimeType": checked_media_type(part, None, "mcp")}


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
NAMES = NameRule(characters="a-zA-Z0-9_.-", longest=128)
TRANSPORT = Transport(
    name="mcp",
    title="Model Context Protocol",
    encode=encode,
    decode=decode,
    declare=declare,
    names=NAMES,
)
STRUCTURED = Transport(
    name="mcp_structured",
    title="Model Context Protocol, structured",
    encode=encode_structured,
    decode=decode,
    declare=declare_structured,
    names=NAMES,
)
