"""Starts worker processes beside the server and restarts those that die.

Each is `manage.py work`, a program of its own, so that a batch that exhausts the memory or crashes the interpreter
harms nothing else. It ends by itself when the process that started it is gone.
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

from django.db import connection

POLL_SECONDS = 2.0
NICENESS = 10  # pages come first
GC_THRESHOLD = 20_000  # new objects


class WorkerSupervisor(threading.Thread):
    """A thread of the server's master process that keeps `count` workers running while it lives."""

    def __init__(self, count: int) -> None:
        super().__init__(name="workers", daemon=True)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count

    def run(self) -> None:
        command = [sys.executable, "-m", "dashboard", "work", "--parent", str(os.getpid())]
        while True:
            for index, process in enumerate(self._processes):
                if process is None or process.poll() is not None:
                    self._processes[index] = subprocess.Popen(command)
            time.sleep(POLL_SECONDS)


def build_worker_name() -> str:
    """A name that no other worker has, even when the system reuses the number of a dead process."""
    return f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"


def lower_priority() -> None:
    """Gives pages the processor first, and makes garbage collection and the database use less memory and time."""
    os.nice(NICENESS)
    gc.freeze()  # the program itself is never garbage, and a batch creates objects by the hundred thousand
    gc.set_threshold(GC_THRESHOLD)
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA mmap_size=0")  # mapped pages would count as this process's memory


def parent_exited(parent: int | None) -> bool:
    """True when the process that started this one is gone; never for a worker that a person started."""
    return parent is not None and os.getppid() != parent
