r"""Output of programs that write for a terminal: codes for colours, and lines that are overwritten again and again.

    ESCAPES         the codes
    fold_terminal   the text as a terminal shows it in the end, and in words what was left out
    kept_ranges     the characters of the text that it shows

A line that ends in CR LF is a line of a file, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")


class Folded(NamedTuple):
    """`frames` were overwritten: states of a line before its last one."""

    text: str
    codes: int = 0
    frames: int = 0

    @property
    def note(self) -> str:
        """The codes and frames that were left out, in words; empty where none were."""
        frames = {0: "", 1: "1 overwritten frame"}.get(self.frames, f"{self.frames} overwritten frames")
        left_out = " and ".join(words for words in ("terminal codes" * bool(self.codes), frames) if words)
        return f" (without {left_out})" if left_out else ""


def fold_terminal(text: str) -> Folded:
    r"""The text without codes, and of each line the last state that was not empty.

    >>> fold_terminal("\x1b[32mok\x1b[0m\n10 %\r100 %\ndone\r\n")
    Folded(text='ok\n100 %\ndone\r\n', codes=2, frames=1)
    """
    codes = frames = 0
    if "\x1b" in text:
        text, codes = ESCAPES.subn("", text)
    if "\r" not in text:
        return Folded(text, codes)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        states = [state for state in line.split("\r") if state]
        if len(states) > 1:
            frames += len(states) - 1
            lines[number] = states[-1] + "\r" * line.endswith("\r")
    return Folded("\n".join(lines), codes, frames)


def kept_ranges(text: str) -> list[tuple[int, int]]:
    r"""The ranges [start, end) that `fold_terminal` keeps, in their order; together they are its text.

    >>> text = "\x1b[32mok\x1b[0m\n10 %\r100 %\ndone\r\n"
    >>> [text[start:end] for start, end in kept_ranges(text)]
    ['ok', '\n', '100 %\ndone\r\n']
    """
    ends = [0, *(place for code in ESCAPES.finditer(text) for place in code.span()), len(text)]
    uncoded = [(start, end) for start, end in zip(ends[::2], ends[1::2], strict=True) if start < end]
    kept: list[tuple[int, int]] = []
    passed = 0  # characters without codes before the span
    last_states = iter(_last_states("".join(text[start:end] for start, end in uncoded)))
    first, last = next(last_states, (0, 0))
    for start, end in uncoded:
        while first < passed + end - start:
            kept.append((start + max(0, first - passed), start + min(end - start, last - passed)))
            if last > passed + end - start:
                break
            first, last = next(last_states, (len(text), len(text)))
        passed += end - start
    return kept


def _last_states(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of a text without codes that are shown, each as long as it can be."""
    start = place = 0
    for line in text.split("\n"):
        states, at = [], place
        for state in line.split("\r"):
            states += [(at, at + len(state))] if state else []
            at += len(state) + 1
        end = place + len(line)
        if len(states) > 1:
            first, last = states[-1]
            last += line.endswith("\r")
            if start < place:
                yield start, place
            if first < last < end:
                yield first, last
            start = first if last == end else end
        place = end + 1
    if start < len(text):
        yield start, len(text)
