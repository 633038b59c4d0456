"""Insights: numbers over the calls of a filter, what differs in some of them, and what their requests cost."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.experiments.quoted_tokens import load_quoted_tokens
from dashboard.insights.call_numbers import InsightsParams, load_call_numbers
from dashboard.insights.facet_differences import load_differences
from dashboard.insights.request_costs import load_costs
from dashboard.views.site import render_page


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    params = InsightsParams(request.GET)
    params.begin_with_last_days(request.project)
    query = params.build_query()
    context: dict[str, Any] = {"params": params, "query": query, "views": params.link_views()}
    context["problems"] = (*query.problems, *params.problems)
    if query.problems:
        return render_page(request, "insights/index.html", context)
    if params.show == "differs":
        context["differences"] = load_differences(request.project, query, params)
    elif params.show == "cost":
        context["costs"] = load_costs(request.project, params)
    elif params.show == "quoted":
        context["quoted"] = load_quoted_tokens(request.project, query, params)
    else:
        context["numbers"] = load_call_numbers(request.project, query, params)
    return render_page(request, "insights/index.html", context)
