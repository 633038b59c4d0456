"""The tools that the model may call, and one of them."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import OperatorRequest
from dashboard.tools.tool_detail import tool_page
from dashboard.tools.tool_list import tool_list
from dashboard.views.rendering import render_page


@require_GET
def index(request: OperatorRequest) -> HttpResponse:
    return render(request, "tools/list.html", {"page": tool_list(request.project)})


@require_GET
def detail(request: OperatorRequest, name: str) -> HttpResponse:
    try:
        asked = request.GET
        page = tool_page(request.project, name, sort=asked.get("sample", ""), form=asked.get("form", ""))
    except KeyError:
        raise Http404("There is no such tool, or it has no such sample or form.") from None
    return render_page(request, "tools/detail.html", {"page": page}, partial="gallery")
