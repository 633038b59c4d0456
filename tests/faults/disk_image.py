"""A file system in a file, copied while an import writes to it, as a disk would be after a power cut."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from envelopes.storage.file_store import FileStore
from tests.conftest import CHECKOUT
from tests.faults.artifact_load import A_SESSION, write_recordings
from tests.faults.imports import environment, migrated_store

MEGABYTES = 160
IMPORT = """
import sys
from pathlib import Path
import django
django.setup()
from dashboard.ingest.importer import import_paths
from dashboard.accounts import DEFAULT_PROJECT, get_or_create_project
project = get_or_create_project(DEFAULT_PROJECT)
for path in sorted(Path(sys.argv[1]).glob("*.jsonl")):
    import_paths(project, [path])
    print(path.stem, flush=True)
"""
ROWS = "SELECT sha256, size FROM dashboard_artifact WHERE observation_id IS NULL AND state = 'present'"


class NoMounts(Exception):
    """This machine lets us mount nothing."""


@dataclass(frozen=True)
class Cut:
    """A copy of the disk, and how many artifacts had been acknowledged before it was begun."""

    image: Path
    acknowledged: int


@dataclass(frozen=True)
class DiskImage:
    file: Path
    mounted: Path

    def import_and_copy(self, *, artifacts: int, copies: int) -> list[Cut]:
        """Stops the import while the disk is copied, so that the copy is of one moment."""
        recordings = self.file.parent / "recordings"
        write_recordings(recordings, artifacts)
        store = migrated_store(self.mounted / "data")
        os.sync()
        command = [sys.executable, "-c", IMPORT, str(recordings)]
        log, chance, cuts = self.file.parent / "said", random.Random(3), list[Cut]()
        with log.open("wb") as out:
            process = subprocess.Popen(command, cwd=CHECKOUT, env=environment(store), stdout=out)
        while process.poll() is None and len(cuts) < copies:
            time.sleep(chance.uniform(0.05, 0.4))
            with stopped([process.pid]) as is_stopped:
                if is_stopped:
                    acknowledged = log.read_text().count("\n") * A_SESSION
                    cuts.append(Cut(self.copy(len(cuts)), acknowledged))
        process.kill()
        process.wait()
        return cuts

    def copy(self, number: int) -> Path:
        """A copy of the disk of one moment, if nothing writes to it meanwhile."""
        return Path(shutil.copy(self.file, f"{self.file}-{number}"))

    def faults_of(self, cut: Cut) -> list[str]:
        """Mounts the copy as after the cut; the file system and the database recover by themselves."""
        with self.recovered(cut.image) as place:
            database = sqlite3.connect(place / "data" / "counterfoil.db")
            rows = database.execute(ROWS).fetchall()
            ((integrity,),) = database.execute("PRAGMA integrity_check").fetchall()
            database.close()
            store = FileStore(place / "data" / "artifacts")
            sizes = {sha256: _size(store, sha256) for sha256, _ in rows}
            faults = {fault.reason for fault in store.check()} - {"left by a write that did not end"}
        faults |= {"a row's content is not whole" for sha256, size in rows if sizes[sha256] != size}
        faults |= {integrity} - {"ok"}
        lost = cut.acknowledged - len(rows)
        return sorted(faults) + ([f"{lost} acknowledged are lost"] if lost > 0 else [])

    @contextmanager
    def recovered(self, copy: Path) -> Iterator[Path]:
        """What a machine finds on that copy after the cut; it is deleted afterwards."""
        place = self.file.parent / "recovered"
        with _mounted(copy, place):
            yield place
        copy.unlink()


def _size(store: FileStore, sha256: str) -> int:
    try:
        with store.open(sha256) as stream:
            return stream.seek(0, os.SEEK_END)
    except (LookupError, OSError):
        return -1


@contextmanager
def mounted_image(folder: Path) -> Iterator[DiskImage]:
    """Raises NoMounts."""
    image = folder / "disk"
    with image.open("wb") as file:
        file.truncate(MEGABYTES * 2**20)
    if not shutil.which("mkfs.ext4") or subprocess.run(["mkfs.ext4", "-q", image], capture_output=True).returncode:
        raise NoMounts
    with _mounted(image, folder / "mounted"):
        yield DiskImage(image, folder / "mounted")


@contextmanager
def _mounted(image: Path, place: Path) -> Iterator[None]:
    """Writes the journal on request only, so that no timer writes it while the disk is copied."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop,commit=300", image, place], capture_output=True)
    if done.returncode:
        raise NoMounts(done.stderr.decode(errors="replace"))
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def stopped(processes: Sequence[int]) -> Iterator[bool]:
    """Nothing of these processes runs meanwhile; False when one of them has ended."""
    try:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        yield all(_stands_still(process) for process in processes)
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def _stands_still(process: int) -> bool:
    """False when it ended instead. A thread that writes is waited for."""
    while True:
        try:
            tasks = [(task / "stat").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
        except OSError:
            return False
        states = {task.rpartition(") ")[2][0] for task in tasks}
        if states <= {"T"}:
            return True
        if states <= {"Z", "X"}:
            return False
        time.sleep(0.002)
