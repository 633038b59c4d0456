"""The operator documentation that ships with the program."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import OperatorRequest
from dashboard.docs.markdown import document, documents


@require_GET
def index(request: OperatorRequest) -> HttpResponse:
    return render(request, "docs/index.html", {"documents": documents()})


@require_GET
def page(request: OperatorRequest, name: str) -> HttpResponse:
    chosen = document(name)
    if chosen is None:
        raise Http404
    return render(request, "docs/page.html", {"document": chosen, "documents": documents()})
