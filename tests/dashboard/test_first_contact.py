"""The first commands of a newcomer: the demo with its own project, and one command from a folder to a page."""

from __future__ import annotations

import json
import re
import socket
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.test import Client
from pytest_django import Settings

from dashboard.__main__ import _name_the_command
from dashboard.models import Call, Project
from tests.cases import each
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_project
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION, short_session, write

pytestmark = pytest.mark.django_db


def sign_in(client: Client, printed: str) -> str:
    """Follows the printed link as a browser does; where it leads to."""
    (link,) = re.findall(r"http://127.0.0.1:8000(/sign-in/\S+)", printed)
    return client.post(link)["Location"]


def call_counts() -> dict[str, int]:
    return {project.slug: project.calls.count() for project in Project.objects.all()}


@pytest.mark.extended
def test_the_demo_has_a_project_of_its_own_and_opens_with_a_call_that_was_cut(
    client: Client, tmp_path: Path, settings: Settings
) -> None:
    settings.DATA = tmp_path / "data"
    printed = StringIO()
    call_command("demo", "--no-serve", stdout=printed)
    assert "9 runs with 210 calls are in the store." in printed.getvalue()
    of_plan = Call.objects.filter(run__external_id="demo-plan").count()
    assert of_plan
    assert call_counts() == {"demo": 210 + of_plan, "default": 0}
    call_command("demo", "--no-serve", stdout=StringIO())  # runs no second plan
    assert call_counts() == {"demo": 210 + of_plan, "default": 0}

    page = parse_page(client.get(sign_in(client, printed.getvalue())))
    assert "In this run Bash returned 4,007 lines, and the model saw 79 of them." in page.text
    call = parse_page(client.get(page.by_role("link", "See which")["href"]))
    assert "the model got lines 1–79 of 4,007" in call.text
    assert not parse_page(client.get("/runs/?q=tool:Bash")).has(".first-cut")

    call_command("import_runs", str(write(tmp_path / f"{SESSION}.jsonl", short_session())), stdout=StringIO())
    assert call_counts() == {"demo": 210 + of_plan, "default": 3}
    assert not parse_page(client.get("/runs/?project=default")).has(".first-cut")


def test_one_command_imports_a_folder_and_prints_the_link_to_its_runs(client: Client, tmp_path: Path) -> None:
    write(tmp_path / f"{SESSION}.jsonl", short_session())
    printed = StringIO()
    call_command("import_and_serve", str(tmp_path), "--no-serve", stdout=printed)
    assert Call.objects.count() == 3
    address = sign_in(client, printed.getvalue())
    assert address == "/runs/?project=default"
    assert len(parse_page(client.get(address)).select("tbody tr")) == 1
    with pytest.raises(CommandError, match="nothing was imported"):
        call_command("import_and_serve", str(CHECKOUT / "templates" / "runs"), "--no-serve", stdout=StringIO())


@pytest.mark.postgresql
def test_a_project_that_nobody_sees_is_reported_with_the_command_that_changes_it(tmp_path: Path) -> None:
    create_project("other")
    session = str(write(tmp_path / f"{SESSION}.jsonl", short_session()))
    for is_seen, command in enumerate(("There was no project team, it was created. Others: other.\nNobody sees", "")):
        err, out = StringIO(), StringIO()
        call_command("import_runs", session, "--project", "team", "--json", stdout=out, stderr=err)
        assert json.loads(out.getvalue())["seen"]["calls"] == 3
        assert err.getvalue().startswith(command)
        assert ("it was created" in err.getvalue()) is not bool(is_seen)
        assert ("`create_user NAME --project team`" in err.getvalue()) is not bool(is_seen)
        call_command("create_user", "dora", "--project", "team", stdout=StringIO())


@pytest.mark.postgresql
def test_an_export_without_a_call_names_the_project_and_the_others(tmp_path: Path) -> None:
    call_command("import_runs", str(write(tmp_path / f"{SESSION}.jsonl", short_session())), "--project", "team")
    create_project("default")
    err = StringIO()
    call_command("calls", "--csv", str(tmp_path / "calls.csv"), stderr=err)
    assert err.getvalue() == "No call of the project default matches. Projects (--project): default, team.\n"
    assert (tmp_path / "calls.csv").read_text().count("\n") == 1
    with pytest.raises(CommandError, match=r"no project 'nowhere'. Known: default, team"):
        call_command("calls", "--csv", "-", "--project", "nowhere")
    with pytest.raises(CommandError, match="Project default: No call matches"):
        call_command("compare_variants", "--variants", "recorded,receipt")


@each(
    ("arguments", "command"),
    [
        (["counterfoil"], ["counterfoil"]),
        (["counterfoil", "templates"], ["counterfoil", "import_and_serve", "templates"]),
        (["counterfoil", "./nothing"], ["counterfoil", "import_and_serve", "./nothing"]),
        (["counterfoil", "nothing"], ["counterfoil", "nothing"]),
        (["counterfoil", "demo", "--no-serve"], ["counterfoil", "demo", "--no-serve"]),
    ],
)
def test_a_path_in_the_place_of_a_command_is_imported_and_served(
    arguments: list[str], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert _name_the_command(arguments) == command


def test_a_folder_with_the_name_of_a_command_needs_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert _name_the_command(["counterfoil", "demo"]) == ["counterfoil", "demo"]
    assert _name_the_command(["counterfoil", "./demo"]) == ["counterfoil", "import_and_serve", "./demo"]


@each(
    ("address", "reason"),
    [
        (
            "127.0.0.1:{port}",
            r"^127.0.0.1:\d+ is in use by another program: end it, or give another address with --add",
        ),
        ("192.0.2.1:8000", "^192.0.2.1:8000 cannot be served: "),  # of another machine
        ("127.0.0.1:99999", "^127.0.0.1:99999 is no address to serve: "),
        ("127.0.0.1:http", "^127.0.0.1:http is no address to serve: "),
    ],
)
def test_serve_ends_at_once_where_nobody_can_listen(address: str, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(CommandError, match=reason):
        call_command("serve", addrport=address.format(port=other.getsockname()[1]))


def test_every_argument_of_every_command_is_explained() -> None:
    names = sorted(name for name, app in get_commands().items() if app == "dashboard")
    assert "serve" in names
    unexplained = [
        f"{name} {action.metavar or action.dest}"
        for name in names
        for action in load_command_class("dashboard", name).create_parser("manage.py", name)._actions
        if not action.help
    ]
    assert not unexplained


@each(
    ("command", "number", "sentence"),
    [
        ("work", "--processes=-1", "--processes is a number from 0 on"),
        ("serve", "--workers=0", "--workers is a number from 1 on"),
        ("serve", "--background=-1", "--background one from 0 on"),
    ],
)
def test_a_number_of_processes_that_could_do_nothing_is_refused(command: str, number: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command(command, number)
