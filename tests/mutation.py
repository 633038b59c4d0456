"""Changes a module in one place at a time and reports the changes that its tests do not notice.

    python -m tests.mutation MODULE [ARGUMENT...]

changes an operator, a constant, a condition or a returned value, or removes a statement, runs tests on each change,
prints each change that no test failed on, and the share that was noticed. MODULE is a path such as
`envelopes/pipeline/project.py`. ARGUMENT goes to pytest and selects tests; modules in TESTS need none. The exit
status is 1 where the share is below LEAST percent.

Each mutant has a forked process that has not imported the module yet, so that constants, defaults and decorators
are tried as well. A test that hangs has noticed. What a test starts as a program of its own runs unchanged.

mutmut 3.8 was tried in its place on the modules in TESTS. It runs (121 mutants of `schema/outcome.py` in 42 seconds
with two processes, where this takes 102 for 95 in one) and has more kinds of change, but it puts a switch into each
function, so it leaves alone what runs on import: constants, tables, class bodies, default values other than literals,
and every decorated function. That is 128 of the 228 changes made here in `schema/settlement.py`, 49 of 247 in
`text/preview.py` and 25 of 95 in `schema/outcome.py`. Its exit status is 0 whatever survived, it prints no share, and
one configuration file names one selection of tests for all modules.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

BOUNDS = [
    f"tests/envelopes/{name}.py"
    for name in ("text/test_preview", "pipeline/test_projection_contract", "pipeline/test_size_limit")
]
TESTS = {
    **dict.fromkeys(("envelopes/pipeline/project.py", "envelopes/pipeline/render.py"), BOUNDS),
    "envelopes/text/preview.py": [*BOUNDS, "tests/envelopes/text/test_command_preview.py"],
    "envelopes/schema/settlement.py": [
        "tests/envelopes/schema/test_settlement.py",
        "tests/envelopes/codecs/test_codec_settlement.py",
    ],
    "envelopes/schema/outcome.py": ["tests/envelopes/schema/test_outcome.py", "-k", "not mypy"],
}
LEAST = 85
PYTEST = (
    *("-n", "0", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is there before pytest, see COSTLY
)
# What takes long to import and stays as it is: imported once, before the forks.
COSTLY = ("django.forms", "django.test", "hypothesis.strategies", "jsonschema", "playwright.sync_api")

PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    *((ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)),
    *((ast.And, ast.Or), (ast.BitAnd, ast.BitOr), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv)),
)
SWAPPED = dict(PAIRS) | {right: left for left, right in PAIRS}
OPERATORS = (ast.cmpop, ast.boolop, ast.operator)
STATEMENTS = (ast.Expr, ast.Raise, ast.Assert, ast.AugAssign, ast.Delete, ast.Break, ast.Continue)
CONDITIONS = {"test", "guard", "ifs"}


class Mutant(NamedTuple):
    """`tree` holds the change until the next mutant is asked for."""

    tree: ast.Module
    line: int
    before: str
    after: str


class Place(NamedTuple):
    """Where a node hangs: `parent.field`, or there at `index`."""

    parent: ast.AST
    field: str
    index: int
    node: ast.AST

    def put(self, node: ast.AST) -> None:
        value = getattr(self.parent, self.field)
        if isinstance(value, list):
            value[self.index] = node
        else:
            setattr(self.parent, self.field, node)


def mutants(source: str) -> Iterator[Mutant]:
    """Every change of one place, from the first line to the last. Docstrings and types stay as they are."""
    tree = ast.parse(source)
    for place, line in _places(tree, 1):
        for changed in _changes(place):
            shown = place.parent if isinstance(place.node, OPERATORS) else place.node
            before = ast.unparse(shown)
            place.put(changed)
            ast.fix_missing_locations(tree)
            yield Mutant(tree, line, before, ast.unparse(shown if shown is place.parent else changed))
            place.put(place.node)


def _places(node: ast.AST, line: int) -> Iterator[tuple[Place, int]]:
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or field in ("annotation", "returns") or _says_nothing_at_run_time(child):
                continue
            place_line = getattr(child, "lineno", line)
            yield Place(node, field, index, child), place_line
            yield from _places(child, place_line)


def _says_nothing_at_run_time(node: ast.AST) -> bool:
    """A docstring, `...`, or the name of a type."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
    return False


def _changes(place: Place) -> Iterator[ast.AST]:
    node = place.node
    if type(node) in SWAPPED:
        yield SWAPPED[type(node)]()
    if isinstance(node, STATEMENTS):
        yield ast.Pass()
    if place.field in CONDITIONS and isinstance(node, ast.expr) and not _turns_anyway(node):
        yield ast.UnaryOp(ast.Not(), node)
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)):
            yield ast.Constant(value + "XX")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))


def _turns_anyway(condition: ast.expr) -> bool:
    """Its own operator is turned round, which is the same change."""
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1:
        return isinstance(condition.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn | ast.Is | ast.IsNot)
    return isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)


class Changed(MetaPathFinder, Loader):
    """Gives the module's name what the tree says."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self.path, self.tree = path, tree

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        ours = name == ".".join(self.path.with_suffix("").parts)
        return spec_from_file_location(name, self.path.resolve(), loader=self) if ours else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def tests_pass(path: Path, tree: ast.Module, arguments: Sequence[str], limit: int) -> bool:
    """Whether all tests pass on the tree within `limit` seconds, in a process of their own."""
    child = os.fork()
    if not child:
        signal.alarm(limit)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sys.meta_path.insert(0, Changed(path, tree))
        try:
            os._exit(int(pytest.main([*PYTEST, *arguments])))
        finally:  # the module may break even pytest, and no child goes on with the parent's work
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def survivors(path: Path, arguments: Sequence[str]) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether it passed its tests. Ends the program where the module as it is does not."""
    source = path.read_text("utf-8")
    began = time.monotonic()
    if not tests_pass(path, ast.parse(source), arguments, 600):
        raise SystemExit(f"The tests fail on {path} as it is: try pytest {' '.join(arguments)}")
    limit = 20 + 5 * int(time.monotonic() - began)
    for mutant in mutants(source):
        yield mutant, tests_pass(path, mutant.tree, arguments, limit)


def main(module: str, *arguments: str) -> int:
    chosen = arguments or TESTS.get(module, ())
    if not chosen:
        raise SystemExit(f"{module} is not in TESTS: name its tests.")
    for costly in COSTLY:
        import_module(costly)
    passed = []
    for mutant, survived in survivors(Path(module), chosen):
        passed.append(survived)
        if survived:
            print(f"{module}:{mutant.line}: {mutant.before}\n    -> {mutant.after}", flush=True)
    noticed = passed.count(False)
    share = 100 * noticed / max(len(passed), 1)
    print(f"{module}: {noticed} of {len(passed)} changes noticed, {share:.1f} %")
    return int(share < LEAST)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
