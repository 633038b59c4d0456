r"""Output of programs that write for a terminal: codes for colours, and lines that are overwritten again and again.

    ESCAPES         the codes
    fold_terminal   the text as a terminal shows it in the end, and in words what was left out

A line that ends in CR LF is a line of a file, and stays as it is.
"""

from __future__ import annotations

import re
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
