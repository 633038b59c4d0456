"""The pages of tools: the list of built-in definitions, and one of them."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.text.params import Params
from dashboard.tools.tool_detail import load_tool_page
from dashboard.tools.tool_list import load_tool_list
from dashboard.views.site import render_page


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    page = load_tool_list(request.project, is_whole=Params(request.GET).flag("all"))
    return render_page(request, "tools/list.html", {"page": page})


@require_safe
def detail(request: OperatorRequest, name: str) -> HttpResponse:
    query = request.GET
    try:
        page = load_tool_page(request.project, name, sort=query.get("sample", ""), form=query.get("form", ""))
    except KeyError:
        raise Http404("There is no such tool, or it has no such sample or form.") from None
    return render_page(request, "tools/detail.html", {"page": page}, partial="gallery")
