"""Live intake over HTTP: calls acknowledged a second, the wait of a batch, memory, disk, and the backlog afterwards.

    python -m tests.bench.intake [--seconds 60] [--clients 1,4] [--format native,otlp]

Batches of 50 calls with results cut from the project's own text: log-normal, median 1.2 KB, 5 % over 20 KB, 1 % of
200 KB. OTLP is protobuf, and each step repeats the history of its conversation. The bounds stand beside
the figures; the exit code is 1 when one fails. The ratio is to raw sqlite3 inserts of the same bytes.

The clients share the machine with the server. They build their batches before the clock starts, as many as fit into
`READY_BYTES`; the processor time of each side is printed, which other work on the machine changes less than the rates.
The rate of the backlog is that of `BACKLOG` calls or more: while a fast server leaves fewer, derivation is stopped by
its own lock and more are sent. The disk is measured once the log of the database, which has up to 32 MB for every
store, has been moved into it.
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import json
import multiprocessing
import os
import random
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.cookies import SimpleCookie
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

CHECKOUT = Path(__file__).resolve().parents[2]
CALLS = 50  # of a batch
STEPS = 100  # of a conversation
READY_BYTES = 1_000_000_000  # of the batches that are built before the clock starts
READY_A_SECOND = 80  # batches: more than any server takes
BACKLOG = 6_000  # calls of which the rate of derivation is measured
PAGE_EVERY = 0.25  # seconds
_STARTS: list[Any] = []  # of a client's process: the barrier at which all wait
Figure = tuple[str, float, float | None, str]  # label, figure, bound (negative: at most), unit


class Sent(NamedTuple):
    """What a client did: the waits of its batches in seconds, their bytes, and the processor time that it took."""

    waits: list[float]
    size: int
    processor: float


def main() -> int:
    options = _options()
    failed = 0
    for format_name in options.format.split(","):
        for clients in map(int, options.clients.split(",")):
            print(f"{format_name}, {clients} client{'s' * (clients > 1)}, {options.seconds:g} s:", flush=True)
            with tempfile.TemporaryDirectory(dir=options.folder) as name:
                for label, figure, bound, unit in _measure(Path(name), format_name, clients, options):
                    is_met = bound is None or (figure <= -bound if bound < 0 else figure >= bound)
                    failed += not is_met
                    stated = "" if bound is None else f" bound {abs(bound):g}"
                    print(f"  {label:<44} {figure:10.2f} {unit:<8}{stated}{'' if is_met else '   FAILS'}", flush=True)
    return int(failed > 0)


def _measure(folder: Path, format_name: str, clients: int, options: argparse.Namespace) -> Iterator[Figure]:
    store = folder / "store"
    _manage(store, "migrate")
    token = json.loads(_manage(store, "create_token", "bench", "--json"))["token"]
    with _server(store) as (port, process), _page_reader(store, port, is_on=options.pages) as page_waits:
        sent, peak, processor = _load(port, token, format_name, clients, options.seconds, process)
        calls = CALLS * sum(len(result.waits) for result in sent)
        listed, waiting = _count(store), _waiting(store)
        if listed < calls:
            raise SystemExit(f"{calls:,} calls were acknowledged, {listed:,} are listed")
        page_waits_of_load = sorted(page_waits)
        _wait_until_derived(store)
        derived = _derivation_rate(store, port, token, format_name)
        stored = _count(store)
    _rows(store, "PRAGMA wal_checkpoint(TRUNCATE)")
    disk = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    waits = sorted(wait for result in sent for wait in result.waits)
    rate = calls / options.seconds
    yield "calls acknowledged durably and listed", rate, 3_000, "a second"
    yield "p95 of a batch", _p95(waits), -60.0 if clients == 1 else None, "ms"
    yield "peak memory of a web process", peak / 1e6, -300, "MB"
    yield "disk a call", disk / stored / 1_000, -9, "KB"
    yield "calls that waited for derivation at the end", waiting, None, ""
    yield "backlog derived", derived, 1_500, "a second"
    for name, seconds in (processor | {"the clients": sum(result.processor for result in sent)}).items():
        yield f"processor time of {name}", seconds / calls * 1e6, None, "µs/call"
    if page_waits_of_load:
        yield "median of the Runs page", statistics.median(page_waits_of_load) * 1_000, None, "ms"
        yield "p95 of the Runs page", _p95(page_waits_of_load), None, "ms"
    size = sum(result.size for result in sent) // max(1, calls)
    yield "ratio to raw sqlite3 inserts", rate / _raw_rate(folder / "raw.db", size), 0.25, ""


def _p95(waits: list[float]) -> float:
    """In milliseconds, of sorted seconds."""
    return waits[int(0.95 * len(waits))] * 1_000


def _load(
    port: int, token: str, format_name: str, clients: int, seconds: float, process: int
) -> tuple[list[Sent], int, dict[str, float]]:
    """What the clients did; the most memory that a process of the server had meanwhile, and the processor times."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(clients + 1)
    with context.Pool(clients, _share_start, [start]) as pool:
        ready = min(int(seconds * READY_A_SECOND), 10**6) // clients
        jobs = [(port, token, format_name, number, seconds, ready, READY_BYTES // clients) for number in range(clients)]
        results = pool.starmap_async(_send_in_step, jobs)
        start.wait()
        before, peak = _processor_seconds(process), 0
        while not results.ready():
            peak = max(peak, _largest_bytes(process))
            results.wait(0.5)
        after = _processor_seconds(process)
        return results.get(), peak, {name: after[name] - before[name] for name in after}


def _share_start(start: Any) -> None:
    """Gives a client's process the barrier: a pool passes it at the start of its processes alone."""
    _STARTS.append(start)


def _send_in_step(
    port: int, token: str, format_name: str, number: int, seconds: float, ready: int, ready_bytes: int
) -> Sent:
    bodies = _bodies(format_name, number)
    built, size = list[bytes](), 0
    while len(built) < ready and size < ready_bytes:
        built.append(next(bodies))
        size += len(built[-1])
    with _Client(port, token, format_name) as client:
        client.post(next(bodies))  # what a process of the server loads for its first request is not measured
        _STARTS[0].wait()
        return client.send(chain(built, bodies), seconds)


class _Client:
    """A connection that sends batches, one after the other."""

    def __init__(self, port: int, token: str, format_name: str) -> None:
        self._address = "/api/v1/records" if format_name == "native" else "/v1/traces"
        content_type = "application/x-ndjson" if format_name == "native" else "application/x-protobuf"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def post(self, body: bytes) -> None:
        self._connection.request("POST", self._address, body, self._headers)
        response = self._connection.getresponse()
        response.read()
        if response.status != 200:
            raise SystemExit(f"status {response.status}")

    def send(self, bodies: Iterator[bytes], seconds: float) -> Sent:
        """Sends until the time is over, or all is sent."""
        waits, size, end, processor = list[float](), 0, time.monotonic() + seconds, time.process_time()
        for body in bodies:
            begin = time.monotonic()
            if begin > end:
                break
            self.post(body)
            waits.append(time.monotonic() - begin)
            size += len(body)
        return Sent(waits, size, time.process_time() - processor)


def _derivation_rate(store: Path, port: int, token: str, format_name: str) -> float:
    """Calls a second of a backlog that is made on purpose: derivation waits for its lock while it is sent."""
    bodies = islice(_bodies(format_name, 99), BACKLOG // CALLS)
    with (store / "derivation.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _Client(port, token, format_name) as client:
            client.send(bodies, 600)
        waiting = _waiting(store)
    begin = time.monotonic()
    _wait_until_derived(store)
    return waiting / (time.monotonic() - begin)


def _wait_until_derived(store: Path) -> None:
    end = time.monotonic() + 600
    while _waiting(store) and time.monotonic() < end:
        time.sleep(0.1)


def _sign_in(store: Path, port: int) -> str:
    """The key of a session of a new person."""
    _manage(store, "create_user", "bench")
    link = next(word for word in _manage(store, "signin_link", "bench").split() if "/sign-in/" in word)
    connection, secret = http.client.HTTPConnection("127.0.0.1", port, timeout=60), "a" * 32
    headers = {"Cookie": f"csrftoken={secret}", "X-CSRFToken": secret}
    connection.request("POST", urlsplit(link).path, headers=headers)
    cookies = SimpleCookie(connection.getresponse().getheader("Set-Cookie", ""))
    connection.close()
    return cookies["sessionid"].value


@contextmanager
def _page_reader(store: Path, port: int, *, is_on: bool) -> Iterator[list[float]]:
    """The seconds that the Runs page took so far, which a signed-in person opens every PAGE_EVERY."""
    waits, is_over = list[float](), threading.Event()

    def read(session: str) -> None:
        while not is_over.wait(PAGE_EVERY):
            begin, connection = time.monotonic(), http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/runs/", headers={"Cookie": f"sessionid={session}"})
            response = connection.getresponse()
            if response.status != 200 or b"</html>" not in response.read():
                raise SystemExit(f"the Runs page has status {response.status}")
            connection.close()
            waits.append(time.monotonic() - begin)

    if not is_on:
        yield waits
        return
    reader = threading.Thread(target=read, args=[_sign_in(store, port)])
    reader.start()
    try:
        yield waits
    finally:
        is_over.set()
        reader.join()


def _bodies(format_name: str, number: int) -> Iterator[bytes]:
    build = _native_body if format_name == "native" else _otlp_body
    chance, text = random.Random(number), _sample_text()
    for batch in range(10**6):
        yield build(f"client{number}-{batch * CALLS // STEPS}", batch, chance, text)


def _sample_text() -> str:
    folder = CHECKOUT / "dashboard" / "ingest"
    return "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py"))) * 2


def _result(chance: random.Random, text: str) -> str:
    draw = chance.random()
    size = 200_000 if draw < 0.01 else chance.randrange(20_000, 40_000) if draw < 0.05 else 0
    size = min(size or int(chance.lognormvariate(7.09, 0.9)), len(text) - 1)
    start = chance.randrange(len(text) - size)
    return text[start : start + size]


def _native_body(run: str, batch: int, chance: random.Random, text: str) -> bytes:
    lines = []
    for place in range(CALLS):
        step = batch * CALLS + place
        at = f"2026-03-{1 + step // 86_400 % 28:02}T{step // 3_600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
        result = _result(chance, text)
        base = {"v": 1, "run": run, "call": f"c{step}"}
        lines += [
            base | {"type": "call", "tool": "Search", "args": {"q": f"word {step}"}, "at": f"{at}.000Z"},
            base | {"type": "result", "status": "ok", "complete": {"text": result}, "ended_at": f"{at}.500Z"},
            base | {"type": "receipt", "seq": 1, "text": result[:2_000], "fidelity": "exact", "at": f"{at}.600Z"},
        ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _otlp_body(run: str, batch: int, chance: random.Random, text: str) -> bytes:
    """The spans of 50 steps; the last model span has the history of all of its conversation's steps."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    history: list[dict[str, Any]] = []
    start = 1_772_355_600_000_000_000 + batch * CALLS * 1_000_000_000
    for place in range(CALLS):
        step = batch * CALLS + place
        result = _result(chance, text)
        call = {"type": "tool_call", "id": f"c{step}", "name": "search", "arguments": {"q": f"word {step}"}}
        history.append({"role": "assistant", "parts": [call]})
        part = {"type": "tool_call_response", "id": f"c{step}", "response": result[:2_000]}
        history.append({"role": "user", "parts": [part]})
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": f"c{step}",
            "gen_ai.tool.call.arguments": json.dumps({"q": f"word {step}"}),
            "gen_ai.tool.call.result": json.dumps({"text": result}),
        }
        _add_span(spans, run, step, start + place * 1_000_000_000, attributes)
        if place % 10 == 9:
            messages = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(history)}
            _add_span(spans, run, 10**6 + step, start + place * 1_000_000_000 + 500_000_000, messages)
    return bytes(request.SerializeToString())


def _add_span(spans: Any, run: str, number: int, start: int, attributes: dict[str, str]) -> None:
    span = spans.add(name=attributes["gen_ai.operation.name"])
    span.trace_id, span.span_id = run.encode()[:16].ljust(16, b"-"), number.to_bytes(8, "big")
    span.start_time_unix_nano, span.end_time_unix_nano = start, start + 400_000_000
    for key, value in (attributes | {"gen_ai.conversation.id": run}).items():
        span.attributes.add(key=key).value.string_value = value


def _raw_rate(path: Path, size: int) -> float:
    """Calls a second of rows with the same bytes, 50 a durable transaction."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE call (id BLOB, data BLOB)")
    count, end = 0, time.monotonic() + 5
    while time.monotonic() < end:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO call VALUES (?, ?)", [(os.urandom(16), os.urandom(size)) for _ in range(CALLS)]
        )
        connection.execute("COMMIT")
        count += CALLS
    connection.close()
    return count / 5


def _count(store: Path) -> int:
    return int(_rows(store, "SELECT count(*) FROM dashboard_call")[0][0])


def _waiting(store: Path) -> int:
    return int(_rows(store, "SELECT count(*) FROM dashboard_call WHERE derivation = ''")[0][0])


def _children(process: int) -> list[str]:
    """Of all its threads."""
    return [child for path in Path(f"/proc/{process}/task").glob("*/children") for child in path.read_text().split()]


def _processor_seconds(process: int) -> dict[str, float]:
    """What the web processes and the background work have taken so far."""
    seconds = {"the web processes": 0.0, "the background work": 0.0}
    for child in _children(process):
        is_background = b"dashboard\0work" in Path(f"/proc/{child}/cmdline").read_bytes()
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))  # its own and those of its ended children
        for grandchild in _children(int(child)):
            ticks += sum(map(int, Path(f"/proc/{grandchild}/stat").read_text().rpartition(")")[2].split()[11:13]))
        name = "the background work" if is_background else "the web processes"
        seconds[name] += ticks / os.sysconf("SC_CLK_TCK")
    return seconds


def _largest_bytes(process: int) -> int:
    """Of the largest child of the server: a web process, or the background work."""
    sizes = [0]
    for child in _children(process):
        with suppress(OSError):  # it has ended
            sizes.append(int(Path(f"/proc/{child}/statm").read_text().split()[1]))
    return max(sizes) * os.sysconf("SC_PAGE_SIZE")


def _environment(store: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return variables | {"COUNTERFOIL_DATA": str(store), "COUNTERFOIL_TOKEN_RATE": "1000000"}


def _manage(store: Path, *arguments: str) -> str:
    command = [sys.executable, str(CHECKOUT / "manage.py"), *arguments]
    return subprocess.run(command, env=_environment(store), capture_output=True, text=True, check=True).stdout


@contextmanager
def _server(store: Path) -> Iterator[tuple[int, int]]:
    """The port, and the id of the master process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, str(CHECKOUT / "manage.py"), "serve", "--addrport", f"127.0.0.1:{port}"]
    process = subprocess.Popen([*command, "--workers", "2", "--background", "1"], env=_environment(store))
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store / "counterfoil.db", timeout=120)) as connection:
        return connection.execute(query).fetchall()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", default="1,4")
    parser.add_argument("--format", default="native,otlp")
    parser.add_argument("--pages", action="store_true", help="open the Runs page meanwhile, and print its times")
    parser.add_argument("--folder", help="where the stores are made; default: the temporary folder")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
