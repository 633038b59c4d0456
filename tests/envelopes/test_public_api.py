"""`envelopes` itself is the API of the library: complete, documented with examples that run, typed, and light."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import envelopes
from tests.conftest import CHECKOUT

NEEDED = """project render compact read_halves outcome_to_model_content CompleteOutput CanonicalResult ToolError Receipt
    Segment ToolCall Settlement ExecutionEvent ToolOutcome ToolDefinition tools Family FileStore transport"""
ALLOWED = {"envelopes", "msgspec", "rfc8785", "typing_extensions"}  # msgspec imports the last where it is installed
DOCUMENTED = [name for name in envelopes.__all__ if name != "ToolOutcome"]
THIRD_PARTY = """
import sys
before = set(sys.modules)
import envelopes
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))
"""


def defining_module(name: str) -> ModuleType:
    return sys.modules[getattr(envelopes, name).__module__]


def test_all_that_a_runtimes_loop_needs_comes_from_the_package_itself() -> None:
    assert set(NEEDED.split()) <= set(envelopes.__all__)
    assert sorted(envelopes.__all__) == envelopes.__all__
    assert all(hasattr(envelopes, name) for name in envelopes.__all__)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_each_class_and_function_has_a_docstring_with_an_example_that_runs(name: str) -> None:
    thing = getattr(envelopes, name)
    assert inspect.isclass(thing) or inspect.isfunction(thing)
    assert vars(thing)["__doc__"] if inspect.isclass(thing) else thing.__doc__
    names = {**vars(defining_module(name)), name: thing}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", names, name, None, 0)
    assert example.examples, f"{name} has no example"
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert results.failed == 0, "".join(report)


def test_an_alias_is_explained_where_it_is_defined() -> None:
    from envelopes.schema import outcome

    assert "`ToolOutcome`" in (outcome.__doc__ or "")
    assert {member.__name__ for member in get_args(envelopes.ToolOutcome)} <= set(envelopes.__all__)


def test_importing_it_needs_msgspec_and_rfc8785_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", THIRD_PARTY], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("_")}
    assert {"envelopes", "msgspec"} <= loaded <= ALLOWED


def test_type_checkers_read_its_annotations() -> None:
    assert (Path(envelopes.__file__).parent / "py.typed").is_file()
