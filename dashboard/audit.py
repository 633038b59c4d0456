"""The audit log: what people did in a project, by pages and by commands; append-only."""

from __future__ import annotations

import csv
import getpass
import io
import json
from collections.abc import Callable

from django.http import HttpRequest

from dashboard.accounts import client_address
from dashboard.models import AuditEntry, Project

COLUMNS = ("at", "person", "client", "action", "subject")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")
SUBJECT_CHARACTERS = 300


def record_request(request: HttpRequest, action: AuditEntry.Action, subject: str) -> None:
    """Adds what the person of this request does, in the project of the request."""
    AuditEntry.objects.create(
        project=getattr(request, "project", None),
        person=request.user.get_username(),
        client=client_address(request),
        action=action,
        subject=subject[:SUBJECT_CHARACTERS],
    )


def record_command(project: Project, action: AuditEntry.Action, subject: str) -> None:
    """Adds what the user of the system does by a command."""
    AuditEntry.objects.create(
        project=project,
        person=getpass.getuser(),
        client="command line",
        action=action,
        subject=subject[:SUBJECT_CHARACTERS],
    )


def escape_cell(text: str) -> str:
    """The text of a cell of a CSV file; what a spreadsheet would compute begins with an apostrophe."""
    return f"'{text}" if text.startswith(FORMULA) else text


def export_csv(project: Project) -> str:
    """All entries, the newest first."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for row in AuditEntry.objects.of_project(project).values_list(*COLUMNS):
        writer.writerow([escape_cell(str(value)) for value in row])
    return file.getvalue()


def export_json_lines(project: Project) -> str:
    rows = AuditEntry.objects.of_project(project).values(*COLUMNS)
    return "".join(json.dumps(row | {"at": row["at"].isoformat()}) + "\n" for row in rows)


# By the form in the address: content type and text.
EXPORTS: dict[str, tuple[str, Callable[[Project], str]]] = {
    "csv": ("text/csv", export_csv),
    "jsonl": ("application/x-ndjson", export_json_lines),
}
