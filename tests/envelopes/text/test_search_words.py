"""The words of a text are the same, whether we split it or a tokenizer that knows ASCII alone."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.text.search_words import FEW_CHARACTERS, Phrase, parse_phrase, separate_words, split_words

TOKEN = re.compile("[a-z0-9_\x80-\U0010ffff]+")  # as SQLite's tokenizer `ascii` has them
TEXTS = st.text("aZ9_ -\n–é漢字カ゛ßİ²’\u0301\u0345\u200d\U0001f600\ud800", max_size=60) | st.text(max_size=60)


@given(TEXTS)
def test_separated_words_are_those_that_are_split(text: str) -> None:
    assert TOKEN.findall(separate_words(text)) == split_words(text)


def test_a_text_with_many_characters_beyond_ascii_has_the_same_words() -> None:
    text = "".join(map(chr, range(0x3041, 0x3100))) + " é–" + "".join(map(chr, range(0x2010, 0x2060)))
    assert len({*text}) > FEW_CHARACTERS
    assert TOKEN.findall(separate_words(text)) == split_words(text)


@given(st.text("ab\n", max_size=40), st.lists(st.text("ab\n", min_size=1, max_size=3), min_size=1, max_size=4))
def test_parts_of_a_line_are_found_where_a_lazy_expression_finds_them(text: str, parts: list[str]) -> None:
    expression = re.compile("[^\n]*?".join(map(re.escape, parts)))
    spans = [match.span() for match in expression.finditer(text)]
    assert list(Phrase((), parts=tuple(parts)).find(text)) == spans


@pytest.mark.parametrize("text", ["b\n" + "a" * 60_000, "ß" + "ab" * 30_000], ids=["no occurrence", "many"])
def test_many_parts_are_looked_for_in_linear_time(text: str) -> None:
    """An expression takes a minute for 5,000 characters of the first text, in which no other thread runs."""
    phrase = parse_phrase("*a*a*a*a*b", is_pattern=True)
    assert phrase is not None
    started = time.process_time()
    for start, end in phrase.find(text):
        assert text[start:end] == "abababab"
    assert time.process_time() - started < 5
