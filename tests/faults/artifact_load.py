"""Kills processes that import recordings with files, while others import and collect garbage.

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
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.dashboard.sessions import answers, asks, write

A_SESSION = 10  # artifacts


def write_recordings(folder: Path, artifacts: int) -> None:
    """Writes sessions of ten calls, each call with an output file; every fiftieth is stored compressed."""
    results = folder / "tool-results"
    results.mkdir(parents=True)
    for first in range(0, artifacts, A_SESSION):
        session = f"0f5f6d8e-0000-4000-8000-{first:012d}"
        lines: list[dict[str, object] | bytes] = []
        for number in range(first, min(first + A_SESSION, artifacts)):
            name, repeats = f"{number}.txt", 90_000 if number % 50 == 7 else number % 40 * 40
            (results / name).write_bytes(b"%d\n" % number + b"a line of output\n" * repeats)
            result = {"stdout": "a", "stderr": "", "persistedOutputPath": f"/home/x/tool-results/{name}"}
            lines += [
                asks(f"toolu_{number}", session=session),
                answers(f"toolu_{number}", "a", result, session=session),
            ]
        write(folder / f"{session}.jsonl", lines)


def main(recordings: Path, seconds: float, seed: int, longest: float) -> dict[str, object]:
    """Kills after `longest` seconds at most until all is there, then looks once more; what was wrong after any kill."""
    _prepare()
    chance, faults, whole = random.Random(seed), set[str](), set[str]()
    kills = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and _in_fork(lambda: _left(recordings)):
        children = [_fork(lambda: _take_in(recordings)) for _ in range(2)] + [_fork(_collect)]
        time.sleep(chance.uniform(0.05, longest))
        for child in children:
            os.kill(child, signal.SIGKILL)
        kills += sum(os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in children[:2])
        state = _in_fork(partial(_looked_at, whole))
        faults |= set(state["faults"])
        whole |= set(state["whole"])
    _in_fork(lambda: _take_in(recordings))
    left = _in_fork(lambda: _left(recordings))
    return {"kills": kills, "left": left, "faults": sorted(faults | set(_in_fork(_faults)))}


def _prepare() -> None:
    """Imports slow modules before the forks."""
    import django

    django.setup()
    import dashboard.artifacts.retention
    import dashboard.ingest.importer  # noqa: F401
    from envelopes.text.tokens import count_tokens

    count_tokens("warm")


def _take_in(recordings: Path) -> None:
    from dashboard.accounts import DEFAULT_PROJECT, get_or_create_project
    from dashboard.ingest.importer import import_paths

    paths = sorted(recordings.glob("*.jsonl"))
    random.shuffle(paths)
    for path in paths:
        import_paths(get_or_create_project(DEFAULT_PROJECT), [path])


def _collect() -> None:
    from dashboard.artifacts.retention import apply_retention, plan_retention

    while True:
        apply_retention(plan_retention())
        time.sleep(0.01)


def _left(recordings: Path) -> int:
    from dashboard.models import Artifact

    there = Artifact.objects.filter(observation=None, state=Artifact.State.PRESENT).count()
    return sum(1 for _ in recordings.glob("tool-results/*")) - there


def _faults() -> list[str]:
    """Lists faults of the store: content that differs from its name, or rows whose content is missing or incomplete."""
    from dashboard.artifacts.stores import configured_store

    faults = {fault.reason for fault in configured_store().check()} - {"left by a write that did not end"}
    return sorted(faults | set(_looked_at(set())["faults"]))


def _looked_at(whole: set[str]) -> dict[str, list[str]]:
    """Every row's content has to be in the store; what is not known to be `whole` is read, from end to end."""
    from dashboard.artifacts.stores import configured_store
    from dashboard.models import Artifact

    files = configured_store()
    faults, held, seen = set[str](), files.sizes(), set(whole)
    for row in Artifact.objects.filter(observation=None).order_by("pk"):
        if row.state != Artifact.State.PRESENT:
            faults.add(f"a row is {row.state}")
        elif row.sha256 not in held:
            faults.add("a row names content that is not in the store")
        elif row.sha256 not in seen:
            seen.add(row.sha256)
            with files.open(row.sha256) as stream:
                content = stream.read()
            if (hashlib.sha256(content).hexdigest(), len(content)) != (row.sha256, row.size):
                faults.add("a row's content is not whole")
    return {"faults": sorted(faults), "whole": sorted(seen)}


def _fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def _in_fork(work: Callable[[], object]) -> Any:
    """Runs `work` in a fork and returns its result; this process opens neither the database nor the bucket."""
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(write_end, "w") as out:
                json.dump(work(), out)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read) as answer:
        text = answer.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a process that looked at the store failed")
    return json.loads(text)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
