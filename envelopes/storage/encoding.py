"""The encoding in which bytes are text: stated by a mark, detected, guessed, or none.

A guess is labelled as one wherever it is shown, and the operator can switch: charset-normalizer took text in
cp1251 for cp1250 when it was tried.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

SNIFFED = 64 * 1024
FEW = 4  # bytes that are not UTF-8, in text that is
# In all but UTF-16 the bytes of ASCII mean ASCII, so that a byte 0A ends a line and nothing else does.
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
    """`stated` by a mark at the beginning; `fits`: the head is valid UTF-8; else a guess. No name: not text."""

    name: str
    certainty: Certainty = "guess"

    @property
    def label(self) -> str:
        return ENCODINGS.get(self.name, "")


def detect_encoding(head: bytes) -> Encoding:
    """Detects the encoding of content from its first SNIFFED bytes, or from all of a shorter one."""
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return Encoding(name, "stated")
    wide = _detect_utf16(head)
    # Text with a stray NUL is still text: one byte in fifty may be a control character.
    if wide or len(head.translate(None, TEXT)) * 50 > len(head):
        return Encoding(wide)
    return Encoding("utf-8", "fits") if _is_utf8(head) else Encoding(_guess(head))


def decode(data: bytes, name: str) -> str:
    """Decodes without failing: other bytes become lone surrogates, and half a pair of UTF-16 U+FFFD."""
    return data.decode(name, "replace" if name.startswith("utf-16") else "surrogateescape")


def whole_characters(data: bytes) -> bytes:
    """UTF-8 that was cut anywhere, without the part of a character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] & 0xC0 != 0x80:
            width = 1 if data[-back] < 0x80 else 2 if data[-back] < 0xE0 else 3 if data[-back] < 0xF0 else 4
            return data[:-back] if width > back else data
    return data


def _is_utf8(head: bytes) -> bool:
    """True for UTF-8, which may be cut within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _detect_utf16(head: bytes) -> str:
    """UTF-16 of mostly Latin letters, in which every second byte is NUL."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd * 10 > half * 7 and even * 20 < half:
        return "utf-16-le"
    return "utf-16-be" if even * 10 > half * 7 and odd * 20 < half else ""


def _guess(head: bytes) -> str:
    """UTF-8 with a few bad bytes, else the guess of charset-normalizer, else cp1252."""
    text = head.decode("utf-8", "surrogateescape")
    bad = sum("\udc80" <= character <= "\udcff" for character in text)
    if bad < FEW or bad * 4 <= sum(byte > 127 for byte in head):
        return "utf-8"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    return _guess_by(from_bytes, head[:4096])


@lru_cache(64)  # windows of one output follow each other, and a guess takes as long as the page
def _guess_by(from_bytes: Callable[..., Any], head: bytes) -> str:
    best = from_bytes(head, cp_isolation=list(ENCODINGS)).best()
    return NAMES.get(codecs.lookup(best.encoding).name, "cp1252") if best else "cp1252"
