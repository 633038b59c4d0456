"""`serve`: runs the production server and the background work."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from dashboard.artifacts.upload_folders import remove_abandoned_uploads
from dashboard.management.console import check_server_address
from dashboard.server import Server
from dashboard.worker import WorkerSupervisor


class Command(BaseCommand):
    help = "Serves the dashboard and does its background work. Applies pending migrations first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--addrport", default="127.0.0.1:8000", metavar="HOST:PORT", help="default: %(default)s")
        parser.add_argument("--workers", type=int, default=2, help="web processes; default: %(default)s")
        parser.add_argument(
            "--background",
            type=int,
            default=min(2, os.cpu_count() or 1),
            help="processes that compute when the background work has much to do; 0 for no background work",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["workers"] < 1 or options["background"] < 0:
            raise CommandError("--workers is a number from 1 on, --background one from 0 on")
        check_server_address(options["addrport"])
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):  # `migrate` may write even without one
            call_command("migrate", verbosity=0)
        remove_abandoned_uploads()
        self.stdout.write(f"Serving on http://{options['addrport']}/ (Ctrl-C stops)")
        WorkerSupervisor(options["background"]).start()
        Server(options["addrport"], options["workers"]).run()
