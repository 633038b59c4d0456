"""`verify FILE`: checks that a file written by `share` is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.management.console import terminal_text
from dashboard.sharing.share_file import NotShared, check_file

MOST_BYTES = 200_000_000


class Command(BaseCommand):
    help = (
        "Computes the hashes of a shared file again from its own text; exits with status 1 and a list when something "
        "was changed. It needs no store. A hash does not prove who made a file."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="an HTML file that `share` or the dashboard wrote")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["file"])
        name = terminal_text(str(path))
        if path.is_dir():
            raise CommandError(
                f"{name} is a folder: verify checks one shared HTML file; exported folders have no hashes."
            )
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
