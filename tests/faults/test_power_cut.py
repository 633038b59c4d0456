"""After a power cut at any moment of writing, everything acknowledged is intact and nothing is half written.

The system calls are recorded and cut short between any two, on every machine. With `-m long` a real file system is
cut as well, by copying the disk image that it lies in while an import goes on, or while programs send to the server:

    python -m pytest -m long tests/faults/test_power_cut.py
"""

from __future__ import annotations

import io
import json
import os
import random
import time
from pathlib import Path

import pytest

from envelopes.storage.file_store import FileStore
from tests.faults.disk_image import DiskImage, NoMounts, mounted_image, stopped
from tests.faults.imports import manage, migrated_store, rows
from tests.faults.intake_load import UNLIMITED, find_stored, start_writers
from tests.faults.recorded_calls import Step, disks_after, recorded
from tests.faults.server import running_server, sign_in

LEFT = "left by a write that did not end"


def written(root: Path, count: int) -> list[Step]:
    """Writes like an import: small and large files, some twice, with indexes; each acknowledged on return."""
    with recorded(root) as recorder:
        store = FileStore(root, compress_from=20_000)
        for number in range(count):
            lines = 150_000 if number % 12 == 5 else number % 6 * 400
            text = b"line of an output\n" * lines + b"%d\n" % (number // 2 if number % 4 == 3 else number)
            recorder.acknowledge(store.put(io.BytesIO(text)).sha256)
    return recorder.steps


def losses(steps: list[Step], workplace: Path) -> set[str]:
    """The faults of all disks that a cut may leave, between any two calls."""
    chance, faults, seen = random.Random(5), set[str](), set[int]()
    for end in range(len(steps) + 1):
        acknowledged = frozenset(step.path for step in steps[:end] if step.kind == "acknowledged")
        for disk in disks_after(steps[:end], chance):
            # Equal disks are checked once for each set of acknowledged files.
            state = hash((acknowledged, frozenset((path, len(data)) for path, data in disk.items())))
            if state not in seen:
                seen.add(state)
                faults |= _losses(disk, acknowledged, workplace / str(len(seen)))
    return faults


def _losses(disk: dict[str, bytes], acknowledged: frozenset[str], folder: Path) -> set[str]:
    for path, data in disk.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    store = FileStore(folder)
    stored = {path[3:67] for path in disk if not path.endswith(".lines")}
    return {fault.reason for fault in store.check()} - {LEFT} | {"lost" for sha256 in acknowledged - stored}


def test_no_cut_between_two_calls_loses_what_was_acknowledged_or_leaves_a_half(tmp_path: Path) -> None:
    steps = written(tmp_path / "store", 14)
    assert {step.kind for step in steps} == {"name", "gone", "sync file", "sync folder", "acknowledged"}
    assert losses(steps, tmp_path / "cut") == set()


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["sync file", "sync folder"])
def test_a_store_that_did_not_sync_would_be_caught(tmp_path: Path, kind: str) -> None:
    steps = [step for step in written(tmp_path / "store", 6) if step.kind != kind]
    assert losses(steps, tmp_path / "cut")


@pytest.mark.long
def test_a_disk_image_copied_at_any_moment_holds_all_that_was_acknowledged(tmp_path: Path) -> None:
    try:
        with mounted_image(tmp_path) as image:
            cuts = image.import_and_copy(artifacts=400, copies=25)
            assert len({cut.acknowledged for cut in cuts}) > 5
            assert [fault for cut in cuts for fault in image.faults_of(cut)] == []
    except NoMounts:
        assert losses(written(tmp_path / "store", 300), tmp_path / "cut") == set()


@pytest.mark.long
def test_a_disk_image_copied_while_programs_send_holds_all_that_was_acknowledged(tmp_path: Path) -> None:
    try:
        with mounted_image(tmp_path) as image:
            cuts = cuts_while_programs_send(image, copies=25)
            assert len({len(acknowledged) for _, acknowledged in cuts}) > 5
            for copy, acknowledged in cuts:
                with image.recovered(copy) as disk:
                    assert rows(disk / "data", "PRAGMA integrity_check") == [("ok",)]
                    stored = find_stored(disk / "data")
                assert len(stored) == len(set(stored))
                assert acknowledged - set(stored) == set()
    except NoMounts:
        pytest.skip("this machine lets us mount nothing")


def cuts_while_programs_send(image: DiskImage, *, copies: int) -> list[tuple[Path, set[str]]]:
    """Copies of the disk, each with what had been acknowledged before it was begun."""
    store = migrated_store(image.mounted / "data")
    token = json.loads(manage(store, "create_token", "writers", "--json").stdout)["token"]
    session, chance, cuts = sign_in(store), random.Random(6), list[tuple[Path, set[str]]]()
    os.sync()
    log = image.file.parent / "log"
    with running_server(store, session, log, "--background", "0", variables=UNLIMITED) as server:
        writers = start_writers(server, token, "cut", 8)
        for number in range(copies):
            time.sleep(chance.uniform(0.05, 0.4))
            acknowledged = {entry.key for writer in writers for entry in list(writer.acknowledged)}
            with stopped(server.processes()) as is_stopped:
                assert is_stopped
                cuts.append((image.copy(number), acknowledged))
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(60)
    return cuts
