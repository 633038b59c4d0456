"""Requests to the intake whose length is wrong, stated twice, or cut: refused by the real server, nothing half stored.

A body that a proxy would read as two requests must not become two here: the second one adds a run `smuggled: …`.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.dashboard.api.native_records import NDJSON, lines, one_call
from tests.faults.imports import manage, migrated_store, rows
from tests.faults.intake_load import UNLIMITED
from tests.faults.server import RunningServer, running_server, sign_in

pytestmark = pytest.mark.extended
BODY = lines(one_call(1, "framed"))
LENGTH = len(BODY)
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")

# Headers with the length of the body, and the statuses that may answer; none: the connection is closed.
FRAMINGS: dict[str, tuple[str, set[int]]] = {
    "shorter than the first line": ("Content-Length: 20", {422}),
    "none": ("X-Length: 1", {400, 411}),
    "twice, and different": (f"Content-Length: {LENGTH}\r\nContent-Length: 5", {400}),
    "with a plus": (f"Content-Length: +{LENGTH}", {400}),
    "below nought": ("Content-Length: -1", {400}),
    "in hexadecimal": ("Content-Length: 0x200", {400}),
    "in pieces of a list": (f"Content-Length: {LENGTH}, {LENGTH}", {400}),
    "of 30 digits": ("Content-Length: " + "9" * 30, {400, 413}),
    "chunked twice": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", {400, 411, 501}),
    "chunked, with a length": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding: chunked", {400, 411}),
    "an encoding that nobody knows": (f"Content-Length: {LENGTH}\r\nTransfer-Encoding: xchunked", {400, 411, 501}),
    "a space before the colon": (f"Content-Length : {LENGTH}\r\nTransfer-Encoding : chunked", {400}),
    "a folded header": (f"Content-Length:\r\n {LENGTH}", {400}),
}


class Target:
    def __init__(self, server: RunningServer, store: Path, token: str) -> None:
        self.server, self.store, self.token = server, store, token

    def head(self, framing: str) -> bytes:
        lines_of_head = [
            "POST /api/v1/records HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self.token}",
            f"Content-Type: {NDJSON}",
            framing,
        ]
        return "\r\n".join(lines_of_head).encode() + b"\r\n\r\n"

    def send(self, data: bytes) -> list[int]:
        """The statuses of all answers until the server closes the connection; the client sends nothing more."""
        answer = b""
        with self.server.connect(data) as client, suppress(ConnectionError):
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65_536):
                answer += piece
        return [int(status) for status in STATUS.findall(answer)]

    def runs(self) -> list[object]:
        return [run for (run,) in rows(self.store, "SELECT external_id FROM dashboard_run")]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("framed")
    store = migrated_store(folder / "store")
    token = json.loads(manage(store, "create_token", "writers", "--json").stdout)["token"]
    with running_server(store, sign_in(store), folder / "log", "--background", "0", variables=UNLIMITED) as server:
        yield Target(server, store, token)


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_body_of_an_unclear_length_is_refused_and_is_one_request(name: str, target: Target) -> None:
    framing, statuses = FRAMINGS[name]
    inner = lines(one_call(1, f"smuggled: {name}"))
    second = target.head(f"Content-Length: {len(inner)}") + inner
    chunk = b"%x\r\n" % LENGTH + BODY + b"\r\n0\r\n\r\n"
    body = chunk if "chunked" in framing else BODY
    answered = target.send(target.head(framing) + body)
    assert set(answered[:1]) <= statuses, answered
    answered = target.send(target.head(framing) + body + second)
    assert set(answered[:1]) <= statuses, answered
    assert not {"framed", f"smuggled: {name}"} & set(target.runs())


def test_a_request_that_is_cut_at_any_byte_stores_nothing_and_a_whole_one_does(target: Target) -> None:
    request = target.head(f"Content-Length: {LENGTH}") + BODY
    for end in [*range(1, len(request), 41), len(request) - 1]:
        assert set(target.send(request[:end])) <= {400}, end
        assert "framed" not in target.runs(), end
    headers = {"Authorization": f"Bearer {target.token}", "Content-Type": NDJSON}
    assert target.server.request("POST", "/api/v1/records", BODY, headers).status == 200
    assert target.runs().count("framed") == 1


def in_chunks(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])


@pytest.mark.parametrize("size", [1, 100, LENGTH])
def test_a_body_in_chunks_is_stored_when_it_is_whole(size: int, target: Target) -> None:
    body = lines(one_call(1, f"chunks of {size}"))
    request = target.head("Transfer-Encoding: chunked") + in_chunks(body, size)
    for end in [*range(len(request) - len(in_chunks(body, size)), len(request), 97), len(request) - 1]:
        assert set(target.send(request[:end])) <= {400}, end
        assert f"chunks of {size}" not in target.runs(), end
    assert target.send(request) == [200]
    assert target.runs().count(f"chunks of {size}") == 1


@pytest.mark.parametrize("body", [b"zz\r\nabc\r\n0\r\n\r\n", b"-5\r\nabc\r\n0\r\n\r\n", b"5\r\nabcdefgh\r\n0\r\n\r\n"])
def test_chunks_that_are_none_are_refused(body: bytes, target: Target) -> None:
    assert set(target.send(target.head("Transfer-Encoding: chunked") + body)) <= {400}
