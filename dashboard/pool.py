"""Processes that compute beside the one that writes. They load Django before anything of the dashboard."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context, parent_process

from django.conf import settings

PRELOAD = "dashboard.preload"


def open_pool(database: str) -> ProcessPoolExecutor:
    """A pool with a process for each processor, over the calling process's database of that name.

    For a command they are forks of one process without threads or connections, which has loaded what they need. That
    one would stay as long as a server does, so for a request each process loads it.
    """
    is_command = threading.current_thread() is threading.main_thread()
    context = get_context("forkserver" if is_command else "spawn")
    context.set_forkserver_preload([PRELOAD])
    return ProcessPoolExecutor(os.cpu_count() or 2, context, initializer=prepare_process, initargs=(database,))


def prepare_process(database: str) -> None:
    """Loads what is missing, and ends the process when its parent is killed: its queue would keep it for ever."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    settings.DATABASES["default"]["NAME"] = database
    import_module(PRELOAD)


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
