"""Foreign text as markup: HTML escaped, and a mark for each character that has no shape or a dangerous one.

These are a NUL, a control character, a direction override, an invisible letter, a filler, a variation selector, a
joiner outside of an emoji, a noncharacter, a lone surrogate and a carriage return (HTML would turn it into a newline).
In labels and attributes `printable` replaces them by pictures and names.

In the body of a page a mark replaces exactly one character, which itself is not in the page. Its code point is in
`data-code`, from which call.js puts the character back when text is copied (drawn spaces have the class `mark-space`:
· is a space, → before a tab and ↵ before a newline are nothing); the text form of a page (`?as=text`) has the
characters themselves.

A `TextChunk` bounds how much of a text one response carries, so that no page passes 1 MB whatever a tool wrote. Its
offsets count characters; chunks in a row are exactly the text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.masks import mask_around, remember_window

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
_INVISIBLE = {
    0x00AD: "SHY",
    0x034F: "CGJ",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x2028: "LSEP",
    0x2029: "PSEP",
    0x2060: "WJ",
    0xFEFF: "BOM",
} | {0xFE00 + number: f"VS{number + 1}" for number in range(16)}
_NAMES = _BIDI | _INVISIBLE | {0x7F: "DEL"}

# Tab and newline stay; U+E0000 to U+E0FFF are tag letters and selectors with which text is hidden in plain sight.
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane + end) for plane in range(0, 0x110000, 0x10000) for end in (0xFFFE, 0xFFFF)
)
_FILLERS = "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"  # drawn as a blank, or as nothing
_ALWAYS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0d\ufeff"
    f"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff{_FILLERS}{_NONCHARACTERS}"
)
_EMOJI = "\u00a9\u00ae\u203c-\u27bf\u2934-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
UNPRINTABLE = re.compile(
    f"[{_ALWAYS}]|(?<![{_EMOJI}0-9#*])[\ufe0e\ufe0f]|(?<![{_EMOJI}\ufe0f])\u200d|\u200d(?![{_EMOJI}])"
)
_PERHAPS_UNPRINTABLE = re.compile(f"[{_ALWAYS}\ufe0e\ufe0f\u200d]")
# Most texts need no escaping. Deleting all ASCII bytes and testing the rest is 8 times faster than the expression.
_ASCII = bytes(range(128))
_ASCII_UNPRINTABLE = bytes(code for code in _ASCII if UNPRINTABLE.match(chr(code)))
_ASCII_SPECIAL = _ASCII_UNPRINTABLE + b"&<>\"'"
_UNDECODABLE = re.compile(r'(<i class="mark" data-code="5[67][0-9]{3}">)\\udc([89a-f][0-9a-f])')
_SPACE = re.compile("[ \t]+|\n")
_SPACE_SHAPES = str.maketrans({" ": "·", "\t": "→\t", "\n": "↵\n"})
_WIDE_SPACE = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
FIRST_CHARS = 32 * 1024  # of each half, with the page
NEXT_CHARS = 64 * 1024  # of a half, with each further fragment
MAX_MARKUP = 280_000  # characters of markup
MARK_CHARS = 48  # of markup, for one mark
LEAST_CHARS = 512


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
    if text.isascii() and text.isprintable():  # most labels: a list of 50 rows has 200 of them
        return text
    return UNPRINTABLE.sub(_bracketed, text)


def escape_attribute(text: str) -> str:
    """Escaped text for a quoted attribute, without raw control characters."""
    return html.escape(printable(text)) if needs_escaping(text) else text


def needs_escaping(text: str) -> bool:
    """True if the text contains a character that HTML or this page treats specially (white space is not)."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _ASCII_SPECIAL)) < len(data):
        return True
    return not text.isascii() and _PERHAPS_UNPRINTABLE.search(_beyond_ascii(data)) is not None


def count_unprintable(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    if not text.isascii() and _PERHAPS_UNPRINTABLE.search(_beyond_ascii(data)):
        return len(UNPRINTABLE.findall(text))
    return len(data) - len(data.translate(None, _ASCII_UNPRINTABLE))


def _beyond_ascii(data: bytes) -> str:
    return data.translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _bracketed(match: re.Match[str]) -> str:
    picture = control_picture(match.group())
    return picture if len(picture) == 1 or picture.startswith("\\") else f"⟨{picture}⟩"


def escape(text: str, *, spaces: bool = False) -> SafeString:
    """Text for the body of an element, with marks; `spaces` draws white space as well."""
    if not spaces and not needs_escaping(text):
        return mark_safe(text)
    escaped = html.escape(text)
    if spaces:
        escaped = _WIDE_SPACE.sub(_mark, _SPACE.sub(_space, escaped))
    return mark_safe(UNPRINTABLE.sub(_mark, escaped) if count_unprintable(text) else escaped)


def choose_escape(text: str, *, spaces: bool = False) -> Callable[[str], str]:
    """The function that escapes the pieces of `text`: `escape`, or a cheaper one where no piece can need a mark."""
    if not spaces and not needs_escaping(text):
        return str
    data = text.encode("utf-8", "surrogatepass")
    has_marks = len(data.translate(None, _ASCII_UNPRINTABLE)) < len(data)
    if spaces or has_marks or _PERHAPS_UNPRINTABLE.search(_beyond_ascii(data)):
        return partial(escape, spaces=spaces)
    return html.escape


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


@dataclass(frozen=True, kw_only=True)
class TextChunk:
    html: SafeString
    start: int
    end: int
    total: int

    def __post_init__(self) -> None:
        remember_window(self.html)

    @property
    def has_more(self) -> bool:
        return self.end < self.total


def chunk_end(text: str, start: int, limit: int, *, spaces: bool = False) -> int:
    """The end of a chunk that begins at `start`: at most `limit` characters, fewer when marks make it heavy."""
    end = min(len(text), start + limit)
    while end - start > LEAST_CHARS and count_marks(text[start:end], spaces=spaces) * MARK_CHARS > MAX_MARKUP:
        end = start + (end - start) // 2
    if end >= len(text):
        return end
    newline = text.rfind("\n", start + (end - start) // 2, end)
    return newline + 1 if newline >= 0 else end


def text_chunk(text: str, start: int, limit: int) -> TextChunk:
    end = chunk_end(text, start, limit)
    text = mask_around(text, start, end)
    return TextChunk(html=escape(text[start:end]), start=start, end=end, total=len(text))
