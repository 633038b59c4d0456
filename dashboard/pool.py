"""Processes that compute beside the one that writes. They load Django before anything of the dashboard."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

from django.conf import settings


def open_pool(database: str) -> ProcessPoolExecutor:
    """A pool with a process for each processor, over the calling process's database of that name.

    They are forks of one process without threads or connections, which has loaded what they need.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["dashboard.preload"])
    return ProcessPoolExecutor(os.cpu_count() or 2, context, initializer=prepare_process, initargs=(database,))


def prepare_process(database: str) -> None:
    """Ends the process when its parent is killed: the pool's queue would keep it waiting for ever."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    settings.DATABASES["default"]["NAME"] = database


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
