"""`requirements.toml` lists every requirement once, the tests that it names exist, and the page shows it."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.requirements_page import COMMAND, PAGE, load_requirements, render_page
from tests.source import modules, tree

ROWS = {"RFC": 155, "CALL": 110, "OUT": 52, "TOOLS": 52}
VERDICTS = {"tests", "reason", "open"}


@cache
def written() -> dict[str, dict[str, object]]:
    return tomllib.loads((CHECKOUT / "tests" / "requirements.toml").read_text("utf-8"))


def proofs() -> dict[str, list[str]]:
    return {row: tests for row, verdict in written().items() if isinstance(tests := verdict.get("tests"), list)}


def test_every_row_is_there_once_and_in_order() -> None:
    assert list(written()) == [f"{text}-{number:03d}" for text, count in ROWS.items() for number in range(1, count + 1)]


def test_each_row_has_one_verdict_with_content() -> None:
    odd = {row: entry for row, entry in written().items() if len(VERDICTS & set(entry)) != 1}
    assert not odd
    assert not [row for row, entry in written().items() if not all(entry.values())]


def test_only_an_open_row_has_tests_of_a_part() -> None:
    assert not {row: entry for row, entry in written().items() if set(entry) - VERDICTS not in (set(), {"part"})}
    assert not [row for row, entry in written().items() if "part" in entry and "open" not in entry]


def test_the_page_of_the_documentation_is_made_from_the_map() -> None:
    is_current = PAGE.read_text("utf-8") == render_page(load_requirements())
    assert is_current, f"{PAGE.name} differs from tests/requirements.toml; run: {COMMAND}"


def test_the_page_has_the_counts_and_every_row_with_its_proof() -> None:
    page = render_page(load_requirements())
    open_rows = [row for row, entry in written().items() if "open" in entry]
    assert f"Of the {len(written())} requirements of the domain, {len(proofs())} are proved by tests" in page
    assert f"and {len(open_rows)} are open" in page
    lines = {line.split(" ", 2)[1]: line for line in page.splitlines() if re.match(r"\| [A-Z]+-\d{3} ", line)}
    assert list(lines) == list(written())
    for row, tests in proofs().items():
        assert all(f"`{Path(test.partition('::')[0]).name}`" in lines[row] for test in tests), row
    for row, entry in written().items():
        assert str(entry.get("open") or entry.get("reason", "")) in lines[row]
        assert ("**Open**" in lines[row]) == ("open" in entry)


def test_the_readme_leads_to_the_page() -> None:
    assert "](dashboard/docs/requirements.md)" in (CHECKOUT / "README.md").read_text("utf-8")


def test_the_tests_that_a_row_names_exist() -> None:
    known = {f"{path.as_posix()}::{name}" for path in modules("tests") for name in _test_functions(path)}
    named = {requirement.id: set(requirement.tests) for requirement in load_requirements()}
    missing = {row: sorted(tests - known) for row, tests in named.items() if tests - known}
    assert not missing


def test_this_test_proves_no_row() -> None:
    """Bookkeeping about the rows is no evidence for them."""
    assert not [row for row, tests in proofs().items() if any("test_requirements.py" in test for test in tests)]


def _test_functions(path: Path) -> list[str]:
    named = (node.name for node in tree(path).body if isinstance(node, ast.FunctionDef))
    return [name for name in named if name.startswith("test_")]
