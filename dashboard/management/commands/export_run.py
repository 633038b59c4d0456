"""`export_run RUN DIR`: writes a run as a folder in the audit layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.audit import record_command
from dashboard.management.console import find_run, terminal_text
from dashboard.models import AuditEntry
from dashboard.models.sources import DamagedEvidence
from dashboard.project_rules import load_rules
from dashboard.runs.export_run import FolderNotEmpty, export_run
from dashboard.text.masks import Masks
from envelopes.recordings import UnknownFormat
from envelopes.storage.file_store import MissingArtifact


class Command(BaseCommand):
    help = (
        "Writes a run as a folder: run.json, calls.jsonl, results.jsonl, receipts.jsonl, events.jsonl, "
        "messages.jsonl, remarks.jsonl and artifacts/, those of which the run has something. `import_runs DIR` reads "
        "it again and gives an equal run. The bytes are those that were recorded, with any secrets that they contain; "
        "--masked masks these."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="the run's id, or the id that its agent gave it")
        parser.add_argument("folder", metavar="DIR", help="a folder that does not exist yet, or an empty one")
        parser.add_argument("--masked", action="store_true", help="with secrets masked, as pages show them")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        run = find_run(options["run"])
        folder = Path(options["folder"])
        form = "masked" if options["masked"] else "as stored"
        # First, because what the audit log cannot have is not exported.
        record_command(run.project, AuditEntry.Action.EXPORT, f"run {run.external_id}, {form}")
        try:
            counts = export_run(run, folder, Masks(load_rules(run.project)) if options["masked"] else None)
        except (FolderNotEmpty, DamagedEvidence, UnknownFormat) as error:
            raise CommandError(terminal_text(str(error))) from None
        except MissingArtifact as error:
            raise CommandError(f"The artifact store has lost {error}: run prune_artifacts or check_store.") from None
        except OSError as error:
            raise CommandError(f"{terminal_text(str(folder))}: {error.strerror or error}") from None
        if options["as_json"]:
            artifacts = counts.pop("artifacts")
            report = {"run": str(run.pk), "folder": str(folder), "lines": counts, "artifacts": artifacts}
            self.stdout.write(json.dumps(report))
        else:
            written = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
            self.stdout.write(f"{terminal_text(str(folder))}: {written}")
