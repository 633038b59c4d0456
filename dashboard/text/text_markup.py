"""Foreign text as markup: HTML escaped, and a mark for each character that has no shape or a dangerous one.

A mark replaces exactly one character, which itself is not in the page. Its code point is in `data-code`, from which
call.js puts the character back when text is copied (drawn spaces have the class `mark-space`: · is a space, → before
a tab and ↵ before a newline are nothing); the text form of a page (`?as=text`) has the characters themselves.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import lru_cache

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.escaping import UNPRINTABLE, control_picture, count_unprintable, needs_escaping

_UNDECODABLE = re.compile(r'(<i class="mark" data-code="5[67][0-9]{3}">)\\udc([89a-f][0-9a-f])')
_SPACE = re.compile("[ \t]+|\n")
_SPACE_SHAPES = str.maketrans({" ": "·", "\t": "→\t", "\n": "↵\n"})
_WIDE_SPACE = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def escape(text: str, *, spaces: bool = False) -> SafeString:
    """Text for the body of an element, with marks; `spaces` draws white space as well."""
    if not spaces and not needs_escaping(text):
        return mark_safe(text)
    escaped = html.escape(text)
    if spaces:
        escaped = _WIDE_SPACE.sub(_mark, _SPACE.sub(_space, escaped))
    return mark_safe(UNPRINTABLE.sub(_mark, escaped) if count_unprintable(text) else escaped)


def escape_decoded(text: str) -> SafeString:
    """Like `escape`, for text decoded with `surrogateescape`: bytes that are no text are marked as \\xff."""
    escaped = escape(text)
    return mark_safe(_UNDECODABLE.sub(r"\1\\x\2", escaped)) if "\\udc" in escaped else escaped


def highlight(text: str, spans: Iterable[tuple[int, int]]) -> SafeString:
    """Decoded text with the characters [start, end) of each span highlighted. The spans are in order."""
    parts: list[str] = []
    offset = 0
    for start, end in spans:
        parts += [escape_decoded(text[offset:start]), f"<mark>{escape_decoded(text[start:end])}</mark>"]
        offset = end
    return mark_safe("".join([*parts, escape_decoded(text[offset:])]))


def count_marks(text: str, *, spaces: bool = False) -> int:
    """The number of marks that `escape` will draw."""
    marks = count_unprintable(text)
    return marks + len(_SPACE.findall(text)) // 2 if spaces else marks


def _mark(match: re.Match[str]) -> str:
    return _draw_mark(match.group())


@lru_cache(512)  # terminal output has four in a line, all the same
def _draw_mark(character: str) -> str:
    return f'<i class="mark" data-code="{ord(character)}">{control_picture(character)}</i>'


def _space(match: re.Match[str]) -> str:
    return f'<i class="mark-space">{match.group().translate(_SPACE_SHAPES)}</i>'
