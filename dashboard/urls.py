"""The addresses of all pages. A page and its fragments have one address (style.md 9.5); names are noun-view."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponseBase
from django.urls import path
from django.views.generic import RedirectView

from dashboard.views import (
    accounts,
    artifacts,
    audit,
    calls,
    comparisons,
    experiments,
    filters,
    insights,
    intake,
    masking,
    notes,
    plans,
    recall,
    recordings,
    renderers,
    runs,
    search,
    sharing,
    site,
    tokens,
    tools,
    verdicts,
    workspace,
)

handler400 = "dashboard.views.site.bad_request"
handler403 = "dashboard.views.site.no_permission"
handler404 = "dashboard.views.site.not_found"
handler500 = "dashboard.views.site.failed"

READING = ["get", "head"]


def moved_to(name: str) -> Callable[..., HttpResponseBase]:
    """Redirects to the page of that name with the query string."""
    return RedirectView.as_view(pattern_name=name, query_string=True, http_method_names=READING)


urlpatterns = [
    path("", RedirectView.as_view(pattern_name="run-list", http_method_names=READING), name="home"),
    path("healthz", site.healthz, name="healthz"),
    path("sign-in/", accounts.sign_in, name="sign-in"),
    path("sign-in/<str:token>/", accounts.sign_in_by_link, name="sign-in-link"),
    path("sign-out/", accounts.sign_out, name="sign-out"),
    path("runs/", runs.index, name="run-list"),
    path("runs/import/", recordings.new, name="import-new"),
    path("runs/views/", filters.save_view, name="view-save"),
    path("runs/views/<int:pk>/delete/", filters.delete_view, name="view-delete"),
    path("runs/against/", runs.against_chosen, name="run-against-chosen"),
    path("runs/<uuid:pk>/against/", runs.against_original, name="run-against-original"),
    path("runs/<uuid:pk>/against/<uuid:other>/", runs.against, name="run-against"),
    path("runs/<uuid:pk>/", workspace.run, name="run-detail"),
    path("runs/<uuid:pk>/context", workspace.run_context, name="run-context"),
    path("runs/<uuid:pk>/replay", workspace.run_replay, name="run-replay"),
    path("runs/<uuid:pk>/plan", plans.plan, name="run-plan"),
    path("runs/<uuid:pk>/confirmation", plans.confirmation, name="run-confirmation"),
    path("runs/<uuid:pk>/cancel/", plans.cancel_run, name="run-cancel"),
    path("runs/<uuid:pk>/delete/", runs.delete, name="run-delete"),
    path("runs/<uuid:pk>/<int:position>/<slug:tab>", workspace.step, name="run-step"),
    path("search/", search.index, name="search-index"),
    path("calls/", calls.index, name="call-list"),
    path("calls/export/", calls.export, name="call-export"),
    path("filters/completions/", filters.completions, name="filter-completions"),
    path("calls/<uuid:pk>/", workspace.call, name="call-detail"),
    path("runs/<uuid:pk>/issue/", sharing.run_issue, name="run-issue"),
    path("calls/<uuid:pk>/issue/", sharing.call_issue, name="call-issue"),
    path("runs/<uuid:pk>/share/", sharing.run, name="run-share"),
    path("calls/<uuid:pk>/share/", sharing.call, name="call-share"),
    path("runs/<uuid:pk>/notes/", notes.run_notes, name="run-notes"),
    path("runs/<uuid:pk>/annotate/", notes.annotate_run, name="run-annotate"),
    path("calls/<uuid:pk>/notes/", notes.call_notes, name="call-notes"),
    path("calls/<uuid:pk>/annotate/", notes.annotate_call, name="call-annotate"),
    path("calls/chosen/", notes.choose_calls, name="call-chosen"),
    path("review/", notes.review_list, name="review-list"),
    path("review/<int:pk>/", notes.next_in_queue, name="review-next"),
    path("notes/<int:pk>/", notes.detail, name="note-detail"),
    path("calls/<uuid:pk>/half/<str:half>/", calls.half, name="call-half"),
    path("calls/<uuid:pk>/found/<str:half>/", calls.found, name="call-found"),
    path("calls/<uuid:pk>/raw/<str:surface>", calls.raw, name="call-raw"),
    path("calls/<uuid:pk>/variants/", calls.variants, name="call-variants"),
    path("artifacts/<uuid:pk>/", artifacts.detail, name="artifact-detail"),
    path("artifacts/<uuid:pk>/fold/", artifacts.fold, name="artifact-fold"),
    path("artifacts/<uuid:pk>/difference/", artifacts.difference, name="artifact-difference"),
    path("artifacts/<uuid:pk>/follow/", artifacts.follow, name="artifact-follow"),
    path("artifacts/<uuid:pk>/find/", artifacts.find, name="artifact-find"),
    path("artifacts/<uuid:pk>/raw", artifacts.raw, name="artifact-raw"),
    path("artifacts/<uuid:pk>/picture", artifacts.picture, name="artifact-picture"),
    path("runs/<uuid:pk>/<int:position>/<slug:tab>/reveal/", audit.reveal_step, name="step-reveal"),
    path("artifacts/<uuid:pk>/reveal/", audit.reveal_artifact, name="artifact-reveal"),
    path("audit/", audit.index, name="audit-list"),
    path("audit/export/<str:form>", audit.export, name="audit-export"),
    path("tokens/", tokens.index, name="token-list"),
    path("tokens/<int:pk>/revoke/", tokens.revoke, name="token-revoke"),
    path("masking/", masking.index, name="mask-list"),
    path("masking/<slug:name>/", masking.change, name="mask-change"),
    path("experiments/", experiments.index, name="experiment-list"),
    path("experiments/drifted/", renderers.drifted, name="receipt-drift"),
    path("experiments/renderers/<slug:name>/", renderers.detail, name="renderer-detail"),
    path("experiments/renderers/<slug:name>/canonical/", renderers.canonical, name="renderer-canonical"),
    path("experiments/renderers/<slug:name>/paste/", renderers.paste, name="renderer-paste"),
    path("experiments/renderers/<slug:name>/templates/", renderers.editor, name="template-new"),
    path("experiments/renderers/<slug:name>/templates/<slug:template>/", renderers.editor, name="template-detail"),
    path(
        "experiments/renderers/<slug:name>/templates/<slug:template>/retire/", renderers.retire, name="template-retire"
    ),
    path("experiments/new/", comparisons.new, name="comparison-new"),
    path("experiments/recall/", recall.index, name="recall-list"),
    path("experiments/recall/<uuid:pk>/", recall.detail, name="recall-detail"),
    path("experiments/recall/<uuid:pk>/calls/", recall.calls, name="recall-calls"),
    path("experiments/recall/<uuid:pk>/limits/", recall.limits, name="recall-limits"),
    path("experiments/recall/<uuid:pk>/calls/<uuid:call>/", recall.call, name="recall-call"),
    path("experiments/<uuid:pk>/", comparisons.detail, name="comparison-detail"),
    path("experiments/<uuid:pk>/calls/", comparisons.calls, name="comparison-calls"),
    path("experiments/<uuid:pk>/calls/<uuid:call>/", comparisons.pair, name="comparison-pair"),
    path("experiments/<uuid:pk>/verdicts/", verdicts.index, name="comparison-verdicts"),
    path("experiments/<uuid:pk>/review/<int:ordinal>/", verdicts.review, name="comparison-review"),
    path("experiments/<uuid:pk>/export/<str:what>", verdicts.export, name="comparison-export"),
    # Addresses of earlier versions:
    path("runs/<uuid:pk>/model/", moved_to("run-context"), name="run-model"),
    path("runs/<uuid:pk>/replay/", moved_to("run-replay"), name="run-old-replay"),
    path("runs/<uuid:pk>/variants/", moved_to("run-replay"), name="run-variants"),
    path("renderers/", experiments.moved, name="old-renderer-list"),
    path("renderers/drifted/", experiments.moved, {"rest": "drifted/"}, name="old-receipt-drift"),
    path("renderers/<path:rest>", experiments.moved, {"folder": "renderers/"}, name="old-renderer"),
    path("comparisons/", experiments.moved, name="old-comparison-list"),
    path("comparisons/<path:rest>", experiments.moved, name="old-comparison"),
    path("tools/", tools.index, name="tool-list"),
    path("tools/<str:name>/", tools.detail, name="tool-detail"),
    path("insights/", insights.index, name="insights-index"),
    path("problems/", recordings.index, name="problem-list"),
    path("problems/<int:pk>/raw", recordings.raw, name="problem-raw"),
    path("setup/", site.setup, name="setup"),
    path("api/v1/records", intake.records, name="api-records"),
    path("api/v1/artifacts/<str:sha256>", intake.artifact, name="api-artifact"),
    path("api/v1/hooks/claude-code", intake.claude_code_hook, name="api-hook"),
    path("v1/traces", intake.traces, name="api-traces"),
    path("api/v1/limits", intake.show_limits, name="api-limits"),
    path("docs/", site.docs_index, name="docs-index"),
    path("docs/<slug:name>/", site.docs_page, name="docs-page"),
]
