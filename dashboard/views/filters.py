"""The completions of a filter box."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.filters.language import MAX_CHARACTERS
from dashboard.filters.names import complete
from dashboard.text.params import Params


@require_safe
def completions(request: OperatorRequest) -> HttpResponse:
    params = Params(request.GET)
    text = params.text("q", longest=MAX_CHARACTERS, strip=False)
    at = params.integer("at", default=len(text), most=len(text))
    return render(request, "filters/_completions.html", {"completions": complete(request.project, text, at)})
