"""`work`: runs one worker process."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from threading import Event
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.worker import build_worker_name, lower_priority, parent_exited, run_forever, work_until_idle


class Command(BaseCommand):
    help = (
        "Does the background work: derives imported calls and measures comparisons. `serve` starts this by itself; "
        "more may run at once, on any machine that shares the database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--until-idle", action="store_true", help="end when no work is left")
        parser.add_argument("--parent", type=int, help="end when this process is no longer the parent")

    def handle(self, *_args: Any, **options: Any) -> None:
        lower_priority()
        if options["until_idle"]:
            work_until_idle(build_worker_name())
            return
        is_stopping = Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # the current batch is finished first
            signal.signal(number, lambda *_: is_stopping.set())
        run_forever(build_worker_name(), is_over=lambda: is_stopping.is_set() or parent_exited(options["parent"]))
