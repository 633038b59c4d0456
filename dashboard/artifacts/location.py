"""Where in an artifact an address leads, and which of its lines it sets off.

    ?line=120        ?line=120-180      a line, a range of lines; both are set off
    ?offset=7000     ?at=40             a byte, a percentage
    ?tail                               the end
    ?time=05:03                         the first line at or after a time, where lines carry one (times.py)
    ?go=…                               what was typed into the box: 120, 120-180, 40 % or a time; of bytes, 496,
                                        0x1f0 or 40 %

`?offset=` beside `?line=` shows the window there, and sets off what of the lines is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import QueryDict

from envelopes.storage.line_window import WindowStart

MOST_DIGITS = 15
LONGEST_TIME = 60  # characters
_LINES = re.compile(rf"L?([0-9]{{1,{MOST_DIGITS}}})(?:\s*[-–]\s*L?([0-9]{{1,{MOST_DIGITS}}}))?", re.IGNORECASE)
_EPOCH = re.compile(r"[0-9]{10}|[0-9]{13}|[0-9]{16}")
_BYTE = re.compile(r"0x[0-9a-f]{1,12}|[0-9,]{1,18}", re.IGNORECASE)
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """`lines` count from 1; empty where no line was asked for. `time` is as it was typed, and leads further."""

    place: WindowStart
    lines: range = range(0)
    time: str = ""

    @property
    def range(self) -> str:
        """As an address writes it: 120 or 120-180."""
        last = self.lines[-1] if self.lines else 0
        first = self.lines.start
        return "" if not self.lines else str(first) if first == last else f"{first}-{last}"


def place_of(query: QueryDict) -> Wanted:
    """What is no place asks for nothing."""
    typed = query.get("go", "").strip()
    percent = _PERCENT.fullmatch(typed)
    if query.get("as") == "hex" and _BYTE.fullmatch(typed):
        return Wanted(
            place=WindowStart(offset=int(typed.replace(",", "") or "0", 16 if typed[:2] in ("0x", "0X") else 10))
        )
    is_epoch = _EPOCH.fullmatch(typed) is not None
    lines = lines_of(query.get("line", "") if "line" in query or is_epoch else typed)
    return Wanted(
        place=WindowStart(
            offset=_number(query, "offset"),
            line=lines.start or None,
            percent=int(percent[1]) if percent else _number(query, "at"),
            is_tail="tail" in query,
        ),
        lines=lines,
        time=query.get("time", "" if percent or lines else typed)[:LONGEST_TIME],
    )


def lines_of(said: str) -> range:
    """Of `120`, `120-180` or `L120-L180`, in either order; what is no range is none."""
    found = _LINES.fullmatch(said.strip().replace(",", ""))
    ends = sorted(int(end) for end in found.groups() if end) if found else [0]
    return range(ends[0], ends[-1] + 1) if ends[0] else range(0)


def _number(query: QueryDict, name: str) -> int | None:
    said = query.get(name, "").strip().removesuffix("%").replace(",", "")
    return int(said) if re.fullmatch(f"[0-9]{{1,{MOST_DIGITS}}}", said) else None
