"""`calls`: writes the calls that a filter selects as CSV, JSON lines or Parquet, as the Calls page does."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.accounts import DEFAULT_PROJECT
from dashboard.audit import record_command
from dashboard.calls.call_columns import describe_uncounted
from dashboard.calls.call_export import COLUMNS, FORMS, CannotExport, choose_export_columns, export_calls
from dashboard.filters.language import parse
from dashboard.management.console import find_project, terminal_text
from dashboard.models import AuditEntry, Project
from dashboard.models.sources import DamagedEvidence
from dashboard.project_rules import load_rules
from dashboard.text.masks import Masks
from envelopes.storage.durable_files import incoming, publish

STDOUT = "-"


class Command(BaseCommand):
    help = (
        "Writes the calls that a filter selects, newest first, with both halves and the segments of each receipt. "
        "Secrets are masked as on the pages; --stored writes the recorded bytes, and the audit log has that."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--query", default="", help="a filter over calls, as on the Calls page; all calls without it"
        )
        names = ", ".join(column.name for column in COLUMNS)
        parser.add_argument("--columns", default="", metavar="A,B", help=f"only these, in this order: {names}")
        parser.add_argument("--project", default=DEFAULT_PROJECT, metavar="SLUG", help="%(default)s unless given")
        masked = parser.add_mutually_exclusive_group()
        masked.add_argument("--masked", action="store_true", help="with secrets masked, which is the default")
        masked.add_argument("--stored", action="store_true", help="the recorded bytes, with any secrets in them")
        forms = parser.add_mutually_exclusive_group(required=True)
        for form, described in FORMS.items():
            forms.add_argument(f"--{form}", metavar="FILE", help=f"write {described.title} into FILE; - is the output")

    def handle(self, *_args: Any, **options: Any) -> None:
        form = next(form for form in FORMS if options[form] is not None)
        project = find_project(options["project"])
        query = parse(options["query"], over="calls")
        if query.problems:
            raise CommandError(terminal_text(" ".join(query.problems)))
        target = options[form]
        calls = query.calls_in(project)
        if not calls.exists():
            slugs = ", ".join(Project.objects.order_by("slug").values_list("slug", flat=True))
            self.stderr.write(f"No call of the project {project.slug} matches. Projects (--project): {slugs}.")
        if uncounted := describe_uncounted(project.calls.waiting().count()):
            self.stderr.write(uncounted)
        try:
            columns = choose_export_columns([name.strip() for name in options["columns"].split(",") if name.strip()])
            masks = None if options["stored"] else Masks(load_rules(project))
            pieces = export_calls(calls, form, columns, masks)
            how = "as stored" if options["stored"] else "masked"
            record_command(project, AuditEntry.Action.EXPORT, f"calls as {form}, {how}: {query or 'all'}")
            if target == STDOUT:
                for piece in pieces:
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
                return
            with incoming(Path(target).absolute().parent) as file:
                file.writelines(pieces)
                publish(file, Path(target))
        except (CannotExport, DamagedEvidence) as error:
            raise CommandError(terminal_text(str(error))) from None
        except OSError as error:
            raise CommandError(f"{terminal_text(target)}: {error.strerror or error}") from None
