"""A file that there is no room for is refused with a reason, and nothing else of its recording is lost."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from dashboard.artifacts.ingest import ProjectQuota, hold_quota
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Call, Problem, Project
from envelopes.storage.file_store import StoredContent
from tests.dashboard.factories import create_project
from tests.dashboard.sessions import answers, asks, write

pytestmark = pytest.mark.django_db


def session(folder: Path, number: int, outputs: dict[str, bytes]) -> Path:
    """A recording whose calls name files that lie beside it."""
    name, lines = f"0f5f6d8e-0000-4000-8000-{number:012d}", list[dict[str, Any] | bytes]()
    for output, content in outputs.items():
        (folder / "tool-results").mkdir(parents=True, exist_ok=True)
        (folder / "tool-results" / output).write_bytes(content)
        result = {"stdout": "a", "stderr": "", "persistedOutputPath": f"/home/x/tool-results/{output}"}
        call = f"toolu_{number}_{output}"
        lines += [asks(call, session=name), answers(call, "a", result, session=name)]
    return write(folder / f"{name}.jsonl", lines)


def imported(path: Path, project: str = "default", *, is_unstored: bool = False) -> dict[str, Any]:
    out = io.StringIO()
    with pytest.raises(CommandError, match="not imported in whole") if is_unstored else nullcontext():
        call_command("import_runs", str(path), "--project", project, "--json", stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def states() -> dict[str, str]:
    rows = Artifact.objects.filter(observation=None)
    return {Path(path).name: state for path, state in rows.values_list("path", "state")}


def test_what_is_over_the_quota_is_refused_and_the_rest_is_in(
    artifact_store: str, settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACT_QUOTA_BYTES = 2_500
    outputs = {"a.txt": b"a" * 1_000, "b.txt": b"b" * 2_000, "c.txt": b"c" * 1_500}
    path = session(tmp_path / "recordings", 1, outputs)
    report = imported(path)
    assert states() == {"a.txt": "present", "b.txt": "missing", "c.txt": "present"}
    assert report["lines"] == {"accepted": 6, "rejected": 0, "blank": 0}
    assert report["added"]["results"] == Call.objects.count() == 3
    (problem,) = report["problems"]
    assert (problem["line"], problem["path"]) == (4, "file /home/x/tool-results/b.txt")
    assert problem["reason"] == (
        "the file that it names was not stored: 2,000 bytes, and the project holds 1,000 of 2,500: "
        "free space with prune_artifacts, or raise COUNTERFOIL_ARTIFACT_QUOTA, and import the recording again; "
        "the line itself was imported"
    )
    assert len(configured_store().sizes()) == 2
    assert configured_store().check() == ()


def test_a_content_that_the_project_holds_needs_no_room_and_another_project_has_its_own(
    settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACTS, settings.ARTIFACT_QUOTA_BYTES = tmp_path / "store", 1_500
    same = b"x" * 1_000
    imported(session(tmp_path / "one", 1, {"a.txt": same, "again.txt": same}))
    imported(session(tmp_path / "two", 2, {"b.txt": same, "more.txt": b"y" * 600}))
    assert states() == {"a.txt": "present", "again.txt": "present", "b.txt": "present", "more.txt": "missing"}
    imported(session(tmp_path / "three", 3, {"other.txt": b"y" * 600}), project="other")
    assert states()["other.txt"] == "present"


def test_what_retention_frees_can_be_used_again(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS, settings.ARTIFACT_QUOTA_BYTES = tmp_path / "store", 1_500
    imported(session(tmp_path / "one", 1, {"old.txt": b"x" * 1_000}))
    imported(session(tmp_path / "two", 2, {"refused.txt": b"y" * 1_000}))
    call_command("prune_artifacts", "--quota", "0", stdout=io.StringIO())
    imported(session(tmp_path / "three", 3, {"new.txt": b"z" * 1_000}))
    assert states() == {"old.txt": "removed", "refused.txt": "missing", "new.txt": "present"}


def test_one_file_may_not_be_larger_than_the_limit(settings: Settings, tmp_path: Path) -> None:
    settings.ARTIFACTS, settings.ARTIFACT_LIMIT_BYTES = tmp_path / "store", 999
    report = imported(session(tmp_path / "one", 1, {"a.txt": b"x" * 1_000, "b.txt": b"x" * 999}))
    assert states() == {"a.txt": "missing", "b.txt": "present"}
    assert "1,000 bytes, over the limit of 999 for one file" in report["problems"][0]["reason"]


def test_only_one_import_at_a_time_takes_what_is_left(settings: Settings, project: Project, tmp_path: Path) -> None:
    settings.ARTIFACT_QUOTA_BYTES, settings.ARTIFACT_CACHE = 1_500, tmp_path
    other, entered = create_project("other"), list[str]()

    def take(name: str, project: int) -> None:
        with hold_quota(project):
            entered.append(name)
        connection.close()

    with hold_quota(project.pk):
        threads = [threading.Thread(target=take, args=pair) for pair in (("same", project.pk), ("other", other.pk))]
        for thread in threads:
            thread.start()
        threads[1].join(120)
        assert entered == ["other"]
    threads[0].join(120)
    assert entered == ["other", "same"]


def test_a_full_disk_stops_the_recording_with_a_reason_and_the_next_import_goes_on(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ARTIFACTS = tmp_path / "store"
    path = session(tmp_path / "one", 1, {"a.txt": b"x" * 1_000})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        report = imported(path, is_unstored=True)
    assert "could not be stored: No space left on device" in report["problems"][0]["reason"]
    assert not Artifact.objects.exists()
    imported(path)
    assert states() == {"a.txt": "present"}
    assert not Problem.objects.exists()


@pytest.mark.extended
def test_a_store_that_is_down_is_not_tried_with_every_recording(
    bucket_address: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ARTIFACTS, settings.ARTIFACT_CACHE = bucket_address, tmp_path / "cache"
    for number in range(6):
        session(tmp_path / "all", number, {f"{number}.txt": b"%d" % number})
    with monkeypatch.context() as down:
        down.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody is there
        report = imported(tmp_path / "all", is_unstored=True)
        assert report["unstored"] == 6
    reasons = [problem["reason"] for problem in report["problems"]]
    assert len(reasons) == 4
    assert "could not be stored: the bucket does not answer: " in reasons[0]
    assert "Import this one and 2 more again" in reasons[3]
    assert not Artifact.objects.exists()
    settings.ARTIFACT_CACHE = tmp_path / "another cache"
    assert imported(tmp_path / "all")["unstored"] == 0
    assert set(states().values()) == {"present"}
    assert not Problem.objects.exists()


def test_without_a_quota_nothing_is_counted(settings: Settings, project: Project, tmp_path: Path) -> None:
    settings.ARTIFACT_QUOTA_BYTES = 0
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1_000)
    with hold_quota(project.pk) as quota, path.open("rb") as file:
        quota.check(file)
        quota.add(StoredContent("a" * 64, 10**15, 1))
        assert isinstance(quota, ProjectQuota)
        assert quota.used == 0
