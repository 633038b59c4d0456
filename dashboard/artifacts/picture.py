"""Whether an artifact is a picture that may be shown: its type and size are read from its bytes.

Nothing here decodes it. A browser does, and only what has few enough pixels; SVG is a document and
never shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.calls.image_part import LARGEST_PIXELS, measure


@dataclass(frozen=True, kw_only=True)
class Picture:
    media_type: str
    width: int
    height: int

    @property
    def is_small_enough(self) -> bool:
        return 0 < self.width * self.height <= LARGEST_PIXELS


def picture_of(head: bytes) -> Picture | None:
    media_type, width, height = measure(head)
    return Picture(media_type=media_type, width=width, height=height) if media_type else None
