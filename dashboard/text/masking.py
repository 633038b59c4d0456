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
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from time import thread_time
from typing import Any, NamedTuple

import re2

from dashboard.text.masking_rules import RULES, KeyRule, MaskingRule, PatternRule
from envelopes.text.credentials import SecretShape
from envelopes.text.patterns import Pattern, compile_pattern

LONGEST_VALUE = 4_000  # characters of one value; behind them nothing is masked unless another rule applies
CONTEXT = 8_500  # characters on each side of a window: the longest private key
PIECE = 128 * 1024  # characters that are searched between two looks at the clock
LONGEST_MATCH = 1_000  # characters of a match of a project's own pattern
PLACES = 500  # where a rule may begin, between two looks at the clock
NOT_SEARCHED = "time limit"  # in place of a rule


class MaskSpan(NamedTuple):
    """Characters [start, end) of a text, and the name of the rule that masks them."""

    start: int
    end: int
    rule: str


# What runs through a text without being of it: colour codes (also written as escapes), escaped letters and slashes,
# NUL (of UTF-16), and letters without a shape.
COLOUR_CODE = r"\x1b\[[0-9;:?]{0,40}[A-Za-z]"
_NOISE = re.compile(
    rf"{COLOUR_CODE}|\u241b\[[0-9;:?]{{0,40}}[A-Za-z]|\\{{1,8}}(?:u001[bB]|x1[bB]|033|e)\[[0-9;:?]{{0,40}}[A-Za-z]"
    r"|\\{1,8}u00(?P<code>[2-7][0-9a-fA-F])|\\{1,8}(?P<slash>/)|[\0\u00ad\u200b-\u200f\u2060\ufeff]"
)
# Signs of it in UTF-8; each piece of noise begins with one.
_NOISE_SIGNS = r"\x1b|\x00|\\(?:u00|x1|033|e\[|/)|\xc2\xad|\xe2(?:\x80[\x8b-\x8f]|\x81\xa0|\x90\x9b)|\xef\xbb\xbf"


def _compile_bytes(pattern: str) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.longest_match = True  # of two keys that begin alike the longer one
    return re2.compile(pattern.encode(), options)


_noise_gate = _compile_bytes(_NOISE_SIGNS)


def has_noise(text: str) -> bool:
    return _noise_gate.search(text.encode("utf-8", "surrogatepass")) is not None


class _Unit(NamedTuple):
    """Characters of the clean text from `clean` on are those of the original from `start` on; an escape is one."""

    clean: int
    start: int
    escape_end: int = 0


class CleanText:
    """The text without noise, and the way back to the positions of the original."""

    def __init__(self, text: str) -> None:
        self._units: list[_Unit] = []
        pieces: list[str] = []
        size = offset = 0
        for match in _NOISE.finditer(text):
            if match.start() > offset:
                self._units.append(_Unit(size, offset))
                pieces.append(text[offset : match.start()])
                size += match.start() - offset
            character = chr(int(match["code"], 16)) if match["code"] else match["slash"] or ""
            if character:
                self._units.append(_Unit(size, match.start(), match.end()))
                pieces.append(character)
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


# What follows the name of a key that has a value, see `_SEPARATOR`: a sign, an item `value`, an option's space, a tag.
_VALUE_SIGNS = (
    r"""WORDS[\w-]*(?:\\*["'`]\]?)?[ \t]*[:=]""",
    r"""WORDS[\w-]*\\*["'`],?[ \t\n]*\\*["']value""",
    r"""-[\w-]*WORDS[\w-]*(?:\\*["'],)?[ \t\n]""",
    r"WORDS[\w-]*>",
)


class _Gate:
    """Rules by keys and shapes behind one pass of RE2, which finds every place where one of them may begin."""

    def __init__(self, rules: Sequence[MaskingRule]) -> None:
        self.keys = [(rule, re.compile(rule.words)) for rule in rules if isinstance(rule, KeyRule)]
        shapes = [rule for rule in rules if isinstance(rule, SecretShape)]
        self._shapes = [(rule, re.compile(rule.begins), re.compile(rule.pattern)) for rule in shapes]
        words = [f"(?i:{'|'.join(rule.words for rule, _ in self.keys)})"] if self.keys else []
        places = [*words, *(rule.begins for rule in shapes)]
        self._places = _compile_bytes("|".join(places)) if places else None
        self.signs = [*(sign.replace("WORDS", word) for sign in _VALUE_SIGNS for word in words)]
        self.signs += [rule.needs or rule.begins for rule in shapes]
        self._rules_by_piece = lru_cache(1_000)(self._rules_for)

    def find(self, text: str, data: bytes, until: float) -> Iterator[MaskSpan]:
        """`data` has a byte for each character of the text."""
        reached = 0
        for number, place in enumerate(self._places.finditer(data) if self._places else ()):
            position = place.start()
            if number % PLACES == PLACES - 1 and thread_time() >= until:
                yield MaskSpan(max(position, reached), len(text), NOT_SEARCHED)
                return
            if position < reached:  # inside of what is masked already
                continue
            key, shape = self._rules_by_piece(place.group())
            span = _find_value(text, position, place.end(), key) if key else None
            span = _find_shape(text, position, *shape) if shape else span
            if span and not _MASK.match(text, span.start, span.end):
                yield span
                reached = span.end

    def _rules_for(self, piece: bytes) -> tuple[KeyRule | None, tuple[SecretShape, re.Pattern[str]] | None]:
        text = piece.decode("latin-1")
        key = next((rule for rule, words in self.keys if words.fullmatch(text.lower())), None)
        shapes = ((rule, pattern) for rule, pieces, pattern in self._shapes if pieces.fullmatch(text))
        return key, next(shapes, None)


class RuleSet:
    """The rules that apply. Those of a project have a gate of their own, so that they hide no place from the others."""

    def __init__(self, rules: Sequence[MaskingRule] = RULES, own: Sequence[MaskingRule] = ()) -> None:
        self._gates = [_Gate(group) for group in (rules, [rule for rule in own if not isinstance(rule, PatternRule)])]
        signs = [_NOISE_SIGNS, *(sign for gate in self._gates for sign in gate.signs)]
        self._signs = _compile_bytes("|".join(signs))
        self._patterns = [
            (rule.name, compile_pattern(rule.pattern, is_regex=True)) for rule in own if isinstance(rule, PatternRule)
        ]

    def may_mask(self, text: str) -> bool:
        """False for most texts: it has no name of a key with a value, and no shape. One pass, without a time limit."""
        return bool(self._patterns) or self._signs.search(text.encode("utf-8", "surrogatepass")) is not None

    def find(self, text: str, until: float = math.inf) -> list[MaskSpan]:
        """The spans in order; those that overlap are one, under the rule that begins first."""
        spans: list[MaskSpan] = []
        for start in range(0, len(text), PIECE):
            if until < math.inf and thread_time() >= until:
                spans.append(MaskSpan(start, len(text), NOT_SEARCHED))
                break
            end, begin = start + PIECE, max(0, start - CONTEXT)
            part = text if len(text) <= PIECE else text[begin : end + CONTEXT]
            for span in self._find(part, until):
                first = begin + span.start
                if span.rule == NOT_SEARCHED:
                    spans.append(MaskSpan(max(first, start), begin + span.end, NOT_SEARCHED))
                elif start <= first < end:
                    spans.append(MaskSpan(first, begin + span.end, span.rule))
        return _merge(spans) if len(spans) > 1 else spans

    def secret_name(self, name: str) -> str:
        """The rule that masks the whole value under the key `name`; empty when none does."""
        lower = name.lower()
        for gate in self._gates:
            for rule, words in gate.keys:
                for match in words.finditer(lower):
                    if _ends_name(name[match.end() - 1 : match.end()], name[match.end() :]):
                        return rule.name
        return ""

    def _find(self, text: str, until: float) -> Iterator[MaskSpan]:
        clean = CleanText(text) if has_noise(text) else None
        text = clean.text if clean else text
        data = text.encode("ascii", "replace")  # one byte a character, so that positions are the same
        for gate in self._gates:
            for span in gate.find(text, data, until):
                yield clean.original(span) if clean else span
        for name, pattern in self._patterns:
            for span in _find_pattern(name, pattern, data, until):
                yield clean.original(span) if clean else span


def _find_pattern(name: str, pattern: Pattern, data: bytes, until: float) -> Iterator[MaskSpan]:
    """The matches in stretches of lines, so that the clock is looked at; behind the time limit, one span to the end."""
    start = 0
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
                yield MaskSpan(first, last, name)
            if number % PLACES == PLACES - 1 and thread_time() >= until:
                following = last
                break
        start = following
        if start < len(data) and thread_time() >= until:
            yield MaskSpan(start, len(data), NOT_SEARCHED)
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


def _find_shape(text: str, position: int, rule: SecretShape, pattern: re.Pattern[str]) -> MaskSpan | None:
    if text[position].isalnum() and _INSIDE_WORD.search(text, max(0, position - 2), position):
        return None
    match = pattern.match(text, position)
    group = "secret" if "secret" in pattern.groupindex else 0
    if match is None or (rule.is_valid and not rule.is_valid(match[group])):
        return None
    return MaskSpan(match.start(group), match.end(group), rule.name)


_SEPARATOR = re.compile(
    r"(?P<tail>[A-Za-z0-9_-]{0,30})"
    r"(?:(?P<close>\\{0,7}[\"'`]\]?|)[ \t]{0,8}(?P<sign>:=|=>|=|:)(?P<space>[ \t]{0,8})"
    r"|(?P<item>\\{0,7}[\"'`],?[ \t\n]{0,40}\\{0,7}[\"']value\\{0,7}[\"'][ \t]{0,4}:[ \t]{0,8})"
    r"|(?P<option>(?:\\{0,7}[\"'],)?[ \t\n]{1,20})|(?P<element>>))"
)
_QUOTED = re.compile(r"(?:[a-zA-Z]{0,2})(?P<open>\\{0,7}[\"'`])")
# Up to the quote that closes, or to a double quote that ends the JSON string around a value that was cut.
_END_OF_STRING = r'"(?=\s*(?:[,}\]:]|\Z))'
_INSIDE = {
    '"': re.compile(rf'(?:[^"\\\n]|\\.){{0,{LONGEST_VALUE}}}'),
    "'": re.compile(rf"(?!{_END_OF_STRING})(?:(?!{_END_OF_STRING})[^'\\\n]|\\.){{0,{LONGEST_VALUE}}}"),
    "`": re.compile(rf"(?!{_END_OF_STRING})(?:(?!{_END_OF_STRING})[^`\n]){{0,{LONGEST_VALUE}}}"),
}
_AFTER_STRING = re.compile(r"\s*(?:[,}\]]|\Z)")
_QUOTE = re.compile(r"(?P<escapes>\\*)[\"'`]")
_BARE = re.compile(rf"[^\s\"'`<>,;&|(){{}}\[\]\\]{{3,{LONGEST_VALUE}}}")
_BARE_OF_TWO = re.compile(_BARE.pattern.replace("{3,", "{2,"))
_LINE = re.compile(rf"[^\r\n\"'`\\<>]{{3,{LONGEST_VALUE}}}")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|negotiate|apikey)[ \t]+", re.IGNORECASE)
_OPTION_BEFORE = re.compile(r"(?:(?<![\w-])|(?<=\\[nrtbf]))--?[A-Za-z0-9_-]{0,40}\Z")
# Words that are secret only as a name of their own: "auth" and "pass", DB_PASS.
_SHORT_WORDS = ("pass", "auth")
_SHORT_NAME_BEFORE = re.compile(r"[_\"'-]\Z")
_NAME_ONLY = re.compile(r"[A-Za-z_][A-Za-z_:.-]*\Z")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_PATH = re.compile(r"[~.]{0,2}(?:/[a-z0-9_.-]+)+/?\Z|.*://")
_REFERENCE = re.compile(r"\$|\{|<|%[({]|\*+\Z|\(|\[|\.\.\.|\u2026|#|process\.env|os\.environ")
# The last word of a name whose value is about a secret and is none.
_ABOUT = re.compile(
    r"(?:.*[^a-z])?(?:counts?|types?|names?|urls?|uri|path|file|limit|budget|usage|ids?|len|length|field|policy|expires|"
    r"expiry|ttl|size|index|class|kind|format|prefix|regex|pattern|header|env|var|required|enabled|label|placeholder|"
    r"hint|error|status|rotation|version|manager|providers?|store|help|at|in|time|age|mode|max|min|total|position|pos|"
    r"start|end|estimate|per|ratio|rate)\Z"
)
_WORDS = re.compile(
    r"(?:true|false|null|none|nil|undefined|str|string|int|integer|number|bool|boolean|bytes|any|object|optional|"
    r"required|const|let|var|new|await|async|return|self|this|function|lambda|default|redacted|masked|empty|yes|no|"
    r"on|off)\Z"
)


def _find_value(text: str, position: int, end: int, rule: KeyRule) -> MaskSpan | None:
    match = _SEPARATOR.match(text, end)
    if match is None or not _ends_name(text[end - 1], match["tail"]):
        return None
    word = text[position:end].lower()
    if word in _SHORT_WORDS and not _SHORT_NAME_BEFORE.search(text, max(0, position - 1), position):
        return None
    if match["option"] and not _OPTION_BEFORE.search(text, max(0, position - 42), position):
        return None
    if match["element"] and "<" not in text[max(0, position - 40) : position]:
        return None
    span = _value_span(text, match, rule, word)
    return MaskSpan(*span, rule.name) if span else None


def _ends_name(last: str, tail: str) -> bool:
    """False where the word goes on (tokens, secretary), or the name is of something about the secret (token_count)."""
    if tail[:1].isalpha() and tail[0].isupper() == last.isupper():
        return False
    words = tail if tail.isupper() else re.sub(r"([A-Z]+)", r"_\1", tail)
    return _ABOUT.match(words.lower()) is None


def _value_span(text: str, match: re.Match[str], rule: KeyRule, word: str) -> tuple[int, int] | None:
    start = match.end()
    quoted = _QUOTED.match(text, start)
    if quoted:
        start, opening = quoted.end(), quoted["open"]
        if opening == '"' and _AFTER_STRING.match(text, start):
            return None  # this quote ends the string that the key stands in
        if len(opening) == 1:
            inside = _INSIDE[opening].match(text, start)
            end = inside.end() if inside else start
        else:
            end = _closing_quote(text, start, opening)
        scheme = _SCHEME.match(text, start, end)
        start = scheme.end() if scheme else start
        return (start, end) if _is_quoted_secret(text[start:end], match, rule) else None
    scheme = _SCHEME.match(text, start)
    start = scheme.end() if scheme else start
    if rule.to_line_end and match["sign"] == ":":
        line = _LINE.match(text, start)
        return line.span() if line and "=" in line[0] else None
    bare = (_BARE_OF_TWO if rule.masks_any else _BARE).match(text, start)
    return bare.span() if bare and _is_bare_secret(text, bare, match, rule, word) else None


def _closing_quote(text: str, start: int, opening: str) -> int:
    """The end of a value between escaped quotes; a quote with fewer escapes ends the string around it."""
    limit = min(len(text), start + LONGEST_VALUE)
    for quote in _QUOTE.finditer(text, start, limit):
        escapes = len(quote["escapes"])
        if quote[0] == opening or (escapes < len(opening) - 1 and quote[0][-1] == '"'):
            return quote.start()
    return limit


def _is_quoted_secret(value: str, match: re.Match[str], rule: KeyRule) -> bool:
    if rule.masks_any:
        return bool(value)
    is_text = len(value.strip()) > 0 and not _REFERENCE.match(value) and not _WORDS.match(value.lower())
    return is_text and not (match["option"] and match["option"].isspace() and " " in value)


def _is_bare_secret(text: str, bare: re.Match[str], match: re.Match[str], rule: KeyRule, word: str) -> bool:
    """Without quotes most values are names, types or calls of a program: a secret has a digit, or follows `KEY=`."""
    value, following = bare[0], text[bare.end() : bare.end() + 1]
    if rule.masks_any:
        return not _WORDS.match(value.lower())
    if _REFERENCE.match(value) or _WORDS.match(value.lower()) or _DOTTED.match(value) or _PATH.match(value):
        return False
    if value.replace(".", "").isdigit():
        return rule.masks_numbers and len(value) > 3
    if match["close"] or (following and following in "([{"):
        return False
    if not _NAME_ONLY.match(value):
        return any(character.isalnum() for character in value)
    is_assignment = match["sign"] == "=" and not match["space"]
    return (is_assignment or bool(match["option"])) and following not in (",", ")") and word not in value.lower()
