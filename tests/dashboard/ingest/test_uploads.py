"""Recordings from the browser."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from dashboard.ingest.uploads import Refused, safe_path
from dashboard.models import Call, Project, Run, Source
from tests.dashboard.factories import create_project, create_user
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


def post(client: Client, *files: SimpleUploadedFile, paths: tuple[str, ...] = ()) -> tuple[int, str]:
    response = client.post("/runs/import/", {"files": files, "paths": paths})
    return response.status_code, response.content.decode()


@pytest.mark.usefixtures("alice")
def test_the_form_says_what_is_accepted_and_what_to_do_with_more(client: Client) -> None:
    html = client.get("/runs/import/").content.decode()
    for words in ("How do I get a recording in?", "Claude Code", "256.0 MB at once", "import_runs", 'type="file"'):
        assert words in html


@pytest.mark.usefixtures("alice")
def test_an_upload_becomes_a_run_with_its_calls(client: Client) -> None:
    status, html = post(client, session_file(SESSION))
    assert status == 200
    run = Run.objects.get()
    assert f'href="/runs/{run.pk}/"' in html
    assert Call.objects.get().external_id == "toolu_1"
    assert Source.objects.get().path == "session.jsonl"


@pytest.mark.usefixtures("alice")
def test_the_same_upload_again_adds_nothing_and_says_so(client: Client) -> None:
    post(client, session_file(SESSION))
    status, html = post(client, session_file(SESSION))
    assert status == 200
    assert "Nothing new" in html
    assert Call.objects.count() == 1


@pytest.mark.usefixtures("alice")
def test_a_folder_keeps_what_lies_below_what(client: Client) -> None:
    files = (session_file(SESSION, "one.jsonl"), session_file([user("Hi", uuid="s1")], "agent-a1.jsonl"))
    status, _ = post(client, *files, paths=("work/one.jsonl", "work/one/subagents/agent-a1.jsonl"))
    assert status == 200
    assert set(Source.objects.values_list("path", flat=True)) == {"work/one.jsonl", "work/one/subagents/agent-a1.jsonl"}


@pytest.mark.usefixtures("alice")
def test_nothing_of_an_upload_is_left_on_the_disk(client: Client) -> None:
    post(client, session_file(SESSION))
    assert list(settings.DATA.glob("upload-*")) == []


@pytest.mark.usefixtures("alice")
def test_a_bad_line_is_a_problem_and_the_good_ones_beside_it_come_in(client: Client) -> None:
    file = session_file(SESSION)
    broken = SimpleUploadedFile("broken.jsonl", file.read() + b"{not json}\n")
    status, html = post(client, broken)
    assert status == 200
    assert "1 problem" in html
    assert "broken.jsonl" in html
    assert Call.objects.count() == 1


@pytest.mark.usefixtures("alice")
def test_a_file_that_is_no_recording_is_a_problem_with_a_reason(client: Client) -> None:
    status, html = post(client, SimpleUploadedFile("holiday.jsonl", b"\x89PNG\r\n\x1a\n"))
    assert status == 200
    assert "holiday.jsonl" in html
    assert "not a recording" in html
    assert str(settings.DATA) not in html


@pytest.mark.usefixtures("alice")
def test_what_lies_in_a_folder_beside_recordings_is_no_problem(client: Client) -> None:
    files = (session_file(SESSION, "one.jsonl"), SimpleUploadedFile("toolu_9.txt", b"a saved output"))
    status, html = post(client, *files, paths=("work/one.jsonl", "work/one/tool-results/toolu_9.txt"))
    assert status == 200
    assert "problem" not in html.split("<main")[1]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("session.jsonl", "session.jsonl"),
        ("a/b/c.jsonl", "a/b/c.jsonl"),
        ("a\\b.jsonl", "a/b.jsonl"),
        ("weird\x1b[31m<name>.jsonl", "weird_[31m_name_.jsonl"),
        ("-home-dev-shop/5a.jsonl", "-home-dev-shop/5a.jsonl"),
        ("x" * 300 + ".jsonl", "x" * 150 + ".jsonl"),
    ],
)
def test_a_path_keeps_its_safe_components(given: str, kept: str) -> None:
    assert safe_path(given) == PurePosixPath(kept)


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
    with pytest.raises(Refused):
        safe_path(given)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (("../../session.jsonl",), "leads upwards"),
        (("a.jsonl", "b.jsonl"), "1 files came with 2 paths"),
    ],
)
@pytest.mark.usefixtures("alice")
def test_a_refused_upload_says_why_and_brings_nothing(client: Client, paths: tuple[str, ...], reason: str) -> None:
    status, html = post(client, session_file(SESSION), paths=paths)
    assert status == 422
    assert reason in html
    assert "Nothing was imported." in html
    assert Run.objects.count() == 0


@pytest.mark.usefixtures("alice")
def test_a_name_that_is_both_file_and_folder_is_refused(client: Client) -> None:
    files = (session_file(SESSION, "a"), session_file(SESSION, "b"))
    status, html = post(client, *files, paths=("a", "a/b"))
    assert status == 422
    assert "both a file and a folder" in html
    assert Run.objects.count() == 0


@pytest.mark.usefixtures("alice")
def test_two_files_of_one_name_are_refused(client: Client) -> None:
    status, html = post(client, session_file(SESSION), session_file(SESSION))
    assert status == 422
    assert "was sent twice" in html


@pytest.mark.usefixtures("alice")
def test_no_file_is_no_upload(client: Client) -> None:
    status, html = post(client)
    assert status == 422
    assert "No file was chosen." in html


@pytest.mark.usefixtures("alice")
def test_an_upload_beyond_the_limit_is_refused_before_it_is_read(client: Client, settings: Settings) -> None:
    settings.UPLOAD_LIMIT_BYTES = 100
    status, html = post(client, session_file(SESSION))
    assert status == 413
    assert "at most 100 B are taken at once" in html
    assert Run.objects.count() == 0


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


@pytest.mark.usefixtures("alice")
def test_hostile_names_and_titles_are_text(client: Client) -> None:
    lines = [user(HOSTILE, uuid="u1"), asks("toolu_1", HOSTILE), answers("toolu_1", HOSTILE)]
    _, html = post(client, session_file([*lines, "x"], f"{HOSTILE}.jsonl".replace("/", "")))
    assert "<script>alert" not in html
    assert "<b hx-post" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html
