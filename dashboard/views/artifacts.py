"""The Artifact page, its search, its comparison with another artifact, and the downloads.

An artifact is looked up by its id, never by a path.
"""

from __future__ import annotations

import os
from typing import BinaryIO
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.artifacts.artifact_detail import artifact_page, tail_since
from dashboard.artifacts.content import AbsenceCause, NoContent, download, open_content, open_stream
from dashboard.artifacts.difference import artifact_difference_page
from dashboard.artifacts.json_tree import load_json_level
from dashboard.artifacts.location import LARGEST
from dashboard.artifacts.search import CONTEXT_BYTES, find_hit_address, load_search_slice, parse_search
from dashboard.models import Artifact
from dashboard.text.images import read_image_header
from dashboard.text.masks import MaskedStream, mask_stream
from dashboard.text.params import Params, UnusableAddress
from dashboard.views.calls import file_name
from dashboard.views.site import render_page
from envelopes.storage.encoding import SNIFFED
from envelopes.text.deadline import current_deadline


@require_safe
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = artifact_page(_load_artifact(request, pk), Params(request.GET), current_deadline())
    view = page.view
    context = {
        "page": page,
        "artifact": page.artifact,
        "view": view,
        "search": view.search if view else None,
        "hit_links": view.hit_links if view else None,
    }
    return render_page(request, "artifacts/detail.html", context, partial="window")


@require_safe
def find(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The hits, a slice at a time; with `?next=` or `?before=` a redirect to the next or the previous hit."""
    artifact, params, deadline = _load_artifact(request, pk), Params(request.GET), current_deadline()
    search_slice, absence = None, None
    search = parse_search(params, "utf-8")
    if request.htmx and not request.htmx.boosted and not (search and search.query):
        problem = f"This cannot be searched for: {search.problem}." if search else "Give the text to find as q=."
        raise UnusableAddress(problem)
    try:
        with open_content(artifact, params.text("encoding")) as content:
            search = parse_search(params, content.index.encoding)
            if search and search.query and ("next" in params or "before" in params):
                address, is_there = find_hit_address(content, artifact, search, params, deadline)
                return redirect(address if is_there else _last_hit_address(artifact, params))
            if search and search.query:
                search_slice = load_search_slice(content, artifact, search, params, deadline)
    except NoContent as error:
        absence = error.absence
    context = {"artifact": artifact, "search": search, "slice": search_slice, "absence": absence, "hit_links": None}
    return render_page(request, "artifacts/find.html", context, partial="slice")


def _last_hit_address(artifact: Artifact, params: Params) -> str:
    """The hit from which there is no other one that way."""
    query: dict[str, object] = {
        name: params.text(name, strip=False) for name in ("q", "regex", "any_case", "errors") if name in params
    }
    hit = params.integer("hit", default=None, most=LARGEST)
    if hit is not None:
        query |= {"offset": max(0, hit - CONTEXT_BYTES), "hit": hit, "as": "text"}
    return f"{artifact.get_absolute_url()}?{urlencode(query | {'last': 1})}"


@require_safe
def fold(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The members of one JSON value, for the fold that was opened; without script, a redirect to a page of them."""
    artifact = _load_artifact(request, pk)
    if not request.htmx:
        return redirect(f"{artifact.get_absolute_url()}?{request.GET.urlencode()}")
    params = Params(request.GET)
    params.required_integer("value", most=LARGEST)
    try:
        with open_content(artifact) as content:
            level = load_json_level(content, params)
    except NoContent as error:
        return _without_content(error)
    return render(request, "artifacts/_json_level.html", {"artifact": artifact, "level": level})


@require_safe
def follow(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """Renders what was added to a growing file since the cursor; 204 while there is nothing new."""
    artifact = _load_artifact(request, pk)
    if not request.htmx:
        return redirect(f"{artifact.get_absolute_url()}?tail&follow=1")
    params = Params(request.GET)
    params.required_integer("from", most=LARGEST)
    tail = tail_since(artifact, params)
    if tail is None:
        return HttpResponse(status=204)
    return render(request, "artifacts/_tail.html", {"artifact": artifact, "tail": tail})


@require_safe
def difference(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The difference to the artifact `?with=`; without it, the artifacts to choose from."""
    page = artifact_difference_page(_load_artifact(request, pk), request.project, Params(request.GET))
    return render_page(request, "artifacts/difference.html", {"page": page, "artifact": page.artifact})


@require_safe
def raw(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """The whole content as a file: as text where it begins like text, as bytes otherwise."""
    artifact = _load_artifact(request, pk)
    try:
        stream = mask_stream(open_stream(artifact))
    except NoContent as error:
        return _without_content(error)
    if b"\0" in stream.read(SNIFFED):
        return _send(request, artifact, stream, "application/octet-stream", "bin")
    return _send(request, artifact, stream, "text/plain; charset=utf-8", "txt")


@require_safe
def picture(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """A picture for the page's own <img>: of the type that its bytes have, and with few enough pixels."""
    artifact = _load_artifact(request, pk)
    try:
        stream = open_stream(artifact)
    except NoContent as error:
        return _without_content(error)
    image = read_image_header(stream.read(SNIFFED))
    if image is None or not image.is_showable:
        stream.close()
        raise Http404
    return _send(request, artifact, stream, image.media_type, image.media_type.removeprefix("image/"))


def _send(
    request: OperatorRequest, artifact: Artifact, stream: BinaryIO, content_type: str, ending: str
) -> HttpResponseBase:
    name, size = file_name(artifact.role, artifact.pk, ending), stream.seek(0, os.SEEK_END)
    etag = f"{artifact.sha256}-masked" if artifact.sha256 and isinstance(stream, MaskedStream) else artifact.sha256
    return download(request, stream, size=size, name=name, content_type=content_type, etag=etag)


def _without_content(error: NoContent) -> HttpResponse:
    """404, or 503 for a store that does not answer: it may have the content. Both with the words of the page."""
    absence = error.absence
    is_unreachable = absence.cause == AbsenceCause.UNREACHABLE
    return HttpResponse(
        f"{absence.heading}.\n{absence.sentence}\n{absence.advice}\n",
        status=503 if is_unreachable else 404,
        content_type="text/plain; charset=utf-8",
        headers={"Retry-After": "30"} if is_unreachable else {},
    )


def _load_artifact(request: OperatorRequest, pk: UUID) -> Artifact:
    return get_object_or_404(request.project.artifacts.with_call(), pk=pk)
