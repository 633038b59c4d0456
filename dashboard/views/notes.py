"""Notes of runs and calls, their tags, assignment and review mark, and calls that are chosen together."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.models import AuditEntry, Call, Note, Run
from dashboard.notes.annotations import ChangeRefused, change_annotation, load_panel
from dashboard.notes.note_list import NoteDraft, NoteRefused, change_note, create_note, load_note_page
from dashboard.notes.review_queue import change_chosen, list_queues, load_queue
from dashboard.text.params import Params
from dashboard.views.site import render_page

REFUSAL = "Only operators of the project write notes, tag, assign and review."
UNPROCESSABLE = 422


@require_http_methods(["GET", "HEAD", "POST"])
def run_notes(request: OperatorRequest, pk: UUID) -> HttpResponse:
    return _notes(request, get_object_or_404(request.project.runs, pk=pk))


@require_http_methods(["GET", "HEAD", "POST"])
def call_notes(request: OperatorRequest, pk: UUID) -> HttpResponse:
    return _notes(request, get_object_or_404(request.project.calls.with_run_and_source(), pk=pk))


def _notes(request: OperatorRequest, subject: Run | Call) -> HttpResponse:
    """Adds the note of the form; a refused one is shown again with the reason."""
    if request.method != "POST":
        return _render(request, subject, NoteDraft.from_form(request.GET, _read_start(request.GET)))
    require_operator(request, REFUSAL)
    draft = NoteDraft.from_form(request.POST, _read_start(request.POST))
    query = QueryDict(request.POST.get("query", ""))
    try:
        note = create_note(subject, request.user, draft, query)
    except NoteRefused as refusal:
        return _render(request, subject, draft, str(refusal))
    _record(request, subject, f"note {note.pk} added")
    return redirect(_back_url(subject, query, f"note-{note.pk}"))


def _read_start(form: QueryDict) -> int:
    return Params(form).integer("start", default=0)


def _render(request: OperatorRequest, subject: Run | Call, draft: NoteDraft, refusal: str = "") -> HttpResponse:
    query = QueryDict(request.POST.get("query", "")) if refusal else request.GET
    panel = load_panel(request, subject, query=query, draft=draft, refusal=refusal)
    context = {"panel": panel, "subject": subject}
    return render_page(request, "notes/list.html", context, status=UNPROCESSABLE if refusal else 200)


def _record(request: OperatorRequest, subject: Run | Call, change: str) -> None:
    noun = "call" if isinstance(subject, Call) else "run"
    record_request(request, AuditEntry.Action.ANNOTATION, f"{noun} {subject.external_id} ({subject.pk}): {change}")


def _back_url(subject: Run | Call, query: QueryDict, anchor: str = "notes") -> str:
    """The page of the run or call as the reader had it."""
    return f"{subject.get_absolute_url()}{'?' if query else ''}{query.urlencode()}#{anchor}"


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: OperatorRequest, pk: int) -> HttpResponse:
    """A note with its characters; a post changes or deletes it."""
    note = get_object_or_404(request.project.notes.with_subject(), pk=pk)
    if request.method != "POST":
        return _render_note(request, note)
    if note.created_by != request.user:
        require_operator(request, "Only its author and operators of the project change a note.")
    subject = note.subject
    try:
        change = change_note(note, request.user, request.POST)
    except NoteRefused as refusal:
        return _render_note(request, note, str(refusal))
    _record(request, subject, f"note {pk} {change}")
    return redirect(_back_url(subject, QueryDict(), f"note-{pk}" if change == "changed" else "notes"))


def _render_note(request: OperatorRequest, note: Note, refusal: str = "") -> HttpResponse:
    page = load_note_page(note, request.user, may_write=request.membership.may_write)
    context = {"page": page, "note": note, "refusal": refusal}
    return render_page(request, "notes/detail.html", context, status=UNPROCESSABLE if refusal else 200)


@require_POST
def annotate_run(request: OperatorRequest, pk: UUID) -> HttpResponse:
    return _annotate(request, get_object_or_404(request.project.runs, pk=pk))


@require_POST
def annotate_call(request: OperatorRequest, pk: UUID) -> HttpResponse:
    return _annotate(request, get_object_or_404(request.project.calls.with_run_and_source(), pk=pk))


def _annotate(request: OperatorRequest, subject: Run | Call) -> HttpResponse:
    """Tags, assigns or marks as reviewed; `next` leads on to the next call of the review queue."""
    require_operator(request, REFUSAL)
    try:
        change = change_annotation(subject, request.user, request.POST)
    except ChangeRefused as refusal:
        return _render(request, subject, NoteDraft(), str(refusal))
    if change:
        _record(request, subject, change)
    queue = Params(request.POST).integer("next", default=None)
    if queue is not None:
        return redirect(f"{reverse('review-next', args=[queue])}?{urlencode({'after': subject.pk})}")
    return redirect(_back_url(subject, QueryDict(request.POST.get("query", ""))))


@require_safe
def next_in_queue(request: OperatorRequest, pk: int) -> HttpResponse:
    """Leads to the next call of a review queue that is not reviewed, or says that none is left."""
    view = get_object_or_404(request.project.saved_views, pk=pk)
    queue = load_queue(request.project, view, Params(request.GET).uuid("after"))
    if queue.next_url:
        return redirect(queue.next_url)
    return render_page(request, "notes/queue_done.html", {"queue": queue})


@require_safe
def review_list(request: OperatorRequest) -> HttpResponse:
    return render_page(request, "notes/queues.html", {"queues": list_queues(request.project)})


@require_POST
def choose_calls(request: OperatorRequest) -> HttpResponse:
    """Compares, tags or adds to review the calls that were checked on the Calls page, or all of its filter."""
    back = Params({"q": request.POST.get("q", "")})
    back.text("q")
    if request.POST.get("do") == "compare":
        if calls := request.POST.getlist("call"):
            return redirect(f"{reverse('comparison-new')}?{urlencode({'call': calls}, doseq=True)}")
        context = {"refusal": "You chose no call. Check those to compare.", "back": back.url(), "undone": "compared"}
        return render_page(request, "notes/chosen.html", context, status=UNPROCESSABLE)
    require_operator(request, REFUSAL)
    try:
        tagged = change_chosen(request.project, request.user, request.POST)
    except ChangeRefused as refusal:
        context = {"refusal": str(refusal), "back": back.url(), "undone": "tagged"}
        return render_page(request, "notes/chosen.html", context, status=UNPROCESSABLE)
    if tagged.new:
        subject = f"{tagged.new} calls: tag {tagged.name} added"
        record_request(request, AuditEntry.Action.ANNOTATION, subject)
    return render_page(request, "notes/chosen.html", {"tagged": tagged, "refusal": "", "back": back.url()})
