"""pytest plugin: what a run asked of SQLite, it must have asked of PostgreSQL too.

Every statement is noted as the function of `dashboard` that asked it, its verb and its tables. A run that includes
tests/test_postgresql.py fails if its other tests asked anything that no test marked `postgresql` asks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from xdist.workermanage import WorkerController

import dashboard

PACKAGE = str(Path(dashboard.__file__).parent)
VERB = re.compile(r"SELECT|INSERT|UPDATE|DELETE")
TABLE = re.compile(r'(?:FROM|JOIN|INTO|UPDATE) "?(dashboard_\w+)')
# The search by trigrams, which SQLite has in tables of its own, kept by what the migration makes.
SQLITE_ALONE = re.compile(r"dashboard\.migrations\.|\S+ \w+ dashboard_runtext")

HERE: set[str] = set()
ON_POSTGRESQL: set[str] = set()


def note_statement(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
    verb, tables = VERB.search(sql), sorted(set(TABLE.findall(sql)))
    if verb is not None and tables and (asker := _asker()):
        HERE.add(f"{asker}: {verb[0]} {' '.join(tables)}{' in order' * ('ORDER BY' in sql)}")
    return execute(sql, *arguments)


def _asker() -> str:
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_globals['__name__']}.{frame.f_code.co_name}" if frame is not None else ""


def _watch(connection: BaseDatabaseWrapper, **_: object) -> None:
    if note_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(note_statement)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--note-asked", type=Path, help="write what was asked of the database into this file")


def pytest_configure() -> None:
    connection_created.connect(_watch, dispatch_uid="tests.asked")


def pytest_testnodedown(node: WorkerController) -> None:
    output = getattr(node, "workeroutput", {})
    HERE.update(output.get("asked_here", ()))
    ON_POSTGRESQL.update(output.get("asked_on_postgresql", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (path := session.config.getoption("note_asked")) is not None:
        path.write_text("\n".join(sorted(HERE)))
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["asked_here"], output["asked_on_postgresql"] = sorted(HERE), sorted(ON_POSTGRESQL)
    elif missing_on_postgresql(HERE, ON_POSTGRESQL):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if missing := missing_on_postgresql(HERE, ON_POSTGRESQL):
        terminalreporter.section("asked of SQLite alone: mark a test of each `postgresql`", red=True)
        terminalreporter.write_line("\n".join(missing))


def missing_on_postgresql(here: set[str], on_postgresql: set[str]) -> list[str]:
    """Nothing, where no run on PostgreSQL took place."""
    missing = here - on_postgresql if on_postgresql else set()
    return sorted(statement for statement in missing if not SQLITE_ALONE.match(statement))
