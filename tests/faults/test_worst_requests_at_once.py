"""Twenty of the worst requests at once against the real server: others are served, and memory is bounded.

python -m pytest -m long tests/faults/test_worst_requests_at_once.py -s
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.conftest import CHECKOUT
from tests.faults.imports import environment, migrated_store
from tests.faults.server import running_server, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.rendering]  # SQLite, whatever the tests' own database is
AT_ONCE, SECONDS = 20, 12.0
SLOWEST_HEALTH = 1.0
MOST_MEGABYTES = 300
BUILD = """
import json, sys, django
django.setup()
from pathlib import Path
from dashboard.accounts import get_or_create_project
from tests.dashboard.budget_store import build_store
store = build_store(get_or_create_project(), Path(sys.argv[1]))
names = ("call-variants", "run-replay", "run-context")
print(json.dumps({"artifacts": store.artifacts, "pages": {name: store.address(name) for name in names}}))
"""


def worst_addresses(store: Path, folder: Path) -> list[str]:
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, text=True, check=True)
    built = json.loads(done.stdout.splitlines()[-1])
    artifacts, pages = built["artifacts"], built["pages"]
    line, lines = f"/artifacts/{artifacts['line']}/", f"/artifacts/{artifacts['lines']}/"
    slow = urlencode({"with": "slow"})
    return [
        f"{line}find/?{urlencode({'q': '(?:(?:a|b)?){900}z', 'regex': 1})}",
        f"{line}find/?{urlencode({'q': 'a*?', 'regex': 1})}",
        f"{line}find/?{urlencode({'q': '(a.{0,500}){2}z', 'regex': 1, 'before': 999_999})}",
        f"{lines}?{urlencode({'q': '(a|a)+[bc]', 'regex': 1, 'as': 'text'})}",
        f"/artifacts/{artifacts['words']}/difference/?{urlencode({'with': artifacts['other words'], 'row': 10**9})}",
        f"{pages['run-replay']}?{slow}",
        f"{pages['run-context']}?{slow}",
        pages["call-variants"],
    ]


@pytest.mark.long
def test_health_is_answered_within_a_second_while_the_worst_requests_run(tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    addresses = worst_addresses(store, tmp_path)
    statuses: Counter[int] = Counter()
    taken: list[float] = []
    with running_server(store, sign_in(store), tmp_path / "log.txt") as server:
        for address in addresses:
            assert server.request("GET", address).status in (200, 302), address
        before = server.resident_bytes()
        end = time.monotonic() + SECONDS

        def ask(number: int) -> None:
            while time.monotonic() < end:
                statuses[server.request("GET", addresses[number % len(addresses)]).status] += 1
                number += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        highest = before
        while time.monotonic() < end:
            began = time.monotonic()
            assert server.request("GET", "/healthz").status == 200
            taken.append(time.monotonic() - began)
            highest = max(highest, server.resident_bytes())
            time.sleep(0.05)
        for thread in threads:
            thread.join()
    grown = (highest - before) / 1e6
    print(f"\n/healthz: {max(taken):.2f} s at most of {len(taken)}; {dict(statuses)}; {grown:.0f} MB more")
    assert set(statuses) <= {200, 302, 503}
    assert statuses[200]
    assert max(taken) < SLOWEST_HEALTH
    assert grown < MOST_MEGABYTES
