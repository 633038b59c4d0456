"""`work`: does the background work."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from threading import Event
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.worker import lower_priority, parent_exited, run_forever, work_until_idle


class Command(BaseCommand):
    help = (
        "Does the background work: derives imported calls, measures comparisons and used-line recall. `serve` starts "
        "this by itself. One process of a store leads; others, also on other machines, wait to take its place."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--until-idle", action="store_true", help="end when no work is left")
        parser.add_argument(
            "--processes", type=int, default=0, help="those that compute when there is much to do; default: one a CPU"
        )
        parser.add_argument("--parent", type=int, help="end when this process is no longer the parent")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["processes"] < 0:
            raise CommandError("--processes is a number from 0 on")
        lower_priority()
        if options["until_idle"]:
            work_until_idle(processes=options["processes"])
            return
        is_stopping = Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # the step at hand ends first
            signal.signal(number, lambda *_: is_stopping.set())
        run_forever(
            is_over=lambda: is_stopping.is_set() or parent_exited(options["parent"]), processes=options["processes"]
        )
