"""Bounds how much of a text one response carries, so that no page passes 1 MB whatever a tool wrote.

Offsets count characters. A chunk ends behind a newline where one is near; the next one begins at its `end`, so that
chunks in a row are exactly the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.safestring import SafeString

from dashboard.text.text_markup import count_marks, escape

FIRST_CHARS = 32 * 1024  # of each half, with the page
NEXT_CHARS = 64 * 1024  # of a half, with each further fragment
MAX_MARKUP = 280_000  # characters of markup
MARK_CHARS = 48  # of markup, for one mark
LEAST_CHARS = 512


@dataclass(frozen=True, kw_only=True)
class TextChunk:
    html: SafeString
    start: int
    end: int
    total: int

    @property
    def has_more(self) -> bool:
        return self.end < self.total


def chunk_end(text: str, start: int, limit: int, *, spaces: bool = False) -> int:
    """The end of a chunk that begins at `start`: at most `limit` characters, fewer when marks make it heavy."""
    end = min(len(text), start + limit)
    while end - start > LEAST_CHARS and count_marks(text[start:end], spaces=spaces) * MARK_CHARS > MAX_MARKUP:
        end = start + (end - start) // 2
    if end >= len(text):
        return end
    newline = text.rfind("\n", start + (end - start) // 2, end)
    return newline + 1 if newline >= 0 else end


def text_chunk(text: str, start: int, limit: int) -> TextChunk:
    end = chunk_end(text, start, limit)
    return TextChunk(html=escape(text[start:end]), start=start, end=end, total=len(text))
