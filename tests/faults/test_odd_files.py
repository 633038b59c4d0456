"""Whatever a path leads to, the command ends with a sentence or a report, never with a traceback."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.conftest import CHECKOUT
from tests.dashboard.sessions import SESSION, asks, encoded, short_session, write
from tests.faults.imports import environment, migrated_store, rows

KINDS = {"runs", "calls", "results", "receipts", "events"}


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_with_member(tmp_path_factory.mktemp("stores") / "store")


def store_with_member(store: Path) -> Path:
    """Without one each import would state that nobody sees what it stored."""
    manage(migrated_store(store), "create_user", "alice").check_returncode()
    return store


def manage(store: Path, *arguments: str | bytes, timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, timeout=timeout)


def run(store: Path, *arguments: str | bytes, timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    return manage(store, "import_runs", *arguments, timeout=timeout)


def report_of(store: Path, *arguments: str | bytes) -> dict[str, Any]:
    done = run(store, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def report_here(path: Path) -> dict[str, Any]:
    """Without a process of its own, where the process is not what is asked about."""
    printed = io.StringIO()
    with suppress(CommandError):  # nothing was imported
        call_command("import_runs", "--json", str(path), stdout=printed)
    report: dict[str, Any] = json.loads(printed.getvalue())
    return report


def test_the_report_has_the_shape_that_was_promised(db: None, tmp_path: Path) -> None:
    lines = [*short_session(), b"no json", b" "]
    report = report_here(write(tmp_path / f"{SESSION}.jsonl", lines))
    names = "files formats seen added taken_later unstored lines problems run_ids"
    assert set(report) == set(names.split())
    assert (report["taken_later"], report["unstored"]) == (0, 0)
    assert set(report["seen"]) == set(report["added"]) == KINDS
    assert report["lines"] == {"accepted": 6, "rejected": 1, "blank": 1}
    assert [set(problem) for problem in report["problems"]] == [{"file", "line", "path", "reason"}]
    assert (report["files"], report["problems"][0]["line"], len(report["run_ids"])) == (1, 7, 1)


NAMES = (
    b"a\nb",
    "\u202egnp".encode(),
    b"\xff\xfe",
    b"\x1b[31mred",
    b"--watch",
    b"%s{0}{{x}}",
    b"x" * 249,
)


@pytest.mark.extended
def test_sessions_of_any_name_are_read_and_found_again(tmp_path: Path) -> None:
    store, folder = store_with_member(tmp_path / "store"), tmp_path / "in"
    paths = [Path(os.fsdecode(os.fsencode(folder) + b"/" + name + b".jsonl")) for name in NAMES]
    for number, path in enumerate(paths):
        write(path, [asks(f"toolu_{number}", session=f"s{number}")])
    assert report_of(store, str(folder))["added"]["calls"] == len(NAMES)
    for number, path in enumerate(paths):
        with path.open("ab") as file:
            file.write(b"refused\n" + encoded(asks(f"toolu_1{number}", session=f"s{number}")) + b"\n")
    report = report_of(store, *map(os.fsencode, paths[:4]), "--", *map(os.fsencode, paths[4:]))
    assert (report["added"]["calls"], report["lines"]["accepted"], report["lines"]["rejected"]) == (7, 14, 7)
    assert rows(store, "SELECT count(*) FROM dashboard_source") == [(7,)]
    done = run(store, str(folder))
    assert (done.returncode, done.stderr.count(b"\n")) == (0, len(NAMES))
    assert not any(sign in done.stdout + done.stderr for sign in (b"\x1b", "\u202e".encode(), b"\xff"))


@pytest.mark.parametrize("name", ["x" * 300 + ".jsonl", "gone.jsonl", "a-file/below.jsonl", "loop", ""])
def test_a_path_that_leads_nowhere_is_one_sentence(name: str, db: None, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(CommandError) as refused:
        call_command("import_runs", f"{tmp_path}/{name}" if name else "")
    assert str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.extended
def test_a_refused_command_prints_its_sentence_and_no_traceback(migrated: Path, tmp_path: Path) -> None:
    done = run(migrated, f"{tmp_path}/gone.jsonl")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.extended
def test_pipes_devices_and_sockets_are_refused_and_not_waited_for(migrated: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.jsonl"))
        write(tmp_path / f"{SESSION}.jsonl", short_session())
        (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
        (tmp_path / "folder.jsonl").mkdir()
        (tmp_path / "around").symlink_to(tmp_path)
        report = report_of(migrated, str(tmp_path), "/dev/zero", "/dev/null")
    assert report["seen"]["calls"] == 3
    reasons = {Path(problem["file"]).name: problem["reason"] for problem in report["problems"]}
    assert set(reasons) == {"pipe.jsonl", "socket.jsonl", "loop.jsonl", "zero", "null"}
    assert "not a regular file" in reasons["pipe.jsonl"]
    assert sum(report["lines"].values()) == 6


READ_AS_SOMEBODY_ELSE = """
import os, sys, django
from pathlib import Path
django.setup()
from dashboard.ingest.source_files import read_refused_file
from dashboard.ingest.source_files import open_regular, find_files
if os.geteuid() == 0:  # root may read everything
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path, _ in find_files([Path(sys.argv[1])]).recordings:
    try:
        open_regular(path).close()
        print("open", path.name)
    except OSError as error:
        print(error.strerror, path.name, read_refused_file(path))
"""


@pytest.mark.extended
def test_unreadable_files_and_folders_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    write(folder / "good" / f"{SESSION}.jsonl", short_session())
    write(folder / "secret.jsonl", short_session()).chmod(0o000)
    (folder / "closed").mkdir(mode=0o000)
    for parent in [folder, *folder.parents]:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    command = [sys.executable, "-c", READ_AS_SOMEBODY_ELSE, str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(tmp_path / "store"), capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == [
        "Permission denied closed (b'', {})",
        "Permission denied secret.jsonl (b'', {})",
        f"open {SESSION}.jsonl",
    ], done.stderr


@pytest.mark.long
def test_a_folder_of_5_000_files_is_read_in_one_go(tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    for number in range(5_000):
        session = f"0f5f6d8e-0000-4000-8000-{number:012}"
        write(tmp_path / "in" / str(number % 50) / f"{session}.jsonl", [asks(f"toolu_{number}", session=session)])
    report = json.loads(run(store, str(tmp_path / "in"), "--json", timeout=1_500).stdout)
    assert (report["files"], report["added"]["calls"], len(report["run_ids"])) == (5_000, 5_000, 5_000)
    assert rows(store, "SELECT count(*) FROM dashboard_run") == [(5_000,)]
