"""`check_receipts`: finds receipts and pinned texts that would be written differently today. Exit status 1 on drift."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error

from dashboard.experiments.drift import DriftCheck, check_all
from dashboard.faults import find_outage
from dashboard.management.console import terminal_text
from dashboard.models import Project
from dashboard.variants.fingerprints import Drift
from dashboard.variants.render_call import describe_failure


class Command(BaseCommand):
    help = (
        "Renders the receipts that this system sent and the texts of pinned comparisons again, and counts those that "
        "differ today, by reason. Exit status 1 when one differs, 2 when the check failed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="all projects unless given")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")
        parser.add_argument("--verbose", action="store_true", help="also print a line for each text that differs")

    def handle(self, *_args: Any, **options: Any) -> None:
        check = _run_check(options["project"])
        if options["as_json"]:
            self.stdout.write(json.dumps(_build_document(check)))
        else:
            lines = [*_reason_lines(check), *_summary_lines(check)]
            if options["verbose"]:
                lines = [*map(_drift_line, check.drifted), *lines]
            for line in lines:
                self.stdout.write(terminal_text(line))
        if check.drifted:
            sys.exit(1)


def _run_check(slug: str | None) -> DriftCheck:
    """An uncaught error would end Python with status 1, which a CI would take for drift. An outage is caught later."""
    try:
        return check_all(None if slug is None else Project.objects.get(slug=slug))
    except Project.DoesNotExist:
        raise CommandError(terminal_text(f"There is no project {slug!r}."), returncode=2) from None
    except Exception as error:
        if isinstance(error, (Error, OSError)) and find_outage(error):
            raise  # the sentence and the status of an outage, as of other commands
        reason = terminal_text(f"It could not be checked: {describe_failure(error)}")
        raise CommandError(reason, returncode=2) from error


def _drift_line(drift: Drift) -> str:
    where = f" (pinned: {drift.baseline.name})" if drift.baseline else ""
    return f"{drift.call}  {drift.tool}  {drift.variant}  {drift.reason}: {drift.detail}{where}"


def _reason_lines(check: DriftCheck) -> Iterator[str]:
    """A line for each variant and reason, with an example; the most frequent first."""
    groups: dict[tuple[str, str, str], list[Drift]] = defaultdict(list)
    for drift in check.drifted:
        where = f"pinned: {drift.baseline.name}" if drift.baseline else "sent"
        groups[where, drift.variant, drift.reason].append(drift)
    for (where, variant, reason), drifts in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        example = "" if len({drift.detail for drift in drifts}) == 1 else "for example "
        yield f"{len(drifts):>7,}  {variant}  {reason}: {example}{drifts[0].detail} ({where})"


def _summary_lines(check: DriftCheck) -> Iterator[str]:
    pinned = sum(drift.baseline is not None for drift in check.drifted)
    sent = len(check.drifted) - pinned
    if check.sent or check.pinned:
        yield f"{sent} of {check.sent} sent receipts and {pinned} of {check.pinned} pinned texts drifted."
    elif check.unchecked:
        yield "Nothing was checked."
    else:
        yield "Nothing was checked: no receipt names the variant that wrote it, and no comparison is pinned."
    if check.unchecked:
        yield f"{check.unchecked} pinned texts were not checked: their calls were deleted, or never answered."


def _build_document(check: DriftCheck) -> dict[str, Any]:
    return {
        "sent": check.sent,
        "pinned": check.pinned,
        "unchecked": check.unchecked,
        "drifted": [
            {
                "call": str(drift.call),
                "tool": drift.tool,
                "variant": drift.variant,
                "reason": drift.reason,
                "detail": drift.detail,
                "comparison": str(drift.baseline.pk) if drift.baseline else None,
            }
            for drift in check.drifted
        ],
    }
