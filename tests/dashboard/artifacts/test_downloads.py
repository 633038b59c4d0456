"""Downloads of artifacts: inert, in single ranges, never whole in memory; the headers of every serving route."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver
from pytest_django import Settings

from dashboard.models import Artifact, Call, Comparison, Project
from tests.cases import each
from tests.dashboard.factories import create_call, create_problem, create_project, create_run, create_user
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.stored_artifacts import field_artifact, stored

pytestmark = pytest.mark.django_db
CONTENT = "".join(f"line {number}\n" for number in range(1_000)).encode()
# Routes that serve content of a recording.
SERVING = {"audit-export", "artifact-raw", "artifact-picture", "call-raw", "comparison-export", "problem-raw"}
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (4).to_bytes(4, "big") * 2 + b"\x08\x06\0\0\0" + bytes(9)


@pytest.fixture
def call(client: Client, settings: Settings, tmp_path: Path) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project), result={"a": 1}, receipt="a")


@pytest.fixture
def artifact(call: Call) -> Artifact:
    return stored(call, CONTENT)


def exported(project: Project, folder: Path) -> Comparison:
    project.calls.all().delete()
    import_commands(project, folder, ["<script>"])
    return compared(project, ["recorded", "markdown"])[0]


def routes() -> set[str]:
    return {str(pattern.name) for pattern in get_resolver().url_patterns if isinstance(pattern, URLPattern)}


def test_every_route_without_a_slash_at_the_end_serves_content_and_is_tried_here() -> None:
    files = {str(route.name) for route in get_resolver().url_patterns if not str(route.pattern).endswith("/")}
    pages = {"home", "healthz", "run-step", "run-context", "run-replay", "run-plan", "run-confirmation"}
    moved = {"old-renderer", "old-comparison"}  # redirects
    programs = {name for name in files if name.startswith("api-")}  # JSON: tests/dashboard/api
    assert files - pages - moved - programs == SERVING


@pytest.mark.parametrize("name", sorted(SERVING))
def test_every_serving_route_is_inert(client: Client, call: Call, name: str, tmp_path: Path) -> None:
    addresses = {
        "audit-export": lambda: "/audit/export/csv",
        "artifact-raw": lambda: f"/artifacts/{stored(call, b'<script>').pk}/raw",
        "artifact-picture": lambda: f"/artifacts/{stored(call, PNG).pk}/picture",
        "call-raw": lambda: f"/calls/{call.pk}/raw/result",
        "comparison-export": lambda: f"/experiments/{exported(call.project, tmp_path).pk}/export/numbers",
        "problem-raw": lambda: f"/problems/{create_problem(call.project).pk}/raw",
    }
    response = client.get(addresses[name]())
    assert response.status_code == 200
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert "sandbox" in response["Content-Security-Policy"]
    assert "allow-" not in response["Content-Security-Policy"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"].startswith('attachment; filename="')
    assert response["Content-Type"].partition(";")[0] in {
        "text/plain",
        "text/csv",
        "application/json",
        "application/octet-stream",
        "image/png",
    }
    assert "no-store" in response["Cache-Control"]
    assert b"".join(response)


@pytest.mark.rendering
@each(
    ("requested", "status", "start", "end"),
    [
        (None, 200, 0, None),
        ("bytes=0-9", 206, 0, 10),
        ("bytes=100-", 206, 100, None),
        ("bytes=-5", 206, -5, None),
        ("bytes=-999999", 206, 0, None),
        ("bytes=5-999999999", 206, 5, None),
        ("bytes=0-0,5-6", 200, 0, None),
        ("bytes=" + ",".join("0-1" for _ in range(2_000)), 200, 0, None),
        ("bytes=9-5", 200, 0, None),
        ("bytes=-", 200, 0, None),
        ("lines=1-2", 200, 0, None),
        ("bytes=-0", 416, 0, 0),
        (f"bytes={len(CONTENT)}-", 416, 0, 0),
        ("bytes=99999999999999999999-", 200, 0, None),
    ],
)
def test_one_range_at_a_time(
    client: Client, artifact: Artifact, requested: str | None, status: int, start: int, end: int | None
) -> None:
    response = client.get(f"/artifacts/{artifact.pk}/raw", headers={"Range": requested} if requested else {})
    assert response.status_code == status
    assert response["X-Content-Type-Options"] == "nosniff"
    if status == 416:
        assert response["Content-Range"] == f"bytes */{len(CONTENT)}"
        return
    data = b"".join(response.streaming_content)
    assert data == CONTENT[start:end]
    assert response["Content-Length"] == str(len(data))
    if status == 206:
        first = CONTENT.index(data) if start >= 0 else len(CONTENT) + start
        assert response["Content-Range"] == f"bytes {first}-{first + len(data) - 1}/{len(CONTENT)}"


def test_a_range_of_other_content_is_answered_with_the_whole(client: Client, artifact: Artifact) -> None:
    headers = {"Range": "bytes=0-9", "If-Range": '"another"'}
    response = client.get(f"/artifacts/{artifact.pk}/raw", headers=headers)
    assert response.status_code == 200
    assert b"".join(response.streaming_content) == CONTENT


def test_content_that_is_known_is_not_sent_again(client: Client, artifact: Artifact) -> None:
    first = client.get(f"/artifacts/{artifact.pk}/raw")
    assert b"".join(first.streaming_content) == CONTENT
    etag = first["ETag"]
    assert etag == f'"{artifact.sha256}-masked"'
    again = client.get(f"/artifacts/{artifact.pk}/raw", headers={"If-None-Match": etag})
    assert again.status_code == 304
    assert not again.content


@pytest.mark.rendering
def test_a_download_holds_a_piece_at_a_time(client: Client, call: Call) -> None:
    artifact = stored(call, b"some output of a long run\n" * 1_600_000)  # 40 MB
    tracemalloc.start()
    try:
        response = client.get(f"/artifacts/{artifact.pk}/raw")
        size = sum(len(piece) for piece in response.streaming_content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == artifact.size
    assert peak < 8_000_000


@pytest.mark.rendering
@pytest.mark.parametrize(
    "role", ['a"; filename="evil.html', "x\r\nSet-Cookie: a=b", "../../etc/passwd", "\u202egnp.exe", "a" * 64, ""]
)
def test_a_name_from_a_recording_is_safe_in_a_header(client: Client, call: Call, role: str) -> None:
    response = client.get(f"/artifacts/{field_artifact(call, 'x', role=role).pk}/raw")
    assert response.status_code == 200
    name = response["Content-Disposition"].removeprefix('attachment; filename="').removesuffix('"')
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    assert name.count(".") == 1
    assert b"".join(response) == b"x"


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_nothing_is_written_through_an_artifact(client: Client, artifact: Artifact, method: str) -> None:
    assert getattr(client, method)(f"/artifacts/{artifact.pk}/raw").status_code == 405


def test_an_etag_needs_sign_in_and_the_project(client: Client, artifact: Artifact) -> None:
    headers = {"If-None-Match": f'"{artifact.sha256}"'}
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{artifact.pk}/raw", headers=headers).status_code == 404
    client.logout()
    assert client.get(f"/artifacts/{artifact.pk}/raw", headers=headers).status_code == 302
