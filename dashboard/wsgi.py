"""The application as a server of one's own loads it; `serve` and `demo` load it from here too."""

from __future__ import annotations

import gc
import os

from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver


def _loaded() -> WSGIHandler:
    """With all views imported, and the collector told that what lives now stays: else each of its full passes
    looks at hundreds of thousands of objects in the middle of somebody's page.

    A page makes up to a hundred thousand objects and hardly a cycle: of a result of 1 MB the collector took 14 ms
    of 85, looking after every 700 at what was about to go anyway.
    """
    application = get_wsgi_application()
    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    return application


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
application = _loaded()
