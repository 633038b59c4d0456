"""The Call page, later windows of its halves, and the bytes as recorded."""

from __future__ import annotations

import base64
import re
from typing import cast
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from dashboard.accounts.access import OperatorRequest
from dashboard.calls.call_detail import call_page
from dashboard.calls.call_variants import load_variant_strip
from dashboard.calls.export import copied
from dashboard.calls.panes import TITLES, Half, half_window
from dashboard.evidence.call_evidence import SURFACES, CallEvidence, load_evidence
from dashboard.models import Call
from dashboard.text.chunks import NEXT_CHARS
from dashboard.text.images import find_image
from dashboard.text.responses import sandboxed
from dashboard.views.rendering import render_page


@require_GET
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    call = _call(request, pk)
    form = request.GET.get("as")
    if form is not None:
        return _copy(request, call, form)
    page = call_page(request.project, call, request.GET)
    return render_page(request, "calls/detail.html", {"page": page, "call": call}, partial="halves")


@require_GET
def variants(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The numbers of every variant: a fragment of the Call page, and a page of its own."""
    call = _call(request, pk)
    strip = load_variant_strip(request.project, call, request.GET)
    return render_page(request, "calls/variant_strip.html", {"call": call, "strip": strip}, partial="strip")


@require_GET
def half(request: OperatorRequest, pk: UUID, half: str) -> HttpResponse:
    """The window of one half from `?offset=` on, to be put behind the first, or to be read by itself."""
    call = _call(request, pk)
    offset = request.GET.get("offset", "0")
    if half not in TITLES or not re.fullmatch(r"[0-9]{1,15}", offset):
        raise Http404
    surfaces = load_evidence(call, request.GET, first=int(offset) + NEXT_CHARS)
    shown = half_window(surfaces, cast(Half, half), int(offset), spaces="spaces" in request.GET)
    return render_page(request, "calls/half.html", {"call": call, "window": shown}, partial="window")


@require_GET
def raw(request: OperatorRequest, pk: UUID, surface: str) -> HttpResponse:
    """The bytes as recorded, or one picture of a receipt (`?part=`, counted from 1)."""
    call = _call(request, pk)
    surfaces = load_evidence(call, request.GET)
    part = request.GET.get("part")
    if part is not None:
        return _picture(surfaces, part)
    is_envelope = surface == "canonical" and surfaces.is_answered
    data = surfaces.canonical if is_envelope else surfaces.bytes_of(surface)
    if data is None or surface not in (*SURFACES, "canonical"):
        raise Http404
    return attachment(data, "application/json", file_name(f"{call.tool}-{surface}", call.external_id, "json"))


def attachment(data: bytes, content_type: str, name: str) -> HttpResponse:
    """Never rendered as a page of ours, whatever it holds (reliability.md section 0, 7)."""
    response = HttpResponse(data, content_type=content_type)
    return sandboxed(response, file_name=name)


def file_name(what: str, key: object, ending: str) -> str:
    """Letters, digits and dashes alone: a name from a recording may hold anything."""
    return re.sub("[^A-Za-z0-9_-]+", "-", f"{what}-{key}")[:120] + f".{ending}"


def _call(request: OperatorRequest, pk: UUID) -> Call:
    return get_object_or_404(request.project.calls.with_run_and_source(), pk=pk)


def _copy(request: OperatorRequest, call: Call, form: str) -> HttpResponse:
    found = copied(load_evidence(call, request.GET), form, only_receipt=request.GET.get("what") == "receipt")
    if found is None:
        raise Http404
    content_type, text = found
    response = HttpResponse(text, content_type=f"{content_type}; charset=utf-8")
    return sandboxed(response)


def _picture(surfaces: CallEvidence, part: str) -> HttpResponse:
    found = find_image(surfaces.halves.receipt, part)
    if found is None:
        raise Http404
    picture, data = found
    return attachment(base64.b64decode(data), picture.media_type, file_name("picture", part, picture.media_type[6:]))
