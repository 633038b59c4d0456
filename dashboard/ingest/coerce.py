"""Foreign strings and stamps on their way into columns. The originals stay in the observations.

A column is for finding and listing: NUL becomes a visible sign, a lone surrogate its escape, and
what is too long ends in an ellipsis, because SQLite would store any length and PostgreSQL none of
the three (reliability.md 7.2).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from envelopes.schema.timestamps import moment
from envelopes.text.untrusted_json import visible

EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
BIGGEST = 2**62


def column_text(text: str | None, limit: int) -> str:
    if not text:
        return ""
    clean = visible(text[: limit + 1]).replace("\x00", "␀")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def instant(text: str | None) -> datetime | None:
    """A stamp as `moment` reads it. None when it is no usable one."""
    stamp = moment(text) if text else None
    return stamp if stamp is not None and EARLIEST <= stamp < LATEST else None


def milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    """None when a stamp is missing, or when the clock ran backwards: no negative durations."""
    if start is None or end is None or end < start:
        return None
    return (end - start) // timedelta(milliseconds=1)


def column_int(value: Any) -> int | None:
    """An integer that both databases hold, or None."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > BIGGEST:
        return None
    return value


def printable(text: str) -> str:
    """For a terminal: control characters written out, so that no file name or payload can drive it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in visible(text))
