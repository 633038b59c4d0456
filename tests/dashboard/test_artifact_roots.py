"""Files that a recording names: from below the folders that the operator named, and not one byte from elsewhere."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from dashboard.artifacts.files import artifact_files
from dashboard.artifacts.store import looking_under, room_of, take_in
from dashboard.models import Artifact
from tests.dashboard.sessions import SESSION, answers, asks, write

SECRET = b"not for the dashboard\n"


@pytest.fixture(autouse=True)
def folders(settings: Settings, tmp_path: Path) -> Path:
    settings.ARTIFACTS = tmp_path / "store"
    for name in ("root/kept", "root-evil", "outside", "recordings"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/kept/out.txt").write_bytes(b"the whole output\n")
    for place in ("root-evil/out.txt", "outside/secret.txt"):
        (tmp_path / place).write_bytes(SECRET)
    (tmp_path / "root/link.txt").symlink_to(tmp_path / "outside/secret.txt")
    (tmp_path / "root/linked").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "root/pipe")
    return tmp_path


def taken(folders: Path, recorded: str) -> bytes | None:
    with looking_under([folders / "root"]), room_of(1) as room:
        kept = take_in(folders / "recordings" / "session.jsonl", recorded, room)
    if kept is None:
        return None
    with artifact_files().open(kept.sha256) as stream:
        return stream.read()


def test_a_file_below_a_named_folder_is_taken_in(folders: Path) -> None:
    assert taken(folders, f"{folders}/root/kept/out.txt") == b"the whole output\n"
    with room_of(1) as room:
        assert take_in(folders / "recordings" / "session.jsonl", f"{folders}/root/kept/out.txt", room) is None


@pytest.mark.parametrize(
    "path",
    [
        "{0}/root/../outside/secret.txt",
        "{0}/root/kept/../../outside/secret.txt",
        "{0}/root/./kept/out.txt",
        "{0}/root//kept/out.txt",
        "{0}/outside/secret.txt",
        "{0}/root-evil/out.txt",
        "{0}/root/link.txt",
        "{0}/root/linked/secret.txt",
        "{0}/root/pipe",
        "{0}/root/kept",
        "{0}/root/kept/",
        "{0}/root",
        "{0}/root/kept/out.txt\0.png",
        "{0}/root/" + "a" * 300,
        "{0}/root/\udcff/out.txt",
        "{0}\\root\\kept\\out.txt",
        "file://{0}/root/kept/out.txt",
        "{0}/root/%2e%2e/outside/secret.txt",
        "/etc/passwd",
        "/proc/self/environ",
        "kept/out.txt",
        "",
    ],
)
def test_nothing_else_is(folders: Path, path: str) -> None:
    assert taken(folders, path.replace("{0}", folders.as_posix())) is None
    assert not list((folders / "store").rglob("*"))


def test_a_folder_that_becomes_a_link_meanwhile_gives_nothing_from_outside(folders: Path) -> None:
    """The race that a check of the path before its opening loses."""
    swapped, real, link = folders / "root/swapped", folders / "real", folders / "linked"
    real.mkdir()
    (real / "secret.txt").write_bytes(b"own content\n")
    link.symlink_to(folders / "outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(real, swapped)
            os.rename(swapped, real)
            os.rename(link, swapped)
            os.rename(swapped, link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = {taken(folders, f"{swapped}/secret.txt") for _ in range(400)}
    finally:
        stop.set()
        thread.join()
    assert found <= {None, b"own content\n"}


@pytest.mark.django_db
def test_the_command_takes_the_folder(folders: Path) -> None:
    result = {"stdout": "a", "stderr": "", "persistedOutputPath": f"{folders}/root/kept/out.txt"}
    recording = write(folders / "recordings" / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01", "a", result)])
    call_command("import_runs", str(recording), "--artifacts-root", str(folders / "root"), "--json")
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.size) == ("present", 17)
    with pytest.raises(CommandError):
        call_command("import_runs", str(recording), "--artifacts-root", str(folders / "nowhere"))
