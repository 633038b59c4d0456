"""Takes in recordings: files, folders, and with --watch whatever is added to them."""

from __future__ import annotations

import json
import os
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import connection
from django_rich.management import RichCommand
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from dashboard.accounts.access import DEFAULT_PROJECT, get_or_create_project
from dashboard.artifacts.ingest import artifact_roots
from dashboard.ingest import importer, watch
from dashboard.ingest.importer import Report, Retry, import_paths
from dashboard.management.console import terminal_text
from dashboard.models import Project
from envelopes.recordings import RECORDINGS


class Command(RichCommand):
    help = (
        "Import recorded agent runs. Importing again adds only what is new. Ends with status 1 when the artifact store "
        "did not take a file; lines that cannot be read are told, and no failure."
    )
    requires_system_checks: list[str] = []  # they look at our code, not at the user's store, and load every page for it

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders")
        parser.add_argument("--format", choices=[one.name for one in RECORDINGS], help="instead of by content")
        parser.add_argument("--project", default=DEFAULT_PROJECT)
        parser.add_argument(
            "--artifacts-root", action="append", default=[], metavar="FOLDER", help="take in files named below it, too"
        )
        parser.add_argument(
            "--retry-artifacts", action="store_true", help="take in again what is lost or damaged in the store, too"
        )
        parser.add_argument("--watch", action="store_true", help="follow the files until interrupted")
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else")

    def handle(self, *_args: Any, **options: Any) -> None:
        options["paths"] = [_existing(name) for name in options["paths"]]
        roots = [_existing(name) for name in options["artifacts_root"]]
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", options["project"]):
            raise CommandError("a project's name has letters, digits, - and _, 64 at most")
        project = get_or_create_project(options["project"])
        _map_no_pages()
        with artifact_roots(roots):
            self._import(project, options)

    def _import(self, project: Project, options: dict[str, Any]) -> None:
        with _Bar(self, is_quiet=options["json"]) as bar:
            retry = Retry.LOST if options["retry_artifacts"] else Retry.MISSING
            report = import_paths(
                project, options["paths"], format_name=options["format"], progress=bar.show, retry=retry
            )
        if options["json"]:
            self.stdout.write(json.dumps(report.to_json()))
        else:
            self._tell(report)
        if options["watch"]:
            self._follow(project, options)
        elif report.unstored:
            raise CommandError(f"the artifact store did not take all files; recordings not in whole: {report.unstored}")

    def _follow(self, project: Project, options: dict[str, Any]) -> None:
        """Ctrl-C is how following ends; a batch that it interrupts is read again the next time."""
        tell = self._tell_nothing if options["json"] else self._tell_watched
        try:
            watch.follow(project, options["paths"], format_name=options["format"], tell=tell)
        except KeyboardInterrupt:
            self.stderr.write("Stopped. What was read is stored.")

    def _tell(self, report: Report) -> None:
        added, lines = report.added, report.lines
        self.stdout.write(
            f"{report.files} files: {added['runs']} runs, {added['calls']} calls, {added['results']} results, "
            f"{added['receipts']} receipts added; lines: {lines['accepted']} accepted, "
            f"{lines['rejected']} rejected, {lines['blank']} blank"
        )
        if report.taken_later:
            self.stdout.write(f"{report.taken_later} files were taken in that had been missing or had grown")
        for problem in report.problems[:20]:
            place = f"{problem['file']}:{problem['line']} {problem['path']}"
            self.stderr.write(terminal_text(f"{place}: {problem['reason']}"))
        if len(report.problems) > 20:
            self.stderr.write(f"and {len(report.problems) - 20} more problems; all are on /problems/")

    def _tell_watched(self, report: Report) -> None:
        if any(report.added.values()):
            self._tell(report)

    def _tell_nothing(self, _report: Report) -> None:
        """With --json, stdout holds the one document."""


def _map_no_pages() -> None:
    """Pages that SQLite maps count as memory of this process, which should not grow with the store."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA mmap_size=0")


def _existing(name: str) -> Path:
    """An empty name is none: `Path("")` would be the folder that the command was started in."""
    try:
        os.stat(name)
    except OSError as error:
        raise CommandError(f"{error.strerror or error}: {terminal_text(name) or 'an empty path'}") from None
    return Path(name)


class _Bar:
    """Bytes, calls and rate on a terminal; nothing when --json or when nobody watches."""

    def __init__(self, command: Command, *, is_quiet: bool) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[calls]} calls"),
            console=command.console,
            transient=True,
            disable=is_quiet or not command.console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, progress: importer.Progress) -> None:
        name = terminal_text(progress.path.rsplit("/", 1)[-1])
        if self._task is None:
            self._task = self._bar.add_task(name, total=progress.bytes_total, calls=0)
        self._bar.update(self._task, description=name, completed=progress.bytes_done, calls=progress.calls)
