"""A text that stays in its file: its two ends and its size, which is all that a preview needs (RFC-064).

`read_file_text` goes through the file once, a chunk at a time, so a log of any size takes little memory.
"""

from __future__ import annotations

import codecs
from typing import BinaryIO

import msgspec

from envelopes.schema.budget import PREVIEW_CHARACTERS
from envelopes.text.preview import Cut, Preview, fitting_lines, head_tail, split_lines

CHUNK = 256 * 1024  # bytes


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is virtual. `start` and `end` are whole texts of `characters`, or its first and last ones.

    Bytes that are no UTF-8 count as one replacement character each run, as Python decodes them.
    """

    path: str
    start: str
    end: str
    characters: int
    lines: int

    def preview(self, budget: int) -> Preview:
        """What `head_tail` gives for the whole text, of at most as many characters as were read of an end."""
        if self.characters <= len(self.start):
            return head_tail(self.start, budget)
        budget = min(budget, len(self.start))
        head = fitting_lines(split_lines(self.start), budget // 2)
        # The first line of the end may be half a line. It never fits: the end is longer than half the budget.
        tail = fitting_lines(split_lines(self.end)[::-1], budget - budget // 2)
        return self._by_lines(head, tail) if head and tail else self._by_characters(budget)

    def _by_lines(self, head: int, tail: int) -> Preview:
        cut = Cut("lines", self.lines, ((0, head), (self.lines - tail, self.lines)))
        return Preview("".join(split_lines(self.start)[:head]), "".join(split_lines(self.end)[-tail:]), cut)

    def _by_characters(self, budget: int) -> Preview:
        head, tail = budget // 2, budget - budget // 2
        cut = Cut("characters", self.characters, ((0, head), (self.characters - tail, self.characters)))
        return Preview(self.start[:head], self.end[len(self.end) - tail :], cut)


def read_file_text(stream: BinaryIO, path: str, keep: int = PREVIEW_CHARACTERS) -> FileText:
    """Reads to the end. `keep` characters of each end are held; no preview can show more."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    start = end = last = ""
    characters = newlines = 0
    while True:
        chunk = stream.read(CHUNK)
        text = decoder.decode(chunk, final=not chunk)
        start += text[: keep - len(start)]
        end = (end + text)[-keep:] if keep else ""
        characters, newlines, last = characters + len(text), newlines + text.count("\n"), text[-1:] or last
        if not chunk:
            break
    return FileText(path=path, start=start, end=end, characters=characters, lines=newlines + (last not in ("", "\n")))
