"""The real server, `serve`, as a process of its own on a store of its own, and clients of it."""

from __future__ import annotations

import http.client
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.faults.imports import environment, wait_until

SIGN_IN = """
import django
django.setup()
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from dashboard.accounts import create_member, get_or_create_project
user, _ = create_member("olga", get_or_create_project(), "operator")
session = SessionStore()
session.update({SESSION_KEY: str(user.pk), BACKEND_SESSION_KEY: settings.AUTHENTICATION_BACKENDS[0]})
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
print(session.session_key)
"""


PORTS = range(20_000, 32_000)  # below those that the system gives to any client that connects
WORKERS = 16  # at most, of one test run


def find_port() -> int:
    """A free port that no other worker of the test run looks at, whose server would answer in place of ours."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    for port in random.sample(PORTS[worker::WORKERS], 100):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class RunningServer:
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    session: str

    def request(
        self,
        method: str,
        address: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = 60.0,
    ) -> Answer:
        """As the signed-in operator; a form is sent with the token that it needs."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        token = "a" * 32
        own = {"Cookie": f"sessionid={self.session}; csrftoken={token}", "X-CSRFToken": token}
        try:
            connection.request(method, address, body or None, own | dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def connect(self, data: bytes = b"") -> socket.socket:
        """A connection on which `data` was sent and nothing else is."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        client.sendall(data)
        return client

    def processes(self) -> list[int]:
        """The master and its children."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        """Processor time of the master and its children so far."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in self.processes()]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.processes())
        return pages * os.sysconf("SC_PAGE_SIZE")


def sign_in(store: Path, variables: Mapping[str, str] | None = None) -> str:
    """The key of a new session of an operator of the default project."""
    command = [sys.executable, "-c", SIGN_IN]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment(store) | dict(variables or {}),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@contextmanager
def running_server(
    store: Path, session: str, log: Path, *arguments: str, variables: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    port = find_port()
    command = [sys.executable, "manage.py", "serve", "--addrport", f"127.0.0.1:{port}", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment(store) | dict(variables or {}), stdout=out, stderr=out
        )
    server = RunningServer(port, process, log, session)
    try:
        if not wait_until(lambda: process.poll() is not None or _answers(server)) or process.poll() is not None:
            raise AssertionError(f"the server did not start: {log.read_text()}")
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _answers(server: RunningServer) -> bool:
    try:
        return server.request("GET", "/healthz").status == 200
    except OSError:
        return False
