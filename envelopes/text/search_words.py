"""The words of a text, and words in a row: the same for the documents of a search and for what is searched for.

A word is a run of letters, digits and underscores of any script, without regard to case. Scripts that write no spaces
have a word for each character, so that words in a row find any part of them. No database splits the words, so that
all of them answer alike.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

import msgspec

LONGEST = 64  # characters of a word in an index; a longer one has a hash in place of its rest
FEW_CHARACTERS = 32  # that are replaced one after the other
KEPT = 32  # of those, as they are
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana and ideographs
_LETTER = rf"[^\W{_UNSPACED}]"
_WORD = re.compile(rf"[{_UNSPACED}]|{_LETTER}+")
_ASCII_WORD = re.compile(r"[a-z0-9_]+")
_ASCII = bytes(range(128))
_FOREIGN_BREAK = re.compile(rf"[^\w\x00-\x7f{_UNSPACED}]")  # characters beyond ASCII that are of no word
_UNSPACED_CHARACTER = re.compile(f"([{_UNSPACED}])")


def split_words(text: str) -> list[str]:
    """All words of a text in order, folded.

    >>> split_words("Permission-denied: straße_1 漢字")
    ['permission', 'denied', 'strasse_1', '漢', '字']
    """
    return _ASCII_WORD.findall(text.lower()) if text.isascii() else _WORD.findall(text.casefold())


def separate_words(text: str) -> str:
    """The folded text with its words apart for a tokenizer that takes every character beyond ASCII for a letter.

    Splitting it takes several times as long.

    >>> separate_words("Straße – 漢字")
    'strasse    漢  字 '
    """
    folded = text.casefold()
    foreign = {*folded.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")}
    if len(foreign) > FEW_CHARACTERS:
        return _UNSPACED_CHARACTER.sub(r" \1 ", _FOREIGN_BREAK.sub(" ", folded))
    for character in foreign:
        if _UNSPACED_CHARACTER.match(character):
            folded = folded.replace(character, f" {character} ")
        elif _FOREIGN_BREAK.match(character):
            folded = folded.replace(character, " ")
    return folded


def index_word(word: str) -> str:
    """The word as an index has it: two words have the same one only when they are equal."""
    if len(word) <= LONGEST:
        return word
    return word[:KEPT] + hashlib.blake2b(word.encode(), digest_size=(LONGEST - KEPT) // 2).hexdigest()


class Phrase(msgspec.Struct, frozen=True, dict=True):
    """Words in a row; of the last one only the beginning where it `is_prefix`.

    A phrase with `parts` is looked for in another way: these characters in one line and in this order, within words
    too. Its `words` are empty, because no index of words finds it.
    """

    words: tuple[str, ...]
    is_prefix: bool = False
    parts: tuple[str, ...] = ()

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """The first and the last position of each occurrence in the text.

        >>> list(parse_phrase("permission denied").find("x: Permission\\ndenied, permission_denied"))
        [(3, 20)]
        """
        folded = text.lower() if text.isascii() else text.casefold()
        if self.parts:
            matches = _find_in_order(folded, self.parts)
        else:
            matches = (match.span() for match in self._pattern.finditer(folded))
        if len(folded) == len(text):
            yield from matches
            return
        places: list[int] = []
        for start, end in matches:
            places = places or list(accumulate((len(character.casefold()) for character in text), initial=0))
            yield bisect_right(places, start) - 1, bisect_left(places, end)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        pattern = ""
        for index, word in enumerate(self.words):
            is_unspaced = bool(re.match(f"[{_UNSPACED}]", word))
            is_last = index == len(self.words) - 1
            # Behind the word, so that the pattern begins with characters, which `re` looks for ten times as fast.
            begin = "" if is_unspaced else rf"(?<!{_LETTER}{re.escape(word)})"
            end = "" if is_unspaced or (is_last and self.is_prefix) else rf"(?!{_LETTER})"
            pattern += f"{re.escape(word)}{begin}{end}" + ("" if is_last else r"\W*")
        return re.compile(pattern)


def _find_in_order(text: str, parts: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """The spans in which all parts stand in this order, with no line break between one and the next.

    The time is linear, while an expression tries every way to place the parts and does not let other threads run.
    The first place of each part is the best one, and where the first place of a line fails, the others of it do too.
    """
    start = text.find(parts[0])
    while start >= 0:
        end = start + len(parts[0])
        for part in parts[1:]:
            line_end = text.find("\n", end)
            place = text.find(part, end, line_end + len(part) if line_end >= 0 else len(text))
            if place < 0:
                break
            end = place + len(part)
        else:
            yield start, end
            start = text.find(parts[0], end)
            continue
        line_end = text.find("\n", start)
        start = text.find(parts[0], line_end + 1) if line_end >= 0 else -1


def parse_phrase(text: str, *, is_pattern: bool = False) -> Phrase | None:
    """The phrase that a person searches for; with `is_pattern` each `*` stands for any characters of a line.

    None without anything to look for.

    >>> parse_phrase("Permission denied").words, parse_phrase("permiss*", is_pattern=True).is_prefix
    (('permission', 'denied'), True)
    >>> parse_phrase("*sion*den*", is_pattern=True).parts
    ('sion', 'den')
    """
    if is_pattern and ("*" in text.rstrip("*") or not re.search(r"\w\*+$", text)):
        parts = tuple(part for part in text.casefold().split("*") if part)
        return Phrase((), parts=parts) if parts else None
    words = tuple(split_words(text))
    return Phrase(words, is_pattern) if words else None
