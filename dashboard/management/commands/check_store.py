"""`check_store`: re-hashes what is stored and follows every reference; exit 1 when something is wrong."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.artifacts.store_check import check_store
from dashboard.columns import printable


class Command(BaseCommand):
    help = "Reads all that is stored and lists what is missing, changed, truncated or linked. Changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        found = list(check_store())
        if options["as_json"]:
            self.stdout.write(json.dumps({"ok": not found, "findings": [asdict(one) for one in found]}))
        else:
            for one in found:
                self.stdout.write(printable(f"{one.kind} {one.name}: {one.reason}"))
            self.stdout.write(f"{len(found)} findings." if found else "All that is stored is whole.")
        if found:
            sys.exit(1)
