"""Locations in an artifact, as an address names them and as an operator types them.

    ?line=120        ?line=120-180      a line, a range of lines; they are highlighted
    ?from=110&line=120                  the same, in a window that begins with line 110
    ?offset=7000     ?at=40             a byte, a percentage
    ?tail                               the end
    ?time=05:03                         the first line at or after a time, where lines carry one
    ?go=…                               typed into the box: 120, 120-180, 40 % or a time; for a page of bytes, 496,
                                        0x1f0 or 40 %

`?offset=` beside `?line=` shows the window there, and highlights the lines of the range that are in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dashboard.artifacts.content import Content
from dashboard.text.params import Params, parse_integer
from envelopes.storage.line_window import WindowStart
from envelopes.storage.time_search import LineStamps, OutOfOrder, find_time

MOST_DIGITS = 15
LARGEST = 10**MOST_DIGITS - 1
LONGEST_TIME = 60  # characters
_LINES = re.compile(rf"L?([0-9]{{1,{MOST_DIGITS}}})(?:\s*[-–]\s*L?([0-9]{{1,{MOST_DIGITS}}}))?", re.IGNORECASE)
_EPOCH = re.compile(r"[0-9]{10}|[0-9]{13}|[0-9]{16}")
_BYTE = re.compile(r"0x[0-9a-f]{1,12}|[0-9,]{1,18}", re.IGNORECASE)
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")


@dataclass(frozen=True, kw_only=True)
class Location:
    """`lines` count from 1 and are empty where no line is named. `time` is as it was typed, for `locate_time`."""

    start: WindowStart = WindowStart()
    lines: range = range(0)
    time: str = ""

    @property
    def line_range(self) -> str:
        """The lines as an address writes them: 120 or 120-180."""
        if not self.lines:
            return ""
        first, last = self.lines.start, self.lines[-1]
        return str(first) if first == last else f"{first}-{last}"


def parse_location(params: Params) -> Location:
    """The location that the address names; the beginning where it names none."""
    typed = params.text("go")
    percent = _PERCENT.fullmatch(typed)
    if params.text("as") == "hex" and _BYTE.fullmatch(typed):
        base = 16 if typed[:2] in ("0x", "0X") else 10
        return Location(start=WindowStart(offset=int(typed.replace(",", "") or "0", base)))
    is_epoch = _EPOCH.fullmatch(typed) is not None
    lines = parse_lines(params.text("line") if "line" in params or is_epoch else typed)
    return Location(
        start=WindowStart(
            offset=_number(params, "offset"),
            line=_first_line(params, lines),
            percent=int(percent[1]) if percent else _number(params, "at"),
            is_tail="tail" in params,
        ),
        lines=lines,
        time=params.text("time", default="" if percent or lines else typed, longest=LONGEST_TIME),
    )


def _first_line(params: Params, lines: range) -> int | None:
    """The line that the window begins with: `?from=`, which has no meaning behind the requested lines."""
    first = params.integer("from", default=0, most=LARGEST)
    return first if 0 < first < lines.start else lines.start or None


def parse_lines(text: str) -> range:
    """The lines of `120`, `120-180` or `L120-L180`, in either order; empty for anything else."""
    match = _LINES.fullmatch(text.strip().replace(",", ""))
    ends = sorted(int(end) for end in match.groups() if end) if match else [0]
    return range(ends[0], ends[-1] + 1) if ends[0] else range(0)


def _number(params: Params, name: str) -> int | None:
    """A number as people write it, with commas and a percent sign."""
    return parse_integer(params.text(name).removesuffix("%").replace(",", ""), most=LARGEST)


@dataclass(frozen=True, kw_only=True)
class TimeLocation:
    """The location of a time. `is_found`: the window begins at that time; `message` says how, or why not."""

    location: Location
    message: str
    is_found: bool = False


def locate_time(content: Content, text: str, stamps: LineStamps | None) -> TimeLocation:
    """Looks for the first line at or after the time `text`. `stamps`: how the lines are stamped, None where not."""
    time = stamps.parse(text) if stamps else None
    if stamps is None:
        message = f"“{text}” is no line, range or percentage, and these lines carry no time stamps with a date."
        return TimeLocation(location=Location(), message=message)
    if time is None:
        first = stamps.format(stamps.first)
        message = f"“{text}” is no line, range, percentage or time. These lines begin at {first}."
        return TimeLocation(location=Location(), message=message)
    try:
        match = find_time(content.stream, content.size, stamps, time)
    except OutOfOrder as error:
        before, after = stamps.format(error.before), stamps.format(error.after)
        message = (
            f"The time stamps are out of order: here they go back from {before} to {after}, so a time is ambiguous."
        )
        return TimeLocation(location=_line_at(content, error.offset), message=message)
    note = " The lines name no year: it is inferred that they pass into a new one." if match.passes_year else ""
    time_text = stamps.format(match.target)
    if match.line is None:
        message = f"All time stamps are before {time_text}: the last is {stamps.format(match.last)}.{note}"
        return TimeLocation(location=Location(start=WindowStart(is_tail=True)), message=message)
    message = f"The first line at or after {time_text} is of {stamps.format(match.line.time)}.{note}"
    return TimeLocation(location=_line_at(content, match.line.offset), message=message, is_found=True)


def _line_at(content: Content, offset: int) -> Location:
    """The line that begins at a byte; the byte itself while lines are not counted that far."""
    if offset > content.index.size:
        return Location(start=WindowStart(offset=offset))
    line = content.index.line_at(content.stream, offset)
    return Location(start=WindowStart(line=line), lines=range(line, line + 1))
