"""Slow, idle and greedy clients of the real server: others are served, and disk and memory stay bounded.

python -m pytest -m long tests/faults/test_slow_clients.py
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.cases import extended_except
from tests.faults.imports import manage, migrated_store
from tests.faults.server import RunningServer, running_server, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.rendering]
HEAD = b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
SERVED_SECONDS = 3.0  # on a busy machine; a starved server needs ten and more
ATTACKS: dict[str, tuple[int, bytes]] = {
    "bodies that do not come": (40, HEAD + b"Content-Length: 1000\r\n\r\n--b"),
    "large bodies that do not come": (40, HEAD + b"Content-Length: 60000\r\n\r\n--b"),
    "beginnings of a line": (40, b"GET /runs/ HT"),
    "beginnings of a head": (40, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "),
    "connections without a byte": (400, b""),
    "answers that nobody reads": (40, b"GET /static/vendor/htmx.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, _tables_are_made_once: None) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("slow")
    store = migrated_store(folder / "store")
    with running_server(store, sign_in(store), folder / "log", "--workers", "1", "--background", "0") as running:
        yield running


@pytest.mark.extended
def test_commands_print_the_address_of_the_running_server(server: RunningServer) -> None:
    store = server.log.parent / "store"
    assert f"http://127.0.0.1:{server.port}/sign-in/" in manage(store, "signin_link", "olga").stdout


def slowest_answer(server: RunningServer, count: int = 5) -> float:
    times = []
    for _ in range(count):
        begin = time.monotonic()
        assert server.request("GET", "/runs/").status == 200
        times.append(time.monotonic() - begin)
    return max(times)


@pytest.mark.parametrize("attack", extended_except(ATTACKS, "bodies that do not come", "beginnings of a line"))
def test_slow_clients_do_not_keep_others_waiting(server: RunningServer, attack: str) -> None:
    count, data = ATTACKS[attack]
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(server.connect(data))
        assert slowest_answer(server) < SERVED_SECONDS


def test_a_refused_body_is_neither_read_nor_stored(server: RunningServer, tmp_path: Path) -> None:
    before = server.resident_bytes()
    with server.connect(HEAD + b"Content-Length: 1000000000\r\n\r\n") as client:
        sent = send_until_refused(client, 64_000_000)
        assert sent < 64_000_000
    assert server.resident_bytes() - before < 30_000_000
    assert slowest_answer(server) < SERVED_SECONDS


@pytest.mark.long
def test_a_thousand_idle_connections_and_bodies_of_a_gigabyte_starve_nobody(server: RunningServer) -> None:
    before = server.resident_bytes()
    with ExitStack() as stack:
        for _ in range(1_500):
            stack.enter_context(server.connect())
        assert slowest_answer(server, 20) < SERVED_SECONDS
        for address in (b"/sign-in/", b"/runs/import/", b"/healthz", b"/nowhere/"):
            head = HEAD.replace(b"/sign-in/", address)
            with server.connect(head + b"Content-Length: 1000000000\r\n\r\n") as client:
                assert send_until_refused(client, 1_000_000_000) < 64_000_000
            with server.connect(head + b"Transfer-Encoding: chunked\r\n\r\n40000000\r\n") as client:
                assert send_until_refused(client, 1_000_000_000) < 64_000_000
        assert slowest_answer(server, 20) < SERVED_SECONDS
    assert server.resident_bytes() - before < 100_000_000


def send_until_refused(client: socket.socket, most: int) -> int:
    """Bytes that the server took before it closed the connection."""
    sent = 0
    with suppress(OSError):
        while sent < most:
            sent += client.send(b"x" * 65_536)
    return sent
