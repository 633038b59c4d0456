"""Headers for responses that contain recorded bytes instead of a page."""

from __future__ import annotations

from typing import TypeVar

from django.http.response import HttpResponseBase

# A browser must not run recorded bytes, whatever they contain (reliability.md section 0, 7).
SANDBOX_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

Response = TypeVar("Response", bound=HttpResponseBase)


def sandboxed(response: Response, *, file_name: str = "") -> Response:
    """Keeps browsers from running, framing or sniffing the content; a `file_name` makes it a download.

    `file_name` is written between quotes as it is, so callers pass only names that they made themselves.
    """
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = SANDBOX_POLICY
    if file_name:
        response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response
