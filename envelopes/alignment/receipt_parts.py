"""The parts of a recorded receipt: texts, images, and whatever else an API lets a tool return.

The content is a text, or a list of blocks in the form of Anthropic, OpenAI, Inspect or Gemini.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from envelopes.schema.receipt import ImagePart, OtherPart, image_part
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import array_slices, dump_json, join_array

RecordedPart: TypeAlias = str | ImagePart | OtherPart  # before it is aligned
TEXT_PARTS = ("text", "input_text", "output_text")  # the last two are those of the Responses API
DATA_URL = re.compile(r"data:(?P<type>image/[\w.+-]+);base64,")


def parse_parts(content: JsonValue) -> tuple[RecordedPart, ...]:
    """The parts of a recorded receipt in order: texts, images, and other parts as JSON. Null is an empty text."""
    if content is None:
        return ("",)
    if isinstance(content, list):
        return tuple(part for block in content for part in _parse_block(block))
    return (content,) if isinstance(content, str) else tuple(_parse_block(content))


def join_contents(contents: Sequence[bytes]) -> bytes:
    """The JSON of several receipts of one call that the model got one behind the other, as the parts of one."""
    parts: list[bytes] = []
    for content in contents:
        parts += array_slices(content) if content.startswith(b"[") else [content]
    return join_array(parts)


def _parse_block(block: JsonValue) -> Iterator[RecordedPart]:
    """Yields one part, or what is in a `functionResponse` of the Gemini API: its text, and images beside it."""
    response = block.get("functionResponse") if isinstance(block, dict) else None
    answer = response.get("response") if isinstance(response, dict) else None
    texts = [answer[name] for name in ("output", "error") if name in answer] if isinstance(answer, dict) else []
    beside = response.get("parts", []) if isinstance(response, dict) else []
    if isinstance(answer, dict) and len(texts) == len(answer) <= 1 and isinstance(beside, list):
        yield from (text if isinstance(text, str) else _other_part(text) for text in texts)
        yield from map(_parse_part, beside)
    else:
        yield _parse_part(block)


def _parse_part(block: JsonValue) -> RecordedPart:
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        text, source, url = block.get("text"), block.get("source"), _image_address(block)
        if block.get("type", "text") in TEXT_PARTS and isinstance(text, str):  # Gemini's parts have no type
            return text
        if url and (image := DATA_URL.match(url)):
            return image_part(image["type"], url[image.end() :])
        data = block.get("inlineData")
        if isinstance(data, dict) and str(data.get("mimeType")).startswith("image/"):
            return image_part(str(data["mimeType"]), str(data.get("data", "")))
        if block.get("type") == "image" and isinstance(source, dict) and isinstance(source.get("data"), str):
            return image_part(str(source.get("media_type", "")), source["data"])
    return _other_part(block)


def _image_address(block: dict[str, JsonValue]) -> str | None:
    """The address of an image, which the APIs of OpenAI and Inspect's logs write in three ways."""
    url = block.get("image_url", block.get("image"))
    url = url.get("url") if isinstance(url, dict) else url
    return url if isinstance(url, str) else None


def _other_part(value: JsonValue) -> OtherPart:
    kind = str(value.get("type", "object")) if isinstance(value, dict) else type(value).__name__
    return OtherPart(kind, dump_json(value).decode())
