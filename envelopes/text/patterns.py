"""Expressions and texts that somebody typed, compiled and matched within limits of time and memory.

    pattern = compile_pattern("ERR[A-Z]+", is_regex=True)     raises BadPattern
    pattern.spans(data, start, end)                           matches in UTF-8, as byte offsets

The engine is RE2: the time for a match grows with the length of the text and the size of the compiled expression,
never exponentially, and both are limited. It knows no lookaround, no references back and no possessive repetition,
`\\w`, `\\d` and `\\b` are ASCII (`\\pL` is any letter), and counts go to 1,000, nested ones multiplied. The library
`regex` was used before: `(a|a)+[bc]` took minutes there, and 50 characters of nested counts 3.6 GB to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

MEMORY_BYTES = 4 * 1024 * 1024  # of one compiled expression with its caches
LONGEST_STRETCH = 256 * 1024
SHORTEST_STRETCH = 4 * 1024
# Instructions of an expression times bytes that one match may pass: 0.3 s at 40 ns each, the slowest that was measured.
STEPS = 6_000_000
_LOOKS_AROUND = "it tests the text around a match ({part}), which cannot be searched for: look for the text itself"
_REFERS_BACK = "it refers back to a group ({part}), which cannot be searched for: write the text once more"
_REPEATS = "it repeats too often ({part}): counts go up to 1,000, nested ones multiplied; use smaller ones, or + and *"
_HUGE_COUNT = re.compile(r"\{\d*,?\d{9,}\}")  # RE2 takes it for plain text
_LARGE = "it is too large once its repetitions are written out: use smaller counts, or + and *"
_ADVICE = {
    "invalid perl operator: (?=": _LOOKS_AROUND,
    "invalid perl operator: (?!": _LOOKS_AROUND,
    "invalid perl operator: (?<": _LOOKS_AROUND,
    "invalid repetition size": _REPEATS,
    "invalid escape sequence: \\Z": "it has {part}: write \\z",
    "pattern too large": _LARGE,
    "bad repetition operator": "two repetitions follow each other ({part}): write one, or put the first into a group",
    "no argument for repetition operator": "there is nothing to repeat before {part}: to find the sign write \\{part}",
    "missing ]": "a [ has no ]: to find the bracket write \\[",
    "missing )": "a ( has no ): to find the bracket write \\(",
    "unexpected )": "a ) has no (: to find the bracket write \\)",
    "trailing \\": "it ends in \\: to find the sign write \\\\",
    **{f"invalid escape sequence: \\{digit}": _REFERS_BACK for digit in range(1, 10)},
    # These three are beginnings of others above.
    "invalid perl operator": "there is no group of the form {part}: plain groups are (?:…)",
    "invalid escape sequence": "there is no {part}: to find the sign itself write \\\\",
    "invalid character class range": "{part} is no range and no class of characters",
}


class BadPattern(ValueError):
    """The expression cannot be used; the message says why, and what to write instead."""


class Pattern(msgspec.Struct, frozen=True):
    """`stretch` is the number of bytes that one call of `spans` should be given, for it to end soon."""

    expression: Any
    stretch: int
    group: int

    def spans(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Matches in text[start:end], empty ones too. What lies around the range counts for ^, $ and \\b."""
        for match in self.expression.finditer(text, start, end):
            yield match.span(self.group)


def compile_pattern(text: str, *, is_regex: bool, ignores_case: bool = False, group: int = 0) -> Pattern:
    """A pattern whose matches lie within one line; they are the group `group` of the expression. Raises BadPattern."""
    import re2

    if is_regex and (count := _HUGE_COUNT.search(text)):
        raise BadPattern(_REPEATS.format(part=count[0]))
    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.never_nl = True
    options.never_capture = group == 0
    options.case_sensitive = not ignores_case
    options.log_errors = False
    try:
        expression = re2.compile(f"(?m){text if is_regex else re2.escape(text)}", options)
        re2.purge()  # it would keep 128 of them
    except re2.error as error:
        raise BadPattern(_explain(error.args[0].decode("utf-8", "replace"))) from None
    except (MemoryError, UnicodeEncodeError) as error:
        raise BadPattern(_LARGE if isinstance(error, MemoryError) else "half of a character is no text") from None
    stretch = min(LONGEST_STRETCH, max(SHORTEST_STRETCH, STEPS // max(1, expression.programsize)))
    return Pattern(expression, stretch, group)


def _explain(reason: str) -> str:
    part = reason.partition(": ")[2]
    advice = next((advice for beginning, advice in _ADVICE.items() if reason.startswith(beginning)), None)
    return advice.format(part=part) if advice else reason
