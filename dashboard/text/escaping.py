"""Foreign text made inert: HTML escaped, and what has no shape or a dangerous one drawn as a mark.

A mark stands for exactly one character that is not in the page: a NUL, a control character, a
direction override, an invisible letter, a lone surrogate, a carriage return (HTML would turn it
into a newline). Its code point is in `data-code`, from which call.js puts the character back when
text is copied (drawn spaces have the class `sp`: · is a space, → before a tab and ↵ before a newline
are nothing); the text form of a page (`?as=text`) has the characters themselves.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

_BIDI = {
    0x061C: "ALM",
    0x200E: "LRM",
    0x200F: "RLM",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
}
_INVISIBLE = {0x00AD: "SHY", 0x200B: "ZWSP", 0x2028: "LSEP", 0x2029: "PSEP", 0x2060: "WJ", 0xFEFF: "BOM"}
_NAMES = _BIDI | _INVISIBLE | {0x7F: "DEL"}

# Tab and newline stay; U+E0000 to U+E007F are the tag letters with which text is hidden in plain sight.
_MARKS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
)
_MARKED = re.compile(f"[{_MARKS}]")
_ESCAPED = re.compile(r'(<i class="mark" data-code="5[67][0-9]{3}">)\\udc([89a-f][0-9a-f])')
# Most texts hold nothing of all that. An expression takes eight times as long to see it as to delete the bytes
# of UTF-8 and to look what is left: those of other characters are none of ASCII.
_ASCII = bytes(range(128))
_ASCII_MARKS = bytes(code for code in _ASCII if _MARKED.match(chr(code)))
_ASCII_LIVE = _ASCII_MARKS + b"&<>\"'"
_SPACE = re.compile("[ \t]+|\n")
_SPACE_SHAPES = str.maketrans({" ": "·", "\t": "→\t", "\n": "↵\n"})
_WIDE_SPACE = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


class Html(str):
    """Markup whose foreign parts are escaped. The `trusted` filter lets this type through, no other."""

    __slots__ = ()


def shape(character: str) -> str:
    """What stands for a character that cannot be shown: ␛, RLO, \\ud800, U+2064."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    return _NAMES.get(code, f"U+{code:04X}")


def plain(text: str) -> str:
    """One string for labels and titles: marks as ⟨RLO⟩, control characters as their pictures."""
    return _MARKED.sub(_plain_mark, text)


def has_live(text: str) -> bool:
    """Whether `inert` would change anything, when it draws no spaces."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _ASCII_LIVE)) < len(data):
        return True
    return not text.isascii() and _MARKED.search(_beyond_ascii(data)) is not None


def _beyond_ascii(data: bytes) -> str:
    return data.translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _marks_in(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    found = len(data) - len(data.translate(None, _ASCII_MARKS))
    return found if text.isascii() else found + len(_MARKED.findall(_beyond_ascii(data)))


def inert(text: str, *, spaces: bool = False) -> str:
    """Escaped text for the body of an element, with marks; `spaces` draws white space as well."""
    if not spaces and not has_live(text):
        return text
    escaped = html.escape(text)
    if spaces:
        escaped = _WIDE_SPACE.sub(_mark, _SPACE.sub(_space, escaped))
    return _MARKED.sub(_mark, escaped) if _marks_in(text) else escaped


def inert_bytes(text: str) -> str:
    """As `inert`, for text that was decoded from bytes, with those that are no text as lone surrogates: \\xff."""
    found = inert(text)
    return _ESCAPED.sub(r"\1\\x\2", found) if "\\udc" in found else found


def count_marks(text: str, *, spaces: bool = False) -> int:
    """How many pieces of markup `inert` will add."""
    drawn = _marks_in(text)
    return drawn + len(_SPACE.findall(text)) // 2 if spaces else drawn


def attribute(text: str) -> str:
    """Escaped text for a quoted attribute; never a raw control character in it."""
    return html.escape(plain(text)) if has_live(text) else text


def _plain_mark(found: re.Match[str]) -> str:
    drawn = shape(found.group())
    return drawn if len(drawn) == 1 or drawn.startswith("\\") else f"⟨{drawn}⟩"


def _mark(found: re.Match[str]) -> str:
    return _drawn(found.group())


@lru_cache(512)  # terminal output has four in a line, all the same
def _drawn(character: str) -> str:
    return f'<i class="mark" data-code="{ord(character)}">{shape(character)}</i>'


def _space(found: re.Match[str]) -> str:
    return f'<i class="sp">{found.group().translate(_SPACE_SHAPES)}</i>'
