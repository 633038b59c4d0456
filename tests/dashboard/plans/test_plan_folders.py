"""The folders of plans: which are removed, which stay, and that the store has what they had."""

from __future__ import annotations

import threading
from io import StringIO
from pathlib import Path
from queue import SimpleQueue

import pytest
from django.core.management import call_command

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run, Source
from dashboard.plans.plan_folders import hold_folder, plan_folder, plans_root, remove_stored_folders
from dashboard.worker import DailyWork
from tests.dashboard.plans.orders import command, plan, run_command

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


def run_once(project: Project, tmp_path: Path) -> Path:
    printed, _, _ = run_command(project, tmp_path, plan(command("big", "seq 30000")), "--confirm", "yes")
    return plan_folder(printed["run_id"])


def test_a_folder_is_removed_when_the_store_has_every_byte_of_it(project: Project, tmp_path: Path) -> None:
    folder = run_once(project, tmp_path)
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert remove_stored_folders() == 0, "it is not a day old"
    assert remove_stored_folders(idle_s=0) == 1
    assert not folder.exists()
    assert project.runs.filter(external_id=folder.name).exists()  # by which the demo knows that its plan was run
    exported = tmp_path / "exported"
    call_command("export_run", folder.name, str(exported), stdout=StringIO())
    for name in ("calls.jsonl", "events.jsonl"):
        assert (exported / name).read_bytes() == files[name]
    (artifact,) = (exported / "artifacts").iterdir()
    assert artifact.read_bytes() in files.values()
    call_command("verify", str(exported), stdout=StringIO())


def test_a_folder_stays_with_a_byte_that_the_store_does_not_have(project: Project, tmp_path: Path) -> None:
    folder = run_once(project, tmp_path)
    with hold_folder(folder):
        assert remove_stored_folders(idle_s=0) == 0, "its run goes on"
    for path, content in (
        (folder / "notes.txt", b"by hand"),
        (folder / "artifacts" / ("0" * 64), b"of a call that has no result"),
        (folder / "events.jsonl", (folder / "events.jsonl").read_bytes() + b'{"type": "step.pro'),
    ):
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(content)
        assert (remove_stored_folders(idle_s=0), folder.exists()) == (0, True), path.name
        path.unlink() if before is None else path.write_bytes(before)
    Run.objects.all().delete()
    assert (remove_stored_folders(idle_s=0), folder.exists()) == (0, True), "its run was deleted"


def test_what_a_killed_command_did_not_import_is_imported_first(project: Project, tmp_path: Path) -> None:
    folder = run_once(project, tmp_path)
    Run.objects.all().delete()
    Source.objects.all().delete()
    import_paths(project, [folder / "run.json", folder / "calls.jsonl"])
    assert Run.objects.get().failed_count == 0
    (plans_root() / "removed" / "other").mkdir(parents=True)  # of a removal that was killed
    (plans_root() / "running" / folder.name).mkdir(parents=True, exist_ok=True)
    assert remove_stored_folders(idle_s=0) == 1
    assert not list(plans_root().glob("r*/*"))
    call = Call.objects.get()
    assert (call.outcome, call.artifacts.count()) == ("succeeded", 1)


def test_daily_work_begins_at_once_and_not_again_the_same_day() -> None:
    threads: SimpleQueue[threading.Thread] = SimpleQueue()
    work = DailyWork("count", lambda: threads.put(threading.current_thread()))
    work.update()
    work.update()
    threads.get(timeout=60).join()
    assert threads.empty()
