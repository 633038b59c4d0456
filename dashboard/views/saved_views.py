"""Keeping the Runs page's filter and sort under a name, and deleting such a view."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.accounts.access import OperatorRequest
from dashboard.runs.run_list import ListState, run_page, sidebar
from dashboard.runs.saved_views import NotSaved, forget_view, save_view, saved_views, view_box

UNPROCESSABLE = 422


@require_POST
def save(request: OperatorRequest) -> HttpResponse:
    """The answer leads to the view, or shows the list again with what is wrong beside the name."""
    _require_operator(request)
    state = ListState.from_address(request.POST)
    try:
        name = request.POST.get("name", "")
        kept = save_view(request.project, request.user, name=name, text=state.text, sort=state.sort)
    except NotSaved as refused:
        return _refused(request, state, refused)
    return redirect(f"{reverse('run-list')}?view={kept.pk}")


@require_POST
def delete(request: OperatorRequest, pk: int) -> HttpResponse:
    """The list stays as it was filtered."""
    _require_operator(request)
    view = get_object_or_404(request.project.saved_views, pk=pk)
    forget_view(view)
    return redirect(reverse("run-list") + ListState(view.query, view.sort, "", "").address())


def _require_operator(request: OperatorRequest) -> None:
    if not request.membership.may_write:
        raise PermissionDenied("Only operators of the project keep and delete views.")


def _refused(request: OperatorRequest, state: ListState, refused: NotSaved) -> HttpResponse:
    page = run_page(request.project, state)
    views = view_box(saved_views(request.project), text=state.text, sort=state.sort, asked="", refused=refused)
    context = {"page": page, "facets": sidebar(request.project, page), "peek": None, "views": views}
    return render(request, "runs/list.html", context, status=UNPROCESSABLE)
