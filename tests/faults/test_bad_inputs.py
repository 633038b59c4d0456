"""Every class of bad inputs that concerns files and pages gets the answers that the documentation lists.

The tables are `bad_values`, `bad_fields`, `bad_lines`, `bad_texts` and `bad_requests`, and
`python -m tests.faults.bad_inputs_page` writes them as a page. All files of a group are
imported at once, as they lie in a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from dashboard.ingest.importer import import_paths
from dashboard.models import Artifact, Call, Observation, Problem, Project, Remark, Run
from tests.cases import extended_except
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import answers, asks, write
from tests.dashboard.stored_artifacts import stored
from tests.faults.bad_fields import FIELDS
from tests.faults.bad_files import SESSION, BadFile
from tests.faults.bad_inputs_page import COMMAND, PAGE, render_page
from tests.faults.bad_lines import LINES
from tests.faults.bad_records import RECORDS
from tests.faults.bad_requests import PASSWORD, REQUESTS, BadRequest
from tests.faults.bad_sendings import SENDINGS
from tests.faults.bad_texts import TEXTS, WORD
from tests.faults.bad_values import VALUES
from tests.faults.crawl import faults_of_pages

pytestmark = pytest.mark.django_db
FILES = VALUES | FIELDS | LINES
ON_POSTGRESQL = [name for name in FILES if name.startswith(("unicode", "json-number", "stream-dup", "tool-name"))]
GROUPS = {"where databases differ": ON_POSTGRESQL, "elsewhere": [name for name in FILES if name not in ON_POSTGRESQL]}
HARMLESS = {"title", "aria-label"}
SHOWN_AT_ONCE = 2_000  # characters of a receipt that a page shows at least


def numbered(classes: list[str]) -> Iterator[tuple[str, str, BadFile]]:
    """Each file with its session and the id of its call."""
    files = [file for name in classes for file in FILES[name]]
    return ((SESSION.format(number), f"toolu_{number:03}", file) for number, file in enumerate(files))


def answers_of(folder: Path, session: str) -> list[str]:
    problems = [
        (f"line {row.line}: " * bool(row.line)) + row.reason + (f" ({row.path})" if row.path != "$" else "")
        for row in Problem.objects.filter(file__startswith=f"{folder}/").order_by("line", "pk")
    ]
    remarks = [
        f"line {row.line}: remark:{row.kind} at {row.path}: {row.became}"
        for row in Remark.objects.filter(run__external_id=session).order_by("line", "path", "was")
    ]
    artifacts = Artifact.objects.filter(call__run__external_id=session, observation=None)
    return problems + remarks + [f"its file is {artifact.state}" for artifact in artifacts]


@pytest.mark.postgresql("where databases differ")
@pytest.mark.parametrize("group", extended_except(GROUPS, "where databases differ"))
def test_a_bad_file_gets_its_answers_and_costs_nothing_beside_it(group: str, project: Project, tmp_path: Path) -> None:
    for session, call, file in numbered(GROUPS[group]):
        for name, raw in file.files(session, call).items():
            (tmp_path / call / name).parent.mkdir(exist_ok=True)
            (tmp_path / call / name).write_bytes(raw)
    import_paths(project, [tmp_path])
    wrong = []
    for session, call, file in numbered(GROUPS[group]):
        own = Call.objects.filter(external_id__startswith=call)
        kept = [bytes(row.data) for row in Observation.objects.filter(call__external_id=call, surface=file.surface)]
        seen = (answers_of(tmp_path / call, session), own.count(), kept if file.surface else [file.value])
        if seen != (file.answers, file.calls, [file.value]):
            wrong.append((file.name, seen[:2], file.answers, file.calls))
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_every_page_of_a_bad_file_opens(name: str, project: Project, tmp_path: Path, operator_client: Client) -> None:
    for session, call, file in numbered([name]):
        for path, raw in file.files(session, call).items():
            (tmp_path / call / path).parent.mkdir(exist_ok=True)
            (tmp_path / call / path).write_bytes(raw)
    import_paths(project, [tmp_path])
    assert faults_of_pages(operator_client, project) == []


def text_session(folder: Path) -> Path:
    lines = []
    for number, row in enumerate(row for rows in TEXTS.values() for row in rows):
        call = f"toolu_{number:03}"
        lines += [asks(call, args={"command": row.text}), answers(call, row.text, {"stdout": row.text, "stderr": ""})]
    return write(folder / "texts.jsonl", lines)


@pytest.mark.rendering
@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["brief", "whole"])
def test_a_text_is_shown_as_it_is_written_and_becomes_nothing_else(
    project: Project, tmp_path: Path, operator_client: Client, *, is_whole: bool
) -> None:
    """By default the first text of a class has its Call page asked, and all are in the pages of the run."""
    import_paths(project, [text_session(tmp_path)])
    calls = dict(Call.objects.values_list("external_id", "pk"))
    rows = [(name, number, row) for name, rows in TEXTS.items() for number, row in enumerate(rows)]
    for at, (name, number, row) in enumerate(rows):
        if number and not is_whole:
            continue
        page = parse_page(operator_client.get(f"/calls/{calls[f'toolu_{at:03}']}/"))
        assert_inert(page)
        shown = "".join(part.exact for part in page.select("#receipt-text pre.exact"))
        assert row.text.startswith(shown), (name, row.name)
        assert len(shown) >= min(len(row.text), SHOWN_AT_ONCE), (name, row.name)
        codes = {f"U+{int(mark['data-code']):04X}" for mark in page.select("#receipt-text i.mark[data-code]")}
        assert codes == set(row.marks), (name, row.name)
    run = Run.objects.get().pk
    for address in (f"/runs/{run}/", f"/runs/{run}/context", "/runs/"):
        assert_inert(parse_page(operator_client.get(address)))


def assert_inert(page: Page) -> None:
    """No element is named or configured by a text, and none is of a kind that loads, sends or runs something."""
    for element in page.select("*"):
        assert WORD not in element.tag
        configured = {name for name, value in element.attributes.items() if WORD in value or WORD in name}
        assert configured <= HARMLESS, element
        assert element.tag not in ("iframe", "object", "embed", "base", "math", "template"), element
        if element.tag in ("script", "style"):
            assert element.text == "", element


@pytest.fixture
def places(project: Project, operator: User, settings: Settings, tmp_path: Path) -> dict[str, str]:
    """What the addresses of the table name, by its sign."""
    settings.ARTIFACTS = tmp_path / "artifacts"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the others take their time
    operator.set_password(PASSWORD)
    operator.save()
    call = create_call(create_run(project), receipt="x")
    other = create_run(create_project("other"))
    return {"@R": call.run_id, "@C": call.pk, "@A": stored(call, b"some lines\n" * 100).pk, "@O": other.pk}


def test_a_bad_request_gets_its_answer(operator: User, places: Mapping[str, object]) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    wrong = []
    for name, rows in REQUESTS.items():
        for row in rows:
            client.force_login(operator)
            response = ask(client, row, places)
            address, text = response.headers.get("Location"), b"".join(response).decode("utf-8", "replace")
            is_right = row.words == address if address else row.words in text
            if response.status_code != row.status or not is_right:
                wrong.append((name, row.name, response.status_code, address or text[:200]))
    assert wrong == []


def ask(client: Client, row: BadRequest, places: Mapping[str, object]) -> HttpResponse:
    """With the token of a form, unless the row has another one."""
    token = "a" * 32
    client.cookies["csrftoken"] = token
    address = row.address
    for sign, value in places.items():
        address = address.replace(sign, str(value))
    headers = {"X-CSRFToken": token} | row.headers
    return client.generic(row.method, address, row.body, content_type=row.form, headers=headers)


def test_every_class_has_three_inputs_and_no_name_twice() -> None:
    for tables in (FILES, TEXTS, REQUESTS, RECORDS, SENDINGS):
        for name, rows in tables.items():
            assert len({row.name for row in rows}) == len(rows) >= 3, name


def test_the_page_of_the_documentation_is_made_from_the_tables() -> None:
    assert PAGE.read_text("utf-8") == render_page(), f"run: {COMMAND}"
