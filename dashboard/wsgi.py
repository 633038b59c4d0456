"""The WSGI application, for `serve`, `demo` and any other server."""

from __future__ import annotations

import os

from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from dashboard.garbage_collection import collect_rarely, exclude_loaded


def _load_application() -> WSGIHandler:
    """Imports all views, so that no request does and no collection of garbage visits them."""
    application = get_wsgi_application()
    _ = get_resolver().url_patterns
    exclude_loaded()
    collect_rarely()
    return application


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
application = _load_application()
