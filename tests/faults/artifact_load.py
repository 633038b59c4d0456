"""Recordings that name files, taken in by processes that are killed while others take in and collect garbage.

    python -m tests.faults.artifact_load RECORDINGS SECONDS SEED LONGEST    as long as something is missing

Everything happens in forks of one process that has Django and no connection, so that a kill costs no start.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.dashboard.sessions import answers, asks, write

A_SESSION = 10  # artifacts


def write_recordings(folder: Path, artifacts: int) -> None:
    """Sessions of ten calls, each with an output that lies beside them: every fiftieth is kept compressed."""
    kept = folder / "tool-results"
    kept.mkdir(parents=True)
    for first in range(0, artifacts, A_SESSION):
        session = f"0f5f6d8e-0000-4000-8000-{first:012d}"
        lines: list[dict[str, object] | bytes] = []
        for number in range(first, min(first + A_SESSION, artifacts)):
            name, repeats = f"{number}.txt", 90_000 if number % 50 == 7 else number % 40 * 40
            (kept / name).write_bytes(b"%d\n" % number + b"a line of output\n" * repeats)
            result = {"stdout": "a", "stderr": "", "persistedOutputPath": f"/home/x/tool-results/{name}"}
            lines += [
                asks(f"toolu_{number}", session=session),
                answers(f"toolu_{number}", "a", result, session=session),
            ]
        write(folder / f"{session}.jsonl", lines)


def main(recordings: Path, seconds: float, seed: int, longest: float) -> dict[str, object]:
    """Kills after `longest` seconds at most until all is there, then looks once more; what was wrong after any kill."""
    _prepare()
    chance, faults = random.Random(seed), set[str]()
    kills = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and _in_fork(lambda: _left(recordings)):
        children = [_fork(lambda: _take_in(recordings)) for _ in range(2)] + [_fork(_collect)]
        time.sleep(chance.uniform(0.05, longest))
        for child in children:
            os.kill(child, signal.SIGKILL)
        kills += sum(os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in children[:2])
        faults |= set(_in_fork(_faults))
    _in_fork(lambda: _take_in(recordings))
    left = _in_fork(lambda: _left(recordings))
    return {"kills": kills, "left": left, "faults": sorted(faults | set(_in_fork(_faults)))}


def _prepare() -> None:
    """What takes long to load is loaded before the forks."""
    import django

    django.setup()
    import dashboard.artifacts.pruning
    import dashboard.intake.importing  # noqa: F401
    from envelopes.token_counter import count_here

    count_here(["warm"], "")()


def _take_in(recordings: Path) -> None:
    from dashboard.intake.importing import import_paths
    from dashboard.projects import DEFAULT, get_or_create_project

    paths = sorted(recordings.glob("*.jsonl"))
    random.shuffle(paths)
    for path in paths:
        import_paths(get_or_create_project(DEFAULT), [path])


def _collect() -> None:
    from dashboard.artifacts.pruning import carry_out, plan

    while True:
        carry_out(plan())
        time.sleep(0.01)


def _left(recordings: Path) -> int:
    from dashboard.models import Artifact

    there = Artifact.objects.filter(observation=None, state=Artifact.State.PRESENT).count()
    return sum(1 for _ in recordings.glob("tool-results/*")) - there


def _faults() -> list[str]:
    """Every row is looked up and its content read whole; what lies in the store is what its name says."""
    from dashboard.artifacts.files import artifact_files
    from dashboard.models import Artifact

    files = artifact_files()
    found = {fault.reason for fault in files.check()} - {"left by a write that did not end"}
    for row in Artifact.objects.filter(observation=None):
        if row.state != Artifact.State.PRESENT:
            found.add(f"a row is {row.state}")
            continue
        with files.open(row.sha256) as stream:
            content = stream.read()
        if (hashlib.sha256(content).hexdigest(), len(content)) != (row.sha256, row.size):
            found.add("a row's content is not whole")
    return sorted(found)


def _fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def _in_fork(work: Callable[[], object]) -> object:
    """What `work` returns, or the name of what it raises as a list: the database stays unopened here."""
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said: object = work()
        except BaseException as error:
            said = [f"{type(error).__name__}: {error}"]
        with os.fdopen(write_end, "w") as out:
            json.dump(said, out)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read) as answer:
        found: object = json.load(answer)
    os.waitpid(child, 0)
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
