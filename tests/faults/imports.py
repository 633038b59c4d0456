"""The import as a process of its own, on a store of its own, to be followed or killed."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from django.db import connection

from dashboard.models import Run
from tests.conftest import CHECKOUT

INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = sys.argv[1:]
from dashboard.__main__ import main
main()
"""
TABLES = (
    *("source", "sourceframe", "run", "source_runs", "runcall", "runfacet", "call", "observation", "receipt"),
    *("receiptsupersession", "receiptfingerprint", "canonicalprojection", "artifact", "message", "event"),
    *("requestusage", "problem", "remark"),
)
# The moment of the import, how often a row was written, an entry of an index as it came; of a run without times also
# what it is sorted by.
UNEQUAL = {"created_at", "sort_at", "revision", "evidence_version", "inode", "search_id"}
NUMBERED = {"source_runs", "sourceframe", "runcall", "runfacet", "problem"}  # by the database, as rows come


def environment(store: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return {**variables, "COUNTERFOIL_DATA": str(store), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}


def manage(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, text=True, check=True)


def migrated_store(store: Path) -> Path:
    """A new store. The tables are made once and copied."""
    shutil.copytree(pattern(), store)
    return store


@cache
def pattern() -> Path:
    """The test database as long as it is empty; on another database than SQLite a process of its own makes one.

    So it does where no test of the run asks for a database, for then pytest-django makes none.
    """
    folder = Path(os.environ["COUNTERFOIL_DATA"]) / "migrated"
    if connection.vendor != "sqlite" or not _is_empty(connection.settings_dict["NAME"]):
        manage(folder, "migrate")
        return folder
    folder.mkdir()
    # Through a connection of its own: a backup would wait for ever for the transaction of the test that asks.
    with (
        closing(sqlite3.connect(connection.settings_dict["NAME"])) as tests,
        closing(sqlite3.connect(folder / "counterfoil.db")) as copy,
    ):
        tests.backup(copy)
        copy.execute("DELETE FROM sqlite_sequence")  # tests that were flushed have used keys
        copy.commit()
    return folder


def _is_empty(database: str | Path) -> bool:
    """False as well for a database without tables."""
    with closing(sqlite3.connect(database)) as tests:
        tables = tests.execute("SELECT name FROM sqlite_master WHERE name = ?", [Run._meta.db_table]).fetchall()
        return bool(tables) and not tests.execute(f"SELECT 1 FROM {Run._meta.db_table} LIMIT 1").fetchall()


def started(store: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Interruptible even where the tests themselves were started in the background, which ignores SIGINT."""
    command = [sys.executable, "-c", INTERRUPTIBLE, "manage.py", *arguments]
    return subprocess.Popen(
        command, cwd=CHECKOUT, env=environment(store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def rows(store: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(store / "counterfoil.db", timeout=120)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def digest(store: Path) -> str:
    """Over everything that an import leaves, in an order that does not depend on when it was written."""
    total = hashlib.sha256()
    for table in TABLES:
        info = rows(store, f"PRAGMA table_info(dashboard_{table})")
        assert info, table
        skipped = UNEQUAL | ({"id"} if table in NUMBERED else set())
        columns = ", ".join(f'"{name}"' for _, name, *_ in info if name not in skipped)
        for row in sorted(map(repr, rows(store, f"SELECT {columns} FROM dashboard_{table}"))):
            total.update(row.encode())
    return total.hexdigest()


def wait_until(holds: Callable[[], bool], *, seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False
