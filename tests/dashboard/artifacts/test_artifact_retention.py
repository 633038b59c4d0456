"""What retention removes from the artifact store, what it never removes, and what the check of the store reports."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts.retention import apply_retention, plan_by_settings, plan_retention, shared_store_lock
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Call, Observation, Run, SentContent
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import parse_page
from tests.dashboard.stored_artifacts import field_artifact, read_stored, remove_stored, replace_stored, stored

pytestmark = pytest.mark.django_db
OLD = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = count()
NEW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def store(artifact_store: str, tmp_path: Path) -> Path:
    """The folder in which this machine's writes begin, whichever store it is."""
    return tmp_path / ("cache" if artifact_store.startswith("s3:") else "artifacts")


def call_at(at: datetime) -> Call:
    run = create_run(create_project(f"project-{next(NUMBERS)}"))
    run.sort_at = at
    run.save()
    return create_call(run)


def command(name: str, *options: str) -> dict[str, object]:
    out = io.StringIO()
    call_command(name, *options, "--json", stdout=out)
    return json.loads(out.getvalue())


def is_stored(artifact: Artifact) -> bool:
    return artifact.sha256 in configured_store().sizes()


def test_what_only_old_runs_name_goes_and_its_row_says_so(client: Client) -> None:
    old, new = stored(call_at(OLD), b"old\n"), stored(call_at(NEW), b"new\n")
    shared_old, shared_new = stored(call_at(OLD), b"shared\n"), stored(call_at(NEW), b"shared\n")
    assert set(apply_retention(plan_retention(before=OLD + timedelta(days=30))).expired) == {old.sha256}
    assert [is_stored(artifact) for artifact in (old, new, shared_old, shared_new)] == [False, True, True, True]
    old.refresh_from_db()
    assert (old.state, old.removed_at is not None) == ("removed", True)
    client.force_login(create_user("alice", project=old.project))
    assert "It was removed by retention" in parse_page(client.get(f"/artifacts/{old.pk}/")).text


def test_a_quota_takes_the_oldest_first() -> None:
    artifacts = [stored(call_at(OLD + timedelta(days=day)), bytes([65 + day]) * 1_000) for day in range(4)]
    apply_retention(plan_retention(quota=2_500))
    assert [is_stored(artifact) for artifact in artifacts] == [False, False, True, True]


def test_the_background_work_applies_what_the_settings_say(settings: Settings) -> None:
    old, new = stored(call_at(datetime.now(UTC) - timedelta(days=40)), b"old\n"), stored(call_at(NEW), b"new\n")
    Run.objects.filter(pk=new.call.run_id).update(sort_at=datetime.now(UTC))
    assert plan_by_settings() is None, "nothing is removed unless somebody said so"
    settings.RETAIN_DAYS = 30
    plan = plan_by_settings()
    assert plan is not None
    assert plan.expired.keys() == {old.sha256}
    settings.RETAIN_DAYS, settings.RETAIN_BYTES = None, new.size
    assert (plan_by_settings() or plan).expired.keys() == {old.sha256}


@pytest.mark.postgresql("folder")
def test_a_dry_run_changes_nothing_and_says_the_same(store: Path) -> None:
    artifact = stored(call_at(OLD), b"old\n")
    garbage = configured_store().put(io.BytesIO(b"nothing names this"))
    dry = command("prune_artifacts", "--older-than", "30", "--dry-run")
    assert (dry["retired"], dry["unnamed"], dry["freed_bytes"]) == (1, 1, 4 + garbage.size)
    assert is_stored(artifact)
    wet = command("prune_artifacts", "--older-than", "30")
    assert wet == dry | {"dry_run": False}
    assert not is_stored(artifact)


@pytest.mark.postgresql("folder")
def test_content_that_was_just_sent_is_not_reported_as_removed(store: Path) -> None:
    """Once for content without a record, and once for content that only an old run refers to."""
    old = stored(call_at(OLD), b"old\n")
    lone = configured_store().put(io.BytesIO(b"no record names this yet"))
    for sha256 in (old.sha256, lone.sha256):
        SentContent.objects.create(project=old.project, sha256=sha256, size=4, lines=1)
    for options in (["--dry-run"], []):
        facts = command("prune_artifacts", "--older-than", "30", *options)
        assert (facts["retired"], facts["unnamed"], facts["freed_bytes"]) == (0, 0, 0)
        assert facts["kept_bytes"] == sum(configured_store().sizes().values())
    old.refresh_from_db()
    assert (old.state, configured_store().sizes().keys()) == ("present", {old.sha256, lone.sha256})
    SentContent.objects.update(sent_at=datetime.now(UTC) - timedelta(hours=25))
    facts = command("prune_artifacts", "--older-than", "30")
    assert (facts["retired"], facts["unnamed"], facts["kept_bytes"]) == (1, 1, 0)
    assert configured_store().sizes() == {}


@pytest.mark.postgresql("folder")
def test_content_that_an_import_refers_to_after_the_plan_is_not_reported_as_removed(store: Path) -> None:
    lone = configured_store().put(io.BytesIO(b"content\n"))
    plan = plan_retention()
    stored(call_at(NEW), b"content\n")
    done = apply_retention(plan)
    assert (set(plan.unreferenced), done.unreferenced, done.freed_bytes) == ({lone.sha256}, {}, 0)
    assert done.kept_bytes == plan.freed_bytes > 0


def test_without_options_only_what_nothing_names_goes(store: Path) -> None:
    artifact = stored(call_at(OLD), b"kept\n")
    configured_store().put(io.BytesIO(b"garbage " * 300_000))
    stale, fresh = store / "incoming-stale", store / "incoming-fresh"
    store.mkdir(exist_ok=True)
    for path in (stale, fresh):
        path.write_bytes(b"half")
    os.utime(stale, (time.time() - 200_000,) * 2)
    command("prune_artifacts")
    names = {path.name for path in store.iterdir() if path.is_file()}
    assert names - {"lock"} == {"incoming-fresh"}
    assert configured_store().sizes() == {artifact.sha256: 5}


@pytest.mark.parametrize("options", [["--older-than", "-1"], ["--quota", "-5"], ["--older-than", "99999999"]])
def test_nonsense_is_refused(options: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("prune_artifacts", *options)


def test_a_recorded_result_is_never_pruned() -> None:
    artifact = field_artifact(call_at(OLD), "text of a result")
    apply_retention(plan_retention(before=NEW, quota=0))
    artifact.refresh_from_db()
    assert artifact.state == "present"


def test_a_file_that_is_stored_while_garbage_is_collected_stays() -> None:
    """The plan had it without a row; the import commits its row before retention may query."""
    orphan = configured_store().put(io.BytesIO(b"taken in just now"))
    plan = plan_retention()
    assert set(plan.unreferenced) == {orphan.sha256}
    inside, go_on = threading.Event(), threading.Event()

    def importing() -> None:
        with shared_store_lock():
            inside.set()
            assert go_on.wait(120)
        connection.close()

    importer = threading.Thread(target=importing)
    importer.start()
    assert inside.wait(120)
    import_ended_before_query: list[bool] = []

    def record(execute: Callable[..., object], sql: str, *parameters: object) -> object:
        if "dashboard_artifact" in sql:  # on PostgreSQL the lock of a bucket asks the database as well
            import_ended_before_query.append(go_on.is_set())
        return execute(sql, *parameters)

    threading.Timer(0.2, lambda: go_on.set()).start()
    artifact = stored(call_at(NEW), b"taken in just now")
    with connection.execute_wrapper(record):
        apply_retention(plan)
    importer.join()
    assert import_ended_before_query == [True]
    assert is_stored(artifact)


def test_a_whole_store_is_whole() -> None:
    stored(call_at(NEW), b"line\n" * 400_000)
    field_artifact(call_at(NEW), "text")
    assert command("check_store") == {"ok": True, "findings": [], "unreachable": ""}


DAMAGES: dict[str, tuple[Callable[[str], object], set[str]]] = {
    "missing": (remove_stored, {"artifact"}),
    "changed": (lambda name: replace_stored(name, b"other\n"), {"file"}),
    "truncated": (lambda name: replace_stored(name, b"con"), {"file"}),
}


@pytest.mark.parametrize(("damage", "kinds"), DAMAGES.values(), ids=DAMAGES)
def test_what_is_wrong_is_listed(damage: Callable[[str], object], kinds: set[str]) -> None:
    artifact = stored(call_at(NEW), b"content\n")
    damage(f"{artifact.sha256[:2]}/{artifact.sha256}")
    assert {finding["kind"] for finding in findings()} == kinds


def test_large_content_that_was_cut_short_is_listed_for_its_file_and_its_row() -> None:
    artifact = stored(call_at(NEW), b"line\n" * 400_000)
    name = f"{artifact.sha256[:2]}/{artifact.sha256}.zst"
    replace_stored(name, read_stored(name)[:100])
    assert {finding["kind"] for finding in findings()} == {"file", "artifact"}


@pytest.mark.parametrize("artifact_store", ["folder"], indirect=True)
def test_a_link_in_the_folder_is_listed_and_not_read() -> None:
    artifact = stored(call_at(NEW), b"content\n")
    path = Path(settings.ARTIFACTS) / artifact.sha256[:2] / artifact.sha256
    path.unlink()
    path.symlink_to("/etc/passwd")
    reported = findings()
    assert {finding["kind"] for finding in reported} == {"file", "artifact"}
    assert "root:" not in json.dumps(reported)


def findings() -> list[dict[str, str]]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("check_store", "--json", stdout=out)
    assert ended.value.code == 1
    reported: list[dict[str, str]] = json.loads(out.getvalue())["findings"]
    return reported


def test_bytes_of_a_row_that_changed_are_found() -> None:
    field_artifact(call_at(NEW), "text")
    Observation.objects.update(own_data=b"{}")
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("check_store", stdout=out)
    assert "its bytes are not those that were recorded" in out.getvalue()
