"""Points in time as they are stored: ISO 8601 text with an offset, kept as it was written.

A text without an offset is refused, because it names no point in time. Outcomes count seconds since 1970
instead; both directions are exact to the microsecond.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_LEAP_SECOND = re.compile(r"(\d\d:\d\d):60(?=[.,Z+-]|$)")
_LONGEST = 64  # characters of a time stamp; a longer text would only fill the cache


def parse_instant(text: str) -> datetime | None:
    """The time that an ISO 8601 text names, in UTC; without an offset it is taken as UTC. None for other texts."""
    return _moment(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4_096)  # each record and row that a line becomes parses the line's stamp
def _moment(text: str) -> datetime | None:
    if not text.isprintable():  # a NUL at the end passes fromisoformat
        return None
    try:
        stamp = _parse(text)
        return stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _parse(text: str) -> datetime:
    """Also reads what RFC 3339 allows and `fromisoformat` does not: a lower-case t or z, and the leap second 60.

    The leap second is the first moment of the next minute, because a datetime has no second 60.
    """
    text = text.upper()
    if ":60" not in text:
        return datetime.fromisoformat(text)
    return datetime.fromisoformat(_LEAP_SECOND.sub(r"\1:59", text, count=1)) + timedelta(seconds=1)


def has_offset(text: str) -> bool:
    """False also for a text that is no time."""
    try:
        check_instant("time", text)
    except ValueError:
        return False
    return True


def check_instant(name: str, text: str | None) -> None:
    """Raises ValueError("name: …") for a text that is not a point in time; None passes."""
    if text is None:
        return
    try:
        parsed = _parse(text)
        is_instant = text.isprintable() and parsed.tzinfo is not None  # a NUL at the end passes fromisoformat
        parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        is_instant = False
    if not is_instant:
        raise ValueError(f"{name}: {text!r} is not an ISO 8601 time with an offset")


def epoch_seconds(text: str) -> float:
    return _parse(text).timestamp()


def format_instant(seconds: float, *, timespec: str = "auto") -> str:
    """Seconds since 1970 as ISO 8601 text. Raises ValueError for a year that the calendar does not have.

    `timespec` is that of `datetime.isoformat`: an executor writes milliseconds (OD-32).
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
    except (OverflowError, OSError) as error:
        raise ValueError(f"{seconds} seconds is not a point in time: {error}") from None


def subtract_milliseconds(text: str, milliseconds: int) -> str:
    """The time `milliseconds` before `text`, in UTC."""
    return (_parse(text).astimezone(UTC) - timedelta(milliseconds=milliseconds)).isoformat()
