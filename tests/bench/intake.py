"""Live intake over HTTP: calls acknowledged a second, the wait of a batch, memory, disk, and the backlog afterwards.

    python -m tests.bench.intake [--seconds 60] [--clients 1,4] [--format native,otlp]

Batches of 50 calls with results cut from the project's own text: log-normal, median 1.2 KB, 5 % over 20 KB, 1 % of
200 KB. OTLP is protobuf, and each step repeats the history of its conversation. The bounds of issue 15 stand beside
the figures; the exit code is 1 when one fails. The ratio is to raw sqlite3 inserts of the same bytes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
CALLS = 50  # of a batch
STEPS = 100  # of a conversation
Figure = tuple[str, float, float, str]  # label, figure, bound (negative: at most), unit


def main() -> int:
    options = _options()
    failed = 0
    for format_name in options.format.split(","):
        for clients in map(int, options.clients.split(",")):
            print(f"{format_name}, {clients} client{'s' * (clients > 1)}, {options.seconds} s:")
            with tempfile.TemporaryDirectory(dir=options.folder) as name:
                for label, figure, bound, unit in _measure(Path(name), format_name, clients, options.seconds):
                    is_met = figure <= -bound if bound < 0 else figure >= bound
                    failed += not is_met
                    print(f"  {label:<44} {figure:10.2f} {unit:<8} bound {abs(bound):g}{'' if is_met else '   FAILS'}")
    return int(failed > 0)


def _measure(folder: Path, format_name: str, clients: int, seconds: float) -> Iterator[Figure]:
    store = folder / "store"
    _manage(store, "migrate")
    token = json.loads(_manage(store, "create_token", "bench", "--json"))["token"]
    with _server(store) as (port, process):
        with multiprocessing.get_context("spawn").Pool(clients) as pool:
            jobs = [(port, token, format_name, number, seconds) for number in range(clients)]
            results = pool.starmap_async(_send, jobs)
            peak = 0
            while not results.ready():
                peak = max(peak, _largest_bytes(process))
                results.wait(0.5)
        waits = sorted(wait for result in results.get() for wait in result[0])
        calls, size = sum(result[1] for result in results.get()), sum(result[2] for result in results.get())
        listed = _rows(store, "SELECT count(*) FROM dashboard_call")[0][0]
        if listed < calls:
            raise SystemExit(f"{calls:,} calls were acknowledged, {listed:,} are listed")
        waiting = _waiting(store)
        begin = time.monotonic()
        while _waiting(store) and time.monotonic() - begin < 600:
            time.sleep(1)
        drained = (waiting - _waiting(store)) / max(0.001, time.monotonic() - begin)
    disk = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    rate = calls / seconds
    yield "calls acknowledged durably and listed", rate, 3_000, "a second"
    yield "p95 of a batch", waits[int(0.95 * len(waits))] * 1_000, -60.0 if clients == 1 else -1e9, "ms"
    yield "peak memory of a web process", peak / 1e6, -300, "MB"
    yield "disk a call", disk / max(1, calls) / 1_000, -9, "KB"
    yield "calls that waited for derivation at the end", waiting, 0, ""
    yield "backlog derived", drained if waiting else 1e6, 1_500, "a second"
    yield "ratio to raw sqlite3 inserts", rate / _raw_rate(folder / "raw.db", size // max(1, calls)), 0.25, ""


def _send(port: int, token: str, format_name: str, number: int, seconds: float) -> tuple[list[float], int, int]:
    """Waits of the batches in seconds, acknowledged calls, and bytes."""
    content_type = "application/x-ndjson" if format_name == "native" else "application/x-protobuf"
    address = "/api/v1/records" if format_name == "native" else "/v1/traces"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
    bodies = _bodies(format_name, number)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    waits, size, end = list[float](), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        body = next(bodies)
        begin = time.monotonic()
        connection.request("POST", address, body, headers)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise SystemExit(f"status {response.status}")
        waits.append(time.monotonic() - begin)
        size += len(body)
    return waits, CALLS * len(waits), size


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


def _waiting(store: Path) -> int:
    return int(_rows(store, "SELECT count(*) FROM dashboard_call WHERE derivation = ''")[0][0])


def _largest_bytes(process: int) -> int:
    """Of the largest child of the server: a web process, or the background work."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    sizes = [0]
    for child in children:
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
    parser.add_argument("--folder", help="where the stores are made; default: the temporary folder")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
