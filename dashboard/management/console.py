"""Arguments and output that several commands share: the project, runs by id, text that is safe on a terminal, links."""

from __future__ import annotations

import json
from typing import Any, TextIO
from urllib.parse import quote
from uuid import UUID

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser, OutputWrapper

from dashboard.accounts import DEFAULT_PROJECT, DEMO_PROJECT, create_link, get_or_create_project
from dashboard.models import Project, Run
from dashboard.server import AddressUnavailable, Server, check_address, find_base_url
from dashboard.worker import WorkerSupervisor
from envelopes.text.untrusted_json import visible


def terminal_text(text: str) -> str:
    """Escapes control characters, so that no file name or payload can send commands to a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in visible(text))


def add_project_argument(parser: CommandParser) -> None:
    parser.add_argument("--project", metavar="SLUG", help="the first project but the demo's, unless given")


def find_project(slug: str | None) -> Project:
    """Creates the default project where there is none but the demo's. Raises CommandError with the known slugs."""
    first = Project.objects.exclude(slug=DEMO_PROJECT).order_by("id").first()
    if slug is None or (slug == DEFAULT_PROJECT and first is None):
        return first or get_or_create_project()
    try:
        return Project.objects.get(slug=slug)
    except Project.DoesNotExist:
        slugs = ", ".join(Project.objects.order_by("slug").values_list("slug", flat=True)) or "none yet"
        creation = "`create_user NAME --project SLUG --create-project` creates one."
        raise CommandError(f"There is no project {slug!r}. Known: {slugs}. {creation}") from None


def warn_of_unseen_project(err: OutputWrapper, project: Project) -> None:
    """A project that a command created has no member, and so no page shows what is in it."""
    if not project.memberships.exists():
        member = f"create_user NAME --project {project.slug}"
        err.write(f"Nobody sees the project {project.slug} on the pages yet: `{member}` adds a person.")


def add_base_url_argument(parser: CommandParser) -> None:
    parser.add_argument(
        "--base-url",
        default=find_base_url(),
        help="address of the dashboard: COUNTERFOIL_BASE_URL, else the newest `serve` that listens (now %(default)s)",
    )


def add_link_arguments(parser: CommandParser) -> None:
    add_base_url_argument(parser)
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout, nothing else")


def print_new_link(
    out: OutputWrapper | TextIO, user: User, facts: dict[str, Any], *, base_url: str, as_json: bool, to: str = ""
) -> None:
    """Creates a sign-in link that leads to the page `to` and prints it; `facts` join it in the JSON document."""
    path, expires_at = create_link(user)
    link = base_url.rstrip("/") + path + (f"?next={quote(to)}" if to else "")
    if as_json:
        out.write(json.dumps(facts | {"link": link, "expires_at": expires_at.isoformat()}) + "\n")
        return
    out.write(f"One-time sign-in link, until {expires_at:%Y-%m-%d %H:%M} UTC:\n{link}\n")


def check_server_address(addrport: str) -> None:
    """Before anything is started. Raises CommandError."""
    try:
        check_address(addrport)
    except AddressUnavailable as unavailable:
        raise CommandError(terminal_text(f"{unavailable}.")) from None


def serve_until_stopped(out: OutputWrapper | TextIO, addrport: str) -> None:
    """Serves one person's machine: one web process, one for the background work."""
    check_server_address(addrport)
    out.write("Serving until Ctrl-C.\n")
    out.flush()
    WorkerSupervisor(1).start()
    Server(addrport, workers=1).run()


def find_run(name: str) -> Run:
    """Ids of agents may repeat across projects; for those that do, our own id has to be given."""
    runs = Run.objects.select_related("parent", "project")
    try:
        matches = list(runs.filter(pk=UUID(name)))
    except ValueError:
        matches = []
    matches = matches or list(runs.filter(external_id=name).order_by("project", "pk")[:20])
    if not matches:
        raise CommandError(terminal_text(f"There is no run {name!r}."))
    if len(matches) > 1:
        candidates = "\n".join(f"  {run.pk}  in project {run.project.name}" for run in matches)
        raise CommandError(f"{terminal_text(name)} is the id of several runs. Give one of these:\n{candidates}")
    return matches[0]
