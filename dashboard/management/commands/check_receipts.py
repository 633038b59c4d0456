"""`check_receipts`: whether what was sent, or pinned, would be written the same today. For a CI: exit 1 on drift."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.checks.drift import DriftCheck, check_all
from dashboard.management.console import terminal_text
from dashboard.models import Project
from dashboard.variants.fingerprints import Drift
from dashboard.variants.render_call import describe_failure


class Command(BaseCommand):
    help = (
        "Writes again what this system sent and what pinned comparisons hold, and says how many texts are another "
        "today, by reason. Exit status 1 when there is one, 2 when it could not be checked."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="all projects unless given")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")
        parser.add_argument("--verbose", action="store_true", help="a line for each text that is another, too")

    def handle(self, *_args: Any, **options: Any) -> None:
        checked = _checked(options["project"])
        if options["as_json"]:
            self.stdout.write(json.dumps(_facts(checked)))
        else:
            for one in checked.drifted if options["verbose"] else ():
                self.stdout.write(terminal_text(_sentence(one)))
            for line in (*_reasons(checked), *_told(checked)):
                self.stdout.write(terminal_text(line))
        if checked.drifted:
            sys.exit(1)


def _checked(slug: str | None) -> DriftCheck:
    """An error would end Python with status 1, which a CI would take for drift."""
    try:
        return check_all(_project(slug))
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(
            terminal_text(f"It could not be checked: {describe_failure(error)}"), returncode=2
        ) from error


def _reasons(checked: DriftCheck) -> Iterator[str]:
    """A line for each variant and reason, however many texts it is; the most first."""
    alike: dict[tuple[str, str, str], list[Drift]] = defaultdict(list)
    for one in checked.drifted:
        alike[f"pinned: {one.baseline.name}" if one.baseline else "sent", one.variant, one.reason].append(one)
    for (where, variant, reason), some in sorted(alike.items(), key=lambda found: (-len(found[1]), found[0])):
        example = "" if len({one.detail for one in some}) == 1 else "for example "
        yield f"{len(some):>7,}  {variant}  {reason}: {example}{some[0].detail} ({where})"


def _project(slug: str | None) -> Project | None:
    if slug is None:
        return None
    try:
        return Project.objects.get(slug=slug)
    except Project.DoesNotExist:
        raise CommandError(terminal_text(f"There is no project {slug!r}."), returncode=2) from None


def _told(checked: DriftCheck) -> Iterator[str]:
    pinned = sum(one.baseline is not None for one in checked.drifted)
    sent = len(checked.drifted) - pinned
    if checked.sent or checked.pinned:
        yield f"{sent} of {checked.sent} sent receipts and {pinned} of {checked.pinned} pinned texts drifted."
    elif checked.unchecked:
        yield "Nothing was checked."
    else:
        yield "Nothing was checked: no receipt says which variant here wrote it, and no comparison is pinned."
    if checked.unchecked:
        yield f"{checked.unchecked} pinned texts were not checked: their calls were deleted, or never answered."


def _sentence(one: Drift) -> str:
    where = f" (pinned: {one.baseline.name})" if one.baseline else ""
    return f"{one.call}  {one.tool}  {one.variant}  {one.reason}: {one.detail}{where}"


def _facts(checked: DriftCheck) -> dict[str, Any]:
    return {
        "sent": checked.sent,
        "pinned": checked.pinned,
        "unchecked": checked.unchecked,
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
