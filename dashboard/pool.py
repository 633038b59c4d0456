"""Processes that compute beside the one that writes. They load Django before anything of the dashboard.

    open_pool(database)   for an import, or for a request
    Computing             for the background work: this process for little, a pool or a cluster for much

Only imports read the database there; what the background work submits are functions over bytes.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerContext
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

from dashboard.dask_cluster import PRELOAD, ClusterExecutor, ClusterRefused, OtherProgram

logger = logging.getLogger(__name__)
WORTH_A_POOL = 2_000  # calls; a process of the pool takes a second of processor time to start
IDLE_SECONDS = 30.0  # after which the processes end: each takes 100 MB
WRITES_END = sys.version_info >= (3, 11, 5)  # before, Python waits for ever for a job of a dead process (gh-94777)
PAUSE_SECONDS = 0.1
PENDING_A_PROCESS = 2  # jobs, so that none waits for this process, and few of them are in memory

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ProcessPool(Executor):
    """Processes that each have queues of their own: a job goes to the one with the fewest.

    One ProcessPoolExecutor over all of them starts processes while it looks after the others. When one is killed at
    that moment, Python 3.11 raises OSError ("handle is closed"), or waits at its end for a process that waits for a
    lock of the killed one. An executor of one process starts it before it looks after any.
    """

    def __init__(self, executors: Sequence[ProcessPoolExecutor]) -> None:
        self._jobs: dict[ProcessPoolExecutor, list[Future[Any]]] = {executor: [] for executor in executors}

    def submit(
        self, fn: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Raises BrokenProcessPool once any of the processes has died."""
        for executor, jobs in self._jobs.items():
            self._jobs[executor] = [job for job in jobs if not job.done()]
        executor, jobs = min(self._jobs.items(), key=lambda item: len(item[1]))
        try:
            job = executor.submit(fn, *args, **kwargs)
        except (ConnectionError, EOFError) as error:
            raise BrokenProcessPool("A process has died while it was started.") from error
        if executor._broken and not job.done():  # Python 3.11 forgets a job that is submitted as the process dies
            raise BrokenProcessPool("A process has died while a job was submitted to it.")
        jobs.append(job)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - of Executor
        executor: Any
        for executor in self._jobs:
            queue, thread = executor._call_queue, executor._executor_manager_thread
            executor.shutdown(wait=False, cancel_futures=cancel_futures)
            while wait and thread is not None and thread.is_alive():
                thread.join(None if WRITES_END else PAUSE_SECONDS)
                if executor._broken:
                    _end_writes(queue)

    def terminate(self) -> None:
        """Ends the processes and what they compute."""
        executor: Any
        for executor in self._jobs:
            for process in list((executor._processes or {}).values()):  # Python 3.14 has a method for this
                process.terminate()
            _end_writes(executor._call_queue)
            executor.shutdown(wait=False, cancel_futures=True)


def _end_writes(queue: Any) -> None:
    """Ends the thread that writes a job for a process which has died: a pipe without a reader takes no more."""
    if not WRITES_END and queue is not None:
        queue._reader.close()


def open_pool(database: str, *, processes: int = 0, is_lasting: bool = False) -> ProcessPool:
    """A pool with so many processes, or one for each processor, over the calling process's database of that name.

    For a command without other threads they are forks of itself, which start at once: to load the program takes two
    seconds. With threads they are forks of a process that has loaded it. That one would stay as long as a server
    does, so each process loads it for a request, and where `is_lasting`.
    """
    is_command = threading.current_thread() is threading.main_thread() and not is_lasting
    is_fork = is_command and threading.active_count() == 1
    context = get_context("fork" if is_fork else "forkserver" if is_command else "spawn")
    if isinstance(context, ForkServerContext):
        context.set_forkserver_preload([PRELOAD])
    count = processes or os.cpu_count() or 2
    arguments = (database, is_lasting)
    executors: list[Any] = [ProcessPoolExecutor(1, context, prepare_process, arguments) for _ in range(count)]
    if is_fork:
        import_module(PRELOAD)  # once for all: the vocabulary of tokens takes a quarter of a second and 70 MB to load
        connections.close_all()  # no database allows that a forked process has the connection too
        for executor in executors:
            executor._launch_processes()  # before any has a thread, and before the command opens other files
        for executor in executors:
            executor.submit(os.getpid)  # without a job none would end them
    return ProcessPool(executors)


def prepare_process(database: str, is_lasting: bool) -> None:  # noqa: FBT001 - an executor passes no names
    """Loads what is missing, and ends the process when its parent is killed: its queue would keep it for ever.

    Ctrl-C is for the parent; a lasting one ends its processes itself.
    """
    if is_lasting:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    settings.DATABASES["default"]["NAME"] = database
    import_module(PRELOAD)


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class HereExecutor(Executor):
    """Computes at once, in the calling process."""

    def submit(
        self, fn: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # whoever reads the result gets it, as from another process
            future.set_exception(error)
        return future


class Computing:
    """Chooses the executor for the background work. Processes are started when there is enough to do, and end later.

    What is submitted are pure functions over bytes: where they are computed changes no result.
    """

    def __init__(self, processes: int = 0) -> None:
        """`processes` of the pool; 0 for one a processor."""
        self._processes = processes or os.cpu_count() or 2
        self._computing = 0  # processes or threads of the executor
        self._here = HereExecutor()
        self._executor: Executor | None = None
        self._used = 0.0

    def choose(self, *, calls: int, is_apart: bool = False) -> Executor:
        """The executor for work on so many calls. `is_apart`: it may end its process, so never this one."""
        if self._executor is None and (is_apart or calls >= WORTH_A_POOL):
            self._executor = self._open()
        self._used = time.monotonic()
        return self._executor or self._here

    def _open(self) -> Executor:
        """The cluster where one is configured; a pool where that cannot be used, until the pool has been idle."""
        if settings.DASK:
            try:
                cluster = ClusterExecutor(settings.DASK)
            except ClusterRefused as refused:
                logger.warning("%s Processes of this machine compute instead.", refused)
            else:
                self._computing = cluster.processes
                return cluster
        self._computing = self._processes
        return open_pool("computes without a database", processes=self._processes, is_lasting=True)

    @property
    def most_pending(self) -> int:
        """Jobs that may be submitted and not be read."""
        return 1 if self._executor is None else PENDING_A_PROCESS * self._computing

    def close_idle(self) -> None:
        """Ends the processes once they have had nothing to do for IDLE_SECONDS."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()

    def close(self, *, is_broken: bool = False) -> None:
        """Ends the processes; a job at hand ends first, unless the executor is broken."""
        if is_broken and isinstance(self._executor, ProcessPool):
            self._executor.terminate()
        elif self._executor is not None:
            self._executor.shutdown(wait=not is_broken, cancel_futures=True)
        self._executor = None


def is_lost(error: BaseException) -> bool:
    """True for a job of which nothing is known but that its process, or the whole executor, has ended."""
    is_of_cluster = type(error).__module__.startswith("distributed.")
    return is_of_cluster or isinstance(error, (BrokenExecutor, CancelledError, OtherProgram))
