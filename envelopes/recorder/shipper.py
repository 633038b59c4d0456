"""Sends the lines of a spool to a dashboard: in batches, again until they are acknowledged, in order.

The server knows a line that it has already, so that a batch whose answer was lost is sent again without harm.
A line that the server refuses goes to the spool's `rejected.jsonl`; all others of its batch are stored. So does a line
at which the server fails again and again while it takes others: it would block all lines behind it for good.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import random
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from envelopes.recorder.spool import Batch, Spool
from envelopes.text.untrusted_json import Untrusted, parse_json

INTERVAL_S = 1.0  # between two looks at the spool
TIMEOUT_S = 30.0  # of a request
LONGEST_PAUSE_S = 60.0  # between two attempts
REFUSED = (400, 413, 422)  # for what is in the body: sending it again is no use
FAULT = 500  # an error of the server, at any record or at one of these
FAULTS_TOGETHER = 3  # of a batch, until its lines are sent apart
FAULTS_ALONE = 10  # of lines beside which the server took no other one, until they are rejected
MOST_FAULTY = 10  # lines that are sent alone: where the server took no other line, it is the server that fails
NAMED_ARTIFACT = b'"type":"artifact"'

logger = logging.getLogger(__name__)


class NotShipped(Exception):
    """The server did not take a request now; `pause` is how long to wait, in seconds, where it said so."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


class ServerFault(NotShipped):
    """The server failed at a request with status 500, which may be for what is in it."""


class Shipper:
    """Ships a spool on a thread of its own. Raises ValueError for an address that is neither http nor https."""

    def __init__(self, spool: Spool, server: str, token: str | None) -> None:
        if urlsplit(server).scheme not in ("http", "https"):
            raise ValueError(f"the server is an address that begins with http:// or https://, not {server!r}")
        self._spool = spool
        self._server = server.rstrip("/")
        self._token = token
        self._has_work, self._is_closed = threading.Event(), threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._has_work.set()

    def close(self, timeout: float) -> bool:
        """Ships what is left for `timeout` seconds; True when nothing is. The rest stays on disk."""
        deadline = time.monotonic() + timeout
        while not self._spool.is_empty() and time.monotonic() < deadline:
            self.wake()
            self._is_closed.wait(0.02)
        self._is_closed.set()
        self.wake()
        self._thread.join(max(0.0, deadline - time.monotonic()) + 1)
        return self._spool.is_empty()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._has_work.wait(INTERVAL_S)
            self._has_work.clear()
            with self._spool.shipping() as is_mine:
                if is_mine:
                    self._ship_all()

    def _ship_all(self) -> None:
        try:
            for batch in self._spool.batches():
                try:
                    self._ship(batch)
                except ServerFault as fault:
                    if self._failures + 1 < FAULTS_TOGETHER:
                        raise
                    self._ship_apart(batch, fault)
                self._spool.acknowledge(batch)
                self._failures = 0
                if self._is_closed.is_set():
                    return
        except (NotShipped, OSError) as failure:  # the disk may be full
            self._failures += 1
            pause = failure.pause if isinstance(failure, NotShipped) else None
            if pause is None:  # at random, which spreads the attempts of many clients
                longest = min(LONGEST_PAUSE_S, 2.0 ** min(self._failures - 1, 10))
                pause = longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            log = logger.warning if self._failures == 1 else logger.debug
            log("records are kept in %s: %s; next attempt in %.0f s", self._spool.folder, failure, pause)
            self._is_closed.wait(pause)

    def _ship(self, batch: Batch) -> None:
        """Raises NotShipped; lines that the server refuses are kept among the rejected ones."""
        for line in batch.lines:
            if NAMED_ARTIFACT in line:
                self._ship_artifact(line)
        status, answer = self._send("POST", "/api/v1/records", batch.body)
        for rejected in answer.get("rejected", ()):
            self._spool.reject(batch.lines[rejected["line"] - 1], f"{rejected['path']}: {rejected['reason']}")
        if status not in REFUSED or "rejected" in answer:
            return
        if len(batch.lines) == 1:
            self._spool.reject(batch.body, answer.get("error") or f"refused with status {status}")
            return
        middle = len(batch.lines) // 2
        for lines in (batch.lines[:middle], batch.lines[middle:]):
            self._ship(batch._replace(lines=lines))

    def _ship_apart(self, batch: Batch, fault: ServerFault) -> None:
        """Ships the lines of a batch but those at which the server fails, which are kept among the rejected ones.

        Raises NotShipped where the server takes none of them, unless it has failed at these few all the time.
        """
        waiting, faulty, is_any_shipped = [batch.lines], list[bytes](), False
        while waiting:
            lines = waiting.pop()
            try:
                self._ship(batch._replace(lines=lines))
                is_any_shipped = True
            except ServerFault:
                middle = len(lines) // 2
                waiting += [lines[middle:], lines[:middle]] if middle else []
                faulty += [] if middle else lines
            if len(faulty) > MOST_FAULTY and not is_any_shipped:
                raise fault
        if not is_any_shipped and self._failures + 1 < FAULTS_ALONE:
            raise fault
        for line in faulty:
            self._spool.reject(line, f"{fault}, again and again, at this line")

    def _ship_artifact(self, line: bytes) -> None:
        """Sends the file that the line names, if the spool has it."""
        record: Any = parse_json(line)
        path = self._spool.artifact(Path(str(record.get("sha256"))).name)
        if path.is_file():
            status, answer = self._send("PUT", f"/api/v1/artifacts/{path.name}", path.read_bytes())
            if status >= 300:
                self._spool.reject(line, answer.get("error") or f"its file was refused with status {status}")
            path.unlink()

    def _send(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """The status, a success or a refusal of the content, and the answer. Raises NotShipped for all else."""
        headers = {
            "Content-Type": "application/x-ndjson" if method == "POST" else "application/octet-stream",
            "Idempotency-Key": hashlib.sha256(body).hexdigest(),
        }
        if method == "POST":
            body, headers["Content-Encoding"] = gzip.compress(body, 5), "gzip"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = Request(self._server + path, body, headers, method=method)  # noqa: S310 - http or https
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - the same
                return response.status, _read_answer(response.read())
        except HTTPError as error:
            with error:
                if error.code in REFUSED:
                    return error.code, _read_answer(error.read())
                after = error.headers.get("Retry-After", "")
                pause = min(float(after), LONGEST_PAUSE_S) if after.isdigit() else None
                failure = ServerFault if error.code == FAULT else NotShipped
                raise failure(f"{self._server} answered {error.code} {error.reason}", pause) from None
        except (OSError, HTTPException) as error:
            raise NotShipped(f"{self._server} did not answer: {error}") from None


def _read_answer(body: bytes) -> dict[str, Any]:
    try:
        answer: Any = parse_json(body)
    except Untrusted:
        return {}
    return answer if isinstance(answer, dict) else {}
