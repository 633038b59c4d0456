"""The interface of a transport, which sends a receipt unchanged (RFC-072, RFC-131).

    encode(receipt, result, call_ids)   the provider's body for one answered call
    decode(body)                        a DecodedBody: the receipt's parts, the id, the flag
    declare(definition)                 the provider's entry for a tool that the model may call

The text comes from the receipt alone. From the canonical result a transport takes the tool's name and the
native error flag, and nothing else; a provider without a flag gets none (RFC-132, RFC-133).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from envelopes.schema.receipt import ImagePart, OtherPart, Part, Receipt, Segment, TextPart
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.tool import ToolDefinition
from envelopes.text.untrusted_json import dump_json

Body: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]
Reader: TypeAlias = Callable[[Block], Part | None]


class CallIds(msgspec.Struct, frozen=True, kw_only=True):
    """`provider` is the id that the model gave the call, `call` is our own; they are never interchanged (E-20).

    >>> CallIds(provider="toolu_01").call
    ''
    """

    provider: str
    call: str = ""


class DecodedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a body. None: the provider has no such field, or omitted it.

    The segments have no sources: a body does not contain them.
    """

    receipt: Receipt
    provider_call_id: str | None = None
    is_error: bool | None = None
    tool_name: str | None = None


class UnsupportedPart(ValueError):
    """The provider has no form for a part of the receipt, or for a tool. Parts are never dropped silently."""


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's three functions. `decode` raises msgspec.ValidationError with a `$.path` for a foreign body."""

    name: str
    title: str
    encode: Callable[[Receipt, CanonicalResult, CallIds], Body]
    decode: Callable[[JsonValue], DecodedBody]
    declare: Callable[[ToolDefinition], Body]


class BlockCodec(msgspec.Struct, frozen=True, kw_only=True):
    """Writes and reads the blocks of one provider. `passed` are kinds of parts that are sent as recorded."""

    provider: str
    text: Callable[[str], Block]
    image: Callable[[ImagePart], Block]
    readers: Mapping[str, Reader]
    passed: frozenset[str] = frozenset()

    def content(self, receipt: Receipt) -> str | list[Block]:
        """The text of a receipt with one text part, the blocks of any other."""
        match receipt.parts:
            case ():
                return ""
            case (TextPart() as only,):
                return only.text
        return self.blocks(receipt)

    def blocks(self, receipt: Receipt) -> list[Block]:
        """One block a part. Empty texts are omitted: Anthropic refuses them."""
        return [self._block(part) for part in receipt.parts if not isinstance(part, TextPart) or part.text]

    def receipt(self, content: str | list[Block]) -> Receipt:
        if isinstance(content, str):
            return Receipt((unsourced_text(content),))
        return Receipt(tuple(self._part(block) for block in content))

    def _block(self, part: Part) -> Block:
        match part:
            case TextPart():
                return self.text(part.text)
            case ImagePart():
                return self.image(part)
        return pass_through(part, self.passed, self.provider)

    def _part(self, block: Block) -> Part:
        read = self.readers.get(str(block.get("type")))
        part = read(block) if read else None
        return part if part is not None else other_part(str(block.get("type", "object")), block)


def input_schema(definition: ToolDefinition) -> Body:
    """The input's schema without conditions between fields; the description states them, and `parse` checks them.

    Anthropic and OpenAI refuse `oneOf`, `anyOf` and `allOf` at the top of a schema, OpenAI `not` as well, and one
    refused schema fails the whole request. A client passes an MCP server's schemas on to them.
    """
    return definition.input_schema(has_conditions=False)


def unsourced_text(text: str) -> TextPart:
    return TextPart((Segment(text, "value"),) if text else ())


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def read_text(block: Block) -> TextPart | None:
    """Reads a block with its text under `text`, the form of all providers but Gemini."""
    text = block.get("text")
    return unsourced_text(text) if isinstance(text, str) else None


def other_part(kind: str, block: JsonValue) -> OtherPart:
    return OtherPart(kind, dump_json(block).decode())


def is_url(part: ImagePart) -> bool:
    """The part refers to an image and does not contain it."""
    return "://" in part.data


def pass_through(part: OtherPart, kinds: frozenset[str], provider: str) -> Block:
    """Sends a part in this provider's own form as it was recorded. Raises UnsupportedPart for other parts."""
    if part.kind not in kinds:
        raise UnsupportedPart(f"{provider} has no form for a part of the kind {part.kind!r}")
    block: Block = msgspec.json.decode(part.raw, type=dict[str, Any])
    return block
