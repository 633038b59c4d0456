"""The search over everything, which the box in the head of each page asks."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.filters.language import MAX_CHARACTERS
from dashboard.search_page import find_address, load_search_page
from dashboard.text.params import Params
from dashboard.views.site import render_page


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    """Lists what `?q=` finds; an id or an address of one object opens it at once."""
    text = Params(request.GET).text("q", longest=MAX_CHARACTERS + 1)
    if address := find_address(request.project, text):
        return redirect(address)
    return render_page(request, "search/results.html", {"page": load_search_page(request.project, text)})
