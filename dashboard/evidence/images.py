"""Pictures inside receipts: shown only when they are what they say and small enough to be harmless.

The type is read from the bytes, never taken from the recording; SVG is a document and never shown.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from dataclasses import dataclass

from envelopes.schema.receipt import ImagePart, Receipt

INLINE_BYTES = 160_000  # of base64, within a page of at most 1 MB
LARGEST_BYTES = 16_000_000
LARGEST_PIXELS = 50_000_000
JPEG_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """`source` is a data: address, or nothing when the picture is too large to stand in a page."""

    media_type: str
    recorded_type: str
    size: int
    width: int = 0
    height: int = 0
    source: str = ""
    why_not: str = ""


def picture_of(part: ImagePart) -> Picture:
    if len(part.data) > LARGEST_BYTES:
        return _named(part, "too large to show")
    try:
        raw = base64.b64decode(part.data, validate=True)
    except (binascii.Error, ValueError):
        return _named(part, "not base64, so it is named and not shown")
    media_type, width, height = measure(raw)
    if not media_type:
        return _named(part, "not a PNG, JPEG, GIF or WebP, so it is named and not shown")
    if width * height > LARGEST_PIXELS:
        return _named(part, f"{width} × {height} pixels are too many to show")
    fits = len(part.data) <= INLINE_BYTES
    return Picture(
        media_type=media_type,
        recorded_type=part.media_type,
        size=len(raw),
        width=width,
        height=height,
        source=f"data:{media_type};base64,{base64.b64encode(raw).decode()}" if fits else "",
    )


def _named(part: ImagePart, why_not: str) -> Picture:
    return Picture(media_type="", recorded_type=part.media_type, size=part.size, why_not=why_not)


def measure(raw: bytes) -> tuple[str, int, int]:
    """Media type, width and height by the first bytes; ("", 0, 0) for anything else."""
    if raw.startswith(b"\x89PNG\r\n\x1a\n") and len(raw) >= 24:
        return ("image/png", *struct.unpack(">II", raw[16:24]))
    if raw[:6] in (b"GIF87a", b"GIF89a") and len(raw) >= 10:
        return ("image/gif", *struct.unpack("<HH", raw[6:10]))
    if raw.startswith(b"\xff\xd8\xff"):
        return _jpeg(raw)
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP" and len(raw) >= 30:
        return _webp(raw)
    return "", 0, 0


def _jpeg(raw: bytes) -> tuple[str, int, int]:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker, length = raw[at + 1], int.from_bytes(raw[at + 2 : at + 4], "big")
        if marker in JPEG_FRAMES:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return "image/jpeg", width, height
        at += 2 + length
    return "", 0, 0


def _webp(raw: bytes) -> tuple[str, int, int]:
    match raw[12:16]:
        case b"VP8X":
            width, height = int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(raw[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack("<HH", raw[26:30]))
        case _:
            return "", 0, 0
    return "image/webp", width, height


def image_at(receipt: Receipt | None, number: str) -> tuple[Picture, str] | None:
    """The picture that is part `number` (from 1) and its base64; None when that is no picture to show."""
    parts = receipt.parts if receipt else ()
    part = parts[int(number) - 1] if re.fullmatch("[1-9][0-9]{0,5}", number) and int(number) <= len(parts) else None
    if not isinstance(part, ImagePart):
        return None
    picture = picture_of(part)
    return (picture, part.data) if picture.media_type else None
