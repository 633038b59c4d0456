"""`check_store`: re-hashes what is stored and follows every reference.

Exit status: 0 all is whole; 1 something is not; 2 the artifact store could not be asked, so that
nothing is known of its files.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.artifacts.retention import StoreReport, check_store
from dashboard.management.console import terminal_text


class Command(BaseCommand):
    help = "Reads all that is stored and lists what is missing, changed, truncated or linked. Changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        found = check_store()
        ok = not found.findings and not found.unreachable
        if options["as_json"]:
            self.stdout.write(json.dumps({"ok": ok} | asdict(found)))
        else:
            self._tell(found)
        if not ok:
            sys.exit(2 if found.unreachable else 1)

    def _tell(self, found: StoreReport) -> None:
        for one in found.findings:
            self.stdout.write(terminal_text(f"{one.kind} {one.name}: {one.reason}"))
        if found.unreachable:
            self.stdout.write(terminal_text(f"The artifact store cannot be reached: {found.unreachable}"))
            self.stdout.write("Its files are not checked, and none is known to be missing; the rest is.")
        if found.findings or not found.unreachable:
            count = len(found.findings)
            self.stdout.write(f"{count} findings." if count else "All that is stored is whole.")
