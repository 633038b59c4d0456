"""The Artifact page and the downloads. An artifact is found by its id, never by a path."""

from __future__ import annotations

import os
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.accounts.access import OperatorRequest
from dashboard.artifacts.artifact_detail import artifact_page
from dashboard.artifacts.content import AbsenceCause, NoContent, open_content, open_stream
from dashboard.artifacts.difference import difference_page
from dashboard.artifacts.download import download
from dashboard.artifacts.json_tree import tree_of
from dashboard.artifacts.picture import picture_of
from dashboard.artifacts.queries import artifact_of
from dashboard.artifacts.search import asked_of, hit_from, slice_of
from dashboard.artifacts.tail import followed
from dashboard.models import Artifact
from dashboard.views.calls import file_name
from dashboard.views.rendering import render_page
from envelopes.storage.encoding import SNIFFED


@require_safe
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = artifact_page(_artifact(request, pk), request.GET)
    shown = page.shown
    context = {
        "page": page,
        "artifact": page.artifact,
        "shown": shown,
        "asked": shown.asked if shown else None,
        "steps": shown.steps if shown else None,
    }
    return render_page(request, "artifacts/detail.html", context, partial="window")


@require_safe
def find(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The hits, a slice at a time; with `?next=` or `?before=` the way to one hit from a place."""
    artifact = _artifact(request, pk)
    query, found, absence = request.GET, None, None
    asked = asked_of(query, "utf-8")
    try:
        with open_content(artifact, query.get("encoding", "")) as content:
            asked = asked_of(query, content.index.encoding)
            if asked and asked.query and ("next" in query or "before" in query):
                return _to_hit(request, artifact, *hit_from(content, artifact, asked, query))
            found = slice_of(content, artifact, asked, query) if asked and asked.query else None
    except NoContent as no:
        absence = no.absence
    context = {"artifact": artifact, "asked": asked, "slice": found, "absence": absence, "steps": None}
    return render_page(request, "artifacts/find.html", context, partial="slice")


@require_safe
def fold(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The members of one JSON value, for the fold that was opened; without script its link leads to a page of them."""
    artifact = _artifact(request, pk)
    if not request.htmx:
        return redirect(f"{artifact.get_absolute_url()}?{request.GET.urlencode()}")
    try:
        with open_content(artifact) as content:
            branch = tree_of(content, request.GET)
    except NoContent as no:
        return _not_served(no)
    return render(request, "artifacts/_branch.html", {"artifact": artifact, "branch": branch})


@require_safe
def follow(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """What was added to a growing file since the cursor; 204 while nothing was."""
    artifact = _artifact(request, pk)
    if not request.htmx:
        return redirect(f"{artifact.get_absolute_url()}?tail&follow=1")
    found = followed(artifact, request.GET)
    if found is None:
        return HttpResponse(status=204)
    return render(request, "artifacts/_followed.html", {"artifact": artifact, "followed": found})


@require_safe
def difference(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """Beside the artifact that `?with=` names; without it, which others there are to choose from."""
    page = difference_page(_artifact(request, pk), request.project, request.GET)
    return render(request, "artifacts/difference.html", {"page": page, "artifact": page.artifact})


def _to_hit(request: OperatorRequest, artifact: Artifact, address: str, is_there: bool) -> HttpResponse:  # noqa: FBT001
    """Without another hit that way, back to the one that was stepped from."""
    if is_there:
        return redirect(address)
    said = {name: value for name, value in request.GET.dict().items() if name in ("q", "regex", "any_case", "errors")}
    here = request.GET.get("hit", "")
    is_from_hit = here.isdecimal() and len(here) < 16
    place = {"offset": max(0, int(here) - 160), "hit": here, "as": "text"} if is_from_hit else {}
    return redirect(f"{artifact.get_absolute_url()}?{urlencode(said | place | {'last': 1})}")


@require_safe
def raw(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """The whole content as a file to save: text where it came as text, bytes otherwise."""
    artifact = _artifact(request, pk)
    try:
        stream = open_stream(artifact)
    except NoContent as no:
        return _not_served(no)
    head = stream.read(SNIFFED)
    is_text = b"\0" not in head
    return download(
        request,
        stream,
        size=stream.seek(0, os.SEEK_END),
        name=file_name(artifact.role, artifact.pk, "txt" if is_text else "bin"),
        content_type="text/plain; charset=utf-8" if is_text else "application/octet-stream",
        etag=artifact.sha256,
    )


@require_safe
def picture(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """A picture for the page's own <img>, of the type that its bytes have and of few enough pixels."""
    artifact = _artifact(request, pk)
    try:
        stream = open_stream(artifact)
    except NoContent as no:
        return _not_served(no)
    found = picture_of(stream.read(SNIFFED))
    if found is None or not found.is_small_enough:
        stream.close()
        raise Http404
    return download(
        request,
        stream,
        size=stream.seek(0, os.SEEK_END),
        name=file_name(artifact.role, artifact.pk, found.media_type.removeprefix("image/")),
        content_type=found.media_type,
        etag=artifact.sha256,
    )


def _not_served(no: NoContent) -> HttpResponse:
    """A store that cannot be asked may have it: nobody should take that for an answer for good."""
    if no.absence.cause != AbsenceCause.UNREACHABLE:
        raise Http404
    return HttpResponse(f"{no}\n", status=503, content_type="text/plain", headers={"Retry-After": "30"})


def _artifact(request: OperatorRequest, pk: UUID) -> Artifact:
    artifact = artifact_of(request.project, pk)
    if artifact is None:
        raise Http404
    return artifact
