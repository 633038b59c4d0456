"""Finds the value behind the name of a key: in JSON and YAML, in settings, options, headers, elements and sentences.

    find_values(text, start, end, rule)    the spans of the values whose key has its word at [start, end)
    find_column(text, start, end, rule)    the spans of the cells below such a name, where it is the head of a column
    ends_name(last, tail)                  whether a name that goes on with `tail` is still one of a secret

A value need not look like a secret where the name and its sign are certain; elsewhere it has to have digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from dashboard.text.clean_text import MaskSpan
from dashboard.text.masking_rules import KeyRule

LONGEST_VALUE = 4_000  # characters of one value; behind them nothing is masked unless another rule applies
# White space, also escaped, and the number of a line in a listing.
_NUMBER = r"\d{1,6}(?:\u2192|\xe2\x86\x92|\\{1,31}u2192|\\{1,31}t|\t)"
_GAP = rf"(?:[ \t\r\n]|\\{{1,31}}[nrt]|{_NUMBER})"
_SEPARATOR = re.compile(
    r"(?P<tail>(?:[^\W\xef]|[\x80-\xee\xf0-\xff-]){0,60})"  # not the first byte of a wide sign
    r"(?:(?P<close>(?:\\{0,31}[\"'`]){0,2}\]?)[ \t]{0,40}"
    r"(?P<sign>:=|=>|=|:|\uff1d|\uff1a|\xef\xbc[\x9a\x9d]|\\{1,31}u[fF][fF]1[aAdD]|(?<=[ \t])is(?=[ \t]))"
    rf"(?P<space>[ \t]{{0,40}})(?:(?P<list>\[){_GAP}{{0,40}}(?=\\{{0,31}}[\"']))?"
    rf"|(?P<item>\\{{0,31}}[\"'`]?,?{_GAP}{{0,40}}\\{{0,31}}[\"']?[Vv]alue\\{{0,31}}[\"']?[ \t]{{0,4}}:[ \t]{{0,8}}"
    rf"|\\{{0,31}}[\"'](?:{_GAP}{{1,20}}[\w:-]{{1,40}}=\\{{0,31}}[\"'][^\"'<>\\]{{0,200}}\\{{0,31}}[\"']){{0,8}}{_GAP}{{1,20}}[Vv]alue="
    rf"|[<]/key>{_GAP}{{0,40}}[<]string>)"
    rf"|(?P<element>(?:[ \t\n][^<>\n]{{0,200}})?>)"
    rf"|(?P<pair>\\{{0,31}}[\"'],{_GAP}{{0,20}})|(?P<option>{_GAP}{{1,20}}))"
)
_QUOTED = re.compile(r"(?:Secret(?:Str|Bytes)\()?(?:[a-zA-Z]{0,2}|\$)(?P<open>(?:\\(?:\\\\){0,15})?\"|\\{0,31}['`])")
# Up to the quote that closes, or to a double quote that ends the JSON string around a value that was cut.
_END_OF_STRING = r'"(?=\s*(?:[,}\]:]|\Z))'
_INSIDE = {
    '"': re.compile(rf'(?:[^"\\\n]|\\.|""(?=\w)){{0,{LONGEST_VALUE}}}'),
    "'": re.compile(rf"(?!{_END_OF_STRING})(?:(?!{_END_OF_STRING})[^'\\\n]|\\.|''(?=\w)){{0,{LONGEST_VALUE}}}"),
    "`": re.compile(rf"(?!{_END_OF_STRING})(?:(?!{_END_OF_STRING})[^`\n]){{0,{LONGEST_VALUE}}}"),
}
_AFTER_STRING = re.compile(r"\s*(?:[,}\]]|\Z)")
_QUOTE = re.compile(r"(?P<escapes>\\*)[\"'`]")
_BARE = re.compile(rf"[^ \t\n\r\f\v\"'`<>,;&|(){{}}\[\]\\]{{3,{LONGEST_VALUE}}}")
_BARE_OF_TWO = re.compile(_BARE.pattern.replace("{3,", "{2,"))
_LINE = re.compile(rf"[^\r\n\"'`\\<>]{{3,{LONGEST_VALUE}}}")
_SCHEME = re.compile(
    r"(?:bearer|basic|token|digest|negotiate|ntlm|api-?key|oauth|hawk|bot|ssws|geniekey|splunk|sso-key|jwt|"
    r"aws4-hmac-sha256)[ \t]+",
    re.IGNORECASE,
)
# A value of several lines: between three quotes, a block of YAML, the text of a shell up to a word.
_BLOCK = re.compile(
    r"(?P<quotes>\"{3}|'{3}|(?:\\{1,31}\"){3})"
    r"|[|>][-+0-9]{0,2}[ \t]{0,20}(?P<end>\r?\n|(?:\\{1,31}r)?\\{1,31}n)"
    rf"(?P<number>[ \t]{{0,9}}{_NUMBER})?(?P<indent>[ \t]{{1,60}})"
    r"|<<[-~]?[ \t]?[\"'\\]{0,3}(?P<word>[A-Za-z_]\w{1,40})[\"'\\]{0,3}(?:\r?\n|(?:\\{1,31}r)?\\{1,31}n)"
)
_STRING_END = re.compile(r'(?<!\\)(?:\\\\)*"')  # of JSON, in which a quote inside has an odd number of escapes
# Behind an item of a list the next one, and behind an old value the new one.
_NEXT_ITEM = re.compile(rf"(?P<close>\\{{0,31}}[\"']),{_GAP}{{0,40}}(?P<open>\\{{0,31}}[\"'])")
_NEW_VALUE = re.compile(r"(?P<close>\\{0,31}[\"'])[ \t]{0,20}->[ \t]{0,20}(?P<open>\\{0,31}[\"'])")
_OPTION_BEFORE = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
    r"(?:-{1,2}|(?:setx|config(?:ure)?[ \t]set|set[ \t]-\w{1,4}|login[ \t\n]{1,20}[^ \t\n]{1,60})[ \t\n]{1,20})"
    r"[\w\x80-\xff-]{0,40}\Z"
)
# The name is the whole of a string: an option in a list, or the first of two.
_PAIR_BEFORE = re.compile(
    rf"(?:[(\[]|(?P<comma>,)){_GAP}{{0,20}}(?P<quote>\\{{0,31}}[\"'])(?P<dash>-{{0,2}})[\w\x80-\xff-]{{0,40}}\Z"
)
_IS_NAME = re.compile(r"\\{0,31}[\"']\s{0,4}:")
LONG_TOKEN = 50  # characters; names of a program with points are shorter
_BEFORE = 170  # characters before a name that are looked at
# Words that are secret only as a name of their own: "auth" and "pass", DB_PASS.
_SHORT_WORDS = ("pass", "auth", "pw")
_SHORT_NAME_BEFORE = re.compile(r"[_\"'-]\Z")
_NAME_ONLY = re.compile(r"[^\W\d](?:[^\W\d]|[:.-])*\Z")
_DIGIT = re.compile(r"\d")
_END_OF_LINE = re.compile(r"[ \t]*(?:[\r\n]|\\{1,31}[rn]|\Z)")
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


class _Key(NamedTuple):
    """A name and its separator. `needs_digit` where a name and a word often stand so without a secret."""

    match: re.Match[str]
    rule: KeyRule
    word: str
    needs_digit: bool


def find_values(text: str, position: int, end: int, rule: KeyRule) -> Iterator[MaskSpan]:
    """The value of a name: several in a list, and two where a new one replaces an old one."""
    key = _find_key(text, position, end, rule)
    start = key.match.end() if key else -1
    while key and start >= 0 and (span := _value_span(text, start, key)):
        yield MaskSpan(*span, rule.name)
        following = (_NEXT_ITEM if key.match["list"] else _NEW_VALUE).match(text, span[1])
        quoted = _QUOTED.match(text, start)
        is_alike = following and quoted and following["open"] == following["close"] == quoted["open"]
        start = following.start("open") if following and is_alike else -1


LONGEST_HEAD = 400  # characters of the first line of a table, on each side of the name
MOST_ROWS, MOST_EMPTY = 1_000, 5  # of a table; rows one after the other without a secret
_LINE_END = re.compile(r"\r?\n|(?:\\{1,7}r)?\\{1,7}n")
_BEGIN_IN_STRING = re.compile(rf'{_LINE_END.pattern}|(?<!\\)(?:\\\\)*"')
_BETWEEN_CELLS = re.compile(r"[|;,\t]|\\{1,7}t")
_BEHIND_HEAD = re.compile(
    r"(?P<tail>(?:[A-Z0-9_.-][A-Za-z0-9_.-]{0,19})?)(?:\\{0,7}[\"'`])? *(?=[|;,\t\r\n]|\\{1,7}[nrt])"
)
_HEAD_CELL = re.compile(r" *(?:\\{0,7}[\"'`])?(?:[A-Za-z_][A-Za-z0-9_ .-]{0,40})?(?:\\{0,7}[\"'`])? *")
_RULE_BELOW = re.compile(r"[\s|+:=-]+")
_SECRET_CELL = re.compile(r"\s*(?:\\{0,7}[\"'`])?(?P<secret>[^\s\"'`\\]{6,200})(?:\\{0,7}[\"'`]|\s|\Z)")


def find_column(text: str, position: int, end: int, rule: KeyRule) -> Iterator[MaskSpan]:
    """In CSV, and in tables of tabs or bars. A cell needs digits and letters: other lists begin with names, too."""
    behind = _BEHIND_HEAD.match(text, end)
    if behind is None or not ends_name(text[end - 1], behind["tail"]):
        return
    stop = _LINE_END.search(text, end, end + LONGEST_HEAD)
    if stop is None:
        return
    is_string = stop[0][0] == "\\"  # of JSON, in which the first line begins behind its quote
    line_begin = _BEGIN_IN_STRING if is_string else _LINE_END
    begins = [match.end() for match in line_begin.finditer(text, max(0, position - LONGEST_HEAD), position)]
    start = begins[-1] if begins else max(0, position - LONGEST_HEAD)
    separator = _BETWEEN_CELLS.search(text, start, stop.start())
    head = text[start : stop.start()].split(separator[0]) if separator else []
    if separator is None or sum(map(bool, head)) < 2 or not all(map(_HEAD_CELL.fullmatch, head)):
        return
    column = text.count(separator[0], start, position)
    limit = len(text)
    if is_string and (quote := _STRING_END.search(text, stop.end())):
        limit = quote.start()
    yield from _find_cells(text, stop.end(), limit, _Column(column, len(head), separator[0], rule))


class _Column(NamedTuple):
    number: int  # from 0
    width: int  # of the table, in columns
    separator: str
    rule: KeyRule


def _find_cells(text: str, start: int, limit: int, column: _Column) -> Iterator[MaskSpan]:
    empty = 0
    for _ in range(MOST_ROWS):
        stop = _LINE_END.search(text, start, min(limit, start + LONGEST_VALUE))
        line = text[start : stop.start() if stop else min(limit, start + LONGEST_VALUE)]
        cells = line.split(column.separator)
        cell = _SECRET_CELL.match(cells[column.number]) if len(cells) == column.width else None
        if cell and _DIGIT.search(cell["secret"]) and not cell["secret"].isdigit():
            before = start + sum(len(cell) + len(column.separator) for cell in cells[: column.number])
            empty = -1
            yield MaskSpan(before + cell.start("secret"), before + cell.end("secret"), column.rule.name)
        empty += 1
        if stop is None or empty > MOST_EMPTY or not (len(cells) == column.width or _RULE_BELOW.fullmatch(line)):
            return
        start = stop.end()


def _find_key(text: str, position: int, end: int, rule: KeyRule) -> _Key | None:
    match = _SEPARATOR.match(text, end)
    if match is None or not ends_name(text[end - 1], match["tail"]):
        return None
    word, before = text[position:end].lower(), max(0, position - _BEFORE)
    if word in _SHORT_WORDS and not _SHORT_NAME_BEFORE.search(text, max(0, position - 1), position):
        return None
    needs_digit = match["sign"] == "is" or bool(match["list"] and not rule.to_line_end)
    if match["option"] and not _OPTION_BEFORE.search(text, before, position):
        return None
    if match["pair"]:
        pair = _PAIR_BEFORE.search(text, before, position)
        if pair is None or not match["pair"].startswith(pair["quote"] + ",") or not (pair["dash"] or not pair["comma"]):
            return None
        needs_digit = not pair["dash"]
    if match["element"] and "<" not in text[max(0, position - 40) : position]:
        return None
    return _Key(match, rule, word, needs_digit)


def ends_name(last: str, tail: str) -> bool:
    """False where the word goes on (tokens, secretary), or the name is of something about the secret (token_count)."""
    if tail[:1].isalpha() and tail[0].isupper() == last.isupper():
        return False
    words = tail if tail.isupper() else re.sub(r"([A-Z]+)", r"_\1", tail)
    return _ABOUT.match(words.lower()) is None


def _value_span(text: str, start: int, key: _Key) -> tuple[int, int] | None:
    match, rule = key.match, key.rule
    block = _find_block(text, start, match["close"])
    if block:
        return block
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
        if match["pair"] and _IS_NAME.match(text, end):
            return None
        return (start, end) if _is_quoted_secret(text[start:end], key) else None
    scheme = _SCHEME.match(text, start)
    start = scheme.end() if scheme else start
    if rule.to_line_end and match["sign"] == ":":
        line = _LINE.match(text, start)
        return line.span() if line and "=" in line[0] else None
    bare = (_BARE_OF_TWO if rule.masks_any else _BARE).match(text, start) if not match["pair"] else None
    return bare.span() if bare and _is_bare_secret(text, bare, key) else None


def _find_block(text: str, start: int, close: str | None) -> tuple[int, int] | None:
    """A value of several lines, or one between doubled quotes, as in a field of CSV. It stays in its JSON string."""
    doubled = close if close and close.endswith('"') and close == close[: len(close) // 2] * 2 else ""
    is_doubled = bool(doubled) and text.startswith(doubled, start)
    opening = None if is_doubled else _BLOCK.match(text, start)
    if opening is None and not is_doubled:
        return None
    start = opening.end() if opening else start + len(doubled)
    is_escaped, limit = "\\" in (opening[0] if opening else doubled), min(len(text), start + LONGEST_VALUE)
    quote = _STRING_END.search(text, start, limit) if is_escaped else None
    limit = quote.start() if quote else limit
    if opening is None:
        end = text.find(doubled, start, limit)
        return (start, end) if end > start else None
    sign = opening["quotes"] or opening["word"]
    if sign:
        end = text.find(sign, start, limit)
        return start, end if end >= 0 else limit
    line_end, indent = re.escape(opening["end"]), re.escape(opening["indent"])
    # Atomic groups: before 3.11.5, Python matches possessive repetitions of groups wrongly, or fails on them.
    inside = r'(?>(?:\\+(?![\\n]).|[^"\\\n])*)' if is_escaped else r"[^\n]*+"
    line_end = rf"{line_end}[ \t]{{0,9}}{_NUMBER}" if opening["number"] else line_end
    lines = rf"{inside}(?>(?:(?>(?:{line_end}[ \t]*+(?={line_end}))*){line_end}{indent}{inside})*)"
    block = re.compile(lines).match(text, start, limit)
    return block.span() if block and block[0].strip() else None


def _closing_quote(text: str, start: int, opening: str) -> int:
    """The end of a value between escaped quotes; a quote with fewer escapes ends the string around it."""
    limit = min(len(text), start + LONGEST_VALUE)
    for quote in _QUOTE.finditer(text, start, limit):
        escapes = len(quote["escapes"])
        ends_string = quote[0][-1] == '"' and (escapes % 2 == 0 or escapes < len(opening) - 1)
        if quote[0] == opening or ends_string:
            return quote.start()
    return limit


def _is_quoted_secret(value: str, key: _Key) -> bool:
    if key.rule.masks_any:
        return bool(value)
    is_text = len(value.strip()) > 0 and not _REFERENCE.match(value) and not _WORDS.match(value.lower())
    is_sentence = " " in value and (key.needs_digit or (key.match["option"] and not _DIGIT.search(value)))
    return is_text and not is_sentence and _has_digits(value, key)


def _has_digits(value: str, key: _Key) -> bool:
    """Digits and letters, where the place alone is no sign of a secret."""
    return not key.needs_digit or (len(value) >= 6 and _DIGIT.search(value) is not None and not value.isdigit())


def _is_bare_secret(text: str, bare: re.Match[str], key: _Key) -> bool:
    """Without quotes most values are names, types or calls of a program: a secret has a digit, or follows `KEY=`."""
    value, following, match = bare[0], text[bare.end() : bare.end() + 1], key.match
    if key.rule.masks_any:
        return not _WORDS.match(value.lower())
    if any(pattern.match(value) for pattern in (_REFERENCE, _PATH)) or _WORDS.match(value.lower()):
        return False
    if _DOTTED.match(value) and not (len(value) >= LONG_TOKEN and _DIGIT.search(value)):
        return False
    if value.replace(".", "").isdigit():
        return key.rule.masks_numbers and not key.needs_digit and len(value) > 3
    if match["close"] or (following and following in "([{") or not _has_digits(value, key):
        return False
    if not _NAME_ONLY.match(value):
        return any(character.isalnum() for character in value)
    is_assignment = (match["sign"] == "=" and not match["space"]) or match["option"] or match["item"]
    is_value = is_assignment and following not in (",", ")")
    return bool(is_value or _is_phrase(text, bare, key)) and key.word not in value.lower()


def _is_phrase(text: str, bare: re.Match[str], key: _Key) -> bool:
    """A password of small letters alone, which ends its line as in a file of settings."""
    is_word = key.rule.masks_numbers and len(bare[0]) >= 8 and bare[0].isalpha() and bare[0].islower()
    return is_word and _END_OF_LINE.match(text, bare.end()) is not None
