"""What every transport does: it sends the receipt as it is, and adds no meaning (RFC-072, RFC-131).

    encode(receipt, result, call_ids) -> the provider's body for one answered call
    decode(body)                      -> Delivered: the receipt's parts, the id, the flag
    declare(definition)               -> the provider's entry for a tool that the model may call

The text comes from the receipt alone. From the canonical result a transport takes the tool's name and
the native error flag, and nothing else; a provider without a flag gets none (RFC-132, RFC-133).
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
    """`provider` is the id that the model gave the call, `call` is our own; neither stands for the other (E-20)."""

    provider: str
    call: str = ""


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """What a body says. None: the provider has no such field, or left it out.

    The segments have no sources: a body does not carry them.
    """

    receipt: Receipt
    provider_call_id: str | None = None
    is_error: bool | None = None
    tool_name: str | None = None


class NotCarried(ValueError):
    """The provider has no form for this part of a receipt, or for this tool. Nothing is dropped in silence."""


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """`decode` raises msgspec.ValidationError with a `$.path` for a body that is not this provider's."""

    name: str
    title: str
    encode: Callable[[Receipt, CanonicalResult, CallIds], Body]
    decode: Callable[[JsonValue], Delivered]
    declare: Callable[[ToolDefinition], Body]


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """How one provider writes and reads the parts of a list. `passed` are kinds that it takes as recorded."""

    provider: str
    text: Callable[[str], Block]
    image: Callable[[ImagePart], Block]
    readers: Mapping[str, Reader]
    passed: frozenset[str] = frozenset()

    def content(self, receipt: Receipt) -> str | list[Block]:
        """A receipt of one text part is its text; anything else a list."""
        match receipt.parts:
            case ():
                return ""
            case (TextPart() as only,):
                return only.text
        return self.blocks(receipt)

    def blocks(self, receipt: Receipt) -> list[Block]:
        """A block a part. Empty texts are left out: Anthropic refuses them, and they say nothing."""
        return [self._block(part) for part in receipt.parts if not isinstance(part, TextPart) or part.text]

    def receipt(self, content: str | list[Block]) -> Receipt:
        if isinstance(content, str):
            return Receipt((text_part(content),))
        return Receipt(tuple(self._part(block) for block in content))

    def _block(self, part: Part) -> Block:
        match part:
            case TextPart():
                return self.text(part.text)
            case ImagePart():
                return self.image(part)
        return passed_on(part, self.passed, self.provider)

    def _part(self, block: Block) -> Part:
        read = self.readers.get(str(block.get("type")))
        part = read(block) if read else None
        return part if part is not None else other_part(str(block.get("type", "object")), block)


def parameters(definition: ToolDefinition) -> Body:
    """The input's schema without the conditions between fields: `parse` holds those, the description says them.

    Anthropic and OpenAI refuse `oneOf`, `anyOf` and `allOf` at the top of a schema, OpenAI `not` as well,
    and one refused schema fails the whole request. A client hands an MCP server's schemas on to them.
    """
    return definition.input_schema(has_conditions=False)


def text_part(text: str) -> TextPart:
    return TextPart((Segment(text, "value"),) if text else ())


def read_text(block: Block) -> TextPart | None:
    """A block with its text under `text`, as all providers but Gemini write it."""
    text = block.get("text")
    return text_part(text) if isinstance(text, str) else None


def other_part(kind: str, block: JsonValue) -> OtherPart:
    return OtherPart(kind, dump_json(block).decode())


def image_part(media_type: str, data: str) -> ImagePart:
    return ImagePart(media_type, data, len(data) * 3 // 4)


def is_address(part: ImagePart) -> bool:
    """The image is referred to, not contained."""
    return "://" in part.data


def passed_on(part: OtherPart, kinds: frozenset[str], provider: str) -> Block:
    """A part that came in this provider's own form goes out as it came. Raises NotCarried for any other."""
    if part.kind not in kinds:
        raise NotCarried(f"{provider} has no form for a part of the kind {part.kind!r}")
    block: Block = msgspec.json.decode(part.raw, type=dict[str, Any])
    return block
