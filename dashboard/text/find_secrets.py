"""Finds what a page must not show, by named rules; `dashboard.text.masks` masks it.

    RuleSet(rules).find(text)           the spans to mask, each with the name of its rule
    RuleSet(rules).find(text, until)    the same, until the processor time of this thread: the rest is one span

Secrets are also found where colour codes or invisible letters run through them, or JSON escapes: the rules look at a
text without these, and the spans are mapped back. A rule begins at a word that `str.find` looks for, and every
repetition is bounded, so the time grows with the length of the text alone.

`detect-secrets` is not used: it looks at single lines, returns values instead of positions, does not see through
escapes, and needs a second for a megabyte that this module reads in milliseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from time import thread_time

from dashboard.text.clean_text import (
    ESCAPE_SIGN,
    NOISE_SIGNS,
    CleanText,
    EncodedText,
    MaskSpan,
    compile_bytes,
    has_noise,
)
from dashboard.text.key_values import ends_name, find_column, find_values
from dashboard.text.masking_rules import RULES, KeyRule, MaskingRule, PatternRule
from envelopes.text.credential_shapes import SecretShape
from envelopes.text.patterns import Pattern, compile_pattern

CONTEXT = 8_500  # characters on each side of a window: the longest private key
PIECE = 128 * 1024  # characters that are searched between two looks at the clock
LONGEST_MATCH = 1_000  # characters of a match of a project's own pattern
PLACES = 500  # where a rule may begin, between two looks at the clock
NOT_SEARCHED = "time limit"  # in place of a rule


# What stands around the name of a key that has a value, see `key_values`: a sign, an item `value`, an attribute of that
# name, an option, a pair of a list, an element.
_VALUE_SIGNS = (
    r"""WORDS[TAIL]*(?:\\*["'`])*\]?[ \t]*(?:[:=]|is[ \t]|\xef\xbc[\x9a\x9d]|\\+u[fF][fF]1)""",
    r"""WORDS[TAIL]*\\*["'`]?,?(?:[ \t\r\n]|\\+[nrt])*\\*["']?[Vv]alue""",
    r"""WORDS[TAIL]*\\*["'](?:[ \t\r\n\\nt]+[\w:-]+=\\*["'][^"'<>]*["'])*[ \t\r\n\\nt]+[Vv]alue=""",
    r"""-[TAIL]*WORDS[TAIL]*(?:\\*["'],|[ \t\r\n]|\\+[nrt])""",
    r"""(?:setx|config(?:ure)?[ \t]set|set[ \t]-\w+|login[ \t\n]+[^ \t\n]+)[ \t\n]+"""
    r"""[TAIL]*WORDS[TAIL]*(?:[ \t\r\n]|\\+[nrt])""",
    r"""WORDS[TAIL]*\\*["'],""",
    r"""WORDS[TAIL]*(?:[ \t\n][^<>\n]*)?>""",
    r"""WORDS[TAIL]*</""",
    # The head of a column. To be as strict as `find_column` here takes RE2 seven times as long.
    r"""(?:\A|[|;,\t\n"]|\\+[nrt])[ ]*(?:\\*["'`])?[TAIL. ]*WORDS[TAIL.]*(?:\\*["'`])?[ ]*(?:[|;,\t]|\\+t)"""
    r"""[ \w.\\"'`|;,\t-]*\r?(?:\n|\\+[nr])""",
    r"""(?:[|;,\t]|\\+t)[ ]*(?:\\*["'`])?[TAIL. ]*WORDS[TAIL.]*(?:\\*["'`])?[ ]*(?:\r?\n|\\+[nr])""",
)
_BYTES_OF_NAME, _LETTERS_OF_NAME = r"\w\x80-\xff-", r"\w\x{80}-\x{10ffff}-"


class _Gate:
    """Rules by keys and shapes behind one pass of RE2, which finds every place where one of them may begin.

    Those of a project know all letters, in UTF-8; for the others, each that is not ASCII is a byte of no meaning.
    """

    def __init__(self, rules: Sequence[MaskingRule], signs: Sequence[str] = (), *, is_utf8: bool = False) -> None:
        """`signs` are expressions of what has to be looked at besides."""
        self.keys = [(rule, re.compile(rule.words, re.IGNORECASE)) for rule in rules if isinstance(rule, KeyRule)]
        shapes = [rule for rule in rules if isinstance(rule, SecretShape)]
        self._shapes = [(rule, re.compile(rule.begins)) for rule in shapes]
        words = [f"(?i:{'|'.join(rule.words for rule, _ in self.keys)})"] if self.keys else []
        places = [*words, *(rule.begins for rule in shapes)]
        self._places = compile_bytes("|".join(places), is_utf8=is_utf8) if places else None
        tail = _LETTERS_OF_NAME if is_utf8 else _BYTES_OF_NAME
        values = [sign.replace("WORDS", word).replace("TAIL", tail) for sign in _VALUE_SIGNS for word in words]
        all_signs = [*signs, *values, *(rule.needs or rule.begins for rule in shapes)]
        self.signs = compile_bytes("|".join(all_signs), is_utf8=is_utf8) if all_signs else None
        self._rules_by_piece = lru_cache(1_000)(self._rules_for)

    def find(self, text: str, encoded: EncodedText, until: float, stop: float) -> Iterator[MaskSpan]:
        reached = 0
        for number, place in enumerate(self._places.finditer(encoded.data) if self._places else ()):
            position = encoded.position(place.start())
            if number % PLACES == PLACES - 1 and thread_time() >= until:
                yield MaskSpan(max(position, reached), len(text), NOT_SEARCHED)
                return
            if position >= stop:
                return
            if position < reached:  # inside of what is masked already
                continue
            key, shape = self._rules_by_piece(place.group())
            spans = find_values(text, position, encoded.position(place.end()), key) if key else ()
            for span in _find_shape(text, position, *shape) if shape else spans:
                if not _MASK.match(text, span.start, span.end):
                    yield span
                    reached = span.end
            for span in find_column(text, position, encoded.position(place.end()), key) if key else ():
                if not _MASK.match(text, span.start, span.end):
                    yield span  # what is beside the column is searched too

    def _rules_for(self, piece: bytes) -> tuple[KeyRule | None, tuple[SecretShape, re.Pattern[str]] | None]:
        text = piece.decode()
        key = next((rule for rule, words in self.keys if words.fullmatch(text)), None)
        shapes = ((rule, re.compile(rule.pattern)) for rule, pieces in self._shapes if pieces.fullmatch(text))
        return key, next(shapes, None)


class RuleSet:
    """The rules that apply. Those of a project have a gate of their own, so that they hide no place from the others."""

    def __init__(self, rules: Sequence[MaskingRule] = RULES, own: Sequence[MaskingRule] = ()) -> None:
        self._patterns = [
            (rule.name, compile_pattern(with_all_letters(rule.pattern), is_regex=True))
            for rule in own
            if isinstance(rule, PatternRule)
        ]
        keys = [rule for rule in own if isinstance(rule, KeyRule)]
        self._has_letters = bool(self._patterns) or not all(rule.words.isascii() for rule in keys)
        self._built_in = _Gate(rules, (NOISE_SIGNS, ESCAPE_SIGN) if self._has_letters else (NOISE_SIGNS,))
        self._own = _Gate(keys, is_utf8=True)
        self._signs = [gate.signs for gate in (self._built_in, self._own) if gate.signs is not None]

    def may_mask(self, text: str, *, is_bytes: bool = False) -> bool:
        """False for most texts: it has no name of a key with a value, and no shape. There is no time limit."""
        if self._patterns:
            return True
        data = text.encode("latin-1" if is_bytes else "utf-8", "replace")
        return any(signs.search(data) is not None for signs in self._signs)

    def find(
        self, text: str, until: float = math.inf, *, is_bytes: bool = False, stop: float = math.inf
    ) -> list[MaskSpan]:
        """The spans in order; those that overlap are one, under the rule that begins first.

        Of those that begin at `stop` or behind it, some may be left out.
        """
        spans: list[MaskSpan] = []
        for start in range(0, len(text), PIECE):
            if start >= stop:
                break
            if until < math.inf and thread_time() >= until:
                spans.append(MaskSpan(start, len(text), NOT_SEARCHED))
                break
            end, begin = start + PIECE, max(0, start - CONTEXT)
            part = text if len(text) <= PIECE else text[begin : end + CONTEXT]
            for span in self._find(part, until, is_bytes=is_bytes, stop=stop - begin):
                first = begin + span.start
                if span.rule == NOT_SEARCHED:
                    spans.append(MaskSpan(max(first, start), begin + span.end, NOT_SEARCHED))
                elif start <= first < end:
                    spans.append(MaskSpan(first, begin + span.end, span.rule))
        return _merge(spans) if len(spans) > 1 else spans

    def secret_name(self, name: str) -> str:
        """The rule that masks the whole value under the key `name`; empty when none does."""
        for gate in (self._built_in, self._own):
            for rule, words in gate.keys:
                for match in words.finditer(name):
                    if ends_name(name[match.end() - 1 : match.end()], name[match.end() :]):
                        return rule.name
        return ""

    def _find(self, text: str, until: float, *, is_bytes: bool, stop: float) -> Iterator[MaskSpan]:
        has_letters, clean = self._has_letters, None
        if has_noise(text, has_letters=has_letters, is_bytes=is_bytes):
            clean = CleanText(text, has_letters=has_letters, is_bytes=is_bytes)
            text, stop = clean.text, math.inf
        encoded = EncodedText(text.encode("ascii", "replace"), is_same=True)
        searches = [self._built_in.find(text, encoded, until, stop)]
        if self._own.keys or self._patterns:
            if not text.isascii():
                encoded = EncodedText(text.encode("latin-1" if is_bytes else "utf-8", "replace"), is_same=is_bytes)
            searches.append(self._own.find(text, encoded, until, stop))
            searches += [_find_pattern(name, pattern, encoded, until) for name, pattern in self._patterns]
        for span in chain.from_iterable(searches):
            yield clean.original(span) if clean else span


_PARTS = re.compile(r"\\Q.*?\\E|\\.|\[:\^?\w+:\]|\[\^?\]?|\]", re.DOTALL)


def with_all_letters(pattern: str) -> str:
    """The expression in which \\w stands for every character beyond ASCII too, inside and outside of brackets."""
    is_inside = False

    def replace(match: re.Match[str]) -> str:
        nonlocal is_inside
        part = match[0]
        if part == r"\w":
            letters = r"\w\x{80}-\x{10ffff}"
            return letters if is_inside else f"[{letters}]"
        if part[0] in "[]" and not part.startswith("[:"):
            is_inside = not part.endswith("]") if is_inside else part[0] == "["
        return part

    return _PARTS.sub(replace, pattern)


def _find_pattern(name: str, pattern: Pattern, encoded: EncodedText, until: float) -> Iterator[MaskSpan]:
    """The matches in stretches of lines, so that the clock is looked at; behind the time limit, one span to the end."""
    data, start = encoded.data, 0
    while start < len(data):
        end = start + pattern.stretch
        following = end
        if end < len(data):
            following = data.rfind(b"\n", start, end) + 1
            if following:
                end = following
            else:  # a long line: what begins near the end of the stretch is found in the next one
                following = end - LONGEST_MATCH
        for number, (first, last) in enumerate(pattern.spans(data, start, min(end, len(data)))):
            if first < last and (first < following or end >= len(data)):
                yield MaskSpan(encoded.position(first), encoded.position(last), name)
            if number % PLACES == PLACES - 1 and thread_time() >= until:
                following = last
                break
        start = following
        if start < len(data) and thread_time() >= until:
            yield MaskSpan(encoded.position(start), encoded.position(len(data)), NOT_SEARCHED)
            return


def _merge(spans: Iterable[MaskSpan]) -> list[MaskSpan]:
    merged: list[MaskSpan] = []
    for span in sorted(spans):
        last = merged[-1] if merged else None
        if last and last.rule == span.rule == NOT_SEARCHED and span.start <= last.end:
            merged[-1] = last._replace(end=max(span.end, last.end))
        elif last is None or span.start >= last.end:
            merged.append(span)
        elif NOT_SEARCHED in (last.rule, span.rule) and span.end > last.end:
            merged.append(span._replace(start=last.end))
        else:
            merged[-1] = last._replace(end=max(span.end, last.end))
    return merged


# What an earlier masking of the same text drew: masked again it would have another digest.
_MASK = re.compile(r"\s*(?:\*[0-9a-f]{6}|\*\*)\**\s*[*\s]*\Z")


# A letter before the place; not that of an escaped line end or tab (\\n) of a JSON string.
_INSIDE_WORD = re.compile(r"(?:\A|[^\\])\w\Z|\\[^nrtbf\W]\Z")
_ESCAPED_LETTER = re.compile(r"\\u[0-9a-fA-F]{4}\Z")  # of a sign beyond ASCII: an arrow, a quote


def _is_inside_word(text: str, position: int) -> bool:
    if _INSIDE_WORD.search(text, max(0, position - 2), position) is None:
        return False
    return _ESCAPED_LETTER.search(text, max(0, position - 6), position) is None


def _find_shape(text: str, position: int, rule: SecretShape, pattern: re.Pattern[str]) -> tuple[MaskSpan, ...]:
    if not rule.inside and text[position].isalnum() and _is_inside_word(text, position):
        return ()
    match = pattern.match(text, position)
    start, end = rule.span(match) if match else (0, 0)
    return (MaskSpan(start, end, rule.name),) if start < end else ()
