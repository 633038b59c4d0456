"""Numbers as a page shows them: counts, sizes, durations. The templates have the same as filters."""

from __future__ import annotations

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000  # milliseconds
SIZE_UNITS = ("B", "KB", "MB", "GB")
TOKENS_COUNTED_BY = "counted in o200k_base at import (four characters a token where the extra 'tokens' is missing)"


def format_count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


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


def format_size(number: int | None) -> str:
    """Bytes as 812 B, 14.2 KB, 3.1 MB (thousands, as disks count)."""
    if number is None:
        return "–"
    if number < 1_000:
        return f"{number} B"
    power = next((power for power in (1, 2) if number < 999.95 * 1_000**power), 3)
    return f"{number / 1_000**power:.1f} {SIZE_UNITS[power]}"
