"""Processes that compute beside the one that writes. They load Django before anything of the dashboard."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

import django
from django.conf import settings


def open_pool(database: str) -> ProcessPoolExecutor:
    """A pool for all processors but one, which the calling process keeps busy, over its database of that name."""
    processes = max(1, (os.cpu_count() or 2) - 1)
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=prepare_process, initargs=(database,))


def prepare_process(database: str) -> None:
    """Loads Django, and ends the process when its parent is killed: the pool's queue would keep it waiting for ever."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    settings.DATABASES["default"]["NAME"] = database
    django.setup()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
