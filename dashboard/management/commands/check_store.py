"""`check_store`: hashes everything that is stored again and follows every reference.

Exit status: 0 everything is intact; 1 something is not; 2 the artifact store did not answer, so that the state of its
files is unknown.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.artifacts.retention import check_store
from dashboard.management.console import terminal_text


class Command(BaseCommand):
    help = "Reads everything that is stored and lists what is missing, changed, truncated or linked. Changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        report = check_store()
        is_intact = not report.findings and not report.unreachable
        if options["as_json"]:
            self.stdout.write(json.dumps({"ok": is_intact} | asdict(report)))
        else:
            for finding in report.findings:
                self.stdout.write(terminal_text(f"{finding.kind} {finding.name}: {finding.reason}"))
            if report.unreachable:
                self.stdout.write(terminal_text(f"The artifact store cannot be reached: {report.unreachable}"))
                self.stdout.write("Its files were not checked, and none is known to be missing; the rest was checked.")
            if report.findings:
                self.stdout.write(f"{len(report.findings)} findings.")
            elif is_intact:
                self.stdout.write("Everything that is stored is intact.")
        if not is_intact:
            sys.exit(2 if report.unreachable else 1)
