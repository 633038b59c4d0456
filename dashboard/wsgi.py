"""The WSGI application, for `serve`, `demo` and any other server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from dashboard.garbage_collection import collect_rarely, exclude_loaded

# CPython keeps frames in pieces of 16 KB and maps and unmaps a piece for each call that goes past the end of one: in
# a loop at that depth of the stack, of which a page has several, in each turn. A frame that is larger than a piece, in
# slots of eight bytes, gets a piece of 1 MB, and what it leaves free is for all frames above it.
LARGE_FRAME = 70_000


def _load_application() -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """Imports all views, so that no request does and no collection of garbage visits them."""
    handler: WSGIHandler = get_wsgi_application()
    _ = get_resolver().url_patterns
    exclude_loaded()
    collect_rarely()

    def answer_above_a_large_frame(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return handler(environ, start_response)

    code = answer_above_a_large_frame.__code__
    answer_above_a_large_frame.__code__ = code.replace(co_stacksize=LARGE_FRAME)
    return answer_above_a_large_frame


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
application = _load_application()
