"""`verify DIR|FILE`: rebuilds a run from its files alone, or checks that a file written by `share` is unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.management.console import terminal_text
from dashboard.sharing.share_file import NotShared, check_file
from envelopes.plan.verify import verify_folder

MOST_BYTES = 200_000_000


class Command(BaseCommand):
    help = (
        "Of a folder that `export_run` or `run_plan` wrote, rebuilds the run from its plan and records: arguments, "
        "outputs, ends, events, hashes and the confirmation of each write. Of a shared HTML file, computes the hashes "
        "again from its own text. Exits with status 1 and a list when something is wrong. It needs no store. A hash "
        "does not prove who made a file."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", metavar="DIR|FILE", help="a run's folder, or an HTML file of `share`")
        parser.add_argument("--json", action="store_true", dest="as_json", help="of a folder: one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["path"])
        if path.is_dir():
            self._verify_folder(path, as_json=options["as_json"])
        else:
            self._verify_file(path)

    def _verify_folder(self, folder: Path, *, as_json: bool) -> None:
        name = terminal_text(str(folder))
        try:
            check = verify_folder(folder)
        except FileNotFoundError:
            raise CommandError(f"{name} has no run.json: verify reads the folder of one run.") from None
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror or error}") from None
        except ValueError as error:  # a file that is no record, and a run without a plan
            raise CommandError(f"{name} is no run of a plan: {terminal_text(str(error))}") from None
        steps = {step.step_id: step.end for step in check.steps}
        if as_json:
            facts = {"run_id": check.run_id, "steps": steps, "interrupted": check.is_interrupted}
            self.stdout.write(json.dumps({**facts, "problems": list(check.problems)}))
        if check.problems:
            listed = "\n".join(f"  {terminal_text(problem)}" for problem in check.problems)
            raise CommandError(f"{name} contradicts itself:\n{listed}")
        if not as_json:
            calls = sum(len(step.call_ids) for step in check.steps)
            state = "interrupted, and proved as far as it came" if check.is_interrupted else "proved by its records"
            self.stdout.write(f"{name}: {len(steps):,} steps with {calls:,} calls, {state}")

    def _verify_file(self, path: Path) -> None:
        name = terminal_text(str(path))
        try:
            if path.stat().st_size > MOST_BYTES:
                raise CommandError(f"{name} has more than {MOST_BYTES:,} bytes: share writes no such file.")
            check = check_file(path.read_bytes())
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror or error}") from None
        except NotShared as error:
            raise CommandError(f"{name}: {error}") from None
        if check.changes:
            listed = "\n".join(f"  {terminal_text(change)}" for change in check.changes)
            raise CommandError(f"{name} was changed:\n{listed}")
        self.stdout.write(f"{name}: {check.texts:,} texts are unchanged")
