"""The connection of the backend; Django looks for it under this name.

SQLite has one writer, and wakes nobody when it ends: who waits looks again after 1, 2, 5, 10 … 100 ms. A process that
writes one transaction after the other has begun the next one by then, so another one waits for seconds. Here the
connections of all processes take turns: only the one that has its turn tries to begin, every millisecond, and the next
one's turn comes once it has begun.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.sqlite3 import base

RETRY_SECONDS = 0.001
LONGEST_LOG = 32_000_000  # bytes: twice what is moved into the database at once
PRIMARY_CODE = 0xFF  # the part of an extended error code that has the primary one

# Python looks for an adapter of each value that is neither text nor a number, and each time in vain (0.2 µs of 0.4).
# Of a batch that a program sends, that was a tenth of the database's time.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), {None: None}.get)


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        """Opens a database that nothing can write as immutable; SQLite would look for a log beside it and fail.

        Such a connection lasts for one request, because the disk may become writable again. With a log (`-wal`), left
        by a process that was killed, SQLite reads both by itself.
        """
        params: dict[str, Any] = super().get_connection_params()
        path = Path(params["database"])
        if path.is_file() and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
            params["database"] = f"file:{quote(str(path))}?immutable=1"
            self.close_at = time.monotonic()
        return params

    def _start_transaction_under_autocommit(self) -> None:
        """Holds the lock of the database's folder meanwhile; one of its file would end those of SQLite when it ends."""
        folder, timeout = Path(self.settings_dict["NAME"]).parent, self.settings_dict["OPTIONS"]["timeout"]
        lock = os.open("." if self.is_in_memory_db() else folder, os.O_RDONLY | os.O_CLOEXEC)
        deadline = time.monotonic() + timeout
        try:
            self.connection.execute("PRAGMA busy_timeout=0")
            while not self._ends_waiting(lock) and time.monotonic() < deadline:
                time.sleep(RETRY_SECONDS)
            if not self.connection.in_transaction:
                self.cursor().execute("BEGIN IMMEDIATE")  # raises what prevents it
        finally:
            self.connection.execute(f"PRAGMA busy_timeout={int(timeout * 1000)}")
            os.close(lock)

    def _ends_waiting(self, lock: int) -> bool:
        """True once the transaction has begun, or for an error other than that another connection has one."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._log_bytes() > LONGEST_LOG:  # or it grows while there is always a writer; not where one reads it
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self.connection.execute("BEGIN IMMEDIATE")
        except BlockingIOError:
            return False
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode & PRIMARY_CODE != sqlite3.SQLITE_BUSY
        return True

    def _log_bytes(self) -> int:
        try:
            return os.stat(f"{self.settings_dict['NAME']}-wal").st_size
        except FileNotFoundError:
            return 0


def stop_mapping() -> None:
    """Lets this process read the store without mapping it, on its connection and on each that it opens later.

    Mapped pages count as memory of the process, which should not grow with the store.
    """
    connection_created.connect(_stop_mapping_on)
    if connection.connection is not None:
        _stop_mapping_on(connection)


def _stop_mapping_on(connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA mmap_size=0")
