"""Images inside receipts and artifacts: shown only when their bytes are what they claim and small enough.

Type and size are read from the first bytes, never taken from the recording. Nothing here decodes an image; the browser
does, and only one with few enough pixels. SVG is a document and is never shown.

The headers are read here, and not by a library, because the bytes are hostile and only the four types that every
browser shows are wanted: `imagesize` reads a dozen more, with XML and network access, and does not return the type;
Pillow brings compiled decoders into the server.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass

from dashboard.text.params import parse_integer
from envelopes.schema.receipt import ImagePart, Receipt

INLINE_BYTES = 160_000  # of base64, within a page of at most 1 MB
LARGEST_BYTES = 16_000_000
LARGEST_PIXELS = 50_000_000
JPEG_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
IMAGE_ENDS = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9", "image/gif": b";"}
LONGEST_END = max(map(len, IMAGE_ENDS.values()))


@dataclass(frozen=True, kw_only=True)
class ImageHeader:
    """The type and size of an image as its first bytes declare them. `is_cut`: it does not end as its type does."""

    media_type: str
    width: int
    height: int
    is_cut: bool = False

    @property
    def is_showable(self) -> bool:
        return 0 < self.width * self.height <= LARGEST_PIXELS

    @property
    def problem(self) -> str:
        """Why the image is not shown; empty where it is."""
        if self.is_showable:
            return ""
        if not self.width * self.height:
            return f"Its header declares {self.width:,} × {self.height:,} pixels, which cannot be shown."
        return f"{self.width:,} × {self.height:,} pixels are too many to show."


def read_image_header(head: bytes, end: bytes = b"") -> ImageHeader | None:
    """The header of a PNG, JPEG, GIF or WebP that begins with `head`; None for anything else.

    `end` is its last LONGEST_END bytes, if `is_cut` is to be known.
    """
    media_type, width, height = "", 0, 0
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        media_type, (width, height) = "image/png", struct.unpack(">II", head[16:24])
    elif head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        media_type, (width, height) = "image/gif", struct.unpack("<HH", head[6:10])
    elif head.startswith(b"\xff\xd8\xff"):
        media_type, width, height = _read_jpeg(head)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP" and len(head) >= 30:
        media_type, width, height = _read_webp(head)
    if not media_type:
        return None
    is_cut = bool(end) and not end.endswith(IMAGE_ENDS.get(media_type, b""))
    return ImageHeader(media_type=media_type, width=width, height=height, is_cut=is_cut)


def _read_jpeg(head: bytes) -> tuple[str, int, int]:
    """The size is in the frame header, behind any number of other segments."""
    offset = 2
    while offset + 9 <= len(head) and head[offset] == 0xFF:
        marker, length = head[offset + 1], int.from_bytes(head[offset + 2 : offset + 4], "big")
        if marker in JPEG_FRAMES:
            height, width = struct.unpack(">HH", head[offset + 5 : offset + 9])
            return "image/jpeg", width, height
        offset += 2 + length
    return "", 0, 0


def _read_webp(head: bytes) -> tuple[str, int, int]:
    match head[12:16]:
        case b"VP8X":
            width, height = int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack("<HH", head[26:30]))
        case _:
            return "", 0, 0
    return "image/webp", width, height


@dataclass(frozen=True, kw_only=True)
class ReceiptImage:
    """An image of a receipt; `size` is in bytes.

    `source` is a data: URL, or nothing when the image is too large for a page. Where it is not shown at all,
    `problem` is the reason and `media_type` is empty.
    """

    media_type: str
    recorded_type: str
    size: int
    width: int = 0
    height: int = 0
    source: str = ""
    problem: str = ""


def load_receipt_image(part: ImagePart) -> ReceiptImage:
    """Decodes the base64 of an image part and reads its header."""
    raw, header, problem = b"", None, ""
    if len(part.data) > LARGEST_BYTES:
        problem = "too large to show"
    else:
        try:
            raw = base64.b64decode(part.data, validate=True)
            header = read_image_header(raw)
        except (binascii.Error, ValueError):
            problem = "not base64, so it is named and not shown"
    if header is None:
        problem = problem or "not a PNG, JPEG, GIF or WebP, so it is named and not shown"
    elif header.width * header.height > LARGEST_PIXELS:
        problem = f"{header.width} × {header.height} pixels are too many to show"
    if header is None or problem:
        return ReceiptImage(media_type="", recorded_type=part.media_type, size=part.size, problem=problem)
    is_inline = len(part.data) <= INLINE_BYTES
    return ReceiptImage(
        media_type=header.media_type,
        recorded_type=part.media_type,
        size=len(raw),
        width=header.width,
        height=header.height,
        source=f"data:{header.media_type};base64,{base64.b64encode(raw).decode()}" if is_inline else "",
    )


def find_image(receipt: Receipt | None, number: str) -> tuple[ReceiptImage, str] | None:
    """The image that is part `number` (from 1) and its base64; None when that is no image to show."""
    parts = receipt.parts if receipt else ()
    index = parse_integer(number, least=1, most=len(parts))
    part = parts[index - 1] if index else None
    if not isinstance(part, ImagePart):
        return None
    image = load_receipt_image(part)
    return (image, part.data) if image.media_type else None
