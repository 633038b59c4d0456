"""Whether an artifact is a picture that may be shown: its type and size are read from its bytes.

Nothing here decodes it. A browser does, and only what has few enough pixels; SVG is a document and
never shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.evidence.images import LARGEST_PIXELS, measure

ENDS = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9", "image/gif": b";"}
LONGEST_END = 8  # bytes


@dataclass(frozen=True, kw_only=True)
class Picture:
    media_type: str
    width: int
    height: int
    is_cut: bool = False  # it does not end as its type does

    @property
    def why_not(self) -> str:
        """Why it is not shown; empty where it is."""
        if self.is_small_enough:
            return ""
        if not self.width * self.height:
            return f"Its beginning says {self.width:,} × {self.height:,} pixels, and that is nothing to show."
        return f"{self.width:,} × {self.height:,} pixels are too many to show."

    @property
    def is_small_enough(self) -> bool:
        return 0 < self.width * self.height <= LARGEST_PIXELS


def picture_of(head: bytes, end: bytes = b"") -> Picture | None:
    """`end` is the last LONGEST_END bytes, where somebody wants to know whether it is cut."""
    media_type, width, height = measure(head)
    if not media_type:
        return None
    is_cut = bool(end) and not end.endswith(ENDS.get(media_type, b""))
    return Picture(media_type=media_type, width=width, height=height, is_cut=is_cut)
