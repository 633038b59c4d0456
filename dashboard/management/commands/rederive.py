"""`rederive`: runs today's readers over stored sources, and derives the calls of older versions again."""

from __future__ import annotations

import json
import operator
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from dashboard.ingest.compute_derived import compute_calls, current_derivation
from dashboard.ingest.rereading import Reread, find_outdated, read_outdated
from dashboard.ingest.store_derived import CALLS_AT_ONCE, count_changed, derive_waiting, store_derived
from dashboard.management.console import terminal_text
from dashboard.models import Call, Project, Run
from dashboard.search.index import index_waiting, reset_index


class Command(BaseCommand):
    help = (
        "Reads stored recordings again where an older version of their reader read them, from the bytes in the store, "
        "and derives envelopes, counts, cuts and tokens of calls again where another version of the program did."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="all projects unless given")
        parser.add_argument("--run", metavar="RUN", help="the id of one run: its sources, and all its calls")
        parser.add_argument("--search", action="store_true", help="build the index of the search in payloads anew")
        parser.add_argument("--dry-run", action="store_true", help="only count what would change")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["search"]:
            self._index(as_json=options["as_json"])
            return
        run = _find_run(options["run"]) if options["run"] else None
        projects = Project.objects.filter(slug=options["project"]) if options["project"] else Project.objects.all()
        if run is not None:
            projects = projects.filter(pk=run.project_id)
        self._shows_progress = not options["as_json"] and self.stderr.isatty()
        read, unread = Reread(), 0
        derived = changed = 0
        for project in projects.order_by("pk"):
            changes = self._read_again(project, run, dry_run=options["dry_run"])
            read = Reread(*map(operator.add, read, changes))
            unread += find_outdated(project, run).filter(is_partial=True).count()
            counts = self._derive(project, run, dry_run=options["dry_run"])
            derived, changed = derived + counts[0], changed + counts[1]
            if changes.sources and not options["dry_run"]:
                derive_waiting(project)  # calls of other runs that were read again with the one that was named
                index_waiting(project)
        if options["as_json"]:
            document = {"read": read._asdict() | {"sources_left": unread}, "calls": derived, "changed": changed}
            self.stdout.write(json.dumps(document | {"dry_run": options["dry_run"]}))
        else:
            self._print(read, unread, derived, changed, dry_run=options["dry_run"])

    def _read_again(self, project: Project, run: Run | None, *, dry_run: bool) -> Reread:
        total, size = Reread(), find_outdated(project, run).filter(is_partial=False).count()
        for changes in read_outdated(project, run, dry_run=dry_run):
            for reason in changes.damaged:
                self.stderr.write(terminal_text(f"not read again: {reason}"))
            total = Reread(*map(operator.add, total, changes))
            if self._shows_progress:
                name = terminal_text(project.slug)
                self.stderr.write(f"{total.sources:,} sources of {name} read again, {size:,} are older", ending="\r")
        return total

    def _derive(self, project: Project, run: Run | None, *, dry_run: bool) -> tuple[int, int]:
        """Returns of how many calls, and how many of them differ from what was stored."""
        calls = Call.objects.filter(project=project).order_by("pk")
        calls = calls.exclude(derivation=current_derivation()) if run is None else calls.filter(run=run)
        keys = list(calls.values_list("pk", flat=True))
        derived = changed = 0
        for start in range(0, len(keys), CALLS_AT_ONCE):
            portion = compute_calls(keys[start : start + CALLS_AT_ONCE])
            changed += count_changed(portion)
            derived += len(portion) if dry_run else store_derived(project, portion)
            if self._shows_progress:
                name = terminal_text(project.slug)
                self.stderr.write(f"{derived:,} of {len(keys):,} calls of {name}", ending="\r")
        return derived, changed

    def _print(self, read: Reread, unread: int, derived: int, changed: int, *, dry_run: bool) -> None:
        would = "would be" if dry_run else "were"
        if read.sources:
            self.stdout.write(
                f"{read.sources:,} sources of {read.runs:,} runs {would} read again: {read.calls_added:,} calls "
                f"added, {read.calls_changed:,} changed, {read.calls_gone:,} gone; {read.annotations_gone:,} notes and "
                "tags gone."
            )
        if unread:
            self.stdout.write(f"{unread:,} older sources stay as they are: a run of each was deleted.")
        self.stdout.write(f"{derived:,} calls {would} derived again; {changed:,} of them differ from what was stored.")

    def _index(self, *, as_json: bool) -> None:
        reset_index()
        indexed = sum(map(index_waiting, Project.objects.order_by("pk")))
        sentence = f"The payloads of {indexed:,} calls and messages were indexed."
        self.stdout.write(json.dumps({"indexed": indexed}) if as_json else sentence)


def _find_run(text: str) -> Run:
    try:
        return Run.objects.get(pk=UUID(text))
    except (ValueError, Run.DoesNotExist):
        raise CommandError(terminal_text(f"There is no run {text!r}.")) from None
