"""Objects of an S3 bucket below a prefix: put whole, read by ranges, listed, removed.

Errors of the client library (obstore) become Unreachable, an OSError, or FileNotFoundError for an object that is
not there. Credentials and region come from the environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL,
AWS_ALLOW_HTTP …) or from the role of the machine.

Every request has a deadline of ours (`run_with_timeout`). The library's own limits do not bound an upload in parts as
a whole, and in a process that was forked from one that had used it, its threads are gone and a request would wait for
ever.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environ import Env

from envelopes.storage.file_store import StoreUnreachable
from envelopes.storage.seekable import Seekable

if TYPE_CHECKING:
    from obstore.store import S3Store

T = TypeVar("T")
SCHEME = "s3://"
# Bytes.
TAIL = 64 * 1024  # fetched with an object's size: most objects whole, and the frame table of most compressed ones
SMALLEST_RANGE = 128 * 1024  # of a request in the middle of an object
LARGEST_RANGE = 4 * 1024 * 1024  # of a request of a reader that reads on and on
RANGE_STEP = 16 * 1024  # requests begin at multiples of it, so that reading a few bytes back needs no other request
PART = 8 * 1024 * 1024  # of an upload
PARTS_IN_FLIGHT = 2
LIST_PAGE = 1_000  # names in one answer
EMPTY_OBJECT = ("416 Range Not Satisfiable", "non-partial response")  # answers to a range of an empty object
FORKED = "this process was forked from one that had used the bucket already, and cannot use it itself"
NO_BUCKET = "NoSuchBucket"  # in the service's answer, which is a 404 as for a missing object
RETRY_SECONDS = timedelta(seconds=20)  # in which the library tries a request again
CANCEL_SECONDS = 2.0  # that cancelling a request may take


@dataclass(frozen=True)
class BucketTimeouts:
    """Seconds after which the bucket counts as unreachable."""

    answer: float = 20.0  # of a request, all its tries together; a page waits for it
    part: float = 90.0  # of one that carries PART bytes


class Bucket:
    """Every call returns, or raises FileNotFoundError or Unreachable, within its timeout."""

    def __init__(self, store: S3Store, timeouts: BucketTimeouts | None = None) -> None:
        import obstore

        self._obstore = obstore
        self._store = store
        self._timeouts = timeouts or BucketTimeouts()

    def put(self, name: str, content: Path) -> None:
        """Stores the object whole or not at all. The service checks the bytes by their SHA-256."""
        with content.open("rb") as file:
            beginning = file.read(PART)
            if len(beginning) < PART:
                put = self._obstore.put_async
                self._request(
                    lambda: put(self._store, name, beginning, use_multipart=False), seconds=self._timeouts.part
                )
            else:
                self._put_parts(name, beginning, file)
        if (size := self.size_of(name)) != content.stat().st_size:
            raise OSError(errno.EIO, f"the bucket holds {size} bytes of {content.stat().st_size} of {name}")

    def _put_parts(self, name: str, beginning: bytes, rest: BinaryIO) -> None:
        """Not by the library's `put`, whose whole upload has no limit.

        Closing the writer makes the object, so it must not be closed after an error.
        """
        writer = self._obstore.open_writer_async(self._store, name, buffer_size=PART, max_concurrency=PARTS_IN_FLIGHT)
        part = beginning
        while part:
            self._request(partial(writer.write, part), seconds=self._timeouts.part)
            part = rest.read(PART)
        self._request(writer.close, seconds=(PARTS_IN_FLIGHT + 1) * self._timeouts.part)

    def size_of(self, name: str) -> int:
        size: int = self._request(lambda: self._obstore.head_async(self._store, name))["size"]
        return size

    def open(self, name: str) -> ObjectReader:
        """A stream of the object; its size and its end come with the first request.

        Raises FileNotFoundError and Unreachable.
        """
        try:
            size, tail = self._request(lambda: self._fetch_tail(name))
        except StoreUnreachable as error:
            if not any(answer in str(error) for answer in EMPTY_OBJECT) or self.size_of(name):
                raise
            size, tail = 0, b""
        return ObjectReader(lambda start, length: self.fetch_range(name, start, length), size, tail)

    async def _fetch_tail(self, name: str) -> tuple[int, bytes]:
        answer = await self._obstore.get_async(self._store, name, options={"range": {"suffix": TAIL}})
        return answer.meta["size"], bytes(await answer.bytes_async())

    def fetch_range(self, name: str, start: int, length: int) -> bytes:
        get_range = self._obstore.get_range_async
        return bytes(self._request(lambda: get_range(self._store, name, start=start, length=length)))

    def sizes(self, folder: str = "", *, behind: str = "") -> Iterator[tuple[str, int]]:
        """Names and bytes of what is stored, in the order of the names, from behind the name `behind` on."""
        pages = self._obstore.list(self._store, prefix=folder or None, offset=behind or None, chunk_size=LIST_PAGE)
        while page := self._request(lambda: _next(pages)):
            yield from ((entry["path"], entry["size"]) for entry in page)

    def remove(self, names: Sequence[str]) -> None:
        """A name that is not there is no error."""
        self._request(lambda: self._obstore.delete_async(self._store, list(names)))

    def fetch(self, name: str, target: BinaryIO) -> None:
        """Copies the object to `target`."""
        pieces = self._request(lambda: self._obstore.get_async(self._store, name)).stream(min_chunk_size=SMALLEST_RANGE)
        while piece := self._request(lambda: _next(pieces)):
            target.write(memoryview(piece))

    def _request(self, work: Callable[[], Awaitable[T]], *, seconds: float = 0.0) -> T:
        if _first_process() != os.getpid():
            raise StoreUnreachable(errno.ECHILD, FORKED)
        with _as_os_errors():
            return run_with_timeout(seconds or self._timeouts.answer, work)


@cache
def _first_process() -> int:
    """The process that first used the client library. Its threads do not exist in a process forked since."""
    return os.getpid()


async def _next(stream: AsyncIterator[T]) -> T | None:
    return await anext(stream, None)


def run_with_timeout(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    """Runs `work` on an event loop in a thread of its own. Raises TimeoutError, and cancels it, after `seconds`."""

    async def bounded() -> T:
        return await asyncio.wait_for(work(), seconds)

    future = asyncio.run_coroutine_threadsafe(bounded(), _event_loop(os.getpid()))
    try:
        return future.result(seconds + CANCEL_SECONDS)
    except CancelledError:
        raise TimeoutError from None
    finally:
        future.cancel()


@lru_cache(maxsize=1)
def _event_loop(_process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="bucket", daemon=True).start()
    return loop


class ObjectReader(Seekable):
    """An object as a stream that can seek, with one stretch of it in memory.

    A reader that goes on where the last stretch ended gets twice as much with one request, LARGEST_RANGE at most; one
    that jumps pays for SMALLEST_RANGE. A read returns as many bytes as were asked for, fewer only at the end.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, tail: bytes) -> None:
        super().__init__(size)
        self._fetch = fetch
        self._start, self._stretch = size - len(tail), tail
        self._range = SMALLEST_RANGE

    def readinto(self, buffer: Any) -> int:
        requested = max(0, min(len(buffer), self._size - self._at))
        done = 0
        while done < requested:
            if not self._start <= self._at < self._start + len(self._stretch):
                self._fetch_stretch(requested - done)
            inside = self._at - self._start
            count = min(requested - done, len(self._stretch) - inside)
            buffer[done : done + count] = memoryview(self._stretch)[inside : inside + count]
            done += count
            self._at += count
        return done

    def _fetch_stretch(self, requested: int) -> None:
        reads_on = self._at == self._start + len(self._stretch)
        self._range = min(LARGEST_RANGE, self._range * 2) if reads_on else SMALLEST_RANGE
        self._start = self._at if reads_on else self._at // RANGE_STEP * RANGE_STEP
        length = min(max(self._at - self._start + requested, self._range), self._size - self._start)
        self._stretch = self._fetch(self._start, length)
        if len(self._stretch) != length:
            raise OSError(errno.EIO, f"the bucket gave {len(self._stretch)} bytes of {length}")


def bucket_at(address: str, timeouts: BucketTimeouts | None = None) -> Bucket:
    """The bucket of `s3://bucket/prefix`. Makes no request. Raises ImproperlyConfigured."""
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ImproperlyConfigured(
            f"COUNTERFOIL_ARTIFACTS is {address}, and obstore, the client for buckets, is not installed: "
            "pip install 'counterfoil[s3]', or name a folder"
        ) from None
    parts = urlsplit(address)
    if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
        raise ImproperlyConfigured("COUNTERFOIL_ARTIFACTS has to be s3://BUCKET/PREFIX; keys come from the environment")
    store = S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        config={"checksum_algorithm": "SHA256"},
        # When it is given client options, the library does not read AWS_ALLOW_HTTP from the environment.
        client_options={"connect_timeout": "5s", "timeout": "60s", "allow_http": Env().bool("AWS_ALLOW_HTTP", False)},
        retry_config={"max_retries": 4, "retry_timeout": RETRY_SECONDS},
    )
    return Bucket(store, timeouts)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as missing:
        if NO_BUCKET in str(missing):
            raise StoreUnreachable(errno.EIO, "there is no such bucket") from None
        raise FileNotFoundError(errno.ENOENT, _first_line(missing)) from None
    except TimeoutError:
        raise StoreUnreachable(errno.ETIMEDOUT, "the bucket did not answer in time") from None
    except (BaseError, OSError, ValueError) as error:
        raise StoreUnreachable(errno.EIO, _reason(error)) from None


def _reason(error: Exception) -> str:
    """Without address, tries and times: the same text every time, so that one problem is reported once."""
    text = _first_line(error).rpartition(" - ")[2]
    status = text.removeprefix("Server returned non-2xx status code: ")
    return f"the bucket answered {status}" if status != text else f"the bucket does not answer: {text}"


def _first_line(error: Exception) -> str:
    """Behind it the library prints the answer's body and its own state."""
    return str(error).partition("\n")[0][:300]
