"""pytest plugin: each statement that a run asks of the database must be asked by a test marked `postgresql`.

Every statement is noted as the function of `dashboard` that asked it, its verb and its tables. A whole run fails if
its tests asked anything that no marked test asks: the extended run repeats the marked ones on PostgreSQL. What a
module's fixtures ask counts as asked by its marked tests.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
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

# A run with this test is a default run, or has all its tests.
WHOLE = "tests/test_postgresql.py::test_what_no_marked_test_asks_is_named"

BY_ANY: set[str] = set()
BY_MARKED: set[str] = set()


class Running:
    """The test that runs, as far as it matters here."""

    is_marked = False
    modules: frozenset[Path] = frozenset()  # those with a marked test
    is_whole = False


def note_statement(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
    if (outline := _outline(sql)) and (asker := _asker()):
        statement = f"{asker}: {outline}"
        BY_ANY.add(statement)
        if Running.is_marked:
            BY_MARKED.add(statement)
    return execute(sql, *arguments)


@lru_cache(maxsize=5_000)
def _outline(sql: str) -> str:
    verb, tables = VERB.search(sql), sorted(set(TABLE.findall(sql)))
    return f"{verb[0]} {' '.join(tables)}{' in order' * ('ORDER BY' in sql)}" if verb is not None and tables else ""


def _asker() -> str:
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_globals['__name__']}.{frame.f_code.co_name}" if frame is not None else ""


def _watch(connection: BaseDatabaseWrapper, **_: object) -> None:
    if note_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(note_statement)


def pytest_configure() -> None:
    connection_created.connect(_watch, dispatch_uid="tests.asked")


def pytest_collection_finish(session: pytest.Session) -> None:
    Running.modules = frozenset(item.path for item in session.items if is_marked(item))
    Running.is_whole = any(item.nodeid == WHOLE for item in session.items)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    is_shared = fixturedef.scope == "module"
    before, Running.is_marked = Running.is_marked, Running.is_marked or (is_shared and request.path in Running.modules)
    try:
        return (yield)
    finally:
        Running.is_marked = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    Running.is_marked = is_marked(item)
    return (yield)


def is_marked(item: pytest.Item) -> bool:
    """True for a test that the extended run repeats on PostgreSQL."""
    mark = item.get_closest_marker("postgresql")
    return mark is not None and (not mark.args or item.callspec.id in mark.args)  # type: ignore[attr-defined]


def pytest_testnodedown(node: WorkerController) -> None:
    output = getattr(node, "workeroutput", {})
    BY_ANY.update(output.get("asked_by_any", ()))
    BY_MARKED.update(output.get("asked_by_marked", ()))
    Running.is_whole |= output.get("asked_is_whole", False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fails the run, and repeats that behind pytest's own last line, which counts tests alone."""
    missing: list[str] = []
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["asked_by_any"], output["asked_by_marked"] = sorted(BY_ANY), sorted(BY_MARKED)
        output["asked_is_whole"] = Running.is_whole
    elif Running.is_whole and (missing := unmarked(BY_ANY, BY_MARKED)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if missing and reporter is not None:
        sentence = f"FAILED: {len(missing)} statements are asked by no test marked `postgresql`; they are listed above"
        reporter.write_line(sentence, red=True, bold=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if Running.is_whole and (missing := unmarked(BY_ANY, BY_MARKED)):
        terminalreporter.section("asked by no marked test: mark a test of each `postgresql`", red=True)
        terminalreporter.write_line("\n".join(missing))


def unmarked(by_any: set[str], by_marked: set[str]) -> list[str]:
    return sorted(statement for statement in by_any - by_marked if not SQLITE_ALONE.match(statement))
