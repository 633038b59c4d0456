"""The notes of a run or a call, and the characters that a note is about.

A range is found by its quoted text: the browser proposes where it begins, and the half itself decides. A passage that
the half does not have is refused, so that no note points at characters that it does not quote. Quotes are stored with
secrets masked, because a range may begin inside of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from dashboard.calls.half_panes import TITLES, Half, half_text
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.models import Call, Note, Run
from dashboard.models.notes import about, list_runs_of, refresh_annotation_facets
from dashboard.text.formatting import column_text
from dashboard.text.masks import mask_around, mask_text
from dashboard.text.text_markup import highlight

MAX_NOTES = 200  # of one run or call: the page lists all of them
MAX_NOTE_CHARACTERS = 10_000
MAX_RANGE_CHARACTERS = 20_000
MAX_QUOTE_CHARACTERS = 500
LINES_AROUND, CHARACTERS_AROUND = 10, 2_000
MOST_RECEIPTS = 10  # of a call, among which that of a note is looked for
JSON_HALVES = ("args", "canonical", "envelope", "recorded")


class NoteRefused(ValueError):
    """The sentence gives the reason, for the form to show it."""


class CharacterRange(NamedTuple):
    """The characters [start, end) of a half, the hash of its whole text, and their masked beginning."""

    half: Half
    start: int
    end: int
    sha256: str
    quote: str


@dataclass(frozen=True)
class NoteDraft:
    """The fields of a form: the text, and for a range the half, the quoted passage and its presumed beginning."""

    text: str = ""
    half: str = ""
    quote: str = ""
    start: int = 0

    @classmethod
    def from_form(cls, form: Mapping[str, str], start: int) -> NoteDraft:
        text, quote = (form.get(name, "").replace("\r\n", "\n") for name in ("text", "quote"))
        half = form.get("half", "")
        return cls(text.strip(), half, quote if quote.strip() else "", start)


@dataclass(frozen=True, kw_only=True)
class ListedNote:
    """`is_changed`: neither the text of the half in view nor a receipt that was looked at is what the note was about.

    `has_others`: several sources recorded that half, and the note may be about another one than the one in view.
    `receipt` is the observation of another receipt of the call than the one in view, where the note is about that one.
    """

    note: Note
    may_change: bool
    is_changed: bool
    has_others: bool = False
    receipt: str = ""

    @property
    def other_receipt_url(self) -> str:
        """Empty where the note is about the receipt in view."""
        call = reverse("call-detail", args=[self.note.call_id]) if self.receipt else ""
        return call and f"{call}?receipt={self.receipt}#note-{self.note.pk}"

    @property
    def half_title(self) -> str:
        return TITLES.get(cast(Half, self.note.half), "")

    @property
    def quote_is_cut(self) -> bool:
        return self.note.end - self.note.start > len(self.note.quote)

    @property
    def url(self) -> str:
        return reverse("note-detail", args=[self.note.pk])


@dataclass(frozen=True, kw_only=True)
class NotePage:
    """One note, and the text around its characters; `html` is empty without a range and where the text changed."""

    listed: ListedNote
    subject_url: str
    subject_title: str
    html: SafeString | None
    first: int
    last: int


def list_notes(subject: Run | Call, user: User, query: QueryDict, *, may_write: bool) -> list[ListedNote]:
    """The oldest first. `query` chooses the receipt in view, as on the page of the call."""
    notes = list(_with_people(Note.objects.filter(**about(subject))).order_by("created_at", "pk"))
    texts = _HalfTexts(subject, query)
    return [_list_note(note, user, texts, may_write=may_write) for note in notes]


def _with_people(notes: QuerySet[Note]) -> QuerySet[Note]:
    return notes.select_related("created_by", "changed_by")


class _HalfTexts:
    """The texts of a call's halves with their hashes, each read when a note is about it."""

    def __init__(self, subject: Run | Call, query: QueryDict) -> None:
        self._subject, self._query = subject, query
        self._evidence: dict[str, CallEvidence] = {}  # by receipt
        self._hashes: dict[tuple[str, str], str] = {}

    def text(self, half: str, receipt: str = "") -> str:
        """The text of a half, with the given receipt or the one in view."""
        if isinstance(self._subject, Run) or half not in TITLES:
            return ""
        if receipt not in self._evidence:
            query = self._query if not receipt else {"receipt": receipt}
            self._evidence[receipt] = load_evidence(self._subject, query)
        return half_text(self._evidence[receipt], cast(Half, half))

    def find_receipt(self, note: Note) -> str | None:
        """Empty for the receipt in view, else another receipt of the call that the note is about; None without one."""
        if self._hash(note.half, "") == note.sha256:
            return ""
        if note.half != "receipt":
            return None
        return next((receipt for receipt in self._receipts if self._hash("receipt", receipt) == note.sha256), None)

    def has_others(self, half: str) -> bool:
        """True where more than one source recorded what the half shows: another one may be in view."""
        if isinstance(self._subject, Run):
            return False
        surface = half if half in ("args", "receipt") else "result"
        return self._subject.observations.filter(surface=surface).count() > 1

    @cached_property
    def _receipts(self) -> list[str]:
        """The observations of the first receipts of the call, those that only a fork has among them."""
        if isinstance(self._subject, Run):
            return []
        rows = self._subject.receipts.exclude(observation=None).order_by("seq", "pk")
        return [str(observation) for observation in rows.values_list("observation", flat=True)[:MOST_RECEIPTS]]

    def _hash(self, half: str, receipt: str) -> str:
        key = half, receipt
        if key not in self._hashes:
            self._hashes[key] = _hash(self.text(half, receipt))
        return self._hashes[key]


def _list_note(note: Note, user: User, texts: _HalfTexts, *, may_write: bool) -> ListedNote:
    receipt = texts.find_receipt(note) if note.half else ""
    return ListedNote(
        note=note,
        may_change=may_write or note.created_by == user,
        is_changed=receipt is None,
        has_others=receipt is None and texts.has_others(note.half),
        receipt=receipt or "",
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def create_note(subject: Run | Call, user: User, draft: NoteDraft, query: QueryDict) -> Note:
    """Raises NoteRefused."""
    text = _check_text(draft.text)
    if Note.objects.filter(**about(subject)).count() >= MAX_NOTES:
        raise NoteRefused(f"There are {MAX_NOTES} notes here, which is the limit: change or delete one.")
    if bool(draft.half) != bool(draft.quote):
        raise NoteRefused("A note on characters needs their half and the characters: choose both, or neither.")
    columns: dict[str, object] = {}
    if draft.half:
        if isinstance(subject, Run) or draft.half not in TITLES:
            raise NoteRefused(f"There is no half “{draft.half[:20]}” to quote.")
        columns = find_range(load_evidence(subject, query), draft)._asdict()
    with transaction.atomic():
        note = Note.objects.create(**about(subject), created_by=user, text=text, **columns)
        refresh_annotation_facets(list_runs_of(subject))
    return note


def change_note(note: Note, user: User, form: Mapping[str, str]) -> str:
    """Deletes the note with `do=delete`, else stores its text; returns the words for it. Raises NoteRefused."""
    if form.get("do") == "delete":
        subject = note.subject
        with transaction.atomic():
            note.delete()
            refresh_annotation_facets(list_runs_of(subject))
        return "deleted"
    note.text = _check_text(form.get("text", "").replace("\r\n", "\n").strip())
    note.changed_by, note.changed_at = user, timezone.now()
    note.save(update_fields=["text", "changed_by", "changed_at"])
    return "changed"


def _check_text(text: str) -> str:
    if not text:
        raise NoteRefused("A note needs a text.")
    if len(text) > MAX_NOTE_CHARACTERS:
        raise NoteRefused(f"The note has {len(text):,} characters; at most {MAX_NOTE_CHARACTERS:,} are stored.")
    return column_text(text, MAX_NOTE_CHARACTERS)


def find_range(evidence: CallEvidence, draft: NoteDraft) -> CharacterRange:
    """The occurrence of the passage that is nearest to where the draft has it. Raises NoteRefused.

    A passage that was copied from the page may contain masks. Of JSON, its values may have been copied decoded.
    """
    half = cast(Half, draft.half)
    if len(draft.quote) > MAX_RANGE_CHARACTERS:
        size = f"{len(draft.quote):,} characters; at most {MAX_RANGE_CHARACTERS:,} can be selected"
        raise NoteRefused(f"The passage has {size}.")
    text, quote = half_text(evidence, half), draft.quote
    passages = [quote, quote.replace("\n", "\r\n"), quote.strip("\n")]
    if half in JSON_HALVES:
        passages.append(json.dumps(quote, ensure_ascii=False)[1:-1])
    for is_masked in (False, True):
        searched = mask_text(text) if is_masked else text
        for passage in passages:
            start = _find_nearest(searched, passage, draft.start)
            if start >= 0:
                end = start + len(passage)
                shown = mask_around(text, start, end)[start : min(end, start + MAX_QUOTE_CHARACTERS)]
                return CharacterRange(half, start, end, _hash(text), column_text(shown, MAX_QUOTE_CHARACTERS))
    raise NoteRefused(f"This passage is not in the {TITLES[half].lower()} in view: copy it from there again.")


def _find_nearest(text: str, passage: str, near: int) -> int:
    before, after = text.rfind(passage, 0, near + len(passage)), text.find(passage, near)
    if before < 0 or after < 0:
        return max(before, after)
    return before if near - before <= after - near else after


def load_note_page(note: Note, user: User, *, may_write: bool) -> NotePage:
    """The note with the lines around its characters, masked before they are cut."""
    subject = note.subject
    texts = _HalfTexts(subject, QueryDict())
    listed = _list_note(note, user, texts, may_write=may_write)
    html, first, last = None, 0, 0
    if note.half and not listed.is_changed:
        text = texts.text(note.half, listed.receipt)
        first, last = _find_surroundings(text, note.start, note.end)
        spans = [(note.start - first, min(note.end, last) - first)]
        html = highlight(mask_around(text, first, last)[first:last], spans)
    return NotePage(
        listed=listed,
        subject_url=f"{subject.get_absolute_url()}#note-{note.pk}",
        subject_title=str(subject),
        html=html,
        first=first,
        last=last,
    )


def _find_surroundings(text: str, start: int, end: int) -> tuple[int, int]:
    first, last = start, end
    for _ in range(LINES_AROUND):
        first = max(0, text.rfind("\n", 0, max(0, first - 1)) + 1)
        newline = text.find("\n", last)
        last = len(text) if newline < 0 else newline + 1
    return max(first, start - CHARACTERS_AROUND), min(last, end + CHARACTERS_AROUND, len(text))
