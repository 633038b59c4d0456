"""The tool that changes one place of a module at a time and asks its tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.mutation import mutants

MODULE = '''
def larger(one, other):
    """The larger of two numbers."""
    return one if one > other else other
'''
TEST = """
from larger import larger

def test_the_larger_of_two():
    assert larger(1, 2) == larger(2, 1) == 2
"""


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a == b and c", ["x = a != b and c", "x = a == b or c"]),
        ("x = a * 2 - b", ["x = a * 2 + b", "x = a * 3 - b", "x = a // 2 - b"]),
        ("return a", ["return None"]),
        ("return None", []),
        ("raise a", ["pass"]),
        ("a(not b)", ["a(b)", "pass"]),
        ("x = [True, 'b', 1.5, None]", ["x = [False, 'b', 1.5, None]", "x = [True, 'b', 2.5, None]"]),
        ("if a:\n    b += c", ["if a:\n    b -= c", "if a:\n    pass", "if not a:\n    b += c"]),
        ("if a in b:\n    x = b", ["if a not in b:\n    x = b"]),
        ("'A docstring.'\nx: Literal['b'] | None", []),
        ("Word: TypeAlias = Literal['b']", []),
    ],
)
def test_each_change_is_made_alone(source: str, changes: list[str]) -> None:
    made = [ast.unparse(mutant.tree) for mutant in mutants(source)]
    assert sorted(one for one in made if "XX" not in one) == changes


def test_a_change_has_its_line_and_the_code_before_and_after() -> None:
    told = [(one.line, one.before, one.after) for one in mutants("a = 1\n\nb = a >= 'c'")]
    assert told == [(1, "1", "2"), (3, "a >= 'c'", "a > 'c'"), (3, "'c'", "'cXX'")]


@pytest.mark.extended
def test_what_no_test_notices_is_printed_with_the_share(tmp_path: Path) -> None:
    """Numbers that are equal were not tried: which of both comes back then is open."""
    for name, text in {"larger.py": MODULE, "test_larger.py": TEST, "pytest.ini": "[pytest]\n"}.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "tests.mutation", "larger.py", "test_larger.py"]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(tmp_path)])}
    done = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "larger.py:4: one > other",
        "    -> one >= other",
        "larger.py: 2 of 3 changes noticed, 66.7 %",
    ], done.stderr
    assert done.returncode == 1
