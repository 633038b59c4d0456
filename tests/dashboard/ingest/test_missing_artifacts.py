"""Files that were missing or over the quota are stored when their recording is imported again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from dashboard.artifacts.content import AbsenceCause, NoContent, open_stream
from dashboard.artifacts.ingest import quota_bytes
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Problem, Project, Run
from tests.cases import extended_except
from tests.dashboard.artifacts.test_artifact_quota import imported, session, states
from tests.dashboard.factories import create_project
from tests.dashboard.stored_artifacts import read_stored, remove_stored, replace_stored

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def store(artifact_store: str) -> str:
    return artifact_store


def content(name: str) -> bytes:
    with open_stream(Artifact.objects.get(path__endswith=name)) as stream:
        return stream.read()


def test_a_file_over_the_quota_is_stored_when_the_quota_grows(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACT_QUOTA_BYTES = 1_500
    path = session(tmp_path / "one", 1, {"a.txt": b"a" * 1_000, "b.txt": b"b" * 1_000, "c.txt": b"c" * 900})
    imported(path)
    assert states() == {"a.txt": "present", "b.txt": "missing", "c.txt": "missing"}
    assert imported(path)["taken_later"] == 0
    revision = Run.objects.get().revision
    settings.ARTIFACT_QUOTA_BYTES = 2_500
    report = imported(path)
    assert report["taken_later"] == 1
    assert report["added"]["calls"] == 0
    assert states() == {"a.txt": "present", "b.txt": "present", "c.txt": "missing"}
    assert content("b.txt") == b"b" * 1_000
    assert [one["path"] for one in report["problems"]] == ["file /home/x/tool-results/c.txt"]
    assert Run.objects.get().revision > revision
    settings.ARTIFACT_QUOTA_BYTES = 0
    assert imported(path)["problems"] == []
    assert set(states().values()) == {"present"}
    assert not Problem.objects.exists()


def test_a_file_over_the_quota_is_stored_when_another_was_removed(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACT_QUOTA_BYTES = 1_500
    old = session(tmp_path / "one", 1, {"old.txt": b"x" * 1_000})
    refused = session(tmp_path / "two", 2, {"refused.txt": b"y" * 1_000})
    imported(old)
    imported(refused)
    call_command("prune_artifacts", "--quota", "0", stdout=io.StringIO())
    imported(refused)
    imported(old)
    assert states() == {"old.txt": "removed", "refused.txt": "present"}


@pytest.mark.postgresql("folder")
def test_a_file_that_comes_later_is_stored_also_beside_a_copy_of_the_recording(tmp_path: Path) -> None:
    path = session(tmp_path / "one", 1, {"a.txt": b"a\n", "b.txt": b"b\n"})
    folder = path.parent / "tool-results"
    folder.rename(tmp_path / "away")
    imported(path)
    assert set(states().values()) == {"missing"}
    folder.mkdir()
    (folder / "a.txt").symlink_to(tmp_path / "away" / "a.txt")
    assert imported(path)["taken_later"] == 0
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / path.name
    copy.write_bytes(path.read_bytes())
    (tmp_path / "away").rename(copy.parent / "tool-results")
    assert imported(copy)["taken_later"] == 2
    assert content("a.txt") == b"a\n"


def test_a_file_that_grew_after_its_run_was_over_is_stored_and_another_file_is_not(tmp_path: Path) -> None:
    path = session(
        tmp_path / "one", 1, {"grown.txt": b"one\n", "empty.txt": b"", "other.txt": b"one\n", "cut.txt": b"1\n2\n"}
    )
    imported(path)
    for name, now in {"grown": b"one\ntwo\n", "empty": b"x", "other": b"three\nfour\n", "cut": b"1\n"}.items():
        (path.parent / "tool-results" / f"{name}.txt").write_bytes(now)
    assert imported(path)["taken_later"] == 2
    assert [content(f"{name}.txt") for name in ("grown", "empty", "other", "cut")] == [
        b"one\ntwo\n",
        b"x",
        b"one\n",
        b"1\n2\n",
    ]
    assert imported(path)["taken_later"] == 0


@pytest.mark.parametrize(
    "large", extended_except([b"content\n", b"line\n" * 400_000], b"line\n" * 400_000), ids=["small", "large"]
)
def test_lost_content_is_stored_again_on_request_if_it_is_the_same(tmp_path: Path, large: bytes) -> None:
    path = session(tmp_path / "one", 1, {"a.txt": large, "b.txt": b"b\n"})
    imported(path)
    (sha256,) = set(configured_store().sizes()) - {hash_of("b.txt")}
    name = f"{sha256[:2]}/{sha256}"
    name += ".zst" if len(large) > 1_000_000 else ""
    remove_stored(name)
    with pytest.raises(NoContent):
        content("a.txt")
    assert imported(path)["taken_later"] == 0
    assert again(path) == "1 files were stored that had been missing or had grown"
    assert content("a.txt") == large
    for damage in (b"cut short", changed(read_stored(name))):
        replace_stored(name, damage)
        assert "were stored" in again(path)
        assert content("a.txt") == large
    assert again(path) == ""

    remove_stored(name)
    (path.parent / "tool-results" / "a.txt").write_bytes(large[:-1] + b"!")
    assert again(path) == ""
    with pytest.raises(NoContent) as no:
        content("a.txt")
    assert no.value.absence.cause == AbsenceCause.MISSING


def changed(content: bytes) -> bytes:
    """In its middle, and as long as it was."""
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def hash_of(name: str) -> str:
    return Artifact.objects.get(path__endswith=name).sha256


def again(path: Path) -> str:
    out = io.StringIO()
    call_command("import_runs", str(path), "--retry-artifacts", stdout=out)
    return "".join(line for line in out.getvalue().splitlines() if "were stored" in line)


@pytest.mark.parametrize("artifact_store", ["bucket"], indirect=True)
def test_an_unreachable_store_is_reported_when_artifacts_are_retried(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = session(tmp_path / "one", 1, {"a.txt": b"a\n"})
    imported(path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    settings.ARTIFACT_CACHE = tmp_path / "of another process"
    with pytest.raises(CommandError, match="recordings not imported in whole: 1"):
        call_command("import_runs", str(path), "--retry-artifacts", stdout=io.StringIO(), stderr=io.StringIO())
    assert states() == {"a.txt": "present"}


@pytest.mark.postgresql("folder")
def test_a_project_may_have_a_quota_of_its_own(settings: Settings, project: Project, tmp_path: Path) -> None:
    settings.ARTIFACT_QUOTA_BYTES, settings.ARTIFACT_QUOTAS_BYTES = 1_500, {"ledger": 500, "free": 0}
    other, free = create_project("other"), create_project("free")
    assert [quota_bytes(one.pk) for one in (project, other, free)] == [500, 1_500, 0]
    for slug in ("ledger", "other", "free"):
        imported(session(tmp_path / slug, 1, {f"{slug}.txt": b"x" * 1_000, f"{slug}2.txt": b"y" * 1_000}), slug)
    assert states() == {
        "ledger.txt": "missing",
        "ledger2.txt": "missing",
        "other.txt": "present",
        "other2.txt": "missing",
        "free.txt": "present",
        "free2.txt": "present",
    }
