"""The pool reads files ahead of the import, and what it reads of them is what the import itself would read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
import pyzstd

from dashboard.ingest.reading import Opening, Piece, ReadAhead, choose_reader, read_pieces
from dashboard.ingest.source_files import BATCH_LINES, HEAD_BYTES, find_files, head_sha256
from dashboard.pool import open_pool
from envelopes.recordings.base import SourcePath
from tests.conftest import CHECKOUT
from tests.dashboard.sessions import SESSION, answers, asks, write

SAMPLES = [path for path, _ in find_files([CHECKOUT / "dashboard" / "samples"]).recordings]


def read_ahead(paths: Sequence[Path]) -> dict[Path, Opening | None]:
    """What is there for each file when it comes to be imported, by a pool that is as far as it can be."""
    with ThreadPoolExecutor(1) as executor:
        ahead = ReadAhead(executor, paths, None)
        executor.submit(int).result()  # the executor has done what it was asked for until now
        return {path: ahead.take(path) for path in paths}


def read_here(path: Path, opening: Opening | None = None) -> list[Piece]:
    """The pieces from the beginning, or those behind an opening."""
    source = SourcePath(path.resolve().as_posix())
    with path.open("rb") as file:
        name, state = choose_reader(file, file.read(HEAD_BYTES), source, None)
        offset, number = 0, 1
        if opening is not None:
            last = opening.pieces[-1]
            state, offset, number = last.state, last.batch.end, last.batch.lines[-1].number + 1
        return list(read_pieces(file, name, source, state, offset=offset, number=number))


def test_the_pool_reads_what_the_import_would_read() -> None:
    openings = read_ahead(SAMPLES)
    assert openings.pop(SAMPLES[0]) is None  # it is imported while the pool begins with the next
    assert len(openings) > 5
    for path, opening in openings.items():
        assert opening is not None
        assert (opening.pieces, opening.is_whole) == (read_here(path), True)
        assert (opening.inode, opening.head_sha256) == (path.stat().st_ino, head_sha256(path.read_bytes()))
        content = b"".join(line.raw for line in opening.pieces[0].batch.lines)
        assert b"".join(pyzstd.decompress(frame.packed) for frame in opening.frames) == content
        digests = opening.digests(0)
        assert digests
        for (start, size), digest in digests.items():
            assert hashlib.sha256(content[start : start + size]).hexdigest() == digest


def test_the_files_of_an_audit_folder_are_read_one_after_the_other(tmp_path: Path) -> None:
    names = ("run.json", "calls.jsonl", "results.jsonl", "messages.jsonl")
    expected = [tmp_path / folder / name for folder in ("a", "b", "a/deeper") for name in names]
    for path in [*expected, tmp_path / "b" / "notes.txt"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = find_files([tmp_path])
    assert [path for path, _ in found.recordings] == expected
    assert found.others == [tmp_path / "b" / "notes.txt"]


@pytest.mark.extended
def test_an_import_goes_on_behind_the_pieces_that_the_pool_read(tmp_path: Path) -> None:
    lines = [
        line for number in range(BATCH_LINES * 2) for line in (asks(f"toolu_{number}"), answers(f"toolu_{number}", "a"))
    ]
    paths = [
        write(tmp_path / f"{name}{SESSION[1:]}.jsonl", lines[:size]) for name, size in (("1", 2), ("2", len(lines)))
    ]
    opening = read_ahead(paths)[paths[1]]
    assert opening is not None
    assert not opening.is_whole
    assert [len(piece.batch.lines) for piece in opening.pieces] == [BATCH_LINES] * 2
    assert [*opening.pieces, *read_here(paths[1], opening)] == read_here(paths[1])


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no recording\n", None])
def test_a_file_that_nobody_can_read_is_left_to_the_import_which_says_why(
    content: bytes | None, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    if content is not None:
        second.write_bytes(content)
    assert read_ahead([first, second]) == {first: None, second: None}


def processor_of_a_pool() -> int:
    with open_pool("no database is opened") as pool:
        return pool.submit(os.getpid).result()


def own_processes() -> set[str]:
    threads = Path("/proc/self/task").glob("*/children")
    return {child for thread in threads for child in thread.read_text().split()}


@pytest.mark.extended
def test_a_request_leaves_no_process_of_its_pool() -> None:
    resource_tracker.ensure_running()
    before = own_processes()
    with ThreadPoolExecutor(1) as requests:
        assert requests.submit(processor_of_a_pool).result() != os.getpid()
    assert own_processes() == before
