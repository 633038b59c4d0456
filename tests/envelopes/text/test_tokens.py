"""A count names its encoding and certainty, and is the same whichever process makes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envelopes.text import tokens
from envelopes.text.tokens import (
    WORTH_A_PROCESS,
    TokenCount,
    background_counter,
    count_all,
    count_now,
    count_tokens,
)

TEXTS = ["hello world", "", "two\nlines", "naïve 日本", "lone \ud800 surrogate", "x" * 100_000]


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


def test_no_process_is_started_once_the_vocabulary_is_loaded(tmp_path: Path) -> None:
    count_tokens("a")
    with background_counter(WORTH_A_PROCESS, program=program(tmp_path / "seven.py", "[7]")) as count:
        assert count is count_now


@pytest.mark.parametrize("model", ["gpt-5", "claude-x"])
def test_a_process_counts_what_is_counted_here(model: str) -> None:
    with background_counter(WORTH_A_PROCESS) as count:
        first, second = count(TEXTS, model), count(TEXTS[:1], model)
        beside = (first(), second())
    assert beside == (count_all(TEXTS, model=model), count_all(TEXTS[:1], model=model))


def test_the_counts_are_those_that_the_process_answers(tmp_path: Path) -> None:
    with background_counter(WORTH_A_PROCESS, program=program(tmp_path / "seven.py", "[7, 8]")) as count:
        assert [answer.count for answer in count(["a", "b"], "")()] == [7, 8]


@pytest.mark.parametrize("answer", ["", "[1]", "nonsense"])
def test_an_answer_that_cannot_be_right_is_counted_here(answer: str, tmp_path: Path) -> None:
    with background_counter(WORTH_A_PROCESS, program=program(tmp_path / "odd.py", answer)) as count:
        assert count(TEXTS, "")() == count_all(TEXTS)


def test_a_process_that_cannot_be_had_costs_no_count(tmp_path: Path) -> None:
    with background_counter(WORTH_A_PROCESS, program=tmp_path / "not there.py") as count:
        assert count(TEXTS, "")() == count_all(TEXTS)


def test_a_small_import_begins_no_process(tmp_path: Path) -> None:
    with background_counter(WORTH_A_PROCESS - 1, program=program(tmp_path / "seven.py", "[7]")) as count:
        assert count(["hello world"], "")()[0].count == 2


def test_a_process_that_does_not_end_with_its_input_is_ended(tmp_path: Path) -> None:
    deaf = program(tmp_path / "deaf.py", "[7]")
    deaf.write_text(deaf.read_text() + "import time\ntime.sleep(600)\n")
    with background_counter(WORTH_A_PROCESS, program=deaf, patience=0.1) as count:
        assert count(["hello world"], "")()[0].count == 7


def test_without_an_interpreter_to_run_the_counts_are_made_here(tmp_path: Path) -> None:
    with background_counter(WORTH_A_PROCESS, interpreter=str(tmp_path / "no python")) as count:
        assert count is count_now


def program(path: Path, line: str) -> Path:
    """A stand-in for the counting process that answers every line with `line`."""
    path.write_text(f"import sys\nfor _ in sys.stdin:\n    print({line!r}, flush=True)\n")
    return path
