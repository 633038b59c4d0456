"""Content of any size as a download that no browser opens as a page of ours (reliability.md section 0, 7).

One range at a time: several are answered with the whole, so that no request makes more work than one
reading. The content is read a piece at a time, whatever its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase

from dashboard.text.responses import sandboxed

PIECE = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def download(
    request: HttpRequest, stream: BinaryIO, *, size: int, name: str, content_type: str, etag: str
) -> HttpResponseBase:
    """Closes the stream. `name` holds letters, digits, dashes and one dot: it goes into a header as it is."""
    quoted = f'"{etag}"' if etag else ""
    if etag and quoted in request.headers.get("If-None-Match", ""):
        stream.close()
        return _revalidated(HttpResponseNotModified(), quoted)
    span = _asked_range(request, size, quoted)
    if span is not None and span[0] >= span[1]:
        stream.close()
        return _revalidated(HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"}), quoted)
    start, end = span or (0, size)
    response = StreamingHttpResponse(
        _Pieces(stream, start, end), status=206 if span else 200, content_type=content_type
    )
    response["Content-Length"] = str(end - start)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Accept-Ranges"] = "bytes"
    if span:
        response["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return _revalidated(response, quoted)


def _revalidated(response: HttpResponseBase, etag: str) -> HttpResponseBase:
    response["Vary"] = "Cookie"
    if etag:
        response["ETag"] = etag
    return sandboxed(response)


def _asked_range(request: HttpRequest, size: int, etag: str) -> tuple[int, int] | None:
    """Half-open; empty when it lies behind the end; None for the whole, also when the content changed since."""
    found = _RANGE.fullmatch(request.headers.get("Range", "").replace(" ", ""))
    if found is None or found[1] == found[2] == "" or request.headers.get("If-Range", etag) != etag:
        return None
    if found[1] == "":
        return max(0, size - int(found[2])), size if int(found[2]) else 0
    last = int(found[2]) if found[2] else size - 1
    return None if last < int(found[1]) and found[2] else (int(found[1]), min(last + 1, size))


class _Pieces:
    """Closed by the response, also when nobody read it."""

    def __init__(self, stream: BinaryIO, start: int, end: int) -> None:
        self._stream, self._left = stream, end - start
        stream.seek(start)

    def __iter__(self) -> Iterator[bytes]:
        while self._left > 0 and (piece := self._stream.read(min(PIECE, self._left))):
            self._left -= len(piece)
            yield piece

    def close(self) -> None:
        self._stream.close()
