"""Uploads become runs, and a refused upload gives its reason."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts.retention import check_store
from dashboard.artifacts.upload_folders import (
    find_abandoned_uploads,
    remove_abandoned_uploads,
    reserve_upload_folder,
)
from dashboard.ingest.uploads import UploadRefused, safe_path
from dashboard.models import Call, Project, Run, Source
from envelopes.recordings import UNRECOGNISED
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import answers, asks, user

HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202e\x1b[31m'
SESSION = [user("Look around.", uuid="u1"), asks("toolu_1"), answers("toolu_1")]


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def alice(project: Project, client: Client) -> User:
    person = create_user("alice", project=project)
    client.force_login(person)
    return person


def session_file(lines: list[Any], name: str = "session.jsonl") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, "".join(json.dumps(line) + "\n" for line in lines).encode())


def post(client: Client, *files: SimpleUploadedFile, paths: tuple[str, ...] = ()) -> tuple[int, Page]:
    response = client.post("/runs/import/", {"files": files, "paths": paths})
    return response.status_code, parse_page(response)


@pytest.mark.usefixtures("alice")
def test_the_form_lists_the_formats_the_limit_and_the_command(client: Client) -> None:
    page = parse_page(client.get("/runs/import/"))
    form = page.by_role("main").by_role("form")
    assert form.by_id("files")["type"] == "file"
    assert "Claude Code" in form.text
    assert "At most 256.0 MB at once." in form.text
    assert "python manage.py import_runs" in page.select_one("main pre").text


@pytest.mark.usefixtures("alice")
def test_an_upload_becomes_a_run_with_its_calls(client: Client) -> None:
    status, page = post(client, session_file(SESSION))
    assert status == 200
    run = Run.objects.get()
    assert page.by_role("heading", "Imported", exact=True)
    assert page.by_role("link", run.title, exact=True)["href"] == run.get_absolute_url()
    assert page.by_role("table", "Counts of the upload").rows("tbody tr") == [
        ["in the files", "1", "1", "1", "1", "0"],
        ["new", "1", "1", "1", "1", "0"],
    ]
    assert Call.objects.get().external_id == "toolu_1"
    assert Source.objects.get().path == "session.jsonl"


@pytest.mark.usefixtures("alice")
def test_the_same_upload_again_adds_nothing_and_says_so(client: Client) -> None:
    post(client, session_file(SESSION))
    status, page = post(client, session_file(SESSION))
    assert status == 200
    assert page.by_role("heading", "Nothing new")
    assert Call.objects.count() == 1


@pytest.mark.usefixtures("alice")
def test_a_file_of_an_unknown_format_is_not_called_nothing_new(client: Client) -> None:
    _, page = post(client, SimpleUploadedFile("notes.json", b'{"hello": "world"}'))
    assert page.by_role("heading", "Nothing imported")
    assert UNRECOGNISED in page.text


@pytest.mark.usefixtures("alice")
def test_a_folder_keeps_what_lies_below_what(client: Client) -> None:
    files = (session_file(SESSION, "one.jsonl"), session_file([user("Hi", uuid="s1")], "agent-a1.jsonl"))
    status, _ = post(client, *files, paths=("work/one.jsonl", "work/one/subagents/agent-a1.jsonl"))
    assert status == 200
    assert set(Source.objects.values_list("path", flat=True)) == {"work/one.jsonl", "work/one/subagents/agent-a1.jsonl"}


@pytest.mark.usefixtures("alice")
def test_nothing_of_an_upload_is_left_on_the_disk(client: Client) -> None:
    post(client, session_file(SESSION))
    assert list((settings.DATA / "uploads").glob("*-*/")) == []


@pytest.mark.usefixtures("alice")
def test_a_bad_line_is_a_problem_and_the_good_ones_beside_it_come_in(client: Client) -> None:
    file = session_file(SESSION)
    broken = SimpleUploadedFile("broken.jsonl", file.read() + b"{not json}\n")
    status, page = post(client, broken)
    assert status == 200
    assert page.by_role("heading", "1 problem", exact=True)
    names = page.all_by_text("broken.jsonl", exact=True)
    assert [name.tag for name in names] == ["td", "td"]  # among the formats and among the problems
    assert Call.objects.count() == 1


@pytest.mark.usefixtures("alice")
def test_a_file_that_is_no_recording_is_a_problem_with_a_reason(client: Client) -> None:
    status, page = post(client, SimpleUploadedFile("holiday.jsonl", b"\x89PNG\r\n\x1a\n"))
    assert status == 200
    assert page.by_text("holiday.jsonl", exact=True).tag == "td"
    assert UNRECOGNISED in page.text
    assert str(settings.DATA) not in page.markup


@pytest.mark.usefixtures("alice")
def test_what_lies_in_a_folder_beside_recordings_is_no_problem(client: Client) -> None:
    files = (session_file(SESSION, "one.jsonl"), SimpleUploadedFile("toolu_9.txt", b"a saved output"))
    status, page = post(client, *files, paths=("work/one.jsonl", "work/one/tool-results/toolu_9.txt"))
    assert status == 200
    assert "problem" not in page.by_role("main").text


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("session.jsonl", "session.jsonl"),
        ("a/b/c.jsonl", "a/b/c.jsonl"),
        ("a\\b.jsonl", "a/b.jsonl"),
        ("weird\x1b[31m<name>.jsonl", "weird_[31m_name_.jsonl"),
        ("-home-dev-shop/5a.jsonl", "-home-dev-shop/5a.jsonl"),
        ("x" * 300 + ".jsonl", "x" * 150 + ".jsonl"),
    ],
)
def test_a_path_keeps_its_safe_components(given: str, safe: str) -> None:
    assert safe_path(given) == PurePosixPath(safe)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/./x",
        "a//x",
        "a\x00b",
        "C:\\x",
        "\\\\host\\x",
        "a/",
        "..",
        "a/ /b",
        "d/" * 13,
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(given: str) -> None:
    with pytest.raises(UploadRefused):
        safe_path(given)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (("../../session.jsonl",), "leads upwards"),
        (("a.jsonl", "b.jsonl"), "1 files came with 2 paths"),
    ],
)
@pytest.mark.usefixtures("alice")
def test_a_refused_upload_gives_the_reason_and_imports_nothing(
    client: Client, paths: tuple[str, ...], reason: str
) -> None:
    status, page = post(client, session_file(SESSION), paths=paths)
    assert status == 422
    assert reason in page.by_role("alert").text
    assert "Nothing was imported." in page.by_role("alert").text
    assert Run.objects.count() == 0


@pytest.mark.usefixtures("alice")
def test_a_name_that_is_both_file_and_folder_is_refused(client: Client) -> None:
    files = (session_file(SESSION, "a"), session_file(SESSION, "b"))
    status, page = post(client, *files, paths=("a", "a/b"))
    assert status == 422
    assert "both a file and a folder" in page.by_role("alert").text
    assert Run.objects.count() == 0


@pytest.mark.usefixtures("alice")
def test_two_files_of_one_name_are_refused(client: Client) -> None:
    status, page = post(client, session_file(SESSION), session_file(SESSION))
    assert status == 422
    assert "was sent twice" in page.by_role("alert").text


@pytest.mark.usefixtures("alice")
def test_no_file_is_no_upload(client: Client) -> None:
    status, page = post(client)
    assert status == 422
    assert "No file was chosen." in page.by_role("alert").text


@pytest.mark.usefixtures("alice")
def test_an_upload_beyond_the_limit_is_refused_before_it_is_read(client: Client, settings: Settings) -> None:
    settings.UPLOAD_LIMIT_BYTES = settings.BODY_LIMIT_BYTES = 100
    status, page = post(client, session_file(SESSION))
    assert status == 413
    assert "this address accepts at most 100 B" in page.by_role("main").text
    assert Run.objects.count() == 0


@pytest.mark.usefixtures("alice")
def test_uploads_share_a_quota_that_the_waiting_one_is_told(client: Client, settings: Settings) -> None:
    settings.UPLOAD_QUOTA_BYTES = 1_000_000
    with reserve_upload_folder(999_999):
        status, page = post(client, session_file(SESSION))
        assert status == 503
        assert "Other uploads are using 1.0 MB" in page.by_role("alert").text
    assert post(client, session_file(SESSION))[0] == 200


@pytest.mark.usefixtures("alice")
def test_a_file_arrives_in_the_folder_of_the_store_and_nowhere_else(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "does not exist"))
    assert post(client, session_file([*SESSION, "x" * 3_000_000]))[0] == 200
    assert list(tmp_path.iterdir()) == list((settings.DATA / "uploads").glob("*-*/")) == []


def test_the_folder_of_a_killed_upload_is_reported_and_removed_by_the_next(db: None) -> None:
    left = settings.DATA / "uploads" / "12-killed"
    left.mkdir(parents=True)
    (left / "1.part").write_bytes(b"half")
    with reserve_upload_folder(5) as living:
        assert living.parent == left.parent
        assert not left.exists()
        assert find_abandoned_uploads() == []
    left.mkdir()
    assert [(finding.kind, finding.name) for finding in check_store().findings] == [("upload", "12-killed")]
    remove_abandoned_uploads()
    assert check_store().findings == ()


def test_a_viewer_may_not_import(client: Client, project: Project) -> None:
    client.force_login(create_user("bob", project=project, role="viewer"))
    assert client.get("/runs/import/").status_code == 403
    assert post(client, session_file(SESSION))[0] == 403
    assert Run.objects.count() == 0


def test_an_upload_without_its_token_is_refused(project: Project) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(create_user("alice", project=project))
    assert post(strict, session_file(SESSION))[0] == 403
    assert Run.objects.count() == 0


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_hostile_names_and_titles_are_text(client: Client) -> None:
    lines = [user(HOSTILE, uuid="u1"), asks("toolu_1", HOSTILE), answers("toolu_1", HOSTILE)]
    _, page = post(client, session_file([*lines, "x"], f"{HOSTILE}.jsonl".replace("/", "")))
    assert not page.has("script:not([src])")
    assert not page.has('[hx-post="/runs/"]')
    assert not set("\u202e\x1b") & set(page.markup)
