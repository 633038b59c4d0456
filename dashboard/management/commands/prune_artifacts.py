"""`prune_artifacts`: removes stored files by age or quota, and those that nothing refers to."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard.artifacts.retention import apply_retention, plan_retention


class Command(BaseCommand):
    help = (
        "Removes stored files that nothing refers to; with --older-than or --quota also the content of old artifacts, "
        "whose rows stay. Outputs that are part of a recorded result are never removed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", type=int, metavar="DAYS", help="remove content that no newer run refers to")
        parser.add_argument("--quota", type=int, metavar="BYTES", help="remove the oldest content until the rest fits")
        parser.add_argument("--dry-run", action="store_true", help="print what would be removed, and change nothing")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        days, quota = options["older_than"], options["quota"]
        if (days is not None and not 0 <= days <= 36_500) or (quota is not None and quota < 0):
            raise CommandError("days are 0 to 36,500, and a quota is 0 bytes or more")
        plan = plan_retention(before=None if days is None else timezone.now() - timedelta(days=days), quota=quota)
        if not options["dry_run"]:
            plan = apply_retention(plan)
        facts = {
            "dry_run": options["dry_run"],
            "retired": len(plan.expired),
            "unnamed": len(plan.unreferenced),
            "unfinished": len(plan.unfinished),
            "freed_bytes": plan.freed_bytes,
            "kept_bytes": plan.kept_bytes,
        }
        if options["as_json"]:
            self.stdout.write(json.dumps(facts))
            return
        would = "Would remove" if options["dry_run"] else "Removed"
        self.stdout.write(
            f"{would} {facts['retired']} by age or quota, {facts['unnamed']} without a reference, "
            f"{facts['unfinished']} unfinished: {facts['freed_bytes']:,} bytes. "
            f"{facts['kept_bytes']:,} bytes are kept."
        )
