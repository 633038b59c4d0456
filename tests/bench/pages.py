"""Median server times of the pages over a large store, printed beside what they may take.

    COUNTERFOIL_DATA=FOLDER python -m tests.bench.store ../shared/samples
    COUNTERFOIL_DATA=FOLDER python -m tests.bench.pages

A time is the whole answer of one process through every middleware, without the network. Beside it stands the
processor's time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from importlib import import_module

import django

ROUNDS = 31
SMALLEST_RUNS = 15_000


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    import_module("dashboard.wsgi")  # what the server does before the first page
    from django.test import Client

    from dashboard.accounts.access import get_or_create_project
    from dashboard.accounts.sign_in import create_member
    from dashboard.models import Membership, Run

    project = get_or_create_project()
    if Run.objects.count() < SMALLEST_RUNS:
        print("This store is small: fill it with `python -m tests.bench.store RECORDINGS` first.", file=sys.stderr)
        return 2
    client = Client(headers={"host": "localhost"})
    client.force_login(create_member("bench", project, Membership.Role.OPERATOR)[0])
    slow = 0
    for name, url, allowed in _pages():
        times, work, size = _measure(client, url)
        median = statistics.median(times)
        slow += median > allowed
        print(
            f"{name:42} {median:7.1f} ms  (allowed {allowed} ms, worst {max(times):.1f};"
            f" processor {statistics.median(work):.1f})  {size / 1024:6.0f} KiB"
        )
    return 1 if slow else 0


def _pages() -> list[tuple[str, str, int]]:
    from dashboard.models import Call, Run
    from tests.bench.long_calls import LONG, SIZES, long_id
    from tests.bench.store import RARE_TOOL, RUN_OF_50, RUN_OF_2000, large_call

    def run(name: str) -> str:
        return f"/runs/{Run.objects.get(external_id=name).pk}/"

    def call(name: str) -> str:
        return f"/calls/{Call.objects.get(external_id=large_call(name)).pk}/"

    def long_call(kind: str, size: str) -> str:
        return f"/calls/{Call.objects.get(external_id=long_id(kind, size)).pk}/"

    allowed = {"200 KB": 30, "1 MB": 60}
    return [
        ("Runs", "/runs/", 15),
        ("Runs, filter that matches 0.01 %", f"/runs/?q=tool:{RARE_TOOL}", 15),
        ("Runs, filter that matches about half", "/runs/?q=tool:Edit", 15),
        ("Runs, text that matches two", '/runs/?q="report 19999 and"', 15),
        ("Runs, text that matches all", "/runs/?q=report", 15),
        ("Run of 50 calls", run(RUN_OF_50), 15),
        ("Run of 2,000 calls, first screen", run(RUN_OF_2000), 60),
        ("Model view of 2,000 calls, first screen", run(RUN_OF_2000) + "model/", 60),
        ("Call, 20 KB result", call("20 KB"), 30),
        ("Call, 200 KB result", call("200 KB"), 30),
        ("Call, 1 MB result", call("1 MB"), 60),
        *((f"Call of {kind}, {size} result", long_call(kind, size), allowed[size]) for kind in LONG for size in SIZES),
    ]


def _measure(client: object, url: str) -> tuple[list[float], list[float], int]:
    """Milliseconds on the clock and on the processor, of each round."""
    times: list[float] = []
    work: list[float] = []
    size = 0
    for _ in range(ROUNDS + 2):
        start, began = time.perf_counter(), time.process_time()
        response = client.get(url)  # type: ignore[attr-defined]
        times.append((time.perf_counter() - start) * 1000)
        work.append((time.process_time() - began) * 1000)
        assert response.status_code == 200, (url, response.status_code)
        size = len(response.content)
    return times[2:], work[2:], size


if __name__ == "__main__":
    sys.exit(main())
