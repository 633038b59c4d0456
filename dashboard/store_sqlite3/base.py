"""The connection of the backend; Django looks for it under this name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.sqlite3 import base


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
