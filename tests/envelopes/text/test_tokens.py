"""A count names its encoding and certainty."""

from __future__ import annotations

import sys

import pytest

from envelopes.text import tokens
from envelopes.text.tokens import TokenCount, count_all, count_tokens


@pytest.fixture(autouse=True)
def nothing_loaded() -> None:
    tokens._load_vocabulary.cache_clear()


@pytest.mark.parametrize(("model", "certainty"), [("gpt-5-mini", "exact"), ("claude-x", "estimate"), ("", "estimate")])
def test_the_vocabulary_is_exact_only_for_the_models_that_have_it(model: str, certainty: str) -> None:
    count = count_tokens("hello world", model=model)
    assert (count.count, count.encoding, count.certainty) == (2, "o200k_base", certainty)


def test_without_the_vocabulary_four_characters_are_a_token_and_that_is_an_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "toktok", None)
    assert [count.count for count in count_all(["", "abcd", "abcde"])] == [0, 1, 2]
    assert count_tokens("abcd", model="gpt-5") == TokenCount(1, "characters/4", "estimate")
    tokens._load_vocabulary.cache_clear()
