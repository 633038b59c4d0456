"""Services in front of a bucket, or in its place, that do everything but answer as they should."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

LINGER_NOT = struct.pack("ii", 1, 0)  # closing resets the connection


HALF = (
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-999/1000\r\nContent-Length: 1000\r\n"
    b"Last-Modified: Sun, 22 Nov 2026 08:00:00 GMT\r\n\r\nbegin"
)


def silent(peer: socket.socket) -> None:
    while peer.recv(65_536):
        pass


def half_an_answer(peer: socket.socket) -> None:
    has_content = peer.recv(65_536).startswith(b"GET")
    peer.sendall(HALF if has_content else HALF[:30])
    silent(peer)


def a_byte_at_a_time(peer: socket.socket) -> None:
    peer.recv(65_536)
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000:
        peer.sendall(bytes([byte]))
        time.sleep(0.05)


def resets(peer: socket.socket) -> None:
    peer.recv(65_536)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)


def errors(peer: socket.socket) -> None:
    peer.recv(65_536)
    peer.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def nonsense(peer: socket.socket) -> None:
    peer.recv(65_536)
    peer.sendall(b"\0\xff nothing that is a status line\r\n\r\n")


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yields the address at which every connection is answered so."""

    def serve(peer: socket.socket) -> None:
        with suppress(OSError), peer:
            answer(peer)

    def all_of_them() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=all_of_them, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


class Door:
    """A proxy process before a service, killed and restarted in the service's place.

    The service itself keeps its content in memory, so it cannot be killed.
    """

    def __init__(self, behind: str) -> None:
        self._behind = int(behind.rpartition(":")[2])
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.open()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def open(self, puts: int = 0) -> None:
        """With `puts`, the process ends itself before it passes on one more object than that."""
        numbers = map(str, (self._port, self._behind, puts))
        command = [sys.executable, "-m", "tests.faults.bucket_faults", *numbers]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"open\n"

    def kill(self) -> None:
        """Connections are reset, and then refused."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


def pass_on(port: int, behind: int, puts: int) -> None:
    objects = itertools.count(1)
    lock = threading.Lock()

    def ends_here(piece: bytes) -> bool:
        with lock:
            return piece.startswith(b"PUT ") and next(objects) > puts > 0

    with socket.create_server(("127.0.0.1", port)) as server:
        print("open", flush=True)
        while True:
            near = server.accept()[0]
            far = socket.create_connection(("127.0.0.1", behind))
            threading.Thread(target=_copy, args=(near, far, ends_here), daemon=True).start()
            threading.Thread(target=_copy, args=(far, near), daemon=True).start()


def _copy(
    source: socket.socket, target: socket.socket, ends_here: Callable[[bytes], bool] = lambda piece: False
) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            if ends_here(piece):
                os._exit(0)  # as killed: nothing is closed in order
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    pass_on(*map(int, sys.argv[1:]))
