"""A text as the masking rules search it: without noise, as bytes for RE2, and the way back to its positions.

`is_bytes` says that the text is bytes decoded as Latin-1, one character a byte: downloads and JSON are masked so, that
no other byte of them changes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import product
from typing import Any, NamedTuple

import re2


class MaskSpan(NamedTuple):
    """Characters [start, end) of a text, and the name of the rule that masks them."""

    start: int
    end: int
    rule: str


# What runs through a text without being of it: colour codes (also written as escapes), letters and slashes that are
# escaped as in JSON, addresses or HTML, overstruck letters, NUL (of UTF-16), and letters without a shape.
COLOUR_CODE = r"\x1b\[[0-9;:?]{0,40}[A-Za-z]"
_ESCAPED = "u00(?P<code>[2-7][0-9a-fA-F])"
_NOISE = (
    rf"{COLOUR_CODE}|(?:\u241b|\^\[)\[[0-9;:?]{{0,40}}[A-Za-z]|\\{{1,8}}(?:u001[bB]|x1[bB]|033|e)\[[0-9;:?]{{0,40}}[A-Za-z]"
    r"|\\{1,8}u(?:0000|00[aA][dD]|200[b-fB-F]|2060|[fF][eE][fF][fF])"
    rf"|\\{{1,8}}{_ESCAPED}|\\{{1,8}}(?P<slash>/)|%(?:25){{0,4}}(?P<percent>[2-7][0-9a-fA-F])"
    r"|&(?:amp;){0,4}(?:(?P<entity>quot|apos|amp|lt|gt)|#(?:x(?P<hex>[2-7][0-9a-fA-F])|0{0,3}(?P<decimal>[3-9][0-9]|1[01][0-9]|12[0-6])));"
    r"|[\0\u00ad\u200b-\u200f\u2060\ufeff]"
)
_OVERSTRUCK = r"|[^\x08\n]\x08"  # looked for in texts with a backspace alone: it takes ten times as long
_ENTITIES = {"quot": '"', "apos": "'", "amp": "&", "lt": "<", "gt": ">"}
# Signs of it in UTF-8; each piece of noise contains one.
NOISE_SIGNS = (
    r"\x1b|\x00|\x08|\\(?:x1|033|e\[|/|u(?:00|20(?:0[b-fB-F]|60)|[fF][eE][fF][fF]))|%[2-7][0-9a-fA-F]|&(?:quot|apos|amp|lt|gt|#[x0-9])"
    r"|\^\[\[|\xc2\xad|\xe2(?:\x80[\x8b-\x8f]|\x81\xa0|\x90\x9b)|\xef\xbb\xbf"
)
ESCAPE_SIGN = r"\\u"  # beside these where rules have letters beyond ASCII
_LETTERS = {  # those of the noise, and their bytes as Latin-1
    r"\u241b": r"\xe2\x90\x9b",
    r"[\0\u00ad\u200b-\u200f\u2060\ufeff]": r"(?:\0|\xc2\xad|\xe2\x80[\x8b-\x8f]|\xe2\x81\xa0|\xef\xbb\xbf)",
}
_CONTINUATION = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character


def _compile_noise(*, has_letters: bool, is_bytes: bool, has_backspaces: bool) -> re.Pattern[str]:
    pattern = _NOISE.replace(_ESCAPED, "u(?!00[01])(?P<code>[0-9a-fA-F]{4})") if has_letters else _NOISE
    for letters, units in _LETTERS.items() if is_bytes else ():
        pattern = pattern.replace(letters, units)
    return re.compile(pattern + _OVERSTRUCK * has_backspaces)


_noise = {
    key: _compile_noise(has_letters=key[0], is_bytes=key[1], has_backspaces=key[2])
    for key in product((False, True), repeat=3)
}


def compile_bytes(pattern: str, *, is_utf8: bool = False) -> Any:
    """Compiles an expression for bytes, or for the characters of UTF-8."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.UTF8 if is_utf8 else re2.Options.Encoding.LATIN1
    options.max_mem = 48 << 20  # with 8 MB the states of all shapes are thrown away and built again: ten times as slow
    options.longest_match = True  # of two keys that begin alike the longer one
    return re2.compile(pattern.encode(), options)


_noise_gate = compile_bytes(NOISE_SIGNS)
_escape_gate = compile_bytes(f"{NOISE_SIGNS}|{ESCAPE_SIGN}")


def has_noise(text: str, *, has_letters: bool = False, is_bytes: bool = False) -> bool:
    """`has_letters`: escapes of letters beyond ASCII are noise too."""
    gate = _escape_gate if has_letters else _noise_gate
    return gate.search(text.encode("latin-1" if is_bytes else "utf-8", "replace")) is not None


class _Unit(NamedTuple):
    """Characters of the clean text from `clean` on are those of the original from `start` on; an escape is one."""

    clean: int
    start: int
    escape_end: int = 0


def _read_escape(noise: re.Match[str]) -> str:
    """The character that is written as an escape; empty for other noise."""
    code = noise["code"] or noise["percent"] or noise["hex"]
    if code:
        return chr(int(code, 16))
    return chr(int(noise["decimal"])) if noise["decimal"] else noise["slash"] or _ENTITIES.get(noise["entity"], "")


class CleanText:
    """The text without noise, and the way back to the positions of the original."""

    def __init__(self, text: str, *, has_letters: bool = False, is_bytes: bool = False) -> None:
        self._units: list[_Unit] = []
        pieces: list[str] = []
        size = offset = 0
        for match in _noise[has_letters, is_bytes, "\x08" in text].finditer(text):
            if match.start() > offset:
                self._units.append(_Unit(size, offset))
                pieces.append(text[offset : match.start()])
                size += match.start() - offset
            character = _read_escape(match)
            for unit in character.encode("utf-8", "replace").decode("latin-1") if is_bytes else character:
                self._units.append(_Unit(size, match.start(), match.end()))
                pieces.append(unit)
                size += 1
            offset = match.end()
        self._units.append(_Unit(size, offset))
        self._starts = [unit.clean for unit in self._units]
        self.text = "".join([*pieces, text[offset:]])

    def original(self, span: MaskSpan) -> MaskSpan:
        first, last = self._unit(span.start), self._unit(span.end - 1)
        start = first.start if first.escape_end else first.start + span.start - first.clean
        return MaskSpan(start, last.escape_end or last.start + span.end - last.clean, span.rule)

    def _unit(self, position: int) -> _Unit:
        return self._units[bisect_right(self._starts, position) - 1]


class EncodedText:
    """Bytes of a text, and the way from their positions to its characters; `is_same` where these are equal."""

    def __init__(self, data: bytes, *, is_same: bool) -> None:
        self.data = data
        self._is_same = is_same
        self._byte = self._character = 0

    def position(self, byte: int) -> int:
        """The character that begins at a byte, or the one after it; quick for bytes that are asked for in order."""
        if self._is_same:
            return byte
        start, end = sorted((self._byte, byte))
        passed = len(self.data[start:end].translate(None, _CONTINUATION))
        self._character += passed if start == self._byte else -passed
        self._byte = byte
        return self._character
