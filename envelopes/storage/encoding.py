"""In which encoding bytes are text: said by a mark or by the bytes themselves, guessed, or not at all.

A guess is labelled as one wherever it is shown, and the operator can switch: charset-normalizer took
text in cp1251 for cp1250 when it was tried.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

SNIFFED = 64 * 1024
FEW = 4  # bytes that are no UTF-8, in text that is
# Every one but UTF-16 keeps ASCII, so that a byte 0A ends a line in it and in nothing else.
ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16, little end first",
    "utf-16-be": "UTF-16, big end first",
    "cp1252": "Western (Windows-1252)",
    "latin-1": "Latin-1",
    "cp1250": "Central European (Windows-1250)",
    "cp1251": "Cyrillic (Windows-1251)",
    "koi8-r": "Cyrillic (KOI8-R)",
    "shift_jis": "Japanese (Shift JIS)",
    "euc_jp": "Japanese (EUC)",
    "gb18030": "Chinese (GB 18030)",
    "big5": "Chinese (Big5)",
    "euc_kr": "Korean (EUC)",
}
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
TEXT = bytes(byte for byte in range(256) if byte in (*range(7, 14), 27) or byte >= 32)
NAMES = {codecs.lookup(name).name: name for name in ENCODINGS} | {"ascii": "utf-8"}
Certainty: TypeAlias = Literal["stated", "fits", "guess"]


class Encoding(msgspec.Struct, frozen=True):
    """`stated` by a mark at the beginning; `fits`: the head is valid UTF-8; otherwise a guess. No name: no text."""

    name: str
    certainty: Certainty = "guess"

    @property
    def label(self) -> str:
        return ENCODINGS.get(self.name, "")


def detect_encoding(head: bytes) -> Encoding:
    """From the first bytes, SNIFFED of them or all."""
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return Encoding(name, "stated")
    wide = _wide(head)
    if wide or _looks_binary(head):
        return Encoding(wide)
    return Encoding("utf-8", "fits") if _is_utf8(head) else Encoding(_guessed(head))


def decode(data: bytes, name: str) -> str:
    """Never fails: bytes that are no text become lone surrogates, and half a pair of UTF-16 U+FFFD."""
    return data.decode(name, "replace" if name.startswith("utf-16") else "surrogateescape")


def whole_characters(data: bytes) -> bytes:
    """UTF-8 that was cut anywhere, without the part of a character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] & 0xC0 != 0x80:
            width = 1 if data[-back] < 0x80 else 2 if data[-back] < 0xE0 else 3 if data[-back] < 0xF0 else 4
            return data[:-back] if width > back else data
    return data


def _is_utf8(head: bytes) -> bool:
    """The head may end within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _looks_binary(head: bytes) -> bool:
    """Text with a stray NUL is still text: one byte in fifty may be a control character."""
    return len(head.translate(None, TEXT)) * 50 > len(head)


def _wide(head: bytes) -> str:
    """UTF-16 of mostly Latin letters: every second byte is NUL."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd * 10 > half * 7 and even * 20 < half:
        return "utf-16-le"
    return "utf-16-be" if even * 10 > half * 7 and odd * 20 < half else ""


def _guessed(head: bytes) -> str:
    """A few bad bytes in UTF-8 are bad bytes; otherwise what charset-normalizer says, Latin letters else."""
    text = head.decode("utf-8", "surrogateescape")
    wrong = sum("\udc80" <= character <= "\udcff" for character in text)
    if wrong < FEW or wrong * 4 <= sum(byte > 127 for byte in head):
        return "utf-8"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    return _guessed_by(from_bytes, head[:4096])


@lru_cache(64)  # windows of one output are asked for one after the other, and a guess costs as much as the page
def _guessed_by(from_bytes: Callable[..., Any], head: bytes) -> str:
    best = from_bytes(head, cp_isolation=list(ENCODINGS)).best()
    return NAMES.get(codecs.lookup(best.encoding).name, "cp1252") if best else "cp1252"
