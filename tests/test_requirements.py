"""`requirements.toml` speaks of every row once, and the tests that it names are there."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.source import modules, tree

ROWS = {"RFC": 152, "CALL": 105, "OUT": 48, "TOOLS": 50}
VERDICTS = {"tests", "reason", "open"}


@cache
def written() -> dict[str, dict[str, object]]:
    return tomllib.loads((CHECKOUT / "tests" / "requirements.toml").read_text("utf-8"))


def proofs() -> dict[str, list[str]]:
    return {row: tests for row, verdict in written().items() if isinstance(tests := verdict.get("tests"), list)}


def test_every_row_is_there_once_and_in_order() -> None:
    assert list(written()) == [f"{text}-{number:03d}" for text, count in ROWS.items() for number in range(1, count + 1)]


def test_each_row_has_one_verdict_that_says_something() -> None:
    odd = {row: said for row, said in written().items() if len(said) != 1 or not set(said) <= VERDICTS}
    assert not odd
    assert not [row for row, said in written().items() if not all(said.values())]


def test_the_readme_counts_the_open_rows_and_their_reasons_can_be_read() -> None:
    still_open = {row: said["open"] for row, said in written().items() if "open" in said}
    for reason, count in Counter(still_open.values()).most_common():
        print(f"\n{count} open: {reason}\n  " + " ".join(row for row, said in still_open.items() if said == reason))
    proved, excused = len(proofs()), sum("reason" in said for said in written().values())
    said = " ".join((CHECKOUT / "README.md").read_text("utf-8").split())
    assert f"Of the {len(written())} rows" in said
    assert f"{proved} are proved by tests, {excused} need none, and {len(still_open)} are open" in said


def test_the_tests_that_prove_a_row_exist() -> None:
    known = {f"{path.as_posix()}::{name}" for path in modules("tests") for name in _test_functions(path)}
    missing = {row: sorted(set(tests) - known) for row, tests in proofs().items() if set(tests) - known}
    assert not missing


def test_this_test_proves_no_row() -> None:
    """Bookkeeping about the rows is no evidence for them."""
    assert not [row for row, tests in proofs().items() if any("test_requirements.py" in one for one in tests)]


def _test_functions(path: Path) -> list[str]:
    named = (node.name for node in tree(path).body if isinstance(node, ast.FunctionDef))
    return [name for name in named if name.startswith("test_")]
