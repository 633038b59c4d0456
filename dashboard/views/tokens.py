"""The access tokens of a project: the list, a new one, which is shown once, and revoking."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.models import AccessToken, AuditEntry
from dashboard.tokens import NameTaken, create_token, revoke_token
from dashboard.views.site import render_page

REFUSAL = "Only operators of the project open its access tokens."
UNPROCESSABLE = 422


class TokenForm(forms.Form):
    name = forms.CharField(max_length=60)
    scope = forms.ChoiceField(choices=AccessToken.Scope.choices)


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: OperatorRequest) -> HttpResponse:
    """A new token is in the answer to its form and nowhere else."""
    require_operator(request, REFUSAL)
    if request.method != "POST":
        return _render(request)
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _render(request, form.data.get("name", "")[:60], refusal="Give a name of at most 60 characters.")
    name, scope = form.cleaned_data["name"], form.cleaned_data["scope"]
    try:
        token = create_token(request.project, name, scope, by=request.user.get_username())
    except NameTaken as taken:
        return _render(request, name, refusal=str(taken))
    record_request(request, AuditEntry.Action.SETTING, f"token {name} created for {scope}")
    return _render(request, token=token)


@require_POST
def revoke(request: OperatorRequest, pk: int) -> HttpResponse:
    require_operator(request, REFUSAL)
    token = get_object_or_404(request.project.tokens, pk=pk)
    if revoke_token(token):
        record_request(request, AuditEntry.Action.SETTING, f"token {token.name} revoked")
    return redirect("token-list")


def _render(request: OperatorRequest, name: str = "", *, refusal: str = "", token: str = "") -> HttpResponse:
    tokens = request.project.tokens.order_by("-pk")
    context = {"tokens": tokens, "name": name, "refusal": refusal, "token": token, "scopes": AccessToken.Scope.choices}
    return render_page(request, "accounts/tokens.html", context, status=UNPROCESSABLE if refusal else 200)
