"""The masking rules of a project: the list, a new rule, trying one on recorded data, switching and deleting."""

from __future__ import annotations

from dataclasses import replace

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.models import AuditEntry
from dashboard.project_rules import (
    RuleDraft,
    RuleRefused,
    as_rule,
    delete_rule,
    find_rule,
    list_rules,
    save_rule,
    switch_rule,
)
from dashboard.rule_trials import RuleTrial, try_rule
from dashboard.views.site import render_page
from envelopes.text.deadline import current_deadline

REFUSAL = "Only operators of the project open its masking rules."
UNPROCESSABLE = 422


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: OperatorRequest) -> HttpResponse:
    """A post with `do=save` saves the draft; another one tries it on recorded data."""
    require_operator(request, REFUSAL)
    if request.method != "POST":
        return _render(request)
    draft = RuleDraft(*(request.POST.get(field, "") for field in ("name", "keys", "pattern")))
    try:
        if request.POST.get("do") != "save":
            rule = as_rule(replace(draft, name=draft.name or "new-rule").build(request.project))
            trial = try_rule(request.project, rule, current_deadline())
            return _render(request, draft, trial=trial)
        row = save_rule(request.project, draft, request.user)
    except RuleRefused as refusal:
        return _render(request, draft, refusal=refusal)
    means = "a pattern" if row.pattern else "names of keys"
    record_request(request, AuditEntry.Action.SETTING, f"masking rule {row.name} added, by {means}")
    return redirect("mask-list")


@require_POST
def change(request: OperatorRequest, name: str) -> HttpResponse:
    """Does with a rule what `do` says: off, on, delete; without it the rule is tried on recorded data."""
    require_operator(request, REFUSAL)
    rule = find_rule(request.project, name)
    if rule is None:
        raise Http404
    action = request.POST.get("do", "")
    if action in ("on", "off"):
        switch_rule(request.project, name, is_off=action == "off")
        record_request(request, AuditEntry.Action.SETTING, f"masking rule {name} switched {action}")
    elif action == "delete":
        if not delete_rule(request.project, name):
            raise Http404
        record_request(request, AuditEntry.Action.SETTING, f"masking rule {name} deleted")
    else:
        return _render(request, trial=try_rule(request.project, rule, current_deadline()))
    return redirect("mask-list")


def _render(
    request: OperatorRequest,
    draft: RuleDraft | None = None,
    *,
    refusal: RuleRefused | None = None,
    trial: RuleTrial | None = None,
) -> HttpResponse:
    rules = list_rules(request.project)
    context = {
        "own": [rule for rule in rules if rule.is_own],
        "built_in": [rule for rule in rules if not rule.is_own],
        "draft": draft or RuleDraft(),
        "refusal": refusal,
        "trial": trial,
        "is_masking": settings.MASK,
        "seconds": settings.ANSWER_SECONDS,
    }
    return render_page(request, "masking/list.html", context, status=UNPROCESSABLE if refusal else 200)
