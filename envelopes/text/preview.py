"""Head-and-tail previews. A cut is a record, not a suffix (design.md section 1).

`head_tail` keeps whole lines while it can (RFC-099, RFC-100). Only when one line alone passes the
budget does it count in characters (spec/model.md E-18). `shorter` cuts what may have been cut before:
its marker goes on counting in the text of the beginning.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Unit: TypeAlias = Literal["lines", "characters"]


class Cut(msgspec.Struct, frozen=True):
    """Which part of a text is shown. `shown` holds half-open ranges in `unit`, ascending."""

    unit: Unit
    total: int
    shown: tuple[tuple[int, int], ...]

    @property
    def shown_count(self) -> int:
        return sum(end - start for start, end in self.shown)

    @property
    def dropped_count(self) -> int:
        return self.total - self.shown_count

    @property
    def is_whole(self) -> bool:
        return self.dropped_count <= 0

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The ranges that are not shown, ascending."""
        edges = [0, *(edge for span in self.shown for edge in span), self.total]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return tuple((start, end) for start, end in pairs if end > start)

    def marker(self) -> str:
        """The sentence that a receipt prints where the cut is (RFC-100)."""
        head, tail = self.ends
        return f"[output truncated: showing first {head} and last {tail} of {self.total} {self.unit}]"

    @property
    def ends(self) -> tuple[int, int]:
        """How much is shown of the beginning, and how much of the end."""
        head = self.shown[0][1] if self.shown and self.shown[0][0] == 0 else 0
        return head, self.shown_count - head


class Preview(msgspec.Struct, frozen=True):
    """`head` + gap + `tail`; `cut` is None when the text fits and `head` is all of it."""

    head: str
    tail: str
    cut: Cut | None

    @property
    def text(self) -> str:
        if self.cut is None:
            return self.head
        newline = "" if self.head.endswith("\n") or not self.head else "\n"
        return f"{self.head}{newline}{_between(self.cut)}{self.tail}"


def head_tail(text: str, budget: int, *, head_share: int = 50, unit: Unit = "lines") -> Preview:
    """A preview of at most `budget` characters of `text` (the marker comes on top).

    `head_share` percent of the budget are for the beginning. `unit` is what may stay whole.
    """
    if len(text) <= budget:
        return Preview(text, "", None)
    for_head = budget * head_share // 100
    by_lines = _by_lines(text, for_head, budget - for_head) if unit == "lines" else None
    return by_lines if by_lines is not None else _by_characters(text, for_head, budget - for_head)


def clipped(text: str, budget: int, total: int) -> tuple[str, Cut]:
    """The beginning of a text of `total` characters, ended by an ellipsis; for what stands on one line."""
    shown = max(0, budget - 1)
    return f"{text[:shown]}…"[:budget], Cut("characters", total, ((0, shown),))


def shorter(text: str, cut: Cut | None, budget: int) -> tuple[str, Cut]:
    """At most `budget` characters of what `text` shows, which is longer; `cut` says how it was made, if it was."""
    before, marked, after = text.partition(_between(cut)) if cut else (text, "", "")
    if cut and marked:
        again = _again_by_lines if cut.unit == "lines" else _again_by_characters
        shown = again(before, after, cut, budget)
        return shown.text, shown.cut or cut
    if cut or "\n" not in text:
        return clipped(text, budget, cut.total if cut else len(text))
    preview = head_tail(text, budget)
    assert preview.cut is not None  # it is longer than its budget
    return preview.text, preview.cut


def _between(cut: Cut) -> str:
    return f"...\n{cut.marker()}\n...\n"


def _again_by_lines(before: str, after: str, cut: Cut, budget: int) -> Preview:
    """An output may hold the words of the marker, so no more is taken from an end than the cut says."""
    first, last = cut.ends
    head, tail = split_lines(before)[:first], split_lines(after)[::-1][:last]
    head, tail = head[: fitting_lines(head, budget // 2)], tail[: fitting_lines(tail, budget - budget // 2)]
    shown = Cut("lines", cut.total, ((0, len(head)), (cut.total - len(tail), cut.total)))
    return Preview("".join(head), "".join(tail[::-1]), shown)


def _again_by_characters(before: str, after: str, cut: Cut, budget: int) -> Preview:
    first, last = cut.ends
    head, last = before[: min(first, budget // 2)], min(last, len(after), budget - budget // 2)
    shown = Cut("characters", cut.total, ((0, len(head)), (cut.total - last, cut.total)))
    return Preview(head, after[len(after) - last :], shown)


def _by_lines(text: str, for_head: int, for_tail: int) -> Preview | None:
    """None where a line alone passes the room of its end; an end without room has no line."""
    lines = split_lines(text)
    head = fitting_lines(lines, for_head)
    tail = fitting_lines(lines[head:][::-1], for_tail)
    if (for_head and head == 0) or (for_tail and tail == 0):
        return None
    total = len(lines)
    cut = Cut("lines", total, ((0, head), (total - tail, total)))
    return Preview("".join(lines[:head]), "".join(lines[total - tail :]), cut)


def split_lines(text: str) -> list[str]:
    """Lines with their newline, cut at LF alone: str.splitlines also cuts at U+2028, VT and FF."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def fitting_lines(lines: list[str], budget: int) -> int:
    """How many of the first lines have at most `budget` characters together."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line)
        if used > budget:
            return count
    return len(lines)


def _by_characters(text: str, head: int, tail: int) -> Preview:
    cut = Cut("characters", len(text), ((0, head), (len(text) - tail, len(text))))
    return Preview(text[:head], text[len(text) - tail :], cut)
