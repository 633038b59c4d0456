"""Sign-in and sign-out. Opening a one-time link only offers a button, so that a mail scanner cannot use it up."""

from __future__ import annotations

from django import forms
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts import (
    count_failure,
    explain_refusal,
    identify_client,
    is_blocked,
    remember_device,
    use_link,
)
from dashboard.audit import record_request
from dashboard.models import AuditEntry

REFUSED = "Wrong name or password."
BLOCKED = "Too many failed attempts for this name or from this address. Wait 15 minutes, or use a one-time link."


class SignInForm(forms.Form):
    name = forms.CharField(max_length=150)
    password = forms.CharField(max_length=4096, strip=False)


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _render_form(request)
    form = SignInForm(request.POST)
    name = str(form.data.get("name", ""))[:150]
    client = identify_client(request, name)
    if is_blocked(name, client):
        return _render_form(request, name, BLOCKED, status=429)
    user = authenticate(request, username=name, password=form.cleaned_data["password"]) if form.is_valid() else None
    if not isinstance(user, User):
        count_failure(name, client)
        return _render_form(request, name, REFUSED, status=403)
    return _sign_in(request, user, _destination(request), "with a password")


def _sign_in(request: HttpRequest, user: User, destination: str, way: str) -> HttpResponse:
    login(request, user)
    record_request(request, AuditEntry.Action.SIGN_IN, way)
    response = redirect(destination)
    remember_device(response, user)
    return response


def _render_form(request: HttpRequest, name: str = "", error: str = "", *, status: int = 200) -> HttpResponse:
    context = {"name": name, "error": error, "next": _destination(request)}
    return render(request, "accounts/sign_in.html", context, status=status)


def _destination(request: HttpRequest) -> str:
    """The page that asked for the sign-in, when it is one of this site; else the list of runs."""
    url = request.POST.get("next") or request.GET.get("next") or ""
    is_own = url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return url if is_own else reverse("run-list")


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    user = use_link(token) if request.method == "POST" else None
    if user is not None:
        return _sign_in(request, user, _destination(request), "with a one-time link")
    error = explain_refusal(token)
    return render(request, "accounts/sign_in_link.html", {"error": error}, status=410 if error else 200)


@login_not_required
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")
