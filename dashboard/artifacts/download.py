"""Serves content of any size as a download that a browser never opens as one of our pages.

One range at a time: a request for several gets the whole content, so that no request causes more than one reading.
The content is read a piece at a time (reliability.md sections 0 and 7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase

from dashboard.text.responses import sandboxed

PIECE = 256 * 1024  # bytes
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def download(
    request: HttpRequest, stream: BinaryIO, *, size: int, name: str, content_type: str, etag: str
) -> HttpResponseBase:
    """Closes the stream. `name` holds letters, digits, dashes and one dot: it goes into a header as it is."""
    quoted_etag = f'"{etag}"' if etag else ""
    span = _parse_range(request, size, quoted_etag)
    if etag and quoted_etag in request.headers.get("If-None-Match", ""):
        stream.close()
        response: HttpResponseBase = HttpResponseNotModified()
    elif span is not None and span[0] >= span[1]:
        stream.close()
        response = HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    else:
        start, end = span or (0, size)
        pieces = _Pieces(stream, start, end)
        response = StreamingHttpResponse(pieces, status=206 if span else 200, content_type=content_type)
        response["Content-Length"] = str(end - start)
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Accept-Ranges"] = "bytes"
        if span:
            response["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    response["Vary"] = "Cookie"
    if etag:
        response["ETag"] = quoted_etag
    return sandboxed(response)


def _parse_range(request: HttpRequest, size: int, etag: str) -> tuple[int, int] | None:
    """The requested bytes, half-open; empty when they lie behind the end.

    None for the whole content: without a range, with several, or when the content changed since.
    """
    match = _RANGE.fullmatch(request.headers.get("Range", "").replace(" ", ""))
    if match is None or match[1] == match[2] == "" or request.headers.get("If-Range", etag) != etag:
        return None
    if match[1] == "":
        return max(0, size - int(match[2])), size if int(match[2]) else 0
    last = int(match[2]) if match[2] else size - 1
    return None if last < int(match[1]) and match[2] else (int(match[1]), min(last + 1, size))


class _Pieces:
    """Closed by the response, also when nobody read it."""

    def __init__(self, stream: BinaryIO, start: int, end: int) -> None:
        self._stream, self._remaining = stream, end - start
        stream.seek(start)

    def __iter__(self) -> Iterator[bytes]:
        while self._remaining > 0 and (piece := self._stream.read(min(PIECE, self._remaining))):
            self._remaining -= len(piece)
            yield piece

    def close(self) -> None:
        self._stream.close()
