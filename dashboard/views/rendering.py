"""One URL serves the page and its fragment; the view names the fragment, never the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from dashboard.accounts.access import OperatorRequest


def render_page(request: OperatorRequest, template: str, context: Mapping[str, Any], *, partial: str) -> HttpResponse:
    """Render the page, or only `partial` of it when htmx asks. A boosted visit is a visit: the whole page."""
    wants_part = bool(request.htmx) and not request.htmx.boosted
    response = render(request, f"{template}#{partial}" if wants_part else template, context)
    patch_vary_headers(response, ["HX-Request"])
    return response
