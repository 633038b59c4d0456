"""The background processes beside the server: as many as asked for, begun again when one dies.

Each is `manage.py work`, a program of its own, so that a batch that takes the memory or the interpreter
with it takes nothing else. It ends by itself when the process that began it is gone.
"""

from __future__ import annotations

import gc
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from django.db import connection

LOOKS_EVERY = 2.0  # seconds
NICENESS = 10  # pages come first
COLLECTED_AFTER = 20_000  # new objects


class Background(threading.Thread):
    """A thread of the server's master process; `count` processes are kept running while it lives."""

    def __init__(self, count: int) -> None:
        super().__init__(name="background", daemon=True)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count

    def run(self) -> None:
        while True:
            for place, process in enumerate(self._processes):
                if process is None or process.poll() is not None:
                    self._processes[place] = subprocess.Popen(work_command(os.getpid()))
            time.sleep(LOOKS_EVERY)


def work_command(parent: int) -> list[str]:
    return [sys.executable, "-m", "dashboard", "work", "--parent", str(parent)]


def worker_name() -> str:
    """Nobody else's, also when the system gives the number of a dead process to another one."""
    return f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"


def begin_quietly() -> None:
    """Lower priority than the pages, and fewer looks for garbage.

    Memory-mapped pages of the database would count as this process's memory.
    """
    os.nice(NICENESS)
    gc.freeze()  # the program itself is never garbage, and a batch makes objects by the hundred thousand
    gc.set_threshold(COLLECTED_AFTER)
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA mmap_size=0")


def has_lost(parent: int | None) -> Callable[[], bool]:
    """Whether the process that began this one is gone; never for one that a person began."""
    return lambda: parent is not None and os.getppid() != parent
