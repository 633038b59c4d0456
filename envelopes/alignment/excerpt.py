"""Aligns a recorded string that the runtime printed whole, as a preview, or with its middle cut out.

Each part shown must reach to an edge of the recorded string (its head or its tail), so there is
one place where it can stand, and none is guessed.
"""

from __future__ import annotations

import re

from envelopes.alignment.spans import Span

_PERSISTED = re.compile(r"\s*<persisted-output>\n.*?\nPreview \(first [^)\n]*\):\n", re.DOTALL)
_PERSISTED_END = re.compile(r"(?:\n\.\.\.)?\n</persisted-output>\s*\Z")
# No \s* in front: it would try every blank of a blank text again from each position.
_CUT = re.compile(
    r"\.\.\. \[\d+ (?:lines?|characters?) truncated\] \.\.\."
    r"|\A\s*\[Truncated\. Full output: [^\n]*\]"
    r"|\A\s*\[\d+ (?:lines?|characters?) truncated\]"
)


def match_excerpt(text: str, value: str, pointer: str, *, start: int = 0, end: int | None = None) -> list[Span]:
    """Where text[start:end) shows `value`; white space that either side trimmed at the edges is ignored."""
    region = text[start:end]
    spans = (
        _whole(region, value, pointer) or _persisted(region, value, pointer) or _head_and_tail(region, value, pointer)
    )
    return [Span(start + span.start, start + span.end, pointer, span.value_start, span.value_end) for span in spans]


def _whole(region: str, value: str, pointer: str) -> list[Span]:
    core = value.strip()
    if not core or region.strip() != core:
        return []
    at, offset = region.find(core), value.find(core)
    return [Span(at, at + len(core), pointer, offset, offset + len(core))]


def _persisted(region: str, value: str, pointer: str) -> list[Span]:
    head, foot = _PERSISTED.match(region), _PERSISTED_END.search(region)
    if head is None or foot is None or head.end() > foot.start():
        return []
    return _head(region, head.end(), foot.start(), value, pointer)


def _head_and_tail(region: str, value: str, pointer: str) -> list[Span]:
    for marker in _CUT.finditer(region):
        before, after = region[: marker.start()].rstrip(), region[marker.end() :]
        head = _head(region, 0, len(before), value, pointer)
        tail = _tail(region, marker.end() + len(after) - len(after.lstrip()), value, pointer)
        shown = [*head, *tail]
        missing = (before and not head) or (after.strip() and not tail)
        if shown and not missing and sum(span.end - span.start for span in shown) <= len(value):
            return shown
    return []


def _head(region: str, start: int, end: int, value: str, pointer: str) -> list[Span]:
    shown = region[start:end]
    trimmed = len(value) - len(value.lstrip())
    for offset in dict.fromkeys((0, trimmed)):
        if shown and value.startswith(shown, offset):
            return [Span(start, end, pointer, offset, offset + len(shown))]
    return []


def _tail(region: str, start: int, value: str, pointer: str) -> list[Span]:
    shown, whole = region[start:].rstrip(), value.rstrip()
    if not shown or not whole.endswith(shown):
        return []
    return [Span(start, start + len(shown), pointer, len(whole) - len(shown), len(whole))]
