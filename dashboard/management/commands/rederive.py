"""`rederive`: derives the calls of older versions again from their stored evidence."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from dashboard.ingest.derivation import CALLS_AT_ONCE, count_changed, store_derived
from dashboard.ingest.derived_calls import compute_calls, current_derivation
from dashboard.management.console import terminal_text
from dashboard.models import Call, Project, Run
from dashboard.search.index import index_waiting, reset_index


class Command(BaseCommand):
    help = (
        "Derives envelopes, counts, cuts and tokens of calls again from their stored evidence, where another version "
        "of the program derived them. Reads no recording again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="all projects unless given")
        parser.add_argument("--run", metavar="RUN", help="the id of one run, whose calls are all derived again")
        parser.add_argument("--search", action="store_true", help="build the index of the search in payloads anew")
        parser.add_argument("--dry-run", action="store_true", help="only count the calls that would change")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["search"]:
            self._index(as_json=options["as_json"])
            return
        calls = Call.objects.order_by("project", "pk")
        if options["run"]:
            calls = calls.filter(run=_find_run(options["run"]))
        else:
            calls = calls.exclude(derivation=current_derivation())
        if options["project"]:
            calls = calls.filter(project__slug=options["project"])
        derived = changed = 0
        for project in Project.objects.filter(pk__in=calls.order_by().values("project")):
            keys = list(calls.filter(project=project).values_list("pk", flat=True))
            for start in range(0, len(keys), CALLS_AT_ONCE):
                portion = compute_calls(keys[start : start + CALLS_AT_ONCE])
                changed += count_changed(portion)
                derived += len(portion) if options["dry_run"] else store_derived(project, portion)
                if not options["as_json"] and self.stderr.isatty():
                    name = terminal_text(project.slug)
                    self.stderr.write(f"{derived:,} of {len(keys):,} calls of {name}", ending="\r")
        if options["as_json"]:
            self.stdout.write(json.dumps({"calls": derived, "changed": changed, "dry_run": options["dry_run"]}))
            return
        verb = "would be derived" if options["dry_run"] else "were derived"
        self.stdout.write(f"{derived:,} calls {verb} again; {changed:,} of them differ from what was stored.")

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
