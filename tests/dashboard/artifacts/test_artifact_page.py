"""The Artifact page: what was in the full output?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from dashboard.models import Call, Project
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import assert_harmless
from tests.dashboard.stored_artifacts import field_artifact, key_link, open_page, rows_of, stored

HOSTILE = '<script>alert(1)</script><b hx-post="/runs/">\u202e\x1b[31m'
LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS = tmp_path / "artifacts"


@pytest.fixture
def call(project: Project, alice: User) -> Call:
    """A command of which the model got lines 1 to 40 and 981 to 1,000."""
    shown = LINES.split("\n")
    receipt = "\n".join([*shown[:40], "\n... [940 lines truncated] ...\n", *shown[980:1_000]])
    call = create_call(create_run(project, "session-one"), receipt=receipt)
    call.namespace = "claude-code"
    call.save()
    return call


def test_it_begins_at_the_head_and_goes_on_to_the_tail(client: Client, call: Call) -> None:
    artifact = field_artifact(call, LINES)
    page = open_page(client, artifact)
    assert "What was in the full output?" in page.text
    assert rows_of(page)[0] == (1, "line 1")
    assert rows_of(page)[-1] == (400, "line 400")
    assert rows_of(open_page(client, artifact, "?tail"))[-1] == (1_000, "line 1000")


def test_an_artifact_on_its_own_is_described_by_its_record(client: Client, call: Call) -> None:
    """RFC-122: a reference is a path alone, so role, tool and size come from what the runtime recorded."""
    page = open_page(client, field_artifact(call, LINES))
    assert page.select_one("h1").text == "stdout"
    for fact in (call.tool, "1,000 lines", "calls/x/stdout.txt"):
        assert fact in page.text


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("query", "first"),
    [("?line=500", 500), ("?line=9999999", 1_000), ("?line=0", 1), ("?line=x", 1), ("?at=50", 507), ("?offset=7", 2)],
)
def test_any_window_can_be_requested(client: Client, call: Call, query: str, first: int) -> None:
    page = open_page(client, field_artifact(call, LINES), query)
    assert rows_of(page)[0] == (first, f"line {first}")
    assert ("There is no line 9,999,999: the output ends with line 1,000." in page.text) == ("9999999" in query)


@pytest.mark.rendering
def test_every_line_has_a_permalink(client: Client, call: Call) -> None:
    page = open_page(client, field_artifact(call, LINES), "?line=120")
    line = page.by_id("L120")
    assert line.select_one("a")["href"] == "?line=120#L120"
    assert (line["data-seen"], "data-highlighted" in line) == ("no", True)


def test_what_the_model_saw_is_marked_and_the_next_unseen_line_is_one_step_away(client: Client, call: Call) -> None:
    page = open_page(client, field_artifact(call, LINES))
    assert (page.by_id("L40")["data-seen"], page.by_id("L41")["data-seen"]) == ("yes", "no")
    assert key_link(page, "n") == "?from=31&line=41#L31"
    assert "60 of 1,000 lines" in page.text


def test_ten_lines_before_the_first_unseen_one_are_shown(client: Client, call: Call) -> None:
    page = open_page(client, field_artifact(call, LINES), "?from=31&line=41")
    assert rows_of(page)[0] == (31, "line 31")
    assert [row["id"] for row in page.select(".line[data-highlighted]")] == ["L41"]
    assert key_link(page, "y") == "?from=31&line=41#L31"
    assert not page.select('a[data-key="n"]'), "it would lead to where one is"


@pytest.mark.parametrize("query", ["?from=31&line=41", "?from=60&line=41", "?from=x&line=41"])
def test_lines_before_never_push_the_requested_one_out_of_the_window(client: Client, call: Call, query: str) -> None:
    long = "".join(f"line {number} {'x' * 10_000}\n" for number in range(1, 60))
    page = open_page(client, field_artifact(call, long), query)
    assert rows_of(page)[0][0] == 41
    assert "data-highlighted" in page.by_id("L41")


@pytest.mark.rendering
def test_a_line_of_5_mb_is_read_in_stretches_that_join(client: Client, call: Call) -> None:
    artifact = field_artifact(call, "é" * 2_500_000)
    page = open_page(client, artifact, "?offset=1000001")
    assert len(page.markup) < 200_000
    ((number, stretch),) = rows_of(page)
    assert number == 1
    assert page.by_role("link", "Go on in this line")["href"] == f"?offset={1_000_000 + 2 * len(stretch)}"
    assert page.by_id("L1").select_one("a").text == "1…"
    assert rows_of(open_page(client, artifact, "?tail"))[0][1].endswith("é")


@pytest.mark.rendering
def test_hostile_output_is_shown_as_text(client: Client, call: Call) -> None:
    artifact = field_artifact(call, HOSTILE)
    for form in ("text", "ansi", "table", "diff", "hex"):
        page = open_page(client, artifact, f"?as={form}")
        assert_harmless(page)
    assert rows_of(open_page(client, artifact, "?as=text")) == [(1, HOSTILE)]


def test_a_stored_file_is_read_by_its_hash(client: Client, call: Call) -> None:
    artifact = stored(call, b"first\nsecond\xff\n")
    page = open_page(client, artifact)
    assert rows_of(page) == [(1, "first"), (2, "second\udcff")]


@pytest.mark.rendering
def test_binary_content_is_shown_as_bytes(client: Client, call: Call) -> None:
    page = open_page(client, stored(call, b"\x7fELF" + bytes(range(32)) * 20))
    row = page.by_id("B0")
    assert row.select_one("a").text == "@0"
    assert row.select_one("pre").exact.startswith("7f 45 4c 46 00 01")
    assert "Encoding" not in page.text


@pytest.mark.rendering
@pytest.mark.parametrize("fault", ["gone", "link", "folder", "pipe"])
def test_an_irregular_file_in_the_store_is_not_read(
    client: Client, call: Call, settings: Settings, tmp_path: Path, fault: str
) -> None:
    artifact = stored(call, b"content")
    path = settings.ARTIFACTS / artifact.sha256[:2] / artifact.sha256
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_text("not for the web")
    create = {
        "gone": lambda: None,
        "link": lambda: path.symlink_to(secret),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }
    create[fault]()
    page = open_page(client, artifact)
    assert ("The content is lost" if fault == "gone" else "The content is not what was stored") in page.text
    assert "not for the web" not in page.markup
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404


def test_nobody_outside_the_project_gets_in(client: Client, call: Call) -> None:
    artifact = field_artifact(call, "secret")
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{artifact.pk}/").status_code == 404
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404
