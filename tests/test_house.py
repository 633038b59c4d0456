"""The linters, the type checker and the import contracts, so that one command shows everything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

README_INSTALLS = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/python -m pytest"


def complaints(*command: str | Path, program: str | Path = sys.executable) -> str:
    """What the tool says when it exits non-zero, else nothing."""
    done = subprocess.run(
        [program, *command], cwd=CHECKOUT, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True
    )
    return done.stdout + done.stderr if done.returncode else ""


def fail_with(text: str) -> None:
    if text:
        pytest.fail(text, pytrace=False)


def test_ruff_finds_nothing() -> None:
    fail_with(complaints("-m", "ruff", "check", "--no-cache", "--quiet", "."))


def test_every_file_is_formatted_by_ruff() -> None:
    fail_with(complaints("-m", "ruff", "format", "--no-cache", "--quiet", "--diff", "."))


def test_mypy_finds_nothing() -> None:
    fail_with(complaints("-m", "mypy", "--no-error-summary"))


def test_the_import_contracts_hold() -> None:
    fail_with(complaints("-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"))


def test_every_template_is_formatted_by_djade() -> None:
    pages = sorted((CHECKOUT / "templates").rglob("*.html"))
    djade = Path(sys.executable).with_name("djade")  # a program without a module to run it by
    fail_with(complaints("--target-version", "5.2", "--check", *pages, program=djade) if pages else "")


def test_ci_runs_the_command_that_the_readme_names() -> None:
    ci = (CHECKOUT / ".ci" / "run").read_text("utf-8").replace('"$venv"', ".venv")
    assert README_INSTALLS in ci
    assert README_INSTALLS in (CHECKOUT / "README.md").read_text("utf-8")
