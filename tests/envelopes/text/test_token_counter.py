"""Counts made by a process beside are the counts made here, and an import never depends on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envelopes.text import token_counter, tokens
from envelopes.text.token_counter import WORTH, counting_beside
from envelopes.text.tokens import count_all

TEXTS = ["hello world", "", "two\nlines", "naïve 日本", "lone \ud800 surrogate", "x" * 100_000]


@pytest.fixture(autouse=True)
def nothing_loaded() -> None:
    tokens._batch_counter.cache_clear()


def program(path: Path, line: str) -> Path:
    path.write_text(f"import sys\nfor _ in sys.stdin:\n    print({line!r}, flush=True)\n")
    return path


@pytest.mark.parametrize("model", ["gpt-5", "claude-x"])
def test_a_process_counts_what_is_counted_here(model: str) -> None:
    with counting_beside(WORTH) as count:
        first, second = count(TEXTS, model), count(TEXTS[:1], model)
        beside = (first(), second())
    assert beside == (count_all(TEXTS, model=model), count_all(TEXTS[:1], model=model))


def test_what_the_process_answers_is_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counter, "PROGRAM", program(tmp_path / "seven.py", "[7, 8]"))
    with counting_beside(WORTH) as count:
        assert [one.count for one in count(["a", "b"], "")()] == [7, 8]


@pytest.mark.parametrize("answer", ["", "[1]", "nonsense"])
def test_an_answer_that_cannot_be_right_is_counted_here(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_counter, "PROGRAM", program(tmp_path / "odd.py", answer))
    with counting_beside(WORTH) as count:
        assert count(TEXTS, "")() == count_all(TEXTS)


def test_a_process_that_cannot_be_had_costs_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counter, "PROGRAM", tmp_path / "not there.py")
    with counting_beside(WORTH) as count:
        assert count(TEXTS, "")() == count_all(TEXTS)


def test_a_small_import_begins_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counter, "PROGRAM", program(tmp_path / "seven.py", "[7]"))
    with counting_beside(WORTH - 1) as count:
        assert count(["hello world"], "")()[0].count == 2


def test_a_process_that_does_not_end_with_its_input_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = program(tmp_path / "deaf.py", "[7]")
    deaf.write_text(deaf.read_text() + "import time\ntime.sleep(600)\n")
    monkeypatch.setattr(token_counter, "PROGRAM", deaf)
    monkeypatch.setattr(token_counter, "PATIENCE", 0.1)
    with counting_beside(WORTH) as count:
        assert count(["hello world"], "")()[0].count == 7


def test_without_an_interpreter_to_run_the_counts_are_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    with counting_beside(WORTH) as count:
        assert count is token_counter.count_here
