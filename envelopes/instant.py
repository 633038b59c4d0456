"""Points in time as they are stored: ISO 8601 text with an offset, kept as it was written.

A text without an offset names no point in time, so it is refused. Outcomes count seconds since 1970
instead; both directions are exact to the microsecond.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def check_instant(name: str, text: str | None) -> None:
    """Raises ValueError("name: …") for a text that is no point in time; None is none, and passes."""
    if text is None:
        return
    try:
        parsed = datetime.fromisoformat(text)
        named = text.isprintable() and parsed.tzinfo is not None  # a NUL at the end passes fromisoformat
        parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        named = False
    if not named:
        raise ValueError(f"{name}: {text!r} is no ISO 8601 time with an offset")


def epoch_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def instant_at(seconds: float) -> str:
    """Raises ValueError where no calendar has the time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, OSError) as error:
        raise ValueError(f"{seconds} seconds is no point in time: {error}") from None


def earlier(text: str, milliseconds: int) -> str:
    """The time `milliseconds` before `text`, in UTC."""
    return (datetime.fromisoformat(text).astimezone(UTC) - timedelta(milliseconds=milliseconds)).isoformat()
