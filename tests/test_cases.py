"""A table of rows in one test still fails for each row that fails, and says which."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.cases import each


def test_every_row_is_tried_and_each_that_fails_is_named(tmp_path: Path) -> None:
    tried: list[tuple[int, int, Path]] = []

    @each("right", [1, 2])
    @each(("left", "limit"), [(1, 9), (2, 9), (3, 0)])
    def compare(left: int, right: int, limit: int, tmp_path: Path) -> None:
        tried.append((left, right, tmp_path))
        assert left == right
        if left > limit:
            pytest.fail("beyond")

    assert list(inspect.signature(compare).parameters) == ["tmp_path"]
    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows") as raised:
        compare(tmp_path=tmp_path)
    assert tried == [(left, right, tmp_path) for right in (1, 2) for left in (1, 2, 3)]
    notes = [[one.__notes__ for one in group.exceptions] for group in raised.value.exceptions]
    assert notes == [
        [["for left = 2, limit = 9"], ["for left = 3, limit = 0"]],
        [["for left = 1, limit = 9"], ["for left = 3, limit = 0"]],
    ]
    assert [group.__notes__ for group in raised.value.exceptions] == [["for right = 1"], ["for right = 2"]]


def test_a_row_that_fails_by_a_word_of_its_own_counts_as_failed() -> None:
    @each("row", ["whole", "broken"])
    def look(row: str) -> None:
        if row == "broken":
            pytest.fail("it is broken")

    with pytest.raises(BaseExceptionGroup) as raised:
        look()
    assert [str(one) for one in raised.value.exceptions] == ["it is broken"]


def test_a_table_without_rows_proves_nothing_and_fails() -> None:
    @each("row", [])
    def look(row: str) -> None:
        raise AssertionError(row)

    with pytest.raises(AssertionError, match="no row is tried"):
        look()
