from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.worker.comparisons import work_for_ever, work_until_idle
from dashboard.worker.processes import begin_quietly, has_lost, worker_name


class Command(BaseCommand):
    help = (
        "Does the background work: the batches of comparisons. `serve` runs this by itself; "
        "more of them may run at once, on any machine that shares the database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--until-idle", action="store_true", help="end when nothing is left to do")
        parser.add_argument("--parent", type=int, help="end when this process is no longer the parent")

    def handle(self, *_args: Any, **options: Any) -> None:
        begin_quietly()
        name = worker_name()
        if options["until_idle"]:
            work_until_idle(name)
            return
        over = _Over()
        is_orphan = has_lost(options["parent"])
        work_for_ever(name, is_over=lambda: over.is_asked or is_orphan())


class _Over:
    """Ctrl-C and the end of the server: the batch at hand is finished first."""

    def __init__(self) -> None:
        self.is_asked = False
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self._ask)

    def _ask(self, *_: object) -> None:
        self.is_asked = True
