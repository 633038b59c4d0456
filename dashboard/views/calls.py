"""The list of calls, the variants of one, later chunks of its halves, and the bytes as recorded."""

from __future__ import annotations

import base64
import re
from typing import cast
from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.calls.call_export import FORMS, CannotExport, export_calls
from dashboard.calls.call_table import CallTableParams, list_suffix, load_call_table
from dashboard.calls.call_variants import load_variant_strip
from dashboard.calls.half_panes import TITLES, Half, build_half_chunk
from dashboard.calls.list_place import find_page
from dashboard.evidence.call_evidence import SURFACES, load_evidence
from dashboard.filters.language import MAX_CHARACTERS, parse
from dashboard.filters.saved_views import build_view_box, load_saved_views
from dashboard.ingest.compute_derived import count_calls
from dashboard.models import AuditEntry, Call
from dashboard.search.match import MOST_HITS, load_found
from dashboard.text.images import find_image
from dashboard.text.masks import current_masks
from dashboard.text.params import Params, UnusableAddress
from dashboard.text.responses import sandboxed
from dashboard.text.text_markup import NEXT_CHARS
from dashboard.views.site import render_page

NOTHING_NEW = 204
NOUNS = {"receipt": "receipt", "canonical": "recorded result", "args": "arguments"}


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    views = [] if request.htmx and "view" not in request.GET else load_saved_views(request.project, "calls")
    params = CallTableParams(request.GET, views)
    if key := Params(request.GET).uuid("row"):
        return redirect(find_page(request.project, params, key))
    page = load_call_table(request.project, params)
    if request.htmx and params.seen == page.digest:
        return HttpResponse(status=NOTHING_NEW)
    box = build_view_box(views, text=params.q, sort=params.sort, view=request.GET.get("view", ""), over="calls")
    return render_page(request, "calls/list.html", {"page": page, "views": box}, partial="rows")


@require_POST
def export(request: OperatorRequest) -> HttpResponseBase:
    """The calls of a filter as a file, masked; `stored` is for operators. The audit log has both."""
    params, masks = Params(request.POST), current_masks()
    form = params.choice("form", tuple(FORMS), default="csv")
    is_stored = params.flag("stored")
    if is_stored:
        require_operator(request, "Only operators of the project export what is masked.")
    query = parse(params.text("q", longest=MAX_CHARACTERS + 1), over="calls")
    if query.problems:
        raise UnusableAddress(query.problems[0])
    try:
        pieces = export_calls(query.calls_in(request.project), form, masks=None if is_stored else masks)
    except CannotExport as refusal:
        raise UnusableAddress(str(refusal)) from None
    how = "as stored" if is_stored else "masked"
    record_request(request, AuditEntry.Action.EXPORT, f"calls as {form}, {how}: {query or 'all'}")
    response = StreamingHttpResponse(pieces, content_type=FORMS[form].content_type)
    response.is_masked = True  # type: ignore[attr-defined]
    return sandboxed(response, file_name=f"calls.{form}")


@require_safe
def variants(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The numbers of every variant: a fragment of the Call page, and a page of its own."""
    call = _get_call(request, pk)
    strip = load_variant_strip(request.project, call, request.GET)
    return render_page(request, "calls/variant_strip.html", {"call": call, "strip": strip}, partial="strip")


@require_safe
def half(request: OperatorRequest, pk: UUID, half: str) -> HttpResponse:
    """The chunk of one half from `?offset=` on: a fragment behind the first one, and a page of its own."""
    call = _get_call(request, pk)
    if half not in TITLES:
        raise Http404
    offset = Params(request.GET).required_integer("offset") if "offset" in request.GET else 0
    evidence = load_evidence(call, request.GET, first=offset + NEXT_CHARS)
    chunk = build_half_chunk(evidence, cast(Half, half), offset, spaces="spaces" in request.GET)
    return render_page(
        request, "calls/half.html", {"call": call, "half": chunk, "run_key": request.GET.get("run")}, partial="chunk"
    )


@require_safe
def found(request: OperatorRequest, pk: UUID, half: str) -> HttpResponse:
    """The text of a half around one occurrence of `?find=`, the number `?hit=`."""
    call = _get_call(request, pk)
    find, number = request.GET.get("find", ""), Params(request.GET).integer("hit", default=1, most=MOST_HITS)
    text = load_found(call, half, find, is_pattern="pattern" in request.GET, number=number)
    if text is None:
        raise Http404
    context = {"call": call, "found": text, "find": find, "noun": NOUNS[half], "other": NOUNS.get(text.counterpart, "")}
    context["list_suffix"] = list_suffix(request.GET["list"]) if request.GET.get("list") else ""
    return render_page(request, "calls/found.html", context)


@require_safe
def raw(request: OperatorRequest, pk: UUID, surface: str) -> HttpResponse:
    """The bytes as recorded, or one picture of a receipt (`?part=`, counted from 1)."""
    call = _get_call(request, pk)
    evidence = load_evidence(call, request.GET)
    part = request.GET.get("part")
    if part is not None:
        picture = find_image(evidence.halves.receipt, part)
        if picture is None:
            raise Http404
        image, data = picture
        return attachment(base64.b64decode(data), image.media_type, file_name("picture", part, image.media_type[6:]))
    is_envelope = surface == "canonical" and evidence.has_canonical
    data_bytes = evidence.canonical if is_envelope else evidence.bytes_of(surface)
    if data_bytes is None or surface not in (*SURFACES, "canonical"):
        raise Http404
    return attachment(data_bytes, "application/json", file_name(f"{call.tool}-{surface}", call.external_id, "json"))


def attachment(data: bytes, content_type: str, name: str) -> HttpResponse:
    """A download that is never rendered as a page of ours, whatever it contains (D-7)."""
    return sandboxed(HttpResponse(data, content_type=content_type), file_name=name)


def file_name(name: str, key: object, ending: str) -> str:
    """Letters, digits and dashes alone: a name from a recording may contain anything."""
    return re.sub("[^A-Za-z0-9_-]+", "-", f"{name}-{key}")[:120] + f".{ending}"


def _get_call(request: OperatorRequest, pk: UUID) -> Call:
    call: Call = get_object_or_404(request.project.calls.with_run_and_source(), pk=pk)
    count_calls([call])
    return call
