"""The page "A tour in ten minutes": each step is done in a copy of the checkout, as the page has it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.source import copy_checkout, run_in_copy

PAGE = (CHECKOUT / "dashboard" / "docs" / "tour.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [text.strip() for language, text in BLOCKS if not language and re.match(r"python|ls ", text)]
OUTPUTS = [
    text.rstrip("\n") for language, text in BLOCKS if not language and text.endswith(("(none)\n", "printed nothing.\n"))
]
RECEIPTS = re.findall(r"In `(envelopes/\S+\.py)`:\n\n```diff", PAGE)
VERSIONED = re.findall(r"In `(envelopes/\S+\.py)`, raise each number of `versions` by one", PAGE)
DIFFS = [text for language, text in BLOCKS if language == "diff"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "counterfoil")


@pytest.mark.extended
def test_each_step_of_the_tour_does_what_the_page_shows(clone: Path) -> None:
    start, render, list_files, render_again, check_goldens, update_goldens, compare = COMMANDS
    assert start in (CHECKOUT / "README.md").read_text("utf-8")
    seen = run(clone, "python manage.py demo --no-serve")
    assert "9 runs with 210 calls" in seen
    before, after = OUTPUTS
    assert run(clone, render) == before
    assert {"results.py", "receipts.py", "claude_code.py", "examples.json"} <= set(run(clone, list_files).split())

    in_receipts, in_golden = DIFFS
    (receipts,), (versioned,) = RECEIPTS, VERSIONED
    apply(clone / receipts, in_receipts)
    raise_versions(clone / versioned)
    assert render_again == render
    assert run(clone, render_again) == after

    failure = run(clone, check_goldens, status=1)
    assert all(line in failure for line in in_golden.splitlines())
    run(clone, update_goldens)
    assert "The command printed nothing." in (clone / "tests/golden/ExecCommand/empty.txt").read_text("utf-8")
    table = run(clone, compare)
    assert re.search(r"recorded +┃ +receipt", table)
    assert all(measure in table for measure in ("tokens", "cut", "lint", "dropped"))


def apply(path: Path, diff: str) -> None:
    before = "".join(line[1:] for line in diff.splitlines(keepends=True) if line.startswith("-"))
    after = "".join(line[1:] for line in diff.splitlines(keepends=True) if line.startswith("+"))
    content = path.read_text("utf-8")
    assert content.count(before) == 1, path
    path.write_text(content.replace(before, after), "utf-8")


def raise_versions(path: Path) -> None:
    content = path.read_text("utf-8")
    (versions,) = re.findall(r"^    versions=\{.+\},$", content, re.MULTILINE)
    raised = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), versions)
    assert raised != versions
    path.write_text(content.replace(versions, raised), "utf-8")


def run(folder: Path, command: str, *, status: int = 0) -> str:
    return run_in_copy(folder, *shlex.split(command), status=status)
