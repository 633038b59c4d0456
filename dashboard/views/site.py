"""Pages that belong to no noun (Setup, documentation, health check, errors), and how every page is rendered.

An error page states what went wrong in plain words and repeats nothing of the request's content.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_not_required
from django.db import Error, connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.log import log_response
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest, find_other_project
from dashboard.api.intake import json_response
from dashboard.api.page_data import page_data
from dashboard.api.reading import NoSuchStep
from dashboard.faults import Outage, drop_connection, find_outage
from dashboard.middleware import PROGRAMS, answer_error
from dashboard.text.markdown import document, documents
from dashboard.text.params import UnusableAddress
from dashboard.text.responses import prefers_json, render_error

PAGE = "errors/page.html"
METRICS = "/v1/metrics"  # where an exporter of OpenTelemetry sends them unless it is told not to


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A session that could not be saved comes as a bad request of Django's, too."""
    if outage := find_outage(exception):
        return _answer_outage(request, outage)
    text = "Its address, host or form is not one that this dashboard understands."
    if not isinstance(exception, UnusableAddress):
        return render_error(400, "This request cannot be read", text)
    response = answer_error(request, 400, "This request cannot be read", str(exception))
    log_response("%s: %s", exception, request.path, response=response, request=request)  # one line, no traceback
    return response


def no_permission(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`exception` has our own sentence when a view or a middleware raised it."""
    text = str(exception) or "Your role in this project does not include this. An operator can do it."
    response = _render(request, 403, "Not allowed", text)
    log_response("Not allowed: %s", request.path, response=response, request=request)  # one line, no traceback
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = "It was never in this project, or it was deleted. The address may also be incomplete."
    if isinstance(exception, NoSuchStep):
        text = str(exception)
    elif request.path_info == METRICS:
        text = "Metrics are not accepted. Traces go to /v1/traces, and logs to /v1/logs."
    if request.path_info.startswith(PROGRAMS):
        return answer_error(request, 404, "Not found", text)
    other = find_other_project(request)
    if other is None:
        return _render(request, 404, "Not found", text)
    context = {
        "title": "In another project",
        "other": other,
        "url": f"{request.path}?{urlencode({'project': other.slug})}",
    }
    return render(request, "errors/other_project.html", context, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """Django calls this while it handles the exception, whether a view, a middleware or a template raised it."""
    if outage := find_outage(sys.exc_info()[1]):
        return _answer_outage(request, outage)
    text = "Nothing that was stored is lost. The server's log has the reason."
    return answer_error(request, 500, "Server error", text)


def _answer_outage(request: HttpRequest, outage: Outage) -> HttpResponse:
    """One line in the log instead of a traceback: an outage is no fault of the program."""
    drop_connection()
    response = answer_error(request, outage.status, outage.title, outage.sentence, retry_after=outage.retry_after)
    log_response("%s: %s (%s)", outage.title, request.path, sys.exc_info()[1], response=response, request=request)
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = "The form was too old, or it came from another site. Go back, reload the page and try again."
    return _render(request, 403, "This form was not accepted", text)


def _render(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    if prefers_json(request):
        return answer_error(request, status, title, text)
    return render(request, PAGE, {"title": title, "text": text}, status=status)


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Status 200 when the database answers a query, 503 when it does not."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return JsonResponse({"ok": False}, status=503)
    return JsonResponse({"ok": True})


@require_safe
def setup(request: OperatorRequest) -> HttpResponse:
    return render_page(request, "setup/index.html", {"problem_count": request.project.problems.count()})


@require_safe
def docs_index(request: OperatorRequest) -> HttpResponse:
    return render(request, "docs/index.html", {"documents": documents()})


@require_safe
def docs_page(request: OperatorRequest, name: str) -> HttpResponse:
    chosen = document(name)
    if chosen is None:
        raise Http404
    return render(request, "docs/page.html", {"document": chosen, "documents": documents()})


def is_visit(request: OperatorRequest) -> bool:
    """False where htmx asks for a part of the page. A boosted visit is a visit: it gets the whole page."""
    return not request.htmx or bool(request.htmx.boosted)


def render_page(
    request: OperatorRequest, template: str, context: Mapping[str, Any], *, partial: str = "", status: int = 200
) -> HttpResponse:
    """Renders the page, or only `partial` of it when htmx asks; its data for a client that prefers JSON."""
    if prefers_json(request):
        response = json_response(page_data(context), status)
    else:
        is_whole = not partial or is_visit(request)
        response = render(request, template if is_whole else f"{template}#{partial}", context, status=status)
    patch_vary_headers(response, ["Accept", *(["HX-Request"] if partial else [])])
    return response
