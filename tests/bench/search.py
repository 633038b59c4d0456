"""Times of the search by half over a large store, and the size of its index beside the text that it covers.

    COUNTERFOIL_DATA=FOLDER python -m tests.bench.store ../shared/samples
    COUNTERFOIL_DATA=FOLDER python -m dashboard rederive --search
    COUNTERFOIL_DATA=FOLDER python -m tests.bench.search

A time is the whole answer of one process through every middleware, without the network.
"""

from __future__ import annotations

import statistics
import sys
import time
from importlib import import_module
from urllib.parse import quote

ROUNDS = 9  # requests of each filter, after one that is not counted
MOST_P50, MOST_P95, MOST_SHARE = 25.0, 80.0, 0.35  # milliseconds, and of the text
SAMPLED = 4_096  # calls whose text is measured
QUERIES = {
    "a rare word": "receipt:zstandard",
    "a medium word": "receipt:denied",
    "a common word": "receipt:the",
    "a common word of the result": "canonical:file",
    "a rare phrase": 'receipt:"permission denied"',
    "a common phrase": 'canonical:"of the"',
    "in one half only": "canonical:error -receipt:error",
    "any half": "any:gofmt",
    "with a tool": "receipt:error tool:Bash",
    "a beginning": "receipt:permiss*",
    "arguments": "args:grep",
}


def main() -> int:
    import_module("dashboard.wsgi")  # what the server does before the first page
    from django.test import Client

    from dashboard.accounts import get_or_create_project
    from tests.bench.pages import USER, create_bench_user

    create_bench_user()
    get_or_create_project()
    client = Client(headers={"host": "localhost"})
    from django.contrib.auth.models import User

    client.force_login(User.objects.get(username=USER))
    times = {name: measure(client, query) for name, query in QUERIES.items()}
    everything = sorted(value for values in times.values() for value in values)
    for name, values in times.items():
        print(f"{statistics.median(values):8.1f} ms  {QUERIES[name]:45} {name}")
    p50, p95 = statistics.median(everything), everything[int(len(everything) * 0.95)]
    print(f"p50 {p50:.1f} ms (at most {MOST_P50}), p95 {p95:.1f} ms (at most {MOST_P95})")
    share = measure_index()
    return int(p50 > MOST_P50 or p95 > MOST_P95 or share > MOST_SHARE)


def measure(client: object, query: str) -> list[float]:
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        response = client.get(f"/calls/?q={quote(query)}")  # type: ignore[attr-defined]
        times.append((time.perf_counter() - start) * 1_000)
        assert response.status_code == 200
    return times[1:]


def measure_index() -> float:
    """Prints the bytes of the index for each byte of text, of which a sample of calls is measured."""
    from django.db import connection

    from dashboard.models import Call
    from dashboard.search.documents import load_call_texts

    keys = list(Call.objects.exclude(search_id=None).order_by("pk").values_list("pk", flat=True))
    sample = keys[:SAMPLED]
    covered = sum(
        len("".join(text.texts).encode("utf-8", "surrogatepass"))
        for start in range(0, len(sample), 256)
        for halves in load_call_texts(sample[start : start + 256]).values()
        for text in halves.values()
    )
    text = covered * len(keys) / max(1, len(sample))
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'dashboard_searchtext%%'")
        else:
            cursor.execute("SELECT pg_total_relation_size('dashboard_searchtext')")
        size = int(cursor.fetchone()[0])
    print(f"index: {size:,} bytes for about {text:,.0f} of text: {size / text:.2f} (at most {MOST_SHARE})")
    return size / text


if __name__ == "__main__":
    sys.exit(main())
