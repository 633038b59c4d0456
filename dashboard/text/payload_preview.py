"""Recorded JSON as texts of bounded length, for pages that show many of them at once.

A bound of the page is never drawn as a cut by the runtime: each text knows how long it really is.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from django.utils.safestring import SafeString

from dashboard.text.formatting import format_size
from dashboard.text.text_markup import escape
from envelopes.halves import parse_parts
from envelopes.schema.receipt import ImagePart, OtherPart
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, parse_json

PREVIEW_CHARS = 8 * 1024  # characters of one item on a page of many
LONGEST_LABEL = 200  # characters; a key may be as long as a text
IMAGE = "image"  # the label of a part that no text stands for
LONGEST_ESCAPE = 12  # characters: a surrogate pair as \\ud83d\\ude00


@dataclass(frozen=True, slots=True)
class Payload:
    """Stored JSON, or only its first bytes when `size` says that there is more."""

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

    @property
    def may_scroll(self) -> bool:
        """Whether its box may need scrolling, on a narrow screen too; then the keyboard must reach it."""
        return self.shown > 800 or self.body.count("\n") > 16

    @property
    def is_short(self) -> bool:
        return bool(self.label) and self.shown == self.total and self.shown <= SHORT and "\n" not in self.body

    @property
    def heading(self) -> str:
        return "" if self.is_short else self.label

    @property
    def is_block(self) -> bool:
        return self.shown > 0 and not self.is_short

    @property
    def is_empty(self) -> bool:
        return self.total == 0 and not self.is_short

    @property
    def extent(self) -> str:
        if self.total is None:
            return f"{self.shown:,} characters of it"
        return f"{self.shown:,} of {self.total:,} characters"


LENIENT = json.JSONDecoder(strict=False)
SHORT = 100  # characters; a labelled value of one line stands beside its label
Labelled = tuple[str, str]  # what the text is, empty for plain text; and the text


def preview_parts(payload: Payload, *, limit: int = PREVIEW_CHARS) -> tuple[PreviewText, ...]:
    """The parts of a recorded string or list of blocks, `limit` characters in all."""
    if not payload.is_whole:
        head = _head(payload.data)
        return (PreviewText(*_shown(head, limit), None),)
    return preview_texts(labelled_parts(payload.data), limit=limit)


def preview_arguments(payload: Payload, *, limit: int = PREVIEW_CHARS) -> tuple[PreviewText, ...]:
    """A call's arguments by name, strings with their line ends as the tool gets them."""
    if not payload.is_whole:
        return (PreviewText(*_shown(_head(payload.data), limit), None),)
    value = _tamed(payload.data)
    if not isinstance(value, dict):
        return preview_texts([("", value if isinstance(value, str) else _json(value))], limit=limit)
    arguments = [(name, member if isinstance(member, str) else _json(member)) for name, member in value.items()]
    return preview_texts(arguments, limit=limit)


def labelled_parts(data: bytes) -> list[Labelled]:
    return [_labelled(part) for part in parse_parts(_tamed(data))]


def preview_texts(parts: Iterable[Labelled], *, limit: int) -> tuple[PreviewText, ...]:
    """`limit` characters over all parts, labels included; parts behind it are counted in a last one."""
    found: list[PreviewText] = []
    left_out = characters = 0
    for label, text in parts:
        if limit <= 0 and found:
            left_out, characters = left_out + 1, characters + len(text)
            continue
        named = label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
        found.append(PreviewText(named, escape(text[:limit]), min(limit, len(text)), len(text)))
        limit = max(0, limit - len(text) - len(named))
    if left_out:
        found.append(PreviewText(f"and {left_out:,} more", escape(""), 0, max(1, characters)))
    return tuple(found)


def _shown(head: Labelled, limit: int) -> tuple[str, SafeString, int]:
    label, text = head
    return label, escape(text[:limit]), min(limit, len(text))


def _labelled(part: str | ImagePart | OtherPart) -> Labelled:
    match part:
        case str():
            return "", part
        case ImagePart():
            return IMAGE, f"{part.media_type}, {format_size(part.size)}"
        case OtherPart():
            return part.kind, _spoken(part)


def _spoken(part: OtherPart) -> str:
    """A block that is one text under its own name ({"type": "thinking", "thinking": "…"}), else its JSON."""
    value = _tamed(part.raw.encode("utf-8", "surrogatepass"))
    spoken = value.get(part.kind) if isinstance(value, dict) else None
    return spoken if isinstance(spoken, str) else part.raw


def _tamed(data: bytes) -> JsonValue:
    """What cannot be read as JSON is shown as the bytes that it is."""
    try:
        return parse_json(data)
    except Untrusted:
        return data.decode("utf-8", "backslashreplace")


def _json(value: JsonValue) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, ValueError):
        return json.dumps(value, ensure_ascii=False)


def _head(data: bytes) -> Labelled:
    """The beginning of a JSON document of which only the first bytes were read."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    if not text.startswith('"'):
        return "beginning of its JSON", text
    for dropped in range(LONGEST_ESCAPE + 1):
        try:
            return "", LENIENT.decode(text[: len(text) - dropped] + '"')
        except json.JSONDecodeError:
            continue
    return "beginning of its JSON", text
