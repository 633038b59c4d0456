"""Previews of recorded JSON as texts of bounded length, for pages that show many of them.

The bound of a page must not look like a cut by the runtime, so each text has its real length.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from django.utils.safestring import SafeString

from dashboard.text.formatting import format_size
from dashboard.text.masks import mask_text, mask_value, remember_window
from dashboard.text.text_markup import escape
from envelopes.alignment.receipt_parts import parse_parts
from envelopes.schema.receipt import ImagePart, OtherPart
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, parse_json

PREVIEW_CHARS = 8 * 1024  # of one item on a page of many
BEHIND = 400  # characters behind a preview, by which a secret is known that the preview cuts
MAX_LABEL = 200  # characters; a key may be as long as a text
MAX_ESCAPE = 12  # characters: a surrogate pair as \\ud83d\\ude00
MAX_SHORT = 100  # characters; a labelled value of one line is shown beside its label
NAMED = ("object", "function")  # kinds of parts, definitions of tools, that have their name as label
IMAGE = "image"  # the label of a part without a text
LENIENT = json.JSONDecoder(strict=False)

LabelledText = tuple[str, str]  # a label, empty for plain text; and the text


@dataclass(frozen=True, slots=True)
class Payload:
    """Stored JSON, or only its first bytes when `size` is larger."""

    data: bytes
    size: int

    @property
    def is_whole(self) -> bool:
        return len(self.data) >= self.size


@dataclass(frozen=True, slots=True)
class PreviewText:
    """`body` shows the first `shown` of `total` characters; `total` is None when the rest was not read."""

    label: str
    body: SafeString
    shown: int
    total: int | None

    @property
    def is_bounded(self) -> bool:
        return self.total is None or self.shown < self.total

    def __post_init__(self) -> None:
        remember_window(self.body)

    @property
    def may_scroll(self) -> bool:
        """True if its box may need scrolling, on a narrow screen too; then the keyboard must reach it."""
        return self.shown > 800 or self.body.count("\n") > 16

    @property
    def is_short(self) -> bool:
        return bool(self.label) and self.shown == self.total and self.shown <= MAX_SHORT and "\n" not in self.body

    @property
    def is_blank(self) -> bool:
        return self.shown > 0 and not self.body.strip()

    @property
    def extent(self) -> str:
        if self.total is None:
            return f"{self.shown:,} characters of it"
        return f"{self.shown:,} of {self.total:,} characters"


def preview_parts(payload: Payload, *, limit: int = PREVIEW_CHARS) -> tuple[PreviewText, ...]:
    """The parts of a recorded string or list of blocks, `limit` characters in all."""
    if not payload.is_whole:
        return (_preview_head(payload.data, limit),)
    return preview_texts(labelled_parts(payload.data), limit=limit)


def preview_arguments(payload: Payload, *, limit: int = PREVIEW_CHARS) -> tuple[PreviewText, ...]:
    """A call's arguments by name, strings with their line ends as the tool gets them."""
    if not payload.is_whole:
        return (_preview_head(payload.data, limit),)
    value = _parse_or_decode(payload.data)
    members = value if isinstance(value, dict) else {"": value}
    arguments = [(name, member if isinstance(member, str) else _dump(member)) for name, member in members.items()]
    return preview_texts(arguments, limit=limit)


def labelled_parts(data: bytes) -> list[LabelledText]:
    """The parts of a recorded string or list of blocks, whole."""
    parts: list[LabelledText] = []
    for part in parse_parts(_parse_or_decode(data)):
        match part:
            case str():
                parts.append(("", part))
            case ImagePart():
                parts.append((IMAGE, f"{part.media_type}, {format_size(part.size)}"))
            case OtherPart():
                # A block that is one text under its own name ({"type": "thinking", "thinking": "…"}), else its JSON.
                block = _parse_or_decode(part.raw.encode("utf-8", "surrogatepass"))
                members = block if isinstance(block, dict) else {}
                text, name = members.get(part.kind), members.get("name")
                label = name if part.kind in NAMED and isinstance(name, str) else part.kind
                parts.append((label, text if isinstance(text, str) else part.raw))
    return parts


def preview_texts(parts: Iterable[LabelledText], *, limit: int) -> tuple[PreviewText, ...]:
    """`limit` characters over all parts, labels included; the parts behind them are counted in a last text."""
    texts: list[PreviewText] = []
    left_out = characters = 0
    for label, text in parts:
        if limit <= 0 and texts:
            left_out, characters = left_out + 1, characters + len(text)
            continue
        label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
        texts.append(
            PreviewText(
                label, escape(mask_value(label, text[: limit + BEHIND])[:limit]), min(limit, len(text)), len(text)
            )
        )
        limit = max(0, limit - len(text) - len(label))
    if left_out:
        texts.append(PreviewText(f"and {left_out:,} more", escape(""), 0, max(1, characters)))
    return tuple(texts)


def _preview_head(data: bytes, limit: int) -> PreviewText:
    """The beginning of a JSON document of which only the first bytes were read."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    label = "beginning of its JSON"
    for cut in range(MAX_ESCAPE + 1) if text.startswith('"') else ():
        try:
            label, text = "", LENIENT.decode(text[: len(text) - cut] + '"')
            break
        except json.JSONDecodeError:  # the head ends within an escape
            continue
    return PreviewText(label, escape(mask_text(text)[:limit]), min(limit, len(text)), None)


def _parse_or_decode(data: bytes) -> JsonValue:
    """The JSON value; bytes that cannot be read as JSON as text."""
    try:
        return parse_json(data)
    except Untrusted:
        return data.decode("utf-8", "backslashreplace")


def _dump(value: JsonValue) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, ValueError):
        return json.dumps(value, ensure_ascii=False)
