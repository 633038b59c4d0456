"""The words of a text are the same, whether we split it or a tokenizer that knows ASCII alone."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from envelopes.text.search_words import FEW_CHARACTERS, separate_words, split_words

TOKEN = re.compile("[a-z0-9_\x80-\U0010ffff]+")  # as SQLite's tokenizer `ascii` has them
TEXTS = st.text("aZ9_ -\n–é漢字カ゛ßİ²’\u0301\u0345\u200d\U0001f600\ud800", max_size=60) | st.text(max_size=60)


@given(TEXTS)
def test_separated_words_are_those_that_are_split(text: str) -> None:
    assert TOKEN.findall(separate_words(text)) == split_words(text)


def test_a_text_with_many_characters_beyond_ascii_has_the_same_words() -> None:
    text = "".join(map(chr, range(0x3041, 0x3100))) + " é–" + "".join(map(chr, range(0x2010, 0x2060)))
    assert len({*text}) > FEW_CHARACTERS
    assert TOKEN.findall(separate_words(text)) == split_words(text)
