"""The artifacts of a call by role: size, lines, type, hash, state, origin, and duplicates in other calls."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.models import Artifact, Call, Project
from dashboard.models.identity import derive_id
from envelopes.storage.line_index import build_index, write_index
from tests.cases import extended_except
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.page_text import Page
from tests.dashboard.stored_artifacts import field_artifact, open_page, stored

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (40).to_bytes(4, "big") + (30).to_bytes(4, "big") + b"\x08\x06\0\0\0" + bytes(9)
)
PATCH = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture
def call(project: Project, alice: User, settings: Settings, tmp_path: Path) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    return create_call(create_run(project, "one", title="Build it"), tool="Bash")


def listed(page: Page) -> list[list[str]]:
    return [row for table in page.all_by_role("table", "Outputs of this call, by role") for row in table.rows()]


def test_all_of_a_call_are_listed_by_role_with_what_is_known_of_them(client: Client, call: Call) -> None:
    field = field_artifact(call, "line\n" * 900)
    patch = stored(call, PATCH, role="patch", ordinal=1, path="/home/x/change.patch")
    stored(call, PNG, role="screenshot", ordinal=2, path="/home/x/shot.png")
    Artifact.objects.create(
        id=derive_id("artifact", b"lost"),
        project=call.project,
        call=call,
        role="log",
        path="/l",
        state="missing",
        ordinal=3,
    )
    other = stored(create_call(create_run(call.project, title="Another"), "toolu_9999"), PATCH)
    page = open_page(client, field)
    head, *rows = listed(page)
    assert head[1:] == ["Lines", "Size", "Type", "SHA-256", "State", "From", "Same content in"]
    assert [[*row[:4], *row[5:]] for row in rows] == [
        ["stdout this one", "900", "4.5 KB", "Text", "part of the recording", "the recorded result, /stdout", ""],
        ["patch", "5", "34 B", "Diff", "stored", "a file that the recording names", "Bash toolu_9999 of “Another”"],
        ["screenshot", "–", "38 B", "Picture", "stored", "a file that the recording names", ""],
        ["log", "–", "–", "–", "not imported", "a file that the recording names", ""],
    ]
    assert [row[4] for row in rows] == [field.sha256[:16], patch.sha256[:16], rows[2][4], "–"]
    assert page.by_role("link", "Bash toolu_9999 of “Another”")["href"] == other.get_absolute_url()


def test_an_only_one_is_told_in_its_facts(client: Client, call: Call) -> None:
    page = open_page(client, stored(call, PATCH))
    assert listed(page) == []
    facts = {"Type": "Diff", "Lines": "5", "Size": "34 B", "State": "stored"}
    assert page.facts.items() >= (facts | {"From": "a file that the recording names"}).items()


def test_what_is_not_here_says_its_size_by_the_recording_and_why(client: Client, call: Call) -> None:
    artifact = stored(call, b"x", state="missing")
    Artifact.objects.update(sha256="", size=50_000)
    page = open_page(client, artifact)
    assert page.facts["Size"] == "50.0 KB by the recording"
    assert page.facts["State"] == "The content was not imported"
    Artifact.objects.update(state="removed", removed_at=timezone.now(), sha256="a" * 64)
    assert open_page(client, artifact).facts["Size"] == "50.0 KB when it was imported"


def test_the_list_does_not_call_stored_what_is_gone_from_the_store(
    client: Client, call: Call, settings: Settings
) -> None:
    field, lost = field_artifact(call, "line\n" * 900), stored(call, PATCH, ordinal=1)
    changed = stored(call, b"as it was\n", ordinal=2)
    (settings.ARTIFACTS / lost.sha256[:2] / lost.sha256).unlink()
    (settings.ARTIFACTS / changed.sha256[:2] / changed.sha256).write_bytes(b"as it is!\n")
    for page in (open_page(client, field), open_page(client, lost)):
        states = [row[5] for row in listed(page)[1:]]
        assert states == ["part of the recording", "The content is lost", "The content is not what was stored"]


def test_content_of_many_calls_is_linked_as_far_as_the_page_says(client: Client, call: Call) -> None:
    artifact = stored(call, PATCH)
    for _ in range(9):
        stored(create_call(call.run), PATCH)
    page = open_page(client, artifact)
    duplicates = page.by_text("Same content in", exact=True).next_element
    assert duplicates is not None
    assert len(duplicates.all_by_role("link")) == 8
    assert "and more" in duplicates.text


@pytest.mark.parametrize(
    "content", extended_except([b"line\n" * 2_000, PATCH, PNG, b'{"a": 1}', bytes(range(256)) * 40], PATCH, PNG)
)
def test_a_page_runs_as_many_queries_whatever_it_shows(
    client: Client, call: Call, django_assert_max_num_queries: DjangoAssertNumQueries, content: bytes
) -> None:
    artifact = stored(call, content)
    for _ in range(20):
        stored(create_call(call.run), content)
    open_page(client, artifact)
    with django_assert_max_num_queries(15):
        open_page(client, artifact)


def test_a_stored_index_is_read_instead_of_counting_the_lines_again(
    client: Client, call: Call, settings: Settings
) -> None:
    """The index here has as many bytes and half as many lines as the content."""
    artifact = stored(call, b"a line of log\n\n" * 100_000)
    with (settings.ARTIFACTS / artifact.sha256[:2] / f"{artifact.sha256}.lines").open("wb") as file:
        write_index(build_index(io.BytesIO(b"a line of logs\n" * 100_000)), file)
    assert "of 100,000" in open_page(client, artifact).text
