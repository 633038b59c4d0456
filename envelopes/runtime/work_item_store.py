"""The work items and waits of one agent in a SQLite file; its statements alone. `work_items` makes tools of them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from envelopes.families.work_item.results import PlanStatus

TABLES = """
CREATE TABLE IF NOT EXISTS work_item (
    number INTEGER PRIMARY KEY, objective TEXT NOT NULL, plan_status TEXT NOT NULL, todos BLOB,
    plan TEXT, report BLOB, is_completed INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL,
    updated_at REAL NOT NULL, revision INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS wait (
    number INTEGER PRIMARY KEY, work_item INTEGER, status TEXT NOT NULL, kind TEXT NOT NULL, resource TEXT,
    reason TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS focus (work_item INTEGER NOT NULL);
"""
COLUMNS = ("objective", "plan_status", "todos", "plan", "report", "is_completed")
WaitKind: TypeAlias = Literal["operator", "task", "external"]
LONGEST_NUMBER = 18  # digits; SQLite's integers have 19


class WorkItemRow(NamedTuple):
    """A stored work item. `todos` and `report` are JSON, `plan` a path in the workspace; times are since 1970."""

    number: int
    objective: str
    plan_status: PlanStatus
    todos: bytes | None
    plan: str | None
    report: bytes | None
    is_completed: int
    created_at: float
    updated_at: float
    revision: int

    @property
    def id(self) -> str:
        return f"wi_{self.number}"


class WaitRow(NamedTuple):
    """A stored wait."""

    number: int
    kind: WaitKind
    reason: str
    resource: str | None
    created_at: float

    @property
    def id(self) -> str:
        return f"wait_{self.number}"


class WorkItemStore:
    """Used inside `transaction`, from any thread and process. `now` is in seconds since 1970."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(TABLES)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def add(self, objective: str, plan_status: PlanStatus, todos: bytes | None) -> WorkItemRow:
        now = self.now()
        cursor = self._database.execute(
            "INSERT INTO work_item (objective, plan_status, todos, created_at, updated_at, revision)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (objective, plan_status, todos, now, now, self._next_revision()),
        )
        return self.get(int(cursor.lastrowid or 0))

    def next_number(self) -> int:
        """The number that `add` gives."""
        (last,) = self._database.execute("SELECT coalesce(max(number), 0) FROM work_item").fetchone()
        return int(last) + 1

    def change(self, number: int, **changes: Any) -> WorkItemRow:
        """Sets columns of COLUMNS; the item is then the one that was changed last."""
        values = changes | {"updated_at": self.now(), "revision": self._next_revision()}
        assert set(changes) <= set(COLUMNS)
        names = ", ".join(f"{name} = ?" for name in values)
        statement = f"UPDATE work_item SET {names} WHERE number = ?"  # noqa: S608 - names of COLUMNS
        self._database.execute(statement, (*values.values(), number))
        return self.get(number)

    def get(self, number: int) -> WorkItemRow:
        return WorkItemRow(*self._database.execute("SELECT * FROM work_item WHERE number = ?", (number,)).fetchone())

    def find(self, work_item_id: str) -> WorkItemRow | None:
        digits = work_item_id.removeprefix("wi_")
        if digits == work_item_id or not (digits.isascii() and digits.isdigit()) or len(digits) > LONGEST_NUMBER:
            return None
        row = self._database.execute("SELECT * FROM work_item WHERE number = ?", (int(digits),)).fetchone()
        return None if row is None else WorkItemRow(*row)

    def rows(self) -> list[WorkItemRow]:
        """The one that was changed last comes first."""
        return [WorkItemRow(*row) for row in self._database.execute("SELECT * FROM work_item ORDER BY revision DESC")]

    def current(self) -> int | None:
        found = self._database.execute("SELECT work_item FROM focus").fetchone()
        return None if found is None else int(found[0])

    def set_current(self, number: int | None) -> None:
        self._database.execute("DELETE FROM focus")
        if number is not None:
            self._database.execute("INSERT INTO focus VALUES (?)", (number,))

    def add_wait(self, number: int | None, kind: WaitKind, resource: str | None, reason: str) -> WaitRow:
        now = self.now()
        cursor = self._database.execute(
            "INSERT INTO wait (work_item, status, kind, resource, reason, created_at, updated_at)"
            " VALUES (?, 'active', ?, ?, ?, ?, ?)",
            (number, kind, resource, reason, now, now),
        )
        return WaitRow(int(cursor.lastrowid or 0), kind, reason, resource, now)

    def waits_of(self, number: int | None) -> list[WaitRow]:
        """The active waits of an item, those of the agent for None."""
        return self._waits("work_item IS ?", number)

    def waits_for(self, resource: str | None) -> list[WaitRow]:
        """The active waits for a resource, those for the operator for None."""
        return self._waits("kind = 'operator'") if resource is None else self._waits("resource = ?", resource)

    def end_waits(self, waits: Iterable[WaitRow], status: str) -> tuple[str, ...]:
        """Their ids."""
        ended = tuple(waits)
        for wait in ended:
            self._database.execute(
                "UPDATE wait SET status = ?, updated_at = ? WHERE number = ?", (status, self.now(), wait.number)
            )
        return tuple(wait.id for wait in ended)

    def _waits(self, condition: str, *values: Any) -> list[WaitRow]:
        columns = ", ".join(WaitRow._fields)
        statement = f"SELECT {columns} FROM wait WHERE status = 'active' AND {condition} ORDER BY number"  # noqa: S608 - names and texts of this module
        return [WaitRow(*row) for row in self._database.execute(statement, values)]

    def _next_revision(self) -> int:
        (last,) = self._database.execute("SELECT coalesce(max(revision), 0) FROM work_item").fetchone()
        return int(last) + 1
