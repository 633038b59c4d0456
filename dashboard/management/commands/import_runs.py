"""Imports recordings: files, folders, and with --watch what is added to them."""

from __future__ import annotations

import json
import os
import re
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django_rich.management import RichCommand
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from dashboard.accounts import DEFAULT_PROJECT, get_or_create_project
from dashboard.artifacts.ingest import artifact_roots
from dashboard.ingest import watch
from dashboard.ingest.import_report import ImportProgress, ImportReport
from dashboard.ingest.importer import Retry, import_paths
from dashboard.management.console import terminal_text, warn_of_unseen_project
from dashboard.models import Project
from dashboard.store_sqlite3.base import stop_mapping
from envelopes.recordings import READABLE, RECORDINGS

PROBLEMS_PRINTED = 20
FORMATS_PRINTED = 20
SECONDS_BETWEEN_DRAWINGS = 0.1  # of the progress
EDITORS = (".config/Code", "Library/Application Support/Code", ".vscode-server/data")
AGENT_FOLDERS = (
    *(".claude/projects", ".codex/sessions", ".codex/archived_sessions", ".gemini/tmp", ".qwen/projects"),
    *(".copilot/session-state", ".openhands/conversations", ".pi/agent/sessions", ".local/share/opencode"),
    *(".local/share/kilo", ".vibe/logs/session", ".continue/sessions"),
    *(".kimi/sessions", ".kimi-code/sessions", ".cline/data/sessions", ".cline/data/tasks"),
    *(f"{place}/User/globalStorage/saoudrizwan.claude-dev/tasks" for place in EDITORS),
)


class Command(RichCommand):
    help = (
        "Imports recorded agent runs. Importing again adds only what is new. Refused lines are printed and are no "
        "failure; the exit status is 1 when nothing was imported at all, or the artifact store failed."
    )
    requires_system_checks: list[str] = []  # they look at our code, not at the user's store, and load every page for it

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders")
        places = ", ".join(f"~/{place}" for place in AGENT_FOLDERS)
        parser.add_argument("--home", action="store_true", help=f"also the folders in which agents record: {places}")
        names = [recording.name for recording in READABLE]
        own = ", ".join(recording.name for recording in RECORDINGS)
        parser.add_argument("--format", choices=names, metavar="FORMAT", help=f"found by content unless given: {own}")
        parser.add_argument("--project", default=DEFAULT_PROJECT, metavar="SLUG", help="%(default)s, or a new one")
        parser.add_argument(
            "--artifacts-root",
            action="append",
            default=[],
            metavar="FOLDER",
            help="also store files in this folder that a recording names",
        )
        parser.add_argument(
            "--artifacts-hidden",
            action="store_true",
            help="also store hidden files there, such as .env or those in .git",
        )
        parser.add_argument(
            "--retry-artifacts", action="store_true", help="also store files again that the artifact store has lost"
        )
        parser.add_argument("--watch", action="store_true", help="follow the files until interrupted")
        parser.add_argument(
            "--follow", action="store_true", help="have the background work follow the files, also after a restart"
        )
        parser.add_argument("--unfollow", action="store_true", help="end that; nothing is imported")
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["unfollow"]:
            self._unfollow(options)
            return
        paths = [_existing_path(name) for name in options["paths"]]
        if options["home"]:
            paths += [folder for place in AGENT_FOLDERS if (folder := Path.home() / place).is_dir()]
        if not paths:
            raise CommandError("no path was given" + (", and no agent has recorded here" if options["home"] else ""))
        roots = [_existing_path(name) for name in options["artifacts_root"]]
        _check_options(options)
        known = list(Project.objects.order_by("slug").values_list("slug", flat=True))
        project = get_or_create_project(options["project"])
        if project.slug not in (*known, DEFAULT_PROJECT):
            others = ", ".join(known) or "none"
            self.stderr.write(f"There was no project {project.slug}, it was created. Others: {others}.")
        stop_mapping()  # a pool closes the connection, and another one is opened
        with artifact_roots(roots, has_hidden=options["artifacts_hidden"]):
            report = self._import(project, paths, options)
            if options["watch"]:
                self._follow(project, paths, options)
            elif options["follow"]:
                watch.store_followed(project, paths, options["format"] or "")
                self.stderr.write("The background work follows these paths from now on; --unfollow ends that.")
            elif report.unstored:
                raise CommandError(f"the artifact store failed; recordings not imported in whole: {report.unstored}")
            elif not report.lines["accepted"]:
                raise CommandError("nothing was imported: no line of these files could be read as a recording")

    def _import(self, project: Project, paths: Sequence[Path], options: dict[str, Any]) -> ImportReport:
        retry = Retry.LOST if options["retry_artifacts"] else Retry.MISSING
        columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        calls = "{task.fields[calls]} calls"
        is_hidden = options["json"] or not self.console.is_terminal
        # It draws itself in a thread; but processes of a pool are forked, for which there must be no thread.
        with Progress(
            *columns, calls, console=self.console, transient=True, disable=is_hidden, auto_refresh=False
        ) as bar:
            task = bar.add_task("", total=None, calls=0)
            drawn = 0.0

            def show(progress: ImportProgress) -> None:
                nonlocal drawn
                name = terminal_text(progress.path.rsplit("/", 1)[-1])
                done, total = progress.bytes_done, progress.bytes_total
                bar.update(task, description=name, completed=done, total=total, calls=progress.calls)
                if time.monotonic() - drawn >= SECONDS_BETWEEN_DRAWINGS:
                    bar.refresh()
                    drawn = time.monotonic()

            report = import_paths(project, paths, format_name=options["format"], progress=show, retry=retry)
        if options["json"]:
            self.stdout.write(json.dumps(report.to_json()))
        else:
            self._print_report(report)
        warn_of_unseen_project(self.stderr, project)
        return report

    def _follow(self, project: Project, paths: Sequence[Path], options: dict[str, Any]) -> None:
        """Runs until Ctrl-C. A batch that this interrupts is read again the next time."""

        def print_changes(report: ImportReport) -> None:
            if any(report.added.values()) and not options["json"]:
                self._print_report(report)

        try:
            watch.follow(project, paths, format_name=options["format"], on_report=print_changes)
        except KeyboardInterrupt:
            self.stderr.write("Stopped. What was read is stored.")

    def _unfollow(self, options: dict[str, Any]) -> None:
        ended = watch.remove_followed(options["project"], options["paths"])
        if not ended:
            raise CommandError(f"none of these paths is followed for the project {options['project']}")
        self.stderr.write(f"No longer followed: {ended} of {len(options['paths'])}. What was imported stays.")

    def _print_report(self, report: ImportReport) -> None:
        added, lines = report.added, report.lines
        self.stdout.write(
            f"{report.files} files: {added['runs']} runs, {added['calls']} calls, {added['results']} results, "
            f"{added['receipts']} receipts added; lines: {lines['accepted']} accepted, "
            f"{lines['rejected']} rejected, {lines['blank']} blank"
        )
        for file in report.formats[:FORMATS_PRINTED]:
            recognised = f"{file['format']}, recognised by {file['recognised_by']}"
            self.stdout.write(terminal_text(f"{file['file']}: {recognised}"))
        if len(report.formats) > FORMATS_PRINTED:
            self.stdout.write(
                f"and {len(report.formats) - FORMATS_PRINTED} more files; --json names the format of each"
            )
        if report.stored_later:
            self.stdout.write(f"{report.stored_later} files were stored that had been missing or had grown")
        problems = [*report.problems, *report.skipped]
        for problem in problems[:PROBLEMS_PRINTED]:
            place = f":{problem['line']} {problem['path']}" if problem["line"] else ""  # none: the whole file
            self.stderr.write(terminal_text(f"{problem['file']}{place}: {problem['reason']}"))
        if len(problems) > PROBLEMS_PRINTED:
            self.stderr.write(f"and {len(problems) - PROBLEMS_PRINTED} more problems; --json names all")


def _check_options(options: dict[str, Any]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", options["project"]):
        raise CommandError("a project's name has letters, digits, - and _, 64 at most")
    if options["follow"] and (options["watch"] or options["artifacts_root"]):
        raise CommandError("--follow goes neither with --watch nor with --artifacts-root")


def _existing_path(name: str) -> Path:
    """Refuses an empty name: `Path("")` would be the folder that the command was started in."""
    try:
        os.stat(name)
    except OSError as error:
        raise CommandError(f"{error.strerror or error}: {terminal_text(name) or 'an empty path'}") from None
    return Path(name)
