"""The addresses of all pages. A page and its fragments have one address (style.md 9.5); names are noun-view."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from dashboard.views import (
    accounts,
    artifacts,
    audit,
    calls,
    comparisons,
    filters,
    masking,
    recordings,
    renderers,
    runs,
    site,
    tools,
    verdicts,
)

handler400 = "dashboard.views.site.bad_request"
handler403 = "dashboard.views.site.no_permission"
handler404 = "dashboard.views.site.not_found"
handler500 = "dashboard.views.site.failed"

READING = ["get", "head"]

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="run-list", http_method_names=READING), name="home"),
    path("healthz", site.healthz, name="healthz"),
    path("sign-in/", accounts.sign_in, name="sign-in"),
    path("sign-in/<str:token>/", accounts.sign_in_by_link, name="sign-in-link"),
    path("sign-out/", accounts.sign_out, name="sign-out"),
    path("runs/", runs.index, name="run-list"),
    path("runs/import/", recordings.new, name="import-new"),
    path("runs/views/", runs.save_view, name="view-save"),
    path("runs/views/<int:pk>/delete/", runs.delete_view, name="view-delete"),
    path("runs/<uuid:pk>/", runs.detail, name="run-detail"),
    path("runs/<uuid:pk>/model/", runs.model_view, name="run-model"),
    path("runs/<uuid:pk>/replay/", runs.replay, name="run-replay"),
    path(
        "runs/<uuid:pk>/variants/",
        RedirectView.as_view(pattern_name="run-replay", query_string=True, http_method_names=READING),
        name="run-variants",
    ),
    path("runs/<uuid:pk>/delete/", runs.delete, name="run-delete"),
    path("calls/", calls.index, name="call-list"),
    path("calls/export/", calls.export, name="call-export"),
    path("filters/completions/", filters.completions, name="filter-completions"),
    path("calls/<uuid:pk>/", calls.detail, name="call-detail"),
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
    path("calls/<uuid:pk>/reveal/", audit.reveal_call, name="call-reveal"),
    path("artifacts/<uuid:pk>/reveal/", audit.reveal_artifact, name="artifact-reveal"),
    path("audit/", audit.index, name="audit-list"),
    path("audit/export/<str:form>", audit.export, name="audit-export"),
    path("masking/", masking.index, name="mask-list"),
    path("masking/<slug:name>/", masking.change, name="mask-change"),
    path("renderers/", renderers.index, name="renderer-list"),
    path("renderers/drifted/", renderers.drifted, name="receipt-drift"),
    path("renderers/<slug:name>/", renderers.detail, name="renderer-detail"),
    path("renderers/<slug:name>/canonical/", renderers.canonical, name="renderer-canonical"),
    path("renderers/<slug:name>/paste/", renderers.paste, name="renderer-paste"),
    path("comparisons/", comparisons.index, name="comparison-list"),
    path("comparisons/new/", comparisons.new, name="comparison-new"),
    path("comparisons/<uuid:pk>/", comparisons.detail, name="comparison-detail"),
    path("comparisons/<uuid:pk>/calls/", comparisons.calls, name="comparison-calls"),
    path("comparisons/<uuid:pk>/calls/<uuid:call>/", comparisons.pair, name="comparison-pair"),
    path("comparisons/<uuid:pk>/verdicts/", verdicts.index, name="comparison-verdicts"),
    path("comparisons/<uuid:pk>/review/<int:ordinal>/", verdicts.review, name="comparison-review"),
    path("comparisons/<uuid:pk>/export/<str:what>", verdicts.export, name="comparison-export"),
    path("renderers/<slug:name>/templates/", renderers.editor, name="template-new"),
    path("renderers/<slug:name>/templates/<slug:template>/", renderers.editor, name="template-detail"),
    path("renderers/<slug:name>/templates/<slug:template>/retire/", renderers.retire, name="template-retire"),
    path("tools/", tools.index, name="tool-list"),
    path("tools/<str:name>/", tools.detail, name="tool-detail"),
    path("problems/", recordings.index, name="problem-list"),
    path("problems/<int:pk>/raw", recordings.raw, name="problem-raw"),
    path("docs/", site.docs_index, name="docs-index"),
    path("docs/<slug:name>/", site.docs_page, name="docs-page"),
]
