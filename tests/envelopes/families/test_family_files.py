"""Tests that every family is a folder with the same set of files."""

from __future__ import annotations

from pathlib import Path

import pytest

import envelopes.families
from envelopes.families import FALLBACK, FAMILIES
from envelopes.families.base import Family

FOLDER = Path(envelopes.families.__file__).parent
MOST_LINES = 430
SPLIT_OFF = ("projection.py", "alignment.py")


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def files(family: Family) -> set[str]:
    return {path.name for path in (FOLDER / family.name).iterdir() if path.is_file()}


def agent_modules(family: Family) -> set[str]:
    mappings = [*family.mappings, *([FALLBACK[1]] if family is FALLBACK[0] else [])]
    return {"any_agent.py" if row.agent == "*" else f"{row.agent.replace('-', '_')}.py" for row in mappings}


def test_every_folder_is_a_family() -> None:
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").is_file()}
    assert folders == {family.name for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_has_the_files_of_every_family(family: Family) -> None:
    expected = {"__init__.py", "results.py", "receipts.py", "examples.json"} | agent_modules(family)
    if family.tools:
        expected.add("tools.py")
    assert files(family) - set(SPLIT_OFF) == expected


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_file_is_split_only_where_it_would_be_too_long(family: Family) -> None:
    sizes = {name: lines(FOLDER / family.name / name) for name in files(family) if name.endswith(".py")}
    assert max(sizes.values()) <= MOST_LINES
    if "projection.py" in sizes:
        assert sizes["results.py"] + sizes["projection.py"] > MOST_LINES
    if "alignment.py" in sizes:
        assert max(sizes[name] for name in agent_modules(family)) + sizes["alignment.py"] > MOST_LINES
