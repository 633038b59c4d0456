"""A table of rows in one test still fails for each row that fails, and the failure names the row."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from tests.cases import each

tried = []

@each("right", [1, 2])
@each(("left", "limit"), [(1, 9), (2, 9), (3, 0)])
def test_compare(left, right, limit, tmp_path):
    assert tmp_path.is_dir()
    tried.append((left, right))
    if left > limit:
        pytest.fail("beyond")
    assert left == right

def test_all_were_tried():
    assert tried == [(left, right) for right in (1, 2) for left in (1, 2, 3)]

@each("name", ["whole", "broken"])
def test_explicit_failure(name):
    if name == "broken":
        pytest.fail("it is broken")

@each("name", ["whole", "skipped", "broken"])
def test_skip(name):
    if name == "skipped":
        pytest.skip("not here")
    assert name == "whole"

@each("name", [])
def test_no_rows(name):
    raise AssertionError(name)

@each("name", ["whole"])
def test_pass(name):
    pass
"""


def _run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Runs these of TESTS in another pytest, and returns the lines of its summary."""
    monkeypatch.setenv("COLUMNS", "200")  # a line is cut there
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each run would import the plugins of all packages anew
    path = pytester.makepyfile(test_tables=TESTS)
    # The second one would look five times for garbage, through all that this process has.
    without = ("-p", "no:cacheprovider", "-p", "no:unraisableexception")
    result = pytester.runpytest_inprocess("-rA", *without, *(f"{path.name}::{name}" for name in names))
    outcomes = ("PASSED", "FAILED", "SUBFAILED", "SUBSKIPPED", "ERROR")
    return [line.replace(f"{path.name}::", "") for line in result.outlines if line.startswith(outcomes)]


def test_every_row_is_tried_and_each_that_fails_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(pytester, monkeypatch, "test_compare", "test_all_were_tried") == [
        "PASSED test_all_were_tried",
        "SUBFAILED(right=1, left=2, limit=9) test_compare - assert 2 == 1",
        "SUBFAILED(right=1, left=3, limit=0) test_compare - Failed: beyond",
        "SUBFAILED(right=2, left=1, limit=9) test_compare - assert 1 == 2",
        "SUBFAILED(right=2, left=3, limit=0) test_compare - Failed: beyond",
        "FAILED test_compare - contains 4 failed subtests",
    ]


def test_a_row_that_calls_fail_counts_as_failed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(pytester, monkeypatch, "test_explicit_failure") == [
        "SUBFAILED(name='broken') test_explicit_failure - Failed: it is broken",
        "FAILED test_explicit_failure - contains 1 failed subtest",
    ]


def test_the_rows_after_a_skipped_row_are_tried(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(pytester, monkeypatch, "test_skip") == [
        "SUBFAILED(name='broken') test_skip - AssertionError: assert 'broken' == 'whole'",
        "FAILED test_skip - contains 1 failed subtest",
    ]


def test_a_table_without_rows_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _run(pytester, monkeypatch, "test_no_rows", "test_pass")
    assert lines == ["PASSED test_pass", "FAILED test_no_rows - AssertionError: no row is tried"]
