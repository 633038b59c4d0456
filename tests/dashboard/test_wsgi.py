"""The application that servers load."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from django.core.handlers.wsgi import WSGIHandler


@pytest.fixture
def application() -> Iterator[Any]:
    """The application; to import it also changes how often its process looks for garbage."""
    thresholds = gc.get_threshold()
    from dashboard.wsgi import application

    yield application
    gc.set_threshold(*thresholds)


@pytest.mark.django_db
def test_a_request_is_answered_above_a_frame_that_is_larger_than_a_piece_of_the_stack(application: Any) -> None:
    environ: dict[str, object] = {"PATH_INFO": "/sign-in/", "HTTP_HOST": "localhost"}
    setup_testing_defaults(environ)
    lines: list[str] = []
    response = application(environ, lambda status, _headers, _error=None: lines.append(status))
    assert b"".join(response).strip()
    assert lines == ["200 OK"]
    assert not isinstance(application, WSGIHandler)
    assert application.__code__.co_stacksize > 16_384 // 8  # slots of eight bytes
