"""Objects of an S3 bucket below a prefix: put whole, read by ranges, listed, removed.

What the client library raises becomes Unreachable here, an OSError, and FileNotFoundError for an object
that is not there, so that nobody behind this module needs to know the library. Credentials and region come from the
environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP …) or from the role of the machine.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environ import Env

from dashboard.artifacts.timeouts import within
from envelopes.storage.file_store import Unreachable
from envelopes.storage.seekable import Seekable

if TYPE_CHECKING:
    from obstore.store import S3Store

T = TypeVar("T")
SCHEME = "s3://"
TAIL = 64 * 1024  # bytes fetched with an object's size: most objects whole, and the table of most compressed ones
LEAST = 128 * 1024  # bytes of a request in the middle of an object
MOST = 4 * 1024 * 1024  # of a request of somebody who reads on and on
STEP = 16 * 1024  # where requests begin, so that a look a few bytes back needs no other
PART = 8 * 1024 * 1024  # of an upload
AT_ONCE = 2  # parts on their way
LISTED = 1_000  # names in one answer
EMPTY = ("416 Range Not Satisfiable", "non-partial response")  # what a range of an empty object is answered with
FORKED = "this process was forked from one that had used the bucket already, and cannot use it itself"
NO_BUCKET = "<Code>NoSuchBucket</Code>"  # in the service's answer, which is a 404 as for a missing object
SECONDS = timedelta(seconds=20)  # in which a request is tried again


@dataclass(frozen=True)
class Limits:
    """Seconds after which something that did not answer counts as unreachable."""

    answer: float = 20.0  # of a request, all its tries together; a page waits for it
    part: float = 90.0  # of one that carries PART bytes


class Bucket:
    """Every call ends: in what was asked for, or in FileNotFoundError or Unreachable, by its limit at the latest."""

    def __init__(self, store: S3Store, limits: Limits | None = None) -> None:
        import obstore

        self._obstore = obstore
        self._store = store
        self._limits = limits or Limits()

    def put(self, name: str, content: Path) -> None:
        """The object is there as a whole or not at all. The service checks the bytes by their SHA-256."""
        with content.open("rb") as file:
            begin = file.read(PART)
            if len(begin) < PART:
                put = self._obstore.put_async
                self._ask(lambda: put(self._store, name, begin, use_multipart=False), self._limits.part)
            else:
                self._put_parts(name, begin, file)
        if (found := self.size_of(name)) != content.stat().st_size:
            raise OSError(errno.EIO, f"the bucket holds {found} bytes of {content.stat().st_size} of {name}")

    def _put_parts(self, name: str, begin: bytes, rest: BinaryIO) -> None:
        """Not by the library's put, whose whole upload has no limit. Closing makes the object, so an error must not."""
        target = self._obstore.open_writer_async(self._store, name, buffer_size=PART, max_concurrency=AT_ONCE)
        piece = begin
        while piece:
            self._ask(partial(target.write, piece), self._limits.part)
            piece = rest.read(PART)
        self._ask(target.close, (AT_ONCE + 1) * self._limits.part)

    def size_of(self, name: str) -> int:
        size: int = self._ask(lambda: self._obstore.head_async(self._store, name))["size"]
        return size

    def open(self, name: str) -> ObjectReader:
        """Its size and its end come with the first request. Raises FileNotFoundError and Unreachable."""
        try:
            size, tail = self._ask(lambda: self._end_of(name))
        except Unreachable as error:
            if not any(said in str(error) for said in EMPTY) or self.size_of(name):
                raise
            size, tail = 0, b""
        return ObjectReader(lambda start, length: self._range(name, start, length), size, tail)

    async def _end_of(self, name: str) -> tuple[int, bytes]:
        found = await self._obstore.get_async(self._store, name, options={"range": {"suffix": TAIL}})
        return found.meta["size"], bytes(await found.bytes_async())

    def sizes(self, folder: str = "", *, behind: str = "") -> Iterator[tuple[str, int]]:
        """Names and bytes of what is stored, in the order of the names."""
        pages = self._obstore.list(self._store, prefix=folder or None, offset=behind or None, chunk_size=LISTED)
        while page := self._ask(lambda: _next(pages)):
            yield from ((one["path"], one["size"]) for one in page)

    def remove(self, names: Sequence[str]) -> None:
        """What is not there is no error."""
        self._ask(lambda: self._obstore.delete_async(self._store, list(names)))

    def fetch(self, name: str, target: BinaryIO) -> None:
        pieces = self._ask(lambda: self._obstore.get_async(self._store, name)).stream(min_chunk_size=LEAST)
        while piece := self._ask(lambda: _next(pieces)):
            target.write(memoryview(piece))

    def _range(self, name: str, start: int, length: int) -> bytes:
        return bytes(self._ask(lambda: self._obstore.get_range_async(self._store, name, start=start, length=length)))

    def _ask(self, work: Callable[[], Awaitable[T]], seconds: float = 0.0) -> T:
        if _first_process() != os.getpid():
            raise Unreachable(errno.ECHILD, FORKED)
        with _as_os_errors():
            return within(seconds or self._limits.answer, work)


@cache
def _first_process() -> int:
    """That began to use the client library. Its threads are not in one that was forked since: it would only wait."""
    return os.getpid()


async def _next(stream: AsyncIterator[T]) -> T | None:
    return await anext(stream, None)


class ObjectReader(Seekable):
    """An object as a stream that can seek, a stretch of it in memory.

    Who reads on where the last stretch ended gets twice as much with one request, MOST at most; who
    jumps pays for LEAST. A read gives as many bytes as were asked for, fewer only at the end.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, tail: bytes) -> None:
        super().__init__(size)
        self._fetch = fetch
        self._begin, self._held = size - len(tail), tail
        self._ahead = LEAST

    def readinto(self, buffer: Any) -> int:
        wanted = max(0, min(len(buffer), self._size - self._at))
        done = 0
        while done < wanted:
            if not self._begin <= self._at < self._begin + len(self._held):
                self._fetch_at(wanted - done)
            inside = self._at - self._begin
            count = min(wanted - done, len(self._held) - inside)
            buffer[done : done + count] = memoryview(self._held)[inside : inside + count]
            done += count
            self._at += count
        return done

    def _fetch_at(self, wanted: int) -> None:
        reads_on = self._at == self._begin + len(self._held)
        self._ahead = min(MOST, self._ahead * 2) if reads_on else LEAST
        self._begin = self._at if reads_on else self._at // STEP * STEP
        length = min(max(self._at - self._begin + wanted, self._ahead), self._size - self._begin)
        self._held = self._fetch(self._begin, length)
        if len(self._held) != length:
            raise OSError(errno.EIO, f"the bucket gave {len(self._held)} bytes of {length}")


def bucket_at(address: str, limits: Limits | None = None) -> Bucket:
    """`s3://bucket/prefix`. Nothing is asked of the service yet. Raises ImproperlyConfigured."""
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ImproperlyConfigured(
            f"COUNTERFOIL_ARTIFACTS is {address}, and obstore, which speaks to buckets, is not installed: "
            "pip install 'counterfoil[s3]', or name a folder"
        ) from None
    parts = urlsplit(address)
    if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
        raise ImproperlyConfigured("COUNTERFOIL_ARTIFACTS has to be s3://BUCKET/PREFIX; keys come from the environment")
    store = S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        config={"checksum_algorithm": "SHA256"},
        # With options of ours the library no longer looks for this one in the environment.
        client_options={"connect_timeout": "5s", "timeout": "60s", "allow_http": Env().bool("AWS_ALLOW_HTTP", False)},
        retry_config={"max_retries": 4, "retry_timeout": SECONDS},
    )
    return Bucket(store, limits)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as missing:
        if NO_BUCKET in str(missing):
            raise Unreachable(errno.EIO, "there is no such bucket") from None
        raise FileNotFoundError(errno.ENOENT, _first_line(missing)) from None
    except TimeoutError:
        raise Unreachable(errno.ETIMEDOUT, "the bucket did not answer in time") from None
    except (BaseError, OSError, ValueError) as error:
        raise Unreachable(errno.EIO, _reason(error)) from None


def _reason(error: Exception) -> str:
    """Without address, tries and times: the same every time, so that a problem is told once."""
    said = _first_line(error).rpartition(" - ")[2]
    status = said.removeprefix("Server returned non-2xx status code: ")
    return f"the bucket answered {status}" if status != said else f"the bucket does not answer: {said}"


def _first_line(error: Exception) -> str:
    """Behind it the library prints the answer's body and its own state."""
    return str(error).partition("\n")[0][:300]
