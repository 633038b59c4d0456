"""`check_receipts`: whether what was sent, or pinned, would be written the same today. For a CI: exit 1 on drift."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.columns import printable
from dashboard.models import Project
from dashboard.renderers.receipt_drift import Checked, Drift, check


class Command(BaseCommand):
    help = (
        "Writes again what this system sent and what pinned comparisons hold, and lists each text that is "
        "another today, with the reason. Exit status 1 when there is one."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="all projects unless given")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        checked = check(_project(options["project"]))
        if options["as_json"]:
            self.stdout.write(json.dumps(_facts(checked)))
        else:
            for one in checked.drifted:
                self.stdout.write(printable(_sentence(one)))
            held = f"{checked.sent} sent receipts and {checked.pinned} pinned texts"
            self.stdout.write(f"{len(checked.drifted)} of {held} drifted.")
        if checked.drifted:
            sys.exit(1)


def _project(slug: str | None) -> Project | None:
    if slug is None:
        return None
    try:
        return Project.objects.get(slug=slug)
    except Project.DoesNotExist:
        raise CommandError(printable(f"There is no project {slug!r}.")) from None


def _sentence(one: Drift) -> str:
    where = f" (pinned: {one.baseline.name})" if one.baseline else ""
    return f"{one.call}  {one.tool}  {one.variant}  {one.reason}: {one.detail}{where}"


def _facts(checked: Checked) -> dict[str, Any]:
    return {
        "sent": checked.sent,
        "pinned": checked.pinned,
        "drifted": [
            {
                "call": str(one.call),
                "tool": one.tool,
                "variant": one.variant,
                "reason": one.reason,
                "detail": one.detail,
                "comparison": str(one.baseline.pk) if one.baseline else None,
            }
            for one in checked.drifted
        ],
    }
