"""How much of a text one answer carries, so that no page passes 1 MB whatever a tool wrote.

Offsets count characters. A window ends behind a newline where one is near; its `end` is where the
next begins, so that windows in a row are exactly the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.safestring import SafeString

from dashboard.text.text_markup import count_marks, escape

FIRST_CHARS = 32 * 1024  # of each half, with the page
NEXT_CHARS = 64 * 1024  # of a half, with each further fragment
MAX_MARKUP = 280_000  # characters of markup
MARK_WEIGHT = 48
SMALLEST = 512


@dataclass(frozen=True, kw_only=True)
class TextChunk:
    html: SafeString
    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end >= self.total

    @property
    def has_more(self) -> bool:
        return self.end < self.total

    @property
    def left(self) -> int:
        return self.total - self.end


def chunk_end(text: str, start: int, limit: int, *, spaces: bool = False) -> int:
    """Where a window from `start` ends: at most `limit` characters, fewer when marks make it heavy."""
    end = min(len(text), start + limit)
    while end - start > SMALLEST and count_marks(text[start:end], spaces=spaces) * MARK_WEIGHT > MAX_MARKUP:
        end = start + (end - start) // 2
    if end >= len(text):
        return end
    newline = text.rfind("\n", start + (end - start) // 2, end)
    return newline + 1 if newline >= 0 else end


def text_chunk(text: str, start: int, limit: int) -> TextChunk:
    """Plain text, inert."""
    end = chunk_end(text, start, limit)
    return TextChunk(html=escape(text[start:end]), start=start, end=end, total=len(text))
