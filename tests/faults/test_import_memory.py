"""Measures the memory of an import in a process of its own.

python -m pytest -m long tests/faults/test_import_memory.py -s
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.dashboard.sessions import SESSION, answers, asks, encoded
from tests.faults.imports import environment, manage, migrated_store

MB = 1_000_000
OUTPUT = "\n".join(f"line {number} of an output that is like many" for number in range(120))


def write_session(path: Path, size: int, call: str = "toolu") -> int:
    """The number of calls that it takes to fill `size` bytes."""
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for number in count(1):
            for line in pair(f"{call}_{number}", f"{OUTPUT}{number}"):
                file.write(line + b"\n")
            if file.tell() >= size:
                return number
    raise AssertionError("count ends")


def pair(call: str, output: str) -> Iterator[bytes]:
    yield encoded(asks(call))
    yield encoded(answers(call, output, {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}))


def imported(folder: Path) -> tuple[dict[str, dict[str, int]], float]:
    """The report, and the peak resident memory in MB as the kernel counted it for that one process."""
    manage(folder / "store", "migrate")
    command = [sys.executable, "manage.py", "import_runs", "--json", str(folder / "in")]
    process = subprocess.Popen(command, cwd=CHECKOUT, env=environment(folder / "store"), stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output:
        report = json.load(output)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return report, usage.ru_maxrss * 1024 / MB


@pytest.mark.extended
def test_no_connection_maps_the_store_once_that_was_stopped(tmp_path: Path) -> None:
    """A pool closes the connection of an import, which then opens another one."""
    script = """
import django
django.setup()
from django.db import connection
from dashboard.store_sqlite3.base import stop_mapping
def mapped():
    with connection.cursor() as cursor:
        return cursor.execute("PRAGMA mmap_size").fetchone()[0]
sizes = [mapped()]
stop_mapping()
sizes.append(mapped())
connection.close()
print(*sizes, mapped())
"""
    command = [sys.executable, "-c", script]
    store = migrated_store(tmp_path / "store")
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, text=True, check=True)
    assert [int(size) > 0 for size in done.stdout.split()] == [True, False, False]


@pytest.mark.long
def test_memory_does_not_grow_with_a_session_of_400_mb(tmp_path: Path) -> None:
    peaks = {}
    for size in (40, 400):
        calls = write_session(tmp_path / str(size) / "in" / f"{SESSION}.jsonl", size * MB)
        report, peaks[size] = imported(tmp_path / str(size))
        assert report["added"]["calls"] == calls
    print(f"\npeak memory of an import: {peaks[40]:.0f} MB for a file of 40 MB, {peaks[400]:.0f} MB for one of 400 MB")
    assert peaks[400] < 300
    assert peaks[400] < peaks[40] * 1.25


@pytest.mark.long
def test_one_line_of_60_mb_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "in" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"".join(line + b"\n" for line in pair("toolu_1", "x" * 30 * MB)))
    report, peak = imported(tmp_path)
    assert (report["added"]["receipts"], report["lines"]["rejected"]) == (1, 0)
    print(f"\npeak memory of an import: {peak:.0f} MB for one line of 60 MB")
    assert peak < 600


@pytest.mark.long
def test_a_line_beyond_the_limit_is_refused_and_the_next_one_read(tmp_path: Path) -> None:
    path = tmp_path / "in" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    first, too_long = pair("toolu_1", "x" * 70 * MB)
    path.write_bytes(b"".join(line + b"\n" for line in (first, too_long, *pair("toolu_2", "short"))))
    report, peak = imported(tmp_path)
    assert report["lines"] == {"accepted": 3, "rejected": 1, "blank": 0}
    print(f"\npeak memory of an import: {peak:.0f} MB beside a line of 140 MB")
    assert peak < 600
