"""What a turn of the budget costs on every large call of a store: the processor's time of the fragment.

    COUNTERFOIL_DATA=FOLDER python manage.py import_runs RECORDINGS
    COUNTERFOIL_DATA=FOLDER python -m tests.bench.previews [VARIANT]

Of each call four budgets are asked for after the first view, twice, and the better time of each counts. It
ends with status 1 when one of them takes longer than a turn may.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from importlib import import_module

import django

LARGE = 50 * 1024  # bytes of arguments, result and receipt
ALLOWED = 100.0  # milliseconds
SHARES = (0.9, 0.5, 0.2, 0.05)
TURNED = {"HX-Request": "true", "HX-Target": "written"}


def main(variant: str = "receipt") -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    import_module("dashboard.wsgi")  # what the server does before the first page
    from django.test import Client

    from dashboard.accounts import create_member, get_or_create_project
    from dashboard.models import Membership

    client = Client(headers={"host": "localhost"})
    client.force_login(create_member("bench", get_or_create_project(), Membership.Role.OPERATOR)[0])
    turns: list[tuple[float, str]] = []
    for url in _previews(variant):
        if slowest := _slowest_turn(client, url):
            turns.append((slowest, url))
    if not turns:
        print("No call of this store is so large: import recordings first.", file=sys.stderr)
        return 2
    times = [one for one, _ in turns]
    print(f"{len(turns)} calls over {LARGE:,} bytes under {variant}: the slowest turn of each, processor time")
    print(f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms (allowed {ALLOWED:.0f} ms)")
    for taken, url in sorted(turns, reverse=True)[:5]:
        print(f"{taken:7.1f} ms  {url}")
    return 1 if max(times) > ALLOWED else 0


def _previews(variant: str) -> list[str]:
    from django.db.models import F

    from dashboard.models import Call

    size = F("args_bytes") + F("result_bytes") + F("receipt_characters")
    large = Call.objects.annotate(size=size).filter(size__gt=LARGE).order_by("-size", "pk")
    found = large.exclude(status=Call.Status.UNKNOWN).values_list("family", "pk")
    return [f"/experiments/renderers/{family}/?call={pk}&variant={variant}" for family, pk in found]


def _slowest_turn(client: object, url: str) -> float:
    """0 where nothing can be turned: the family has no such variant, or it could not write this receipt."""
    page = client.get(url).content.decode()  # type: ignore[attr-defined]
    whole = re.search(r'name="of" value="([0-9]+)"', page)
    if not whole or "no such variant" in page:
        return 0.0
    budgets = [max(16, int(int(whole[1]) * share)) for share in SHARES]
    return max(min(_milliseconds(client, f"{url}&of={whole[1]}&budget={one}") for _ in range(2)) for one in budgets)


def _milliseconds(client: object, url: str) -> float:
    began = time.process_time()
    response = client.get(url, headers=TURNED)  # type: ignore[attr-defined]
    taken = (time.process_time() - began) * 1000
    assert response.status_code == 200, (url, response.status_code)
    return taken


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
