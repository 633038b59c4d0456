"""A receipt as content blocks: `{"content": [{"type": "text", "text": …}, …], "artifacts": [{"path": …}]}`.

`decode` keeps every block for which there is no part, a `tool_use` above all, as its own JSON; `encode` writes such
a block back unchanged. `artifacts` is present only when there are any.
"""

from __future__ import annotations

import msgspec

from envelopes.schema.conversion import convert_json
from envelopes.schema.receipt import ImagePart, OtherPart, Part, Receipt, Segment, TextPart, image_part
from envelopes.schema.result import ArtifactRef, JsonValue
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json


class ReceiptBlocks(msgspec.Struct, frozen=True):
    receipt: Receipt
    artifacts: tuple[ArtifactRef, ...] = ()


def encode(blocks: ReceiptBlocks) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {"content": [_block(part) for part in blocks.receipt.parts]}
    if blocks.artifacts:
        document["artifacts"] = [{"path": artifact.path} for artifact in blocks.artifacts]
    return document


def decode(document: JsonValue) -> ReceiptBlocks:
    """Reads the blocks; a `content` that is a string becomes one text block. Raises Untrusted with a path."""
    if not isinstance(document, dict) or "content" not in document:
        raise Untrusted("an object with `content` was expected")
    content = document["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        raise Untrusted("neither a text nor a list of blocks", "$.content")
    parts = tuple(_part(block, f"$.content[{index}]") for index, block in enumerate(blocks))
    try:
        artifacts = convert_json(document.get("artifacts") or [], tuple[ArtifactRef, ...])
    except msgspec.ValidationError as error:
        raise Untrusted(str(error).partition(" - at `")[0], "$.artifacts") from None
    return ReceiptBlocks(Receipt(parts), artifacts)


def _block(part: Part) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart(media_type=media_type, data=data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    return parse_json(part.raw.encode())


def _part(block: JsonValue, path: str) -> Part:
    """Reads a block. One with more members than its part can hold is kept as its own JSON, so nothing is lost."""
    match block:
        case {"type": "text", "text": str(text), **more} if not more:
            return TextPart((Segment(text, "label"),))
        case {
            "type": "image",
            "source": {"type": "base64", "media_type": str(media_type), "data": str(data), **more_source},
            **more,
        } if not more and not more_source:
            return image_part(media_type, data)
        case {"type": str(kind)}:
            return OtherPart(kind=kind, raw=dump_json(block).decode())
    raise Untrusted("not a block: an object with a `type` was expected", path)
