"""The Artifact page: what was in the full output?"""

from __future__ import annotations

import hashlib
import html
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from dashboard.artifact_window import Place, read_window
from dashboard.identity import derived
from dashboard.models import Artifact, Call, Project
from tests.dashboard.factories import create_call, create_observation, create_project, create_run, create_user
from tests.dashboard.page_text import text_of

HOSTILE = '<script>alert(1)</script><b hx-post="/runs/">\u202e\x1b[31m'
LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def alice(project: Project, client: Client) -> User:
    user = create_user("alice", project=project)
    client.force_login(user)
    return user


@pytest.fixture
def call(project: Project, alice: User) -> Call:
    """A command of which the model got lines 1 to 40 and 981 to 1,000."""
    shown = LINES.split("\n")
    receipt = "\n".join([*shown[:40], "\n... [940 lines truncated] ...\n", *shown[980:1_000]])
    made = create_call(create_run(project, "session-one"), receipt=receipt)
    made.namespace = "claude-code"
    made.save()
    return made


def field_artifact(call: Call, text: str, **fields: Any) -> Artifact:
    observation = create_observation(call, "result", {"stdout": text, "stderr": "", "interrupted": False})
    raw = text.encode()
    fields = {
        "role": "stdout",
        "path": "calls/x/stdout.txt",
        "pointer": "/stdout",
        "sha256": hashlib.sha256(raw).hexdigest(),
        "size": len(raw),
        "lines": text.count("\n"),
    } | fields
    return Artifact.objects.create(
        id=derived("artifact", call.pk.bytes), project=call.project, call=call, observation=observation, **fields
    )


def body(client: Client, artifact: Artifact, query: str = "") -> str:
    response = client.get(f"/artifacts/{artifact.pk}/{query}")
    assert response.status_code == 200
    return response.content.decode()


def rows_of(page: str) -> list[tuple[int, str]]:
    found = re.findall(r'<div id="L(\d+)".*?<pre data-exact>(.*?)</pre>', page, re.S)
    return [(int(number), text_of(line)) for number, line in found]


def test_it_begins_at_the_head_and_goes_on_to_the_tail(client: Client, call: Call) -> None:
    artifact = field_artifact(call, LINES)
    page = body(client, artifact)
    assert "What was in the full output?" in page
    assert rows_of(page)[0] == (1, "line 1")
    assert rows_of(page)[-1] == (400, "line 400")
    assert rows_of(body(client, artifact, "?tail"))[-1] == (1_000, "line 1000")


def test_an_artifact_on_its_own_is_described_by_its_record(client: Client, call: Call) -> None:
    """RFC-122: a reference is a path alone, so role, tool and size come from what the runtime recorded."""
    page = text_of(body(client, field_artifact(call, LINES)))
    for fact in ("stdout", call.tool, "1,000 lines", "calls/x/stdout.txt"):
        assert fact in page


@pytest.mark.parametrize(
    ("query", "first"),
    [("?line=500", 500), ("?line=9999999", 1_000), ("?line=0", 1), ("?line=x", 1), ("?at=50", 507), ("?offset=7", 2)],
)
def test_any_window_can_be_asked_for(client: Client, call: Call, query: str, first: int) -> None:
    assert rows_of(body(client, field_artifact(call, LINES), query))[0] == (first, f"line {first}")


def test_every_line_has_a_permalink(client: Client, call: Call) -> None:
    page = body(client, field_artifact(call, LINES), "?line=120")
    assert '<a href="?line=120#L120"' in page
    assert '<div id="L120" class="line" data-seen="no" data-asked>' in page


def test_what_the_model_saw_is_marked_and_the_next_unseen_line_is_one_step_away(client: Client, call: Call) -> None:
    page = body(client, field_artifact(call, LINES))
    assert 'id="L40" class="line" data-seen="yes"' in page
    assert 'id="L41" class="line" data-seen="no"' in page
    assert 'href="?line=41#L41"' in page
    assert "60 of 1,000 lines" in page


def test_a_line_of_5_mb_is_read_in_stretches_that_join(client: Client, call: Call) -> None:
    text = "é" * 2_500_000
    stream = io.BytesIO(text.encode())
    read, offset = "", 0
    while offset < len(text.encode()):
        window = read_window(stream, Place(offset=offset), None)
        read += text_of(window.rows[0].html)
        offset = window.end
    assert read == text
    page = body(client, field_artifact(call, text), "?offset=1000001")
    assert len(page) < 200_000
    assert "Go on in this line" in page
    assert "1…</a>" in page


@pytest.mark.parametrize(
    "text", [LINES, "no newline at the end", "\n\n\n", "a\r\nb\u2028c\n", "x" * 200_000 + "\ny\n", ""]
)
def test_windows_in_a_row_are_the_whole_output(text: str) -> None:
    stream, offset, read = io.BytesIO(text.encode()), 0, b""
    while True:
        window = read_window(stream, Place(offset=offset), None)
        stream.seek(window.start)
        assert window.start == offset
        read += stream.read(window.end - window.start)
        offset = window.end
        if offset >= window.size:
            break
    assert read.decode() == text


def test_hostile_output_is_shown_as_text(client: Client, call: Call) -> None:
    page = body(client, field_artifact(call, HOSTILE))
    assert "<script>alert" not in page
    assert "<b hx-post" not in page
    assert not re.search("[\x1b\u202e]", page)
    assert rows_of(page) == [(1, HOSTILE)]


def test_the_download_is_an_inert_attachment_with_a_fingerprint(client: Client, call: Call) -> None:
    artifact = field_artifact(call, HOSTILE)
    response = client.get(f"/artifacts/{artifact.pk}/raw")
    assert b"".join(response) == HOSTILE.encode()
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment;")
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["X-Content-Type-Options"] == "nosniff"
    again = client.get(f"/artifacts/{artifact.pk}/raw", headers={"If-None-Match": response["ETag"]})
    assert again.status_code == 304


def stored(call: Call, settings: Settings, folder: Path, content: bytes) -> Artifact:
    settings.ARTIFACTS = folder
    sha256 = hashlib.sha256(content).hexdigest()
    (folder / sha256[:2]).mkdir(parents=True)
    (folder / sha256[:2] / sha256).write_bytes(content)
    return Artifact.objects.create(
        id=derived("artifact", sha256),
        project=call.project,
        call=call,
        role="log",
        path="/home/x/log.txt",
        sha256=sha256,
        size=len(content),
    )


def test_a_stored_file_is_read_by_its_hash(client: Client, call: Call, settings: Settings, tmp_path: Path) -> None:
    artifact = stored(call, settings, tmp_path, b"first\nsecond\xff\n")
    page = body(client, artifact)
    assert rows_of(page) == [(1, "first"), (2, "second\udcff")]


def test_binary_content_is_said_to_be_binary(client: Client, call: Call, settings: Settings, tmp_path: Path) -> None:
    page = body(client, stored(call, settings, tmp_path, b"\x7fELF" + bytes(range(32)) * 20))
    assert "This is not text" in page
    assert "00000000  7f 45 4c 46 00 01" in html.unescape(page)


@pytest.mark.parametrize("fault", ["gone", "link", "folder", "pipe"])
def test_what_is_no_regular_file_in_the_store_is_missing(
    client: Client, call: Call, settings: Settings, tmp_path: Path, fault: str
) -> None:
    artifact = stored(call, settings, tmp_path / "store", b"content")
    path = tmp_path / "store" / artifact.sha256[:2] / artifact.sha256
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_text("not for the web")
    make = {
        "gone": lambda: None,
        "link": lambda: path.symlink_to(secret),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }
    make[fault]()
    page = body(client, artifact)
    assert "The content is not here" in page
    assert "not for the web" not in page
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404


def test_nobody_outside_the_project_gets_in(client: Client, call: Call) -> None:
    artifact = field_artifact(call, "secret")
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{artifact.pk}/").status_code == 404
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404
