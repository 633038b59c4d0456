"""The background work: one loop over what the store says is to be done, in the one process that leads (`leadership`).

    derives calls that wait, and indexes their texts; joins small frames of what was sent live
    summarises a finished comparison against another baseline, measures comparisons, then used-line recall
    follows stored paths; once a day applies retention where the settings say so, and removes folders of plans that are
    wholly imported; each in a thread

The server's master process starts `manage.py work` and restarts it when it dies: a program of its own, so that what
exhausts its memory or crashes the interpreter harms no page. It ends by itself when the process that started it is
gone. What there is to do is in the rows, and a row is done in one statement, so a leader that is killed loses nothing
and the next one counts nothing twice. Large work is computed by other processes (`pool.Computing`).

There is no queue: the ones for Django keep no lease, so a task of a killed worker stays "running" for ever.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from django.db import Error, connection

from dashboard.artifacts.retention import DAY_SECONDS, apply_by_settings
from dashboard.experiments.measure_batches import Measuring
from dashboard.experiments.recall_report import measure_next_recall
from dashboard.faults import drop_connection, find_outage
from dashboard.garbage_collection import NEW_OBJECTS_IN_BACKGROUND, collect_rarely, exclude_loaded
from dashboard.ingest.source_frames import join_next_frames
from dashboard.ingest.store_derived import derive_next_waiting
from dashboard.ingest.watch import Followers
from dashboard.leadership import leadership
from dashboard.models import Comparison
from dashboard.plans.plan_folders import remove_stored_folders
from dashboard.pool import Computing
from dashboard.project_rules import load_all_rules
from dashboard.search.index import index_next_waiting
from dashboard.store_sqlite3.base import stop_mapping

logger = logging.getLogger(__name__)
POLL_SECONDS = 2.0
IDLE_SECONDS = 1.0
NICENESS = 10  # pages come first


class WorkerSupervisor(threading.Thread):
    """A thread of the server's master process that keeps the background work running while it lives.

    `processes` compute beside the leader when there is much to do; with 0 there is no background work.
    """

    def __init__(self, processes: int) -> None:
        super().__init__(name="background work", daemon=True)
        self._processes = processes

    def run(self) -> None:
        command = [sys.executable, "-m", "dashboard", "work", "--parent", str(os.getpid())]
        process: subprocess.Popen[bytes] | None = None
        while self._processes:
            if process is None or process.poll() is not None:
                process = subprocess.Popen([*command, "--processes", str(self._processes)])  # noqa: S603 - this program
            time.sleep(POLL_SECONDS)


def lower_priority() -> None:
    """Gives pages the processor first, and makes garbage collection and the database use less memory and time."""
    os.nice(NICENESS)
    exclude_loaded()
    collect_rarely(NEW_OBJECTS_IN_BACKGROUND)
    stop_mapping()


def parent_exited(parent: int | None) -> bool:
    """True when the process that started this one is gone; never for a worker that a person started."""
    return parent is not None and os.getppid() != parent


class DailyWork:
    """Does something in a thread, since it waits for imports: at once, then every day."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self._name, self._work, self._next = name, work, time.monotonic()

    def update(self) -> None:
        """Starts the thread when it is time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + DAY_SECONDS
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._work()
        except Exception:  # it must not end the work of others, and is tried again the next day
            logger.exception("the daily work %s failed", self._name)
        finally:
            connection.close()


class Leader:
    """Does the background work of a store, a step at a time. Only for the process that leads.

    The work is ordered by who waits for it: new calls, a page with a comparison, the others. Longer steps pause for
    what comes before them. Its end, if no exception is the cause, gives back what is being computed.
    """

    def __init__(
        self, *, is_over: Callable[[], bool] = lambda: False, first: Comparison | None = None, processes: int = 0
    ) -> None:
        """`first` is measured before other comparisons; `processes` compute beside this one, 0 for one a processor."""
        self._is_over, self._first = is_over, first
        self._computing = Computing(processes)
        self._measuring = Measuring(self._computing, self._keep_up)
        self._kept_up = 0.0

    def __enter__(self) -> Leader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._computing.close(is_broken=kind is not None)
        if kind is None:
            self._measuring.give_back()

    def step(self) -> bool:
        """Does some of what is to be done; False when there is nothing."""
        load_all_rules()
        if self._step_ahead() or measure_next_recall(is_over=self._is_over, on_pause=self._catch_up):
            return True
        self._computing.close_idle()
        return False

    def _step_ahead(self) -> bool:
        return self._derive() or self._measuring.step(self._first)

    def _catch_up(self) -> None:
        """Does all that comes before a report of recall."""
        while not self._is_over() and self._step_ahead():
            pass
        self._computing.close_idle()

    def _keep_up(self) -> None:
        """Does what comes before comparisons, at most once in IDLE_SECONDS."""
        if time.monotonic() - self._kept_up > IDLE_SECONDS:
            while not self._is_over() and self._derive():
                pass
            self._kept_up = time.monotonic()

    def _derive(self) -> bool:
        return derive_next_waiting(self._computing) or index_next_waiting() or join_next_frames()


def work_until_idle(comparison: Comparison | None = None, *, processes: int = 0) -> None:
    """Works until nothing is left to do, or until this comparison is done, which then comes first.

    Waits for it while another process leads.
    """
    while True:
        with leadership() as is_leader:
            if is_leader:
                with Leader(first=comparison, processes=processes) as leader:
                    while _is_open(comparison) and leader.step():
                        pass
                return
        if comparison is not None and not _is_open(comparison):
            return
        time.sleep(0.2)


def _is_open(comparison: Comparison | None) -> bool:
    return comparison is None or Comparison.objects.open().filter(pk=comparison.pk).exists()


def run_forever(*, is_over: Callable[[], bool], processes: int = 0) -> None:
    """Leads when no other process does, until `is_over`.

    An outage of the store ends the lead, since it may have taken the lock; once it is over this process asks again and
    needs no restart.
    """
    while not is_over():
        try:
            with leadership() as is_leader:
                if is_leader:
                    _lead(is_over, processes)
        except (Error, OSError) as error:
            if find_outage(error) is None:
                raise
            drop_connection()
        time.sleep(IDLE_SECONDS)


def _lead(is_over: Callable[[], bool], processes: int) -> None:
    followers = Followers()
    daily = (DailyWork("retention", apply_by_settings), DailyWork("folders of plans", remove_stored_folders))
    try:
        with Leader(is_over=is_over, processes=processes) as leader:
            while not is_over():
                followers.update()
                for work in daily:
                    work.update()
                if not leader.step():
                    time.sleep(IDLE_SECONDS)
    finally:
        followers.stop()
