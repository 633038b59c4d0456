"""Finds the characters of foreign text that must not reach a page as they are, and names them.

A NUL, a control character, a direction override, an invisible letter, a lone surrogate and a carriage return
(HTML would turn it into a newline) have no shape or a dangerous one. In labels and attributes `printable` replaces
them by pictures and names; in the body of a page `text_markup.escape` puts a mark in their place.
"""

from __future__ import annotations

import html
import re

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
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
# Most texts need no escaping. Deleting all ASCII bytes and testing the rest is 8 times faster than the expression.
_ASCII = bytes(range(128))
_ASCII_UNPRINTABLE = bytes(code for code in _ASCII if UNPRINTABLE.match(chr(code)))
_ASCII_SPECIAL = _ASCII_UNPRINTABLE + b"&<>\"'"


def control_picture(character: str) -> str:
    """The name or picture of a character that cannot be shown: ␛, RLO, \\ud800, U+2064."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    return _NAMES.get(code, f"U+{code:04X}")


def printable(text: str) -> str:
    """Text for labels and titles, not yet escaped: ⟨RLO⟩ for a direction override, pictures for control characters."""
    return UNPRINTABLE.sub(_bracketed, text)


def escape_attribute(text: str) -> str:
    """Escaped text for a quoted attribute, without raw control characters."""
    return html.escape(printable(text)) if needs_escaping(text) else text


def needs_escaping(text: str) -> bool:
    """True if the text contains a character that HTML or this page treats specially (white space is not)."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _ASCII_SPECIAL)) < len(data):
        return True
    return not text.isascii() and UNPRINTABLE.search(_beyond_ascii(data)) is not None


def count_unprintable(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    in_ascii = len(data) - len(data.translate(None, _ASCII_UNPRINTABLE))
    return in_ascii if text.isascii() else in_ascii + len(UNPRINTABLE.findall(_beyond_ascii(data)))


def _beyond_ascii(data: bytes) -> str:
    return data.translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _bracketed(match: re.Match[str]) -> str:
    picture = control_picture(match.group())
    return picture if len(picture) == 1 or picture.startswith("\\") else f"⟨{picture}⟩"
