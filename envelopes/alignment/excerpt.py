"""Aligns a recorded string that the runtime printed whole, as a preview, or with its middle cut out.

Each printed part must be the head or the tail of the recorded string, so its position is unambiguous.
"""

from __future__ import annotations

import re

from envelopes.alignment.spans import Span

_PERSISTED = re.compile(r"\s*<persisted-output>\n.*?\nPreview \(first [^)\n]*\):\n", re.DOTALL)
_PERSISTED_END = re.compile(r"(?:\n\.\.\.)?\n</persisted-output>\s*\Z")
# No \s* in front of the first marker: on a text of blanks the match would take quadratic time.
_CUT = re.compile(
    r"\.\.\. \[\d+ (?:lines?|characters?) truncated\] \.\.\."
    r"|\A\s*\[Truncated\. Full output: [^\n]*\]"
    r"|\A\s*\[\d+ (?:lines?|characters?) truncated\]"
)


def match_excerpt(text: str, value: str, pointer: str, *, start: int = 0, end: int | None = None) -> list[Span]:
    """Links the parts of `value` that text[start:end) shows; white space trimmed at the edges is ignored."""
    region = text[start:end]
    spans = (
        _match_whole(region, value, pointer)
        or _match_persisted(region, value, pointer)
        or _match_head_and_tail(region, value, pointer)
    )
    return [Span(start + span.start, start + span.end, pointer, span.value_start, span.value_end) for span in spans]


def _match_whole(region: str, value: str, pointer: str) -> list[Span]:
    core = value.strip()
    if not core or region.strip() != core:
        return []
    at, offset = region.find(core), value.find(core)
    return [Span(at, at + len(core), pointer, offset, offset + len(core))]


def _match_persisted(region: str, value: str, pointer: str) -> list[Span]:
    head, foot = _PERSISTED.match(region), _PERSISTED_END.search(region)
    if head is None or foot is None or head.end() > foot.start():
        return []
    return _match_head(region, head.end(), foot.start(), value, pointer)


def _match_head_and_tail(region: str, value: str, pointer: str) -> list[Span]:
    for marker in _CUT.finditer(region):
        before, after = region[: marker.start()].rstrip(), region[marker.end() :]
        head = _match_head(region, 0, len(before), value, pointer)
        tail = _match_tail(region, marker.end() + len(after) - len(after.lstrip()), value, pointer)
        shown = [*head, *tail]
        missing = (before and not head) or (after.strip() and not tail)
        if shown and not missing and sum(span.end - span.start for span in shown) <= len(value):
            return shown
    return []


def _match_head(region: str, start: int, end: int, value: str, pointer: str) -> list[Span]:
    shown = region[start:end]
    trimmed = len(value) - len(value.lstrip())
    for offset in dict.fromkeys((0, trimmed)):
        if shown and value.startswith(shown, offset):
            return [Span(start, end, pointer, offset, offset + len(shown))]
    return []


def _match_tail(region: str, start: int, value: str, pointer: str) -> list[Span]:
    shown, whole = region[start:].rstrip(), value.rstrip()
    if not shown or not whole.endswith(shown):
        return []
    return [Span(start, start + len(shown), pointer, len(whole) - len(shown), len(whole))]
