"""Windows, index and search of a log of 1 GB or more, as ratios to what the machine does at best.

    python -m tests.bench.artifacts RECORDINGS [--gb 4] [--folder DIR]

The lines are those of the recorded outputs, repeated under changing headlines. Needs three times the
size on the disk, and takes it back. Each figure stands beside its bound; the exit code is 1 when one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from envelopes.storage.file_store import FileStore
from envelopes.storage.line_index import build_index
from envelopes.storage.line_window import WindowStart, read_window
from envelopes.storage.search import TextQuery, find_hits

WINDOWS = 400
LINES = 200
RARE = "=== the headline of part 47 ==="


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        log = folder / "log"
        _write_log(log, Path(options.recordings), options.gb * 10**9)
        figures = [*_rows(log, folder)]
    for label, figure, bound, unit in figures:
        print(f"{label:<58} {figure:8.2f} {unit:<6} bound {bound:g}{'' if figure <= bound else '   FAILS'}")
    return int(any(figure > bound for _, figure, bound, _ in figures))


def _rows(log: Path, folder: Path) -> Iterator[tuple[str, float, float, str]]:
    counted = _seconds(lambda: subprocess.run(["wc", "-l", log], check=True, capture_output=True))
    grepped = _seconds(lambda: subprocess.run(["grep", "-F", "-c", RARE, log], check=True, capture_output=True))
    with log.open("rb", buffering=0) as stream:
        yield "line index, times wc -l", _seconds(lambda: build_index(stream)) / counted, 6, "times"
    for kind, compress_from in (("plain", None), ("compressed", 1)):
        yield from _store_rows(log, FileStore(folder / kind, compress_from=compress_from), kind, grepped)
        shutil.rmtree(folder / kind)
    yield "peak of memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 150, "MiB"


def _store_rows(log: Path, store: FileStore, kind: str, grepped: float) -> Iterator[tuple[str, float, float, str]]:
    with log.open("rb") as content:
        stored = store.put(content)
    index, query = store.indexes.load(stored.sha256, stored.size), TextQuery.parse(RARE)
    with store.open(stored.sha256) as stream:
        ours, bare = _windows(stream, index, log)
        if kind == "plain":
            yield f"{kind}: window of {LINES} lines, times pread and decode", ours / bare, 8, "times"
        else:
            yield f"{kind}: the read of a window of {LINES} lines", ours * 1000, 5, "ms"
        searched = _seconds(lambda: _all(stream, query))
        yield f"{kind}: search of a rare string, times grep -F -c", searched / grepped, 5, "times"
    opened = _median(lambda: _opened_window(store, stored.sha256, stored.size), 50)
    yield f"{kind}: open, load the index, read a window", opened * 1000, 30, "ms"


def _windows(stream: BinaryIO, index: Any, log: Path) -> tuple[float, float]:
    """Medians of reading windows at random lines, and of a bare pread and decode of as many bytes."""
    ours, bare = [], []
    with log.open("rb", buffering=0) as plain:
        for _ in range(WINDOWS):
            place = WindowStart(line=random.randrange(1, index.lines))
            began = time.perf_counter()
            window = read_window(stream, index, place, lines=LINES)
            window.data.decode("utf-8", "surrogateescape")
            ours.append(time.perf_counter() - began)
            other = random.randrange(0, index.size - len(window.data))
            began = time.perf_counter()
            os.pread(plain.fileno(), len(window.data), other).decode("utf-8", "surrogateescape")
            bare.append(time.perf_counter() - began)
    return sorted(ours)[WINDOWS // 2], sorted(bare)[WINDOWS // 2]


def _opened_window(store: FileStore, sha256: str, size: int) -> None:
    with store.open(sha256) as stream:
        index = store.indexes.load(sha256, size)
        read_window(stream, index, WindowStart(line=random.randrange(1, index.lines)), lines=LINES)


def _all(stream: BinaryIO, query: TextQuery) -> None:
    found = find_hits(stream, query)
    assert found.is_whole
    assert found.count == 1, found.count


def _seconds(work: Callable[[], object]) -> float:
    """The best of three, in seconds of a processor, this process's or its child's: the machine may be busy."""
    taken = []
    for _ in range(3):
        began = _processor_time()
        work()
        taken.append(_processor_time() - began)
    return min(taken)


def _processor_time() -> float:
    """In microseconds' precision, which os.times has not."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _median(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[times // 2]


def _write_log(log: Path, recordings: Path, size: int) -> None:
    lines = b"".join(_outputs(recordings, 16_000_000))
    with log.open("wb") as file:
        part = 0
        while file.tell() < size:
            file.write(f"=== the headline of part {part} ===\n".encode())
            file.write(lines)
            part += 1


def _outputs(recordings: Path, most: int) -> Iterator[bytes]:
    """Texts of many lines out of the recordings, as they stand there."""
    total = 0
    for path in sorted(recordings.rglob("*.jsonl")):
        for line in path.open("rb"):
            for text in _texts(line):
                yield text
                total += len(text)
                if total > most:
                    return


def _texts(line: bytes) -> Iterator[bytes]:
    try:
        waiting = [json.loads(line)]
    except ValueError:
        return
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
        elif isinstance(one, str) and one.count("\n") > 20:
            yield one.encode("utf-8", "surrogatepass") + b"\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings")
    parser.add_argument("--gb", type=int, default=1)
    parser.add_argument("--folder", help="where the log is written; the system's folder for such files unless given")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
