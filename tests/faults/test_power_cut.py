"""After a power cut at any moment of writing, everything acknowledged is intact and nothing is half written.

The system calls are recorded and cut short between any two, on every machine. With `-m long` a real
file system is cut as well, by copying the disk image that it lies in while the import goes on:

    python -m pytest -m long tests/faults/test_power_cut.py
"""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from envelopes.storage.file_store import FileStore
from tests.faults.disk_image import NoMounts, mounted_image
from tests.faults.recorded_calls import Step, disks_after, recorded

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
