"""Gemini: a `functionResponse` part of a content of the role `user`, in the REST API's camelCase.

    {"functionResponse": {"id": …, "name": tool, "response": {"output" or "error": text}, "parts": [media]}}

The native error flag is the key of the text. Media follow the whole text, in their order. The API wants as many
such parts as the model made calls, in one content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from envelopes.schema.conversion import convert_json
from envelopes.schema.receipt import ImagePart, OtherPart, Part, Receipt, TextPart, image_part
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.settlement import native_is_error
from envelopes.schema.tool import ToolDefinition
from envelopes.text.untrusted_json import dump_json
from envelopes.transports.base import (
    AnsweredCall,
    Block,
    Body,
    CallIds,
    DecodedBody,
    NameRule,
    Transport,
    checked_media_type,
    input_schema,
    is_url,
    other_part,
    pass_through,
    unsourced_text,
)

PASSED = frozenset({"inlineData", "fileData"})
MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"})


class _FunctionResponse(msgspec.Struct, frozen=True):
    name: str
    response: dict[str, Any]
    id: str | None = None
    parts: list[Block] = []


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    function_response: _FunctionResponse


def encode(receipt: Receipt, result: CanonicalResult, call_ids: CallIds) -> Body:
    """Builds the part, without an id when the model gave none. Raises UnsupportedPart for other than text and media."""
    answer: Body = {"id": call_ids.provider} if call_ids.provider else {}
    answer["name"] = TRANSPORT.wire_name(result.tool_name)
    answer["response"] = {"error" if native_is_error(result) else "output": receipt.text}
    if media := [_media(part) for part in receipt.parts if not isinstance(part, TextPart)]:
        answer["parts"] = media
    return {"functionResponse": answer}


def gather(answers: Sequence[AnsweredCall]) -> list[Body]:
    """One content with a part for each call."""
    parts = [encode(answer.receipt, answer.result, answer.call_ids) for answer in answers]
    return [{"role": "user", "parts": parts}] if parts else []


def decode(body: JsonValue) -> DecodedBody:
    """Like the API, treats a response with neither `output` nor `error` as the output."""
    answer = convert_json(body, _Part).function_response
    is_error = "output" not in answer.response and "error" in answer.response
    output = answer.response.get("error" if is_error else "output", answer.response)
    text = output if isinstance(output, str) else dump_json(output).decode()
    return DecodedBody(
        receipt=Receipt((unsourced_text(text), *map(_part, answer.parts))),
        provider_call_id=answer.id,
        is_error=is_error,
        tool_name=answer.name,
    )


def declare(definition: ToolDefinition) -> Body:
    """An entry of `functionDeclarations`."""
    return {
        "name": TRANSPORT.wire_name(definition.name),
        "description": definition.description,
        "parametersJsonSchema": input_schema(definition),
    }


def _media(part: ImagePart | OtherPart) -> Block:
    if isinstance(part, OtherPart):
        return pass_through(part, PASSED, "gemini")
    if is_url(part):
        return {"fileData": {"fileUri": part.data, "mimeType": part.media_type}}
    return {"inlineData": {"mimeType": checked_media_type(part, MEDIA_TYPES, "gemini"), "data": part.data}}


def _part(block: Block) -> Part:
    match block:
        case {"inlineData": {"mimeType": str(media_type), "data": str(data)}} if media_type.startswith("image/"):
            return image_part(media_type, data)
        case {"fileData": {"mimeType": str(media_type), "fileUri": str(uri)}} if media_type.startswith("image/"):
            return ImagePart(media_type, uri, 0)
    return other_part(next(iter(block), "object"), block)


TRANSPORT = Transport(
    name="gemini",
    title="Gemini",
    encode=encode,
    decode=decode,
    declare=declare,
    gather=gather,
    names=NameRule(characters="a-zA-Z0-9_.-", first="a-zA-Z_"),
)
