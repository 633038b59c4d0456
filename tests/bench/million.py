"""A large store on PostgreSQL under two web processes: how pages grow with it, and a comparison of all its calls.

    python -m tests.bench.million RECORDINGS [--calls 1000000] [--without-pages] [--without-comparison]

Makes a private server, fills it with 100,000 calls and then with `--calls`, and asks two `serve` processes in turn
for each page, at both sizes. A page passes where it takes at most RATIO times the processor time with the larger store,
that of the web processes and of the database. Then all calls are compared under three variants, by a pool and by a Dask
cluster of two workers, one of which is killed in the middle: the stored results are equal bytes. The exit status is 1
where any of it fails. A page that is too slow does not keep the comparison from running.

The first 20,000 calls are those of `tests.bench.store`. All others are copies that the database makes of their rows,
with ids, times, numbers and index entries of their own, without checks of foreign keys: the copies of a call address
the same bytes of a source. The wall time that is printed is the least of ROUNDS, because other work on the machine only
adds to one; it is that of the whole answer over HTTP. The two web processes and `work` share the database and a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import django

from envelopes.variants.template import used_seconds
from tests.bench.comparisons import measure_comparison, open_cluster
from tests.bench.pages import list_pages, list_steps
from tests.postgresql import RestartedCluster, restarted_cluster

if TYPE_CHECKING:
    from tests.faults.server import RunningServer

SMALL = 100_000  # calls
BASE_RUNS, CALLS_A_RUN = 4_000, 5  # that are not copied by the database
BASE_CALLS = BASE_RUNS * CALLS_A_RUN
RATIO = 2.0
ROUNDS, WARM_UP = 12, 8  # requests of each page, half of them to each web process
WEB_PROCESSES = 2
MEMORY = ("shared_buffers=1GB", "work_mem=16MB", "maintenance_work_mem=1GB", "max_wal_size=8GB")
BASE = "SELECT id FROM dashboard_run WHERE external_id LIKE 'copy-%'"
PERIOD = f"k * interval '{BASE_RUNS * 97} seconds'"  # `tests.bench.store` begins a run every 97 seconds
TIMES = {"started_at", "ended_at", "last_at", "sort_at"}
NUMBERED = f"(substring(external_id FROM 6)::int + k * {BASE_RUNS})"
ENTRIES = "(SELECT max(id) + 1 FROM entry_ids)"  # of the index, in a copy
OWN = {  # columns of a copy that are more than another id or another time
    "dashboard_run": {
        "external_id": f"'copy-' || {NUMBERED}",
        "title": f"regexp_replace(title, '[0-9]+', {NUMBERED}::text)",
    },
    "dashboard_call": {"external_id": "external_id || '_' || k", "search_id": f"search_id + k * {ENTRIES}"},
    "dashboard_searchtext": {"id": f"t.id + k * {ENTRIES}"},
}
CHOSEN = {  # rows that are copied
    "dashboard_run": "t.id IN (SELECT id FROM base_runs)",
    "dashboard_runfacet": "run_id IN (SELECT id FROM base_runs)",
    "dashboard_call": "run_id IN (SELECT id FROM base_runs)",
    "dashboard_runcall": "run_id IN (SELECT id FROM base_runs)",
    "dashboard_observation": "call_id IN (SELECT id FROM base_calls)",
    "dashboard_receipt": "call_id IN (SELECT id FROM base_calls)",
    "dashboard_canonicalprojection": "call_id IN (SELECT id FROM base_calls)",
    "dashboard_searchtext": "t.id IN (SELECT id FROM entry_ids)",
}
# Calls of `tests.bench.store` share the entries of the index; each gets one of its own.
PREPARE = (
    f"CREATE TABLE base_runs AS {BASE}",
    "CREATE TABLE base_calls AS SELECT id, search_id AS old, nextval('dashboard_searchtext_id_seq') AS new"
    " FROM dashboard_call WHERE run_id IN (SELECT id FROM base_runs)",
    "INSERT INTO dashboard_searchtext (id, words) SELECT new, words FROM base_calls"
    " JOIN dashboard_searchtext ON dashboard_searchtext.id = old",
    "UPDATE dashboard_call SET search_id = new FROM base_calls WHERE base_calls.id = dashboard_call.id",
    "CREATE TABLE entry_ids AS SELECT new AS id FROM base_calls",
)
SECONDARY = """
    SELECT indexdef, indexname FROM pg_indexes JOIN pg_class ON relname = indexname
    JOIN pg_index ON indexrelid = pg_class.oid WHERE tablename = %s AND NOT indisunique
"""
COLUMNS = """
    SELECT column_name, data_type, is_identity = 'YES' FROM information_schema.columns
    WHERE table_name = %s ORDER BY ordinal_position
"""
MORE_PAGES = [
    ("Search, a rare word", "/search/?q=receipt:zstandard", 0),
    ("Search, a common word", "/search/?q=receipt:the", 0),
    ("Calls, a phrase of the receipt", "/calls/?q=receipt:%22permission+denied%22", 0),
    ("Tools", "/tools/", 0),
    ("Insights", "/insights/", 0),
    ("Experiments", "/experiments/", 0),
    ("Problems", "/problems/", 0),
    ("Review", "/review/", 0),
]


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.bench.million")
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--without-pages", action="store_true")
    parser.add_argument("--without-comparison", action="store_true")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="counterfoil-million-")))
        folder.chmod(0o755)
        server = stack.enter_context(restarted_cluster(folder, settings=MEMORY))
        variables = {"DATABASE_URL": server.url, "COUNTERFOIL_DATA": str(folder / "data")}
        os.environ.update(variables, DJANGO_SETTINGS_MODULE="dashboard.settings")
        fill = [sys.executable, "-m", "tests.bench.store", str(arguments.recordings), str(BASE_RUNS)]
        subprocess.run(fill, check=True)
        django.setup()
        grow(server, 1, SMALL // BASE_CALLS)
        small = {} if arguments.without_pages else measure_pages(server, folder, variables)
        large = small
        if arguments.calls > SMALL:
            grow(server, SMALL // BASE_CALLS, arguments.calls // BASE_CALLS)
            large = {} if arguments.without_pages else measure_pages(server, folder, variables)
        are_fast = report(small, large)
        are_equal = arguments.without_comparison or compare_everything()
        return 0 if are_fast and are_equal else 1


def grow(server: RestartedCluster, first: int, last: int) -> None:
    """Adds the copies `first` to `last - 1` of the base: ids, times and numbers follow from the copy's number."""
    import psycopg

    start = time.perf_counter()
    with psycopg.connect(server.conninfo, autocommit=True) as database:
        database.execute("SET session_replication_role = replica")  # no checks of foreign keys
        if first == 1:
            for statement in PREPARE:
                database.execute(statement)
        for table in CHOSEN:
            indexes = database.execute(SECONDARY, [table]).fetchall()
            for _, name in indexes:
                database.execute(f'DROP INDEX "{name}"')
            database.execute(copy_rows(database, table), [first, last - 1])
            for definition, _ in indexes:
                database.execute(definition)
        database.execute("VACUUM ANALYZE")
        calls, runs, size = database.execute(
            "SELECT (SELECT count(*) FROM dashboard_call), (SELECT count(*) FROM dashboard_run),"
            " pg_size_pretty(pg_database_size('postgres'))"
        ).fetchall()[0]
    print(f"{calls:,} calls of {runs:,} runs, {size}, after {time.perf_counter() - start:.0f} s", flush=True)


def copy_rows(database: Any, table: str) -> str:
    """The statement that copies the chosen rows once for each number of a range."""
    own = OWN.get(table, {})
    names, values = [], []
    for name, kind, is_counted in database.execute(COLUMNS, [table]).fetchall():
        if name in own:
            value = own[name]
        elif is_counted:
            continue
        elif kind == "uuid" and (name in {"id", "run_id", "call_id", "observation_id"}):
            value = f"md5(t.{name}::text || k)::uuid"
        elif name in TIMES:
            value = f"t.{name} + {PERIOD}"
        else:
            value = f"t.{name}"
        names.append(name)
        values.append(value)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)}"
        f" FROM {table} t CROSS JOIN generate_series(%s::int, %s::int) k WHERE {CHOSEN[table]}"
    )


class PageTime(NamedTuple):
    """Milliseconds of an answer: the least on the wall, and the processor's, of all processes."""

    wall: float
    processor: float


def measure_pages(database: RestartedCluster, folder: Path, variables: dict[str, str]) -> dict[str, PageTime]:
    """The times of each page, asked of two web processes in turn."""
    from tests.faults.server import running_server, sign_in

    session = sign_in(folder / "data", variables)
    pages = [*list_pages(), *list_steps(), *MORE_PAGES]
    work = [sys.executable, "-m", "dashboard", "work"]
    with subprocess.Popen(work) as background, ExitStack() as stack:
        stack.callback(background.terminate)
        servers = [
            stack.enter_context(
                running_server(
                    folder / "data", session, folder / f"{number}.log", "--background", "0", variables=variables
                )
            )
            for number in range(WEB_PROCESSES)
        ]
        roots = [database.pid, *(server.process.pid for server in servers)]
        return {name: time_page(servers, roots, address) for name, address, _ in pages}


def time_page(servers: list[RunningServer], roots: list[int], address: str) -> PageTime:
    """`roots` are the processes that, with their children, work for an answer."""
    ask_page(servers, address, WARM_UP)
    before = count_processor_seconds(roots)
    walls = ask_page(servers, address, ROUNDS)
    return PageTime(min(walls), (count_processor_seconds(roots) - before) / ROUNDS * 1000)


def count_processor_seconds(roots: list[int]) -> float:
    """Those of the processes and their children, with children that have ended: a query's parallel workers."""
    ended = [Path(f"/proc/{root}/stat").read_text().rpartition(")")[2].split()[13:15] for root in roots]
    ticks = sum(int(user) + int(system) for user, system in ended)
    return sum(map(used_seconds, find_processes(roots))) + ticks / os.sysconf("SC_CLK_TCK")


def find_processes(roots: Iterable[int]) -> Iterator[int]:
    for process in roots:
        yield process
        for thread in Path(f"/proc/{process}/task").glob("*/children"):
            yield from find_processes(map(int, thread.read_text().split()))


def ask_page(servers: list[RunningServer], address: str, rounds: int) -> list[float]:
    """The milliseconds of each answer."""
    address, _, target = quote(address, safe="/?=&+%:~>#-").partition("#")
    headers = {"HX-Request": "true", "HX-Target": target} if target else {}
    times = []
    for number in range(rounds):
        server, location = servers[number % len(servers)], address
        start = time.perf_counter()
        answer = server.request("GET", location, headers=headers)
        while answer.status in (301, 302):  # the address of a call leads to its step
            location = answer.headers["Location"]
            answer = server.request("GET", location, headers=headers)
        times.append((time.perf_counter() - start) * 1000)
        assert answer.status == 200, (address, answer.status)
    return times


def report(small: dict[str, PageTime], large: dict[str, PageTime]) -> bool:
    """Prints the times of each page in both stores; False where one has grown too much."""
    passed = 0
    for name, after in large.items():
        before = small[name]
        ratio = after.processor / before.processor
        passed += ratio > RATIO
        walls, processors = (f"{first:7.1f} → {last:7.1f} ms" for first, last in zip(before, after, strict=True))
        print(f"{name:42} {walls}  processor {processors} × {ratio:.2f}{'  too slow' * (ratio > RATIO)}", flush=True)
    return not passed


def compare_everything() -> bool:
    """All calls under three variants, by a pool and by a cluster of which one worker is killed."""
    by_pool = measure_comparison(0)
    print(json.dumps({"by_pool": by_pool}, indent=1), flush=True)
    with open_cluster() as (address, worker):
        os.environ["COUNTERFOIL_DASK"] = address
        by_cluster = measure_comparison(0, worker)
    are_equal = bool(
        by_pool["sha256"] == by_cluster["sha256"] and by_pool["state"] == by_cluster["state"] == "finished"
    )
    print(json.dumps({"by_cluster": by_cluster, "are_equal": are_equal}, indent=1), flush=True)
    return are_equal


if __name__ == "__main__":
    sys.exit(main())
