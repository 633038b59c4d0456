"""Median server times of the pages over a large store, beside their limits, or beside another checkout's times.

    COUNTERFOIL_DATA=FOLDER python -m tests.bench.store ../shared/samples
    COUNTERFOIL_DATA=FOLDER python -m tests.bench.pages
    COUNTERFOIL_DATA=FOLDER python -m tests.bench.pages --against CHECKOUT
    COUNTERFOIL_DATA=FOLDER python -m tests.bench.pages --masks

A time is the whole answer of one process through every middleware, without the network. Processor time is printed
beside it, because other work on the machine changes it less. `--against` measures both checkouts in turns on the
same store, so the ratio does not depend on the machine. `--masks` measures each page with masking and with
COUNTERFOIL_MASK=off in turns, in one process. The exit status is 1 where a limit, `RATIO` or `MASK_RATIO` is passed.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

import django

ROUNDS = 15  # requests of each page in one process
TURNS = 3  # processes for each checkout
WARM_UP = 2  # requests that are not counted
SMALLEST_RUNS = 15_000
RATIO = 3.0  # how many times the other checkout's time a page may take
MASK_RATIO = 1.10  # of the least processor times with and without masking
MASK_ROUNDS = 100  # with fewer, other work on the machine changes the ratio by 5 %
USER = "bench"


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.bench.pages")
    parser.add_argument("--against", metavar="CHECKOUT", type=Path, help="another checkout to compare with")
    parser.add_argument("--masks", action="store_true", help="compare with COUNTERFOIL_MASK=off")
    parser.add_argument("--measure", action="store_true", help="measure the addresses on stdin and print JSON")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    if arguments.measure:
        print(json.dumps(measure(json.load(sys.stdin))))
        return 0
    django.setup()
    from dashboard.models import Run

    if Run.objects.count() < SMALLEST_RUNS:
        print("This store is small: fill it with `python -m tests.bench.store RECORDINGS` first.", file=sys.stderr)
        return 2
    create_bench_user()
    if arguments.masks:
        return compare_masks()
    checkout = Path(__file__).resolve().parents[2]
    return compare(checkout, arguments.against.resolve()) if arguments.against else check_limits(checkout)


def create_bench_user() -> None:
    from dashboard.accounts import create_member, get_or_create_project
    from dashboard.models import Membership

    create_member(USER, get_or_create_project(), Membership.Role.OPERATOR)


def check_limits(checkout: Path) -> int:
    pages = [*list_pages(), *list_steps()]
    passed = 0
    for (name, _, limit), (wall, processor, size) in zip(pages, measure_in(checkout, pages), strict=True):
        passed += wall > limit
        print(f"{name:42} {wall:7.1f} ms  (limit {limit} ms; processor {processor:.1f})  {size / 1024:6.0f} KiB")
    return 1 if passed else 0


def compare(checkout: Path, other: Path) -> int:
    pages = [*list_pages(), *list_steps()]
    turns = [(measure_in(checkout, pages), measure_in(other, pages)) for _ in range(TURNS)]
    passed = 0
    for i, (name, _, _) in enumerate(pages):
        ratios = [here[i][1] / there[i][1] for here, there in turns]
        if math.isnan(ratios[0]):
            print(f"{name:42} is not in the other checkout")
            continue
        passed += statistics.median(ratios) > RATIO
        here_ms, there_ms = (statistics.median(side[i][0] for side in sides) for sides in zip(*turns, strict=True))
        print(f"{name:42} {there_ms:7.1f} → {here_ms:7.1f} ms  processor × {statistics.median(ratios):.2f}")
    return 1 if passed else 0


def list_pages() -> list[tuple[str, str, int]]:
    """Name, address and limit in milliseconds."""
    from dashboard.models import Call, Run
    from tests.bench.long_calls import LONG, SIZES, long_id
    from tests.bench.store import RARE_TOOL, RUN_OF_50, RUN_OF_2000, large_call

    def run(name: str) -> str:
        return f"/runs/{Run.objects.get(external_id=name).pk}/"

    def call(external_id: str) -> str:
        return f"/calls/{Call.objects.get(external_id=external_id).pk}/"

    limits = {"200 KB": 25, "1 MB": 60}
    return [
        ("Runs", "/runs/", 12),
        ("Runs, filter that matches 0.01 %", f"/runs/?q=tool:{RARE_TOOL}", 12),
        ("Runs, filter that matches about half", "/runs/?q=tool:Edit", 12),
        ("Runs, one call that meets two terms", "/runs/?q=tool:Edit+status:failed", 25),
        ("Runs, one of two terms", "/runs/?q=tool:Edit+or+took:>30s", 25),
        ("Runs, a rare range of tokens", "/runs/?q=tokens:>5k", 25),
        ("Runs, text that matches two", '/runs/?q="report 19999 and"', 12),
        ("Runs, text that matches all", "/runs/?q=report", 12),
        ("Calls", "/calls/", 25),
        ("Calls, filter that matches 0.01 %", f"/calls/?q=tool:{RARE_TOOL}", 25),
        ("Calls, filter that matches about half", "/calls/?q=-tool:Bash", 25),
        ("Calls, half of them by tokens, later page", "/calls/?q=-tool:Bash&sort=tokens&after=700~" + "0" * 32, 25),
        ("Run of 50 calls", run(RUN_OF_50), 20),
        ("Run of 2,000 calls, first screen", run(RUN_OF_2000), 45),
        ("History of 2,000 calls, first screen", run(RUN_OF_2000) + "context", 40),
        ("Call, 20 KB result", call(large_call("20 KB")), 20),
        ("Call, 200 KB result", call(large_call("200 KB")), 25),
        ("Call, 1 MB result", call(large_call("1 MB")), 60),
        *(
            (f"Call of {kind}, {size} result", call(long_id(kind, size)), limits[size])
            for kind in LONG
            for size in SIZES
        ),
    ]


def list_steps() -> list[tuple[str, str, int]]:
    """Steps of a long run; `#` is before the element to replace."""
    from dashboard.models import Run
    from tests.bench.store import RUN_OF_2000

    run = Run.objects.get(external_id=RUN_OF_2000).pk
    return [
        ("Step in the middle of 2,000 calls", f"/runs/{run}/1000/halves", 20),
        ("Step, as a walk asks for it", f"/runs/{run}/1000/halves#step", 20),
        ("In context, at step 2,000", f"/runs/{run}/2000/context", 40),
        ("In context, as a walk asks for it", f"/runs/{run}/2000/context#step", 40),
    ]


def compare_masks() -> int:
    """The least of many times, because other work on the machine, as the collector of garbage, only adds to a time."""
    import_module("dashboard.wsgi")
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username=USER))
    passed = 0
    gc.disable()
    for name, url, _ in list_pages():
        gc.collect()
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(MASK_ROUNDS):
            for settings.MASK in (True, False) if number % 2 else (False, True):
                start = time.process_time()
                response = client.get(url, follow=True)
                times[settings.MASK].append((time.process_time() - start) * 1000)
                assert response.status_code == 200, (url, response.status_code)
        on, off = min(times[True]), min(times[False])
        passed += on / off > MASK_RATIO
        print(f"{name:42} {off:7.1f} → {on:7.1f} ms of the processor  × {on / off:.3f}", flush=True)
    return 1 if passed else 0


def measure_in(checkout: Path, pages: list[tuple[str, str, int]]) -> list[tuple[float, float, int]]:
    """Median wall and processor time in milliseconds and the size in bytes, by a process of that checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure"],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        input=json.dumps([url for _, url, _ in pages]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [(wall, processor, size) for wall, processor, size in json.loads(done.stdout)]


def measure(urls: list[str]) -> list[tuple[float, float, int]]:
    """Imports nothing of the dashboard by name, so that it measures any of its commits."""
    django.setup()
    import_module("dashboard.wsgi")  # what the server does before the first page
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username=USER))
    return [_measure_page(client, url) for url in urls]


def _measure_page(client: Any, url: str) -> tuple[float, float, int]:
    walls, processors, size = [], [], 0
    url, _, target = url.partition("#")
    headers = {"HX-Request": "true", "HX-Target": target} if target else {}
    for _ in range(WARM_UP + ROUNDS):
        start, processor_start = time.perf_counter(), time.process_time()
        response = client.get(url, follow=True, headers=headers)  # the address of a call leads to its step
        if response.status_code == 404:  # an older checkout has the page elsewhere
            return math.nan, math.nan, 0
        walls.append((time.perf_counter() - start) * 1000)
        processors.append((time.process_time() - processor_start) * 1000)
        assert response.status_code == 200, (url, response.status_code)
        size = len(response.content)
    return statistics.median(walls[WARM_UP:]), statistics.median(processors[WARM_UP:]), size


if __name__ == "__main__":
    sys.exit(main())
