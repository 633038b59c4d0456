"""The production server: gunicorn with threads, and its whole configuration.

Gunicorn's own threaded worker gives a thread to each new connection and waits there for its first byte, then for the
whole request, without an end: 16 clients that send a byte now and then stop a server of 16 threads. Here the main
loop of a worker collects the head of a request and the body of a form, and a thread gets the request when it is
complete. Only an upload is read by a thread, at a speed below which it is ended.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import selectors
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from gunicorn.util import close_graceful, parse_address
from gunicorn.workers.gthread import TConn, ThreadWorker

from dashboard.middleware import OneLineFormatter

THREADS = 16  # more than pages take (settings.ANSWERS_AT_ONCE and ANSWERS_WAITING): the others are for all else
LOCK_SECONDS = 5.0  # that a page waits at most for a lock of another process in the database
REQUEST_SECONDS = 10.0  # in which the head of a request and the body of a form arrive
SLOWEST_BYTES = 4_096  # a second, of an upload or of a response, after a pause of REQUEST_SECONDS
LONGEST_HEAD = 65_536  # bytes; gunicorn refuses a longer one
PIECE = 65_536
CONNECTIONS = 1_000  # of a worker; beyond it the one that has waited longest is closed
LINGER_SECONDS = 0.1
FILES = 4_096  # that a worker may have open, where the system allows it
NOT_ACCEPTED = (errno.EAGAIN, errno.ECONNABORTED, errno.EMFILE, errno.ENFILE)
BASE_URL, ADDRESS_FILE, MOST_ADDRESSES = "http://127.0.0.1:8000", "address", 5
ANSWERS_IN = 0.5  # seconds in which a server of this machine takes a connection
INHERITED = {"GUNICORN_FD", "LISTEN_FDS"}
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)


class PacedSocket(socket.socket):
    """A connection whose client has to keep a pace while a thread serves it. Raises TimeoutError."""

    def start(self) -> None:
        self._waited, self._moved = 0.0, 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        data: bytes = self._within_pace(partial(super().recv, size, flags))
        self._moved += len(data)
        return data

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Each piece may take as long as at the slowest pace."""
        for start in range(0, len(data), PIECE):
            piece = memoryview(data)[start : start + PIECE]
            self._moved += len(piece)
            self._within_pace(partial(super().sendall, piece, flags))

    def _within_pace(self, transfer: Any) -> Any:
        allowed = REQUEST_SECONDS + self._moved / SLOWEST_BYTES - self._waited
        if allowed <= 0:
            raise TimeoutError("the client is too slow")
        before, begin = self.gettimeout(), time.monotonic()
        self.settimeout(allowed if before is None else min(before, allowed))
        try:
            return transfer()
        finally:
            self._waited += time.monotonic() - begin
            self.settimeout(before)


class CollectedConnection(TConn):  # type: ignore[misc]
    """A connection with what has been received of its next request."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.received = bytearray()

    @property
    def has_request(self) -> bool:
        """True for a request that a thread can serve without waiting, and for one that only a thread can read."""
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return len(self.received) > LONGEST_HEAD
        length = CONTENT_LENGTH.search(self.received, 0, end + 2)
        body = int(length[1]) if length else 0
        return body > settings.BODY_LIMIT_BYTES or len(self.received) >= end + 4 + body

    def close(self, graceful: Any = None) -> None:
        """Gunicorn waits 2 seconds here for a client that does not close, in the loop that all clients need."""
        if graceful:
            close_graceful(self.sock, timeout=LINGER_SECONDS)
        else:
            super().close()


class CollectingWorker(ThreadWorker):  # type: ignore[misc]
    """Gives a request to a thread when it is complete."""

    def accept(self, listener: socket.socket) -> None:
        if len(self.pending_conns) >= CONNECTIONS:  # the one that has waited longest makes room
            self.pending_conns[0].timeout = 0.0
            self.murder_pending()
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno not in NOT_ACCEPTED:
                raise
            return
        self.nr_conns += 1
        paced = PacedSocket(fileno=client.detach())
        self._collect(CollectedConnection(self.cfg, paced, address, listener.getsockname()))

    def on_client_socket_readable(self, conn: CollectedConnection, client: socket.socket) -> None:
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._collect(conn)

    def on_pending_socket_readable(self, conn: CollectedConnection, client: socket.socket) -> None:
        try:
            data = socket.socket.recv(client, PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        conn.received += data
        if data and not conn.has_request:
            return
        self.poller.unregister(client)
        self.pending_conns.remove(conn)
        if not data:
            self.nr_conns -= 1
            conn.close()
            return
        conn.init()
        conn.parser.unreader.unread(bytes(conn.received))
        conn.received.clear()
        conn.data_ready = True
        conn.sock.start()
        self.enqueue_req(conn)

    def _collect(self, conn: CollectedConnection) -> None:
        conn.timeout = time.monotonic() + REQUEST_SECONDS
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _keepalive_after(self, conn: CollectedConnection, keepalive: Any) -> bool:
        """Drops a connection whose body was refused unread, unless the rest of it is here already."""
        return bool(keepalive and conn.parser.finish_body(deadline=time.monotonic() + LINGER_SECONDS))


class ServerLog(Logger):  # type: ignore[misc]
    """Gunicorn's log in the form of the dashboard's: what it reports of a request may contain a secret too."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(OneLineFormatter(self.error_fmt, self.datefmt))


def find_base_url() -> str:
    """The dashboard for links of commands: COUNTERFOIL_BASE_URL, else the newest server of the store that listens.

    Where none does, the one that listened last, which may be started again.
    """
    addresses = _load_addresses()
    return settings.BASE_URL or next(filter(_listens, addresses), addresses[0] if addresses else BASE_URL)


def _load_addresses() -> list[str]:
    """The addresses on which servers of the store have listened, the newest first."""
    with suppress(OSError, UnicodeDecodeError):
        return (settings.DATA / ADDRESS_FILE).read_text("ascii").split()
    return []


def _listens(address: str) -> bool:
    parts = urlsplit(address)
    with suppress(OSError, ValueError), socket.create_connection((parts.hostname, parts.port), ANSWERS_IN):
        return True
    return False


def _record_address(arbiter: Any) -> None:
    """A read-only data folder has no record; a socket of the file system has no address for a browser."""
    address = str(arbiter.LISTENERS[0])
    if address.startswith("http"):
        local = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        addresses = [local, *(other for other in _load_addresses() if other != local)]
        with suppress(OSError):
            (settings.DATA / ADDRESS_FILE).write_text("\n".join(addresses[:MOST_ADDRESSES]), "ascii")


class AddressUnavailable(RuntimeError):
    """Nobody can listen on the address now; the message gives the reason."""


def check_address(addrport: str) -> None:
    """Tries the address, because gunicorn would try again for seconds. Raises AddressUnavailable."""
    if INHERITED.intersection(os.environ):  # the socket of the server that this one replaces
        return
    try:
        address = parse_address(addrport)
        if isinstance(address, tuple):
            with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"{addrport} is in use by another program: end it, or give another address with --addrport"
        else:
            reason = f"{addrport} cannot be served: {error.strerror or error}"
        raise AddressUnavailable(reason) from None
    except (RuntimeError, OverflowError) as error:  # no number, or none of a port
        raise AddressUnavailable(f"{addrport} is no address to serve: {error}") from None


class Server(BaseApplication):  # type: ignore[misc]
    """`addrport` is host:port. Workers are processes; each serves THREADS requests at once."""

    def __init__(self, addrport: str, workers: int) -> None:
        self._settings = {
            "bind": addrport,
            "workers": workers,
            "worker_class": CollectingWorker,
            "worker_connections": 2 * CONNECTIONS,
            "sendfile": False,  # it would wait without an end for a client that does not read
            "threads": THREADS,
            "timeout": 60,
            "graceful_timeout": 10,
            "limit_request_line": 8190,
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "logger_class": ServerLog,
            "when_ready": _record_address,
            "forwarded_allow_ips": ",".join(map(str, settings.TRUSTED_PROXIES)),
        }
        limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, min(FILES, most)), most))
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        options, seconds = connection.settings_dict["OPTIONS"], min(settings.LOCK_SECONDS, LOCK_SECONDS)
        if connection.vendor == "sqlite":
            options["timeout"] = seconds
        else:
            options["options"] += f" -c lock_timeout={int(seconds * 1000)}"  # the last one holds
        from dashboard.wsgi import application  # imported in each worker, after the fork

        return application
