"""Values as a page shows them (counts, sizes, durations) and as both databases can store them.

The templates have the former as filters. Columns are for finding and listing; the originals stay in the observations.
A NUL becomes a visible sign, a lone surrogate its escape, and a text that is too long ends in an ellipsis: PostgreSQL
stores none of them, SQLite no lone surrogate (D-6).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from envelopes.recordings import UnknownFormat, find_format
from envelopes.recordings.base import Format
from envelopes.recordings.places import PlaceName, name_line, name_position
from envelopes.schema.timestamps import parse_instant
from envelopes.text.untrusted_json import visible

MILLISECOND = timedelta(milliseconds=1)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000  # milliseconds
SIZE_UNITS = ("B", "KB", "MB", "GB")
TOKENS_COUNTED_BY = "counted in o200k_base at import (four characters a token without the extra 'tokens')"
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
MAX_INTEGER = 2**62
FIRST_TIME = 10**14  # microseconds since 1970; no file has so many lines
LAST_TIME = int(LATEST.timestamp()) * 1_000_000


def format_count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def format_tokens(number: int, certainty: str) -> str:
    """≈ marks an estimate; no tokens are none, however they were counted."""
    return ("" if certainty == "exact" or not number else "≈") + format_count(number)


def format_change(change: int | float, spec: str = "+,") -> str:
    """A difference with its sign, none where it rounds to nothing; the minus sign is as wide as the plus."""
    text = f"{change:{spec}}"
    return text.replace("-", "−") if any(digit in "123456789" for digit in text) else text.lstrip("+-")


def format_place(place: int, source_format: str) -> str:
    """The place of a record in its run, in the words of the format that the run was recorded in."""
    return str(_name_place(place, source_format))


def format_places(first: int, last: int, source_format: str) -> str:
    """The places from the first to the last one: "lines 3 to 40", "messages 9 to 12"."""
    return _name_place(first, source_format).through(_name_place(last, source_format))


def _name_place(place: int, source_format: str) -> PlaceName:
    """The time (UTC) of a record that a program sent, whose place is in microseconds."""
    if FIRST_TIME <= place < LAST_TIME:
        return PlaceName(f"{datetime.fromtimestamp(place // 1_000 / 1_000, UTC):%H:%M:%S.%f}"[:-3])
    format_ = _find_format(source_format)
    return name_position(place) if format_ is None else format_.name_place(place)


def has_lines(source_format: str) -> bool:
    """True where a place in a run is the line of a file."""
    format_ = _find_format(source_format)
    return format_ is not None and format_.name_place is name_line


def find_agent(source_format: str) -> str:
    """The name of this format's section in `docs/agents.md`, mostly its agent; empty where it is unknown."""
    format_ = _find_format(source_format)
    return (format_.section or format_.agent) if format_ else ""


@lru_cache  # a page names a place for each of its rows
def _find_format(source_format: str) -> Format | None:
    """None: a store may have runs of a format that this release does not read."""
    try:
        return find_format(source_format)
    except UnknownFormat:
        return None


def format_duration(ms: int | float | None) -> str:
    """Milliseconds as 340 ms, 2.4 s, 3 min 12 s, 2 h 5 min, 3 d 4 h; a dash for None."""
    if ms is None:
        return "–"
    if ms < SECOND:
        return f"{ms:.0f} ms"
    if ms < MINUTE:
        return f"{ms / SECOND:.1f} s"
    large, large_name, small, small_name = (
        (MINUTE, "min", SECOND, "s") if ms < HOUR else (HOUR, "h", MINUTE, "min") if ms < DAY else (DAY, "d", HOUR, "h")
    )
    whole, rest = divmod(int(ms), large)
    return f"{whole} {large_name} {rest // small} {small_name}" if rest >= small else f"{whole} {large_name}"


def format_age(age: timedelta) -> str:
    """The largest unit alone: 40 s, 12 min, 3 h, 5 d, 14 mo."""
    seconds = max(0, int(age.total_seconds()))
    for unit, length, below in (("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 86_400), ("d", 86_400, 5_184_000)):
        if seconds < below:
            return f"{seconds // length} {unit}"
    months = seconds // 2_592_000
    return f"{months} mo" if months < 24 else f"{seconds // 31_536_000} y"


def format_size(number: int | None) -> str:
    """Bytes as 812 B, 14.2 KB, 3.1 MB (thousands, as disks count)."""
    if number is None:
        return "–"
    if number < 1_000:
        return f"{number} B"
    power = next((power for power in (1, 2) if number < 999.95 * 1_000**power), 3)
    return f"{number / 1_000**power:.1f} {SIZE_UNITS[power]}"


def column_text(text: str | None, limit: int) -> str:
    """At most `limit` characters; empty for None."""
    if not text:
        return ""
    if len(text) <= limit and text.isascii() and "\x00" not in text:
        return text
    clean = visible(text[: limit + 1]).replace("\x00", "␀")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def column_time(text: str | None) -> datetime | None:
    """A stamp as `moment` reads it; None for one that is not a time between 1970 and 2200."""
    stamp = parse_instant(text) if text else None
    return stamp if stamp is not None and EARLIEST <= stamp < LATEST else None


def earlier_time(known: datetime | None, at: str | None) -> datetime | None:
    """The earlier of a stored time and a recorded one; None without either."""
    times = [time for time in (known, column_time(at)) if time is not None]
    return min(times, default=None)


def column_int(value: Any) -> int | None:
    """An integer that both databases can store, or None."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INTEGER:
        return None
    return value


def milliseconds_between(start: datetime | None, end: datetime | None) -> int | None:
    """None when a stamp is missing or the clock ran backwards: a duration is never negative."""
    if start is None or end is None or end < start:
        return None
    return (end - start) // MILLISECOND
