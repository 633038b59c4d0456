"""The checkout's own files as the tests of the house see them: paths, syntax trees, function sizes."""

from __future__ import annotations

import ast
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tests.conftest import CHECKOUT


def modules(*folders: str) -> list[Path]:
    """Every Python file below the folders, paths relative to the checkout; migrations are generated."""
    found = (path.relative_to(CHECKOUT) for folder in folders for path in (CHECKOUT / folder).rglob("*.py"))
    return sorted(path for path in found if "migrations" not in path.parts)


def templates() -> list[Path]:
    found = (path.relative_to(CHECKOUT) for path in (CHECKOUT / "templates").rglob("*") if path.is_file())
    return sorted(found)


@cache
def tracked() -> tuple[Path, ...]:
    """What the repository holds; in a copy without its history, whatever lies there and is not ignored by name."""
    if (CHECKOUT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
        found = [Path(line) for line in listed.splitlines()]
    else:
        ignored = {line.strip("/") for line in text(Path(".gitignore")).splitlines()}
        below = (path.relative_to(CHECKOUT) for path in CHECKOUT.rglob("*"))
        found = [path for path in below if not any(fnmatch(part, one) for part in path.parts for one in ignored)]
    return tuple(path for path in found if (CHECKOUT / path).is_file())


def copy_checkout(folder: Path) -> Path:
    """A copy of what the repository holds, without its history."""
    for path in tracked():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / path, folder / path)
    return folder


def run_in_copy(folder: Path, *command: str, status: int = 0) -> str:
    """What the command printed, in the copy and with a store of its own; `python` is the one of this run."""
    environment = os.environ | {"COUNTERFOIL_DATA": str(folder / "data"), "PYTHONPATH": str(folder)}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS", "DATABASE_URL"):
        environment.pop(name, None)
    program = sys.executable if command[0] == "python" else command[0]
    done = subprocess.run([program, *command[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@cache
def text(path: Path) -> str:
    return (CHECKOUT / path).read_text("utf-8")


@cache
def tree(path: Path) -> ast.Module:
    parsed = ast.parse(text(path), filename=str(path))
    gc.freeze()  # it stays to the end, and the collector took longer to walk through all of them than the parser
    return parsed


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """The name of each function with the lines it spans, decorators left out, nested ones on their own as well."""
    waiting: list[ast.AST] = [tree(path)]
    while waiting:  # no expression holds a function, and most nodes are within expressions
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += [part for part in getattr(node, block, ()) if isinstance(part, ast.AST)]


def functions_of_module(path: Path) -> list[ast.FunctionDef]:
    """The functions at the top level of the module."""
    return [node for node in tree(path).body if isinstance(node, ast.FunctionDef)]


@cache
def docstrings(path: Path) -> tuple[ast.Constant, ...]:
    """The docstring nodes of the module, its classes and its functions."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    firsts = [node.body[0] for node in nodes(path) if isinstance(node, documented) and node.body]
    values = [first.value for first in firsts if isinstance(first, ast.Expr)]
    return tuple(value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str))


def module_name(path: Path) -> str:
    """`dashboard/runs/__init__.py` is `dashboard.runs`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported_with_the_module(path: Path) -> set[str]:
    """What its import needs: not what its functions import, nor what only the type checker reads."""
    found: set[str] = set()
    for node in tree(path).body:
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(name), level=0):
                found.add(name)
    return found


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, wherever it does; `from a import b` gives both `a` and `a.b`."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def method_calls(path: Path) -> Iterator[tuple[int, str, str]]:
    """`(line, receiver as written, method)` for each `receiver.method(…)`."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.lineno, ast.unparse(node.func.value), node.func.attr
