"""Size of the store, speed and memory of an import, beside a floor of the same run.

    python -m tests.bench.imports RECORDINGS                      100 MB of sessions, and an audit layout
    python -m tests.bench.imports RECORDINGS --megabytes 1000     the full figure
    python -m tests.bench.imports RECORDINGS --against CHECKOUT   the time of each import beside another checkout's

The sessions are those of RECORDINGS/claude-code, copied under other ids until they are as large. The audit layout has
12,000 calls in 804 files, with a payload of about 7 KB in each half. The floor reads the same files with msgspec and
inserts the very rows of the store, in as many transactions, without the index over the words of payloads, which keeps
no texts. Both search indexes are left out of the ratio of the store. `--against` imports with both checkouts in turns,
so the ratio does not depend on the machine. The exit status is 1 where a limit is passed.
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

MEGABYTES = 100
TURNS = 3  # imports by each checkout
RUNS, CALLS = 134, 12_000  # of the audit layout, six files a run
PAYLOAD = 7_000
BATCH_BYTES = 4 * 1024 * 1024
STORE_RATIO = 0.45
KILOBYTES_A_CALL = 9.0
LARGEST_MEGABYTES = 300
RUN_TEXTS = "dashboard_runtext"  # the index over the texts of runs; its triggers fill it for both
SEARCH = f"*{RUN_TEXTS}*", "*dashboard_searchtext*"
PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF;"
CHECKOUT = Path(__file__).resolve().parents[2]
UUID_START = re.compile(rb"\b[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-)")

IMPORT = """
import sys, time
import django
if __name__ == "__main__":
    django.setup()
    from django.core.management import call_command
    start = time.perf_counter()
    call_command("import_runs", sys.argv[1], "--json")
    print(time.perf_counter() - start, file=sys.stderr)
"""


@dataclass(frozen=True)
class Measured:
    """One import, in seconds and megabytes: the peak of the largest process, and of all together."""

    seconds: float
    calls: int
    largest: float
    together: float


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.bench.imports")
    parser.add_argument("recordings", type=Path, metavar="RECORDINGS")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="of sessions")
    parser.add_argument("--against", metavar="CHECKOUT", type=Path, help="another checkout to compare with")
    arguments = parser.parse_args()
    passed = 0
    with TemporaryDirectory(prefix="imports-") as name:
        folder = Path(name)
        write_sessions(arguments.recordings / "claude-code", folder / "sessions", arguments.megabytes * 1_000_000)
        write_audits(folder / "audit")
        for kind in ("sessions", "audit"):
            if arguments.against:
                compare(folder / kind, arguments.against.resolve())
            else:
                passed += report(kind, folder / kind)
    return 1 if passed else 0


def report(kind: str, recordings: Path) -> int:
    """Prints the figures of an import; returns how many limits it passes."""
    store = recordings.with_name(f"{kind}-store")
    measured = run_import(CHECKOUT, recordings, store)
    floor = run_floor(recordings, store / "counterfoil.db", store / "floor.db")
    source = sum(path.stat().st_size for path in recordings.rglob("*") if path.is_file())
    stored, search = store_size(store / "counterfoil.db")
    each = stored / measured.calls / 1000
    slower = measured.seconds / floor
    print(f"{kind}: {measured.calls:,} calls, source {source / 1e6:.1f} MB")
    size = f"store {stored / 1e6:.1f} MB, {stored / source:.3f} of the source, {each:.1f} KB a call"
    print(f"  {size} (search indexes apart: {search / 1e6:.1f} MB)")
    speed = f"{measured.calls / measured.seconds:,.0f} calls and {source / 1e6 / measured.seconds:.1f} MB a second"
    print(f"  import {measured.seconds:.1f} s, {speed}; floor {floor:.1f} s, ratio {slower:.2f}")
    print(f"  memory: largest process {measured.largest:.0f} MB, all together {measured.together:.0f} MB", flush=True)
    limits = [(measured.largest, LARGEST_MEGABYTES)]
    limits.append((each, KILOBYTES_A_CALL) if kind == "audit" else (stored / source, STORE_RATIO))
    return sum(value > limit for value, limit in limits)


def compare(recordings: Path, other: Path) -> None:
    ratios = []
    for turn in range(TURNS):
        here, there = (
            run_import(checkout, recordings, recordings.with_name(f"{name}-{recordings.name}-{turn}"))
            for name, checkout in (("here", CHECKOUT), ("there", other))
        )
        ratios.append(there.seconds / here.seconds)
        print(f"{recordings.name}: {there.seconds:.1f} → {here.seconds:.1f} s, {ratios[-1]:.2f} times as fast")
    print(f"{recordings.name}: median {statistics.median(ratios):.2f} times as fast", flush=True)


def write_sessions(recordings: Path, folder: Path, size: int) -> None:
    """Copies the sessions, each time with other ids of calls, sessions and lines, until they have so many bytes."""
    files = [path for path in sorted(recordings.rglob("*")) if path.is_file()]
    number = written = 0
    while written < size:
        for path in files:
            name = _renumber(os.fsencode(path.relative_to(recordings)), number)
            content = _renumber(path.read_bytes(), number).replace(b"toolu_", b"toolu_%03d" % number)
            target = folder / str(number) / os.fsdecode(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            written += len(content)
        number += 1


def _renumber(content: bytes, number: int) -> bytes:
    """Adds to the first group of digits of each UUID, so that what refers to it still does."""
    return UUID_START.sub(lambda match: b"%08x" % ((int(match[0], 16) + number) % 2**32), content)


def write_audits(folder: Path) -> None:
    chance = random.Random(7)
    for run in range(RUNS):
        count = CALLS * (run + 1) // RUNS - CALLS * run // RUNS
        lines: dict[str, list[dict[str, object]]] = defaultdict(list)
        for name, line in _audit_lines(f"run-{run:03}", count, chance):
            lines[name].append(line)
        (folder / f"run-{run:03}").mkdir(parents=True)
        for name, objects in lines.items():
            content = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in objects)
            (folder / f"run-{run:03}" / name).write_bytes(content)


def _audit_lines(run: str, count: int, chance: random.Random) -> Iterator[tuple[str, dict[str, object]]]:
    """The objects of an executor that ran one command after the other, each with the name of its file."""
    stamp = "2026-03-01T09:%02d:%02d.%03dZ"
    yield "run.json", {"runId": run, "plan": {"goal": "Look into the logs"}, "startedAt": stamp % (0, 0, 0)}
    yield "messages.jsonl", {"v": 1, "type": "message", "run": run, "seq": 1, "role": "user", "text": "Look into it"}
    for number in range(count):
        key, began, ended = f"c{number}", *(stamp % (number // 60, number % 60, ms) for ms in (0, 400))
        text = _log(chance)
        call = {"callId": key, "runId": run, "stepId": f"s{number}", "tool": "ExecCommand", "attempt": 1}
        yield (
            "calls.jsonl",
            {**call, "args": {"cmd": f"tail {number}.log"}, "createdAt": began},
        )
        result = {"status": "ok", "ok": True, "data": {"exit_status": 0, "output": text}, "durationMs": 400}
        yield "results.jsonl", {**call, **result, "startedAt": began, "endedAt": ended}
        receipt = {"v": 1, "type": "receipt", "run": run, "call": key, "seq": 1, "text": text, "style": "receipt"}
        yield "receipts.jsonl", {**receipt, "native_error": False, "fidelity": "exact"}
        event = {"type": "step.finished", "runId": run, "timestamp": ended, "level": "info", "callId": key}
        yield "events.jsonl", {**event, "message": "Step finished"}


def _log(chance: random.Random) -> str:
    """Lines that differ as those of a log do: a third of their characters come from no other line."""
    size, lines = 0, []
    while size < PAYLOAD:
        level, path = chance.choice(("INFO", "WARN", "DEBUG")), chance.choice(("orders", "users/me", "search", "items"))
        moment = f"2026-03-01 09:{chance.randrange(60):02}:{chance.randrange(60):02}"
        request = f"request={chance.getrandbits(64):016x} path=/api/{path}/{chance.randrange(9999)}"
        lines.append(f"{moment} {level} worker={chance.randrange(16)} {request} took={chance.randrange(900)}ms\n")
        size += len(lines[-1])
    return "".join(lines)


def run_import(checkout: Path, recordings: Path, store: Path) -> Measured:
    """Imports into a new store by a process of that checkout, whose processes are looked at twenty times a second."""
    variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    variables |= {"COUNTERFOIL_DATA": str(store), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    variables["PYTHONPATH"] = str(checkout)
    store.mkdir()
    migrate = [sys.executable, "manage.py", "migrate", "-v0"]
    subprocess.run(migrate, cwd=checkout, env=variables, check=True)
    script = store / "run_import.py"  # a file, because the processes of a pool load it too
    script.write_text(IMPORT)
    process = subprocess.Popen(
        [sys.executable, str(script), str(recordings)],
        cwd=checkout,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    peaks = {"largest": 0.0, "together": 0.0}
    done = threading.Event()
    watch = threading.Thread(target=_watch_memory, args=(process.pid, done, peaks))
    watch.start()
    output, errors = process.communicate()
    done.set()
    watch.join()
    if process.returncode:
        raise RuntimeError(errors)
    return Measured(float(errors.split()[-1]), json.loads(output)["added"]["calls"], **peaks)


def _watch_memory(process: int, done: threading.Event, peaks: dict[str, float]) -> None:
    while not done.wait(0.05):
        own, now = [], []
        for tree_process in _tree(process):
            try:
                status = Path(f"/proc/{tree_process}/status").read_text()
            except OSError:
                continue  # it has ended
            sizes = {name: int(size) / 1000 for name, size in re.findall(r"Vm(HWM|RSS):\s+(\d+) kB", status)}
            own.append(sizes.get("HWM", 0.0))
            now.append(sizes.get("RSS", 0.0))
        peaks["largest"] = max(peaks["largest"], *own, 0.0)
        peaks["together"] = max(peaks["together"], sum(now))


def _tree(process: int) -> list[int]:
    """The process and all that it or one of them started."""
    processes = [process]
    for parent in processes:
        try:
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                processes += map(int, children.read_text().split())
        except OSError:
            continue
    return processes


def store_size(database: Path) -> tuple[int, int]:
    """Bytes of the store without the search indexes, and those of these."""
    with closing(sqlite3.connect(database)) as store:
        sizes = store.execute("SELECT name GLOB ? OR name GLOB ?, sum(pgsize) FROM dbstat GROUP BY 1", SEARCH)
        by_kind = dict(sizes.fetchall())
    return by_kind[0], by_kind.get(1, 0)


def run_floor(recordings: Path, filled: Path, empty: Path) -> float:
    with closing(sqlite3.connect(filled)) as source:
        shadows = "SELECT name FROM pragma_table_list WHERE type = 'shadow'"  # these come with the virtual tables
        schema = source.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            f" AND name NOT IN ({shadows})"
        ).fetchall()
        batches = _batches(source)
    with closing(sqlite3.connect(empty, isolation_level=None)) as target:
        target.executescript(PRAGMAS)
        for (statement,) in schema:
            target.execute(statement)
        start = time.perf_counter()
        _read(recordings)
        for batch in batches:
            target.execute("BEGIN IMMEDIATE")
            for table, rows in batch.items():
                places = ", ".join("?" * len(rows[0]))
                target.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows)
            target.execute("COMMIT")
        return time.perf_counter() - start


def _read(folder: Path) -> None:
    for path in sorted(folder.rglob("*.json*")):
        with path.open("rb") as file:
            for line in file if path.suffix == ".jsonl" else [file.read()]:
                msgspec.json.decode(line)


def _batches(source: sqlite3.Connection) -> list[dict[str, list[tuple[object, ...]]]]:
    """The rows that the importer wrote, in transactions of 4 MiB of recordings."""
    size = source.execute('SELECT sum("offset") FROM dashboard_source').fetchone()[0]
    count = size // BATCH_BYTES + 1
    tables = source.execute(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND name GLOB 'dashboard_*' AND name <> ?", [RUN_TEXTS]
    )
    batches: list[dict[str, list[tuple[object, ...]]]] = [{} for _ in range(count)]
    for (name,) in tables.fetchall():
        rows = source.execute(f'SELECT * FROM "{name}"').fetchall()
        for number, batch in enumerate(batches):
            part = rows[number * len(rows) // count : (number + 1) * len(rows) // count]
            if part:
                batch[name] = part
    return batches


if __name__ == "__main__":
    sys.exit(main())
