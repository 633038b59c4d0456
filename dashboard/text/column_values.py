"""Recorded strings, numbers and stamps converted to values that both databases can store.

The originals stay in the observations; columns are for finding and listing. A NUL becomes a visible sign, a lone
surrogate its escape, and a text that is too long ends in an ellipsis: SQLite would store any of them, PostgreSQL
none (reliability.md 7.2).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from envelopes.schema.timestamps import parse_instant
from envelopes.text.untrusted_json import visible

EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
MAX_INTEGER = 2**62


def column_text(text: str | None, limit: int) -> str:
    """At most `limit` characters; empty for None."""
    if not text:
        return ""
    clean = visible(text[: limit + 1]).replace("\x00", "␀")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def column_time(text: str | None) -> datetime | None:
    """A stamp as `moment` reads it; None for one that is not a time between 1990 and 2200."""
    stamp = parse_instant(text) if text else None
    return stamp if stamp is not None and EARLIEST <= stamp < LATEST else None


def column_int(value: Any) -> int | None:
    """An integer that both databases can store, or None."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INTEGER:
        return None
    return value


def milliseconds_between(start: datetime | None, end: datetime | None) -> int | None:
    """None when a stamp is missing or the clock ran backwards: a duration is never negative."""
    if start is None or end is None or end < start:
        return None
    return (end - start) // timedelta(milliseconds=1)
