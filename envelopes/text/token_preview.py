"""Previews of a text whose budget is counted in tokens (E-29).

    preview_tokens   the beginning and the end of a text, whole lines while they fit, as `head_tail` gives them
    count_up_to      the tokens of a text, counted no further than a limit
    fits_tokens      whether a text has at most so many tokens

Tokens are counted as `envelopes.text.tokens` counts them. Whatever the vocabulary makes of a text, a token stands for
at most 16 characters here, so that a budget in tokens bounds the characters as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envelopes.text.preview import Cut, FileText, TextPreview, split_lines
from envelopes.text.tokens import count_all, count_tokens

MOST_PER_TOKEN = 16  # characters; blanks and rules reach 128, and nobody needs more of those
BATCH = 256  # lines that are counted at once
TRIES = 3


def fits_tokens(text: str, budget: int) -> bool:
    # A token has at least one byte, so most texts need no count.
    if len(text) * 4 <= budget or (text.isascii() and len(text) <= budget):
        return True
    return len(text) <= MOST_PER_TOKEN * budget and count_tokens(text).count <= budget


def count_up_to(text: str | FileText, limit: int) -> int:
    """The tokens of the text; `limit` + 1 for more than `limit`."""
    if isinstance(text, FileText):
        start, _ = text.ends
        if text.characters > len(start):
            return limit + 1
        text = start
    if len(text) > MOST_PER_TOKEN * limit:
        return limit + 1
    return min(count_tokens(text).count, limit + 1) if text else 0


def preview_tokens(text: str | FileText, budget: int) -> TextPreview:
    """A preview of at most `budget` tokens; the marker comes on top. Half of them are for the beginning."""
    if isinstance(text, FileText):
        start, end, characters, lines = *text.ends, text.characters, text.lines
    else:
        start = end = text
        characters, lines = len(text), text.count("\n") + (not text.endswith("\n"))
    if characters <= len(start) and fits_tokens(start, budget):
        return TextPreview(start, "", None)
    room = budget
    for _ in range(TRIES):
        preview = _by_lines(start, end, characters, lines, room) or _by_characters(start, end, characters, room)
        excess = count_tokens(preview.head + preview.tail).count - budget
        if excess <= 0:
            break
        room = max(0, room - excess)
    return preview


def _by_lines(start: str, end: str, characters: int, lines: int, budget: int) -> TextPreview | None:
    """None where a line alone passes the room of its end."""
    most = MOST_PER_TOKEN * budget
    is_part = characters > most or characters > len(start)  # then its last line may be half a line
    first = split_lines(start[: start.rfind("\n", 0, most) + 1] if is_part else start)
    head, used = _fitting(first, budget // 2)
    begins = sum(map(len, first[:head]))
    behind = end[max(0, len(end) - (characters - begins)) :]
    last = split_lines(behind[-most:] if most else "")
    if len(behind) > most or len(behind) < characters - begins:
        last = last[1:]  # it may be half a line
    tail, _ = _fitting(last[::-1], budget - used)
    if not head or not tail:
        return None
    shown = "".join(last[len(last) - tail :])
    if begins + len(shown) >= characters:
        return TextPreview("".join(first[:head]) + shown, "", None)
    return TextPreview("".join(first[:head]), shown, Cut("lines", lines, ((0, head), (lines - tail, lines))))


def _by_characters(start: str, end: str, characters: int, budget: int) -> TextPreview:
    head = _prefix(start, budget // 2, lambda text, size: text[:size])
    behind = end[max(0, len(end) - (characters - head)) :]
    tail = _prefix(behind, budget - budget // 2, lambda text, size: text[len(text) - size :])
    cut = Cut("characters", characters, ((0, head), (characters - tail, characters)))
    return TextPreview(start[:head], behind[len(behind) - tail :], cut)


def _prefix(text: str, budget: int, take: Callable[[str, int], str]) -> int:
    """How many characters of an end of the text have at most `budget` tokens."""
    low, high = 0, min(len(text), MOST_PER_TOKEN * budget)
    while low < high:
        middle = (low + high + 1) // 2
        if fits_tokens(take(text, middle), budget):
            low = middle
        else:
            high = middle - 1
    return low


def _fitting(lines: Sequence[str], budget: int) -> tuple[int, int]:
    """How many of the first lines have at most `budget` tokens together, and how many tokens those have."""
    used = 0
    for begin in range(0, len(lines), BATCH):
        for index, counted in enumerate(count_all(lines[begin : begin + BATCH])):
            if used + counted.count > budget:
                return begin + index, used
            used += counted.count
    return len(lines), used
