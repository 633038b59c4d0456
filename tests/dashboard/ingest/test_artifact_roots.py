"""Files that a recording names: from below the folders that the operator named, and not one byte from elsewhere."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from dashboard.artifacts.ingest import artifact_roots, hold_quota, store_named_file
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact
from tests.dashboard.sessions import SESSION, answers, asks, write

SECRET = b"not for the dashboard\n"


@pytest.fixture(autouse=True)
def folders(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.ARTIFACTS = tmp_path / "store"
    for name in ("root/kept", "root-evil", "outside", "recordings"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/kept/out.txt").write_bytes(b"the whole output\n")
    for place in ("root-evil/out.txt", "outside/secret.txt"):
        (tmp_path / place).write_bytes(SECRET)
    (tmp_path / "root/link.txt").symlink_to(tmp_path / "outside/secret.txt")
    (tmp_path / "root/linked").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "root/pipe")
    (tmp_path / "root/loop").symlink_to(tmp_path / "root")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # the name of a socket may have 107 bytes
        listening.bind("root/socket")
    return tmp_path


def taken(folders: Path, recorded: str, *, has_hidden: bool = False) -> bytes | None:
    with artifact_roots([folders / "root"], has_hidden=has_hidden), hold_quota(1) as room:
        stored = store_named_file(folders / "recordings" / "session.jsonl", recorded, room)
    if stored is None:
        return None
    with configured_store().open(stored.sha256) as stream:
        return stream.read()


def test_a_file_below_a_named_folder_is_stored(folders: Path) -> None:
    assert taken(folders, f"{folders}/root/kept/out.txt") == b"the whole output\n"
    with hold_quota(1) as room:
        assert store_named_file(folders / "recordings" / "session.jsonl", f"{folders}/root/kept/out.txt", room) is None


@pytest.mark.parametrize(
    "path",
    [
        "{0}/root/../outside/secret.txt",
        "{0}/root/kept/../../outside/secret.txt",
        "{0}/root/./kept/out.txt",
        "{0}/root//kept/out.txt",
        "{0}/outside/secret.txt",
        "{0}/root-evil/out.txt",
        "{0}/root-evil/kept/out.txt",
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
        "{0}/root/../root-evil/out.txt",
        "{0}/root/kept/../../root-evil/out.txt",
        "{0}/root/kept/..",
        "{0}/root/kept/out.txt/",
        "{0}/root/kept/out.txt/..",
        "{0}/root/kept/out.txt\n",
        "{0}/root/kept/out.txt#x",
        "{0}/root/kept/out.txt?x",
        "{0}/root/kept/out.txt:x",
        "{0}/ROOT/kept/out.txt",
        "/{0}/root/kept/out.txt",
        "{0}/./root/kept/out.txt",
        " {0}/root/kept/out.txt",
        "{0}/root/loop/loop/kept/out.txt",
        "{0}/root/socket",
        "{0}/root/..\\outside\\secret.txt",
        "{0}/root/..%2foutside%2fsecret.txt",
        "{0}/root/%c0%ae%c0%ae/outside/secret.txt",
        "{0}/root/\uff0e\uff0e/outside/secret.txt",
        "{0}/root/\u2025/outside/secret.txt",
        "{0}/root/..;/outside/secret.txt",
        "{0}/root/" + "../" * 40 + "etc/passwd",
        "{0}/root/" + "a/" * 3_000 + "out.txt",
        "~/root/kept/out.txt",
        "$HOME/kept/out.txt",
        "/dev/stdin",
        "/dev/zero",
        "/proc/self/fd/0",
        "/proc/self/root/{0}/root/kept/out.txt",
        "\\\\host\\share\\out.txt",
        "C:\\root\\kept\\out.txt",
        "http://localhost/root/kept/out.txt",
    ],
)
def test_nothing_else_is(folders: Path, path: str) -> None:
    assert taken(folders, path.replace("{0}", folders.as_posix())) is None
    assert not list((folders / "store").rglob("*"))


@pytest.mark.parametrize("name", [".env", ".git/config", "kept/.netrc"])
def test_a_hidden_file_is_stored_only_when_that_is_asked_for(folders: Path, name: str) -> None:
    (folders / "root" / name).parent.mkdir(exist_ok=True)
    (folders / "root" / name).write_bytes(SECRET)
    assert taken(folders, f"{folders}/root/{name}") is None
    assert taken(folders, f"{folders}/root/{name}", has_hidden=True) == SECRET
    (folders / "root").rename(folders / ".root")  # the folder that the operator names may be hidden
    with artifact_roots([folders / ".root"]), hold_quota(1) as room:
        path = f"{folders}/.root/kept/out.txt"
        assert store_named_file(folders / "recordings" / "session.jsonl", path, room) is not None


ODD_NAMES = {
    "spaces": " a b ",
    "two dots and more": "..hidden",
    "three dots": "...",
    "a line end": "a\nb.txt",
    "an escape": "a\x1b[31m.txt",
    "a carriage return": "a\r\nSet-Cookie: x.txt",
    "one character": "\u00e9.txt",
    "two characters": "e\u0301.txt",
    "the other direction": "\u202etxt.exe",
    "percent": "%2e%2e",
    "a home": "~root",
    "a variable": "$HOME",
    "a star": "*",
    "an option": "-rf",
    "a device elsewhere": "CON.txt",
    "a dot at the end": "a.",
    "a stream elsewhere": "a.txt:b",
    "a query": "a?b#c;d.txt",
    "no text": "\udcff\udcfe.txt",
    "markup": "<img src=x>.svg",
    "the longest": "a" * 255,
}


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
@pytest.mark.parametrize("place", ["root/kept", "recordings/tool-results"])
def test_an_odd_name_means_the_file_of_that_very_name(folders: Path, place: str, name: str) -> None:
    (folders / place).mkdir(exist_ok=True)
    (folders / place / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    assert taken(folders, f"{folders}/{place}/{name}", has_hidden=True) == name.encode("utf-8", "surrogateescape")


ACTIVE = {
    "page.html": b"<script src=//x></script>",
    "picture.svg": b'<!DOCTYPE svg [<!ENTITY e SYSTEM "file:///etc/passwd">]><svg>&e;</svg>',
    "bomb.xml": b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>',
    "flood.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\x08\x06\0\0\0",
    "bundle.zip": b"PK\x03\x04" + b"\0" * 26,
}


@pytest.mark.parametrize("name", ACTIVE)
def test_what_a_browser_or_a_parser_would_run_is_bytes_and_is_kept_as_it_is(folders: Path, name: str) -> None:
    (folders / "root/kept" / name).write_bytes(ACTIVE[name])
    assert taken(folders, f"{folders}/root/kept/{name}") == ACTIVE[name]


@pytest.mark.parametrize("linked", ["tool-results", "tool-results/out.txt", "session"])
def test_nothing_is_opened_through_a_link_beside_the_recording(folders: Path, linked: str) -> None:
    """`session` is the folder that an agent keeps beside its session's file."""
    folder = folders / "elsewhere/tool-results"
    folder.mkdir(parents=True)
    (folder / "out.txt").write_bytes(SECRET)
    target = {"tool-results": folder, "tool-results/out.txt": folder / "out.txt", "session": folder.parent}[linked]
    (folders / "recordings" / linked).parent.mkdir(exist_ok=True)
    (folders / "recordings" / linked).symlink_to(target)
    assert taken(folders, "/home/x/tool-results/out.txt") is None


def test_a_file_that_becomes_a_link_meanwhile_gives_nothing_from_outside(folders: Path) -> None:
    place, own, link = folders / "root/kept/out.txt", folders / "own", folders / "link"
    link.symlink_to(folders / "outside/secret.txt")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(place, own)
            os.rename(link, place)
            os.rename(place, link)
            os.rename(own, place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        contents = {taken(folders, str(place)) for _ in range(400)}
    finally:
        stop.set()
        thread.join()
    assert contents <= {None, b"the whole output\n"}


def test_a_file_that_grows_for_ever_is_stored_as_it_was(folders: Path) -> None:
    path = folders / "root/kept/growing.txt"
    path.write_bytes(b"line\n" * 1_000)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab") as file:
            while not stop.is_set() and file.tell() < 2**30:
                file.write(b"line\n" * 200_000)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        content = taken(folders, str(path))
    finally:
        stop.set()
        thread.join()
    assert content is not None
    # A write may be under way, so the end may be within a line.
    assert content == (b"line\n" * (len(content) // 5 + 1))[: len(content)]
    assert 5_000 <= len(content) <= path.stat().st_size  # equal where the writer had no turn since


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
        contents = {taken(folders, f"{swapped}/secret.txt") for _ in range(400)}
    finally:
        stop.set()
        thread.join()
    assert contents <= {None, b"own content\n"}


@pytest.mark.django_db
def test_the_command_takes_the_folder(folders: Path) -> None:
    result = {"stdout": "a", "stderr": "", "persistedOutputPath": f"{folders}/root/kept/out.txt"}
    recording = write(folders / "recordings" / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01", "a", result)])
    call_command("import_runs", str(recording), "--artifacts-root", str(folders / "root"), "--json")
    call_command("import_runs", str(recording), "--artifacts-root", str(folders), "--artifacts-hidden", "--json")
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.size) == ("present", 17)
    with pytest.raises(CommandError):
        call_command("import_runs", str(recording), "--artifacts-root", str(folders / "nowhere"))
