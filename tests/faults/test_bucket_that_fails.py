"""When a bucket does not answer, answers nonsense or disappears, every call ends in time with the reason."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from pathlib import Path

import pytest

from dashboard.artifacts.bucket import PART, Bucket, BucketTimeouts, bucket_at
from envelopes.storage.file_store import StoreUnreachable
from tests.buckets import KEYS
from tests.conftest import CHECKOUT
from tests.faults import bucket_faults as faults

LARGE = PART + 5
OPERATIONS: dict[str, Callable[[Bucket, Path], object]] = {
    "put": lambda bucket, folder: bucket.put("a", folder / "small"),
    "put in parts": lambda bucket, folder: bucket.put("a", folder / "large"),
    "size": lambda bucket, _: bucket.size_of("a"),
    "open": lambda bucket, _: bucket.open("a"),
    "range": lambda bucket, _: bucket.fetch_range("a", 0, 1_000),
    "list": lambda bucket, _: list(bucket.sizes()),
    "fetch": lambda bucket, _: bucket.fetch("a", BytesIO()),
    "remove": lambda bucket, _: bucket.remove(["a"]),
}


def nobody() -> AbstractContextManager[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return nullcontext(f"http://127.0.0.1:{free.getsockname()[1]}")


# Waiting ends at the limit; an answer, even a wrong one, is retried first.
SERVICES: dict[str, tuple[Callable[[], AbstractContextManager[str]], float, str]] = {
    "silent": (lambda: faults.serving(faults.silent), 0.3, "did not answer in time"),
    "half an answer": (lambda: faults.serving(faults.half_an_answer), 0.3, "did not answer in time"),
    "a byte at a time": (lambda: faults.serving(faults.a_byte_at_a_time), 0.3, "did not answer in time"),
    "resets": (lambda: faults.serving(faults.resets), 20, "error sending request"),
    "errors": (lambda: faults.serving(faults.errors), 20, "503 Service Unavailable"),
    "nonsense": (lambda: faults.serving(faults.nonsense), 20, "error sending request"),
    "nobody": (nobody, 20, "error sending request"),
}


@pytest.mark.parametrize(("service", "limit", "reason"), SERVICES.values(), ids=SERVICES)
def test_every_call_ends_in_time_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    service: Callable[[], AbstractContextManager[str]],
    limit: float,
    reason: str,
) -> None:
    (tmp_path / "small").write_bytes(b"content")
    (tmp_path / "large").write_bytes(bytes(LARGE))
    ended: dict[str, object] = {}

    def ask(name: str) -> None:
        try:
            ended[name] = OPERATIONS[name](bucket, tmp_path)
        except Exception as error:
            ended[name] = error

    with service() as address:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        bucket = bucket_at("s3://some-bucket/x", BucketTimeouts(answer=limit, part=limit))
        threads = {name: threading.Thread(target=ask, args=(name,), daemon=True) for name in OPERATIONS}
        for thread in threads.values():
            thread.start()
        end = time.monotonic() + 120
        for thread in threads.values():
            thread.join(max(0.0, end - time.monotonic()))
    assert [name for name, thread in threads.items() if thread.is_alive()] == []
    for name, error in ended.items():
        assert isinstance(error, StoreUnreachable), (name, error)
        assert reason in str(error), name
        assert "\n" not in str(error)


FORKED = """
import io, os, sys, tempfile
from pathlib import Path
from dashboard.artifacts.bucket import bucket_at

bucket = bucket_at(sys.argv[1])
with tempfile.NamedTemporaryFile() as file:
    bucket.put("a", Path(file.name))
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    bucket_at(sys.argv[1]).size_of("a")
except OSError as error:
    print(error, flush=True)
os._exit(0)
"""


def test_a_process_forked_after_the_first_call_gets_an_error_and_does_not_wait(bucket_address: str) -> None:
    command = [sys.executable, "-c", FORKED, bucket_address]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    assert "was forked from one that had used the bucket" in done.stdout
