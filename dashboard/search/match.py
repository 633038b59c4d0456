"""Looks for the payload terms of a filter in the decoded texts: an index only yields candidates.

A list asks for the calls of one page at a time. Which calls contain each term is found in their texts. Where the terms
stand in an `or` with others, the filter is asked again with these calls in place of the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypedDict
from urllib.parse import urlencode
from uuid import UUID

from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.utils.safestring import SafeString

from dashboard.evidence.fidelity import Fidelity, receipt_fidelity, result_fidelity
from dashboard.filters.keys import phrase_of
from dashboard.filters.language import Query
from dashboard.filters.queryset import select_calls
from dashboard.filters.syntax import And, Node, Not, Term, inner_nodes, iterate_terms
from dashboard.models import Call, Project
from dashboard.models.search import ANY, HALVES, is_exact
from dashboard.search.documents import NO_TEXT, SearchText, load_call_texts
from dashboard.text.masks import mask_around
from dashboard.text.text_markup import highlight
from envelopes.text.search_words import Phrase, parse_phrase

BEFORE_HIT, LINE_CHARACTERS = 60, 240  # of the line of a hit that are shown
MOST_HITS = 10_000
MOST_WAITING = 10_000  # calls that are counted
LINES_BEFORE, CHARACTERS_BEFORE, CHARACTERS_SHOWN = 3, 600, 16_000
LABELS = {"canonical": "in the recorded result", "args": "in the arguments"}
COUNTERPARTS = {"canonical": "receipt", "receipt": "canonical"}
CallTexts = dict[str, SearchText]


@dataclass(frozen=True)
class PayloadHit:
    """The first occurrence of a term: in which half and text, and the characters in that."""

    half: str
    term: Term
    start: int
    end: int
    text: str
    name: str  # of the member of JSON that the text is in

    @property
    def line(self) -> SafeString:
        """The line of the hit with the match highlighted, masked like everything."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.end)
        start = max(line_start, self.start - BEFORE_HIT)
        end = min(len(self.text) if line_end < 0 else line_end, start + LINE_CHARACTERS)
        text = mask_around(self.text, start, max(end, self.end), self.name)
        return highlight(text[start : max(end, self.end)], [(self.start - start, self.end - start)])

    @property
    def is_cut_before(self) -> bool:
        return self.start - BEFORE_HIT > self.text.rfind("\n", 0, self.start) + 1


class RowHit(TypedDict):
    """The part of a list's row about a search; `note` says of which half only a part was searched.

    A dict, as the row is.
    """

    url: str
    label: str
    hit: PayloadHit | None
    note: str


def describe_unsearchable(project: Project) -> str:
    """A sentence about calls that no search in payloads finds yet; empty without any."""
    of_project = Exact(Coalesce("project_id", "project_id"), project.pk)  # SQLite would walk all calls of the project
    waiting = Call.objects.unsearchable().filter(of_project).values("pk")[: MOST_WAITING + 1].count()
    if waiting <= 1:
        return "1 call is not searchable yet." if waiting else ""
    number = f"{waiting:,}" if waiting <= MOST_WAITING else f"More than {MOST_WAITING:,}"
    return f"{number} calls are not searchable yet."


class PayloadSearch:
    """The payload terms of a filter over calls; false without any."""

    def __init__(self, project: Project, query: Query) -> None:
        self._project = project
        self._query = query
        self._phrases: dict[Term, Phrase] = {
            term: phrase for term in query.payload_terms if (phrase := phrase_of(term)) is not None
        }
        kinds = {term.kind for term in self._phrases}
        self.halves = HALVES if ANY in kinds else tuple(half for half in HALVES if half in kinds)
        self._demanded = tuple(_positive_terms(query.tree))
        self._is_conjunction = isinstance(query.tree, And) and all(map(_is_decided_alone, query.tree.nodes))
        self._texts: dict[UUID, CallTexts] = {}  # of the calls that were looked at and match
        self._hits: dict[tuple[Term, UUID], PayloadHit | None] = {}
        self._looked = 0  # calls
        self.is_stopped = False  # before a page was full, because the time was over

    def __bool__(self) -> bool:
        return bool(self._phrases)

    @property
    def is_undecided(self) -> bool:
        """True where the index does not tell which calls contain a term: their number is not known."""
        return not all(map(is_exact, self._phrases.values()))

    def select_matching(self, keys: Sequence[UUID]) -> set[UUID]:
        """Those of these calls, which meet the filter as far as its index tells, that match by their texts."""
        texts = load_call_texts(keys, self.halves)
        self._looked += len(keys)
        self._texts |= texts
        chosen = self._select_conjunction(texts) if self._is_conjunction else self._select_again(texts, keys)
        self._texts = {key: found for key, found in self._texts.items() if key not in texts or key in chosen}
        return chosen

    def _select_conjunction(self, keys: Iterable[UUID]) -> set[UUID]:
        """The terms that stand beside each other, one after the other: what else the filter demands, the calls meet."""
        chosen = list(keys)
        for node in self._query.tree.nodes:
            term = node.node if isinstance(node, Not) else node
            if isinstance(term, Term) and term in self._phrases:
                chosen = [key for key in chosen if bool(self._find(term, key)) != isinstance(node, Not)]
        return set(chosen)

    def _select_again(self, texts: Iterable[UUID], keys: Sequence[UUID]) -> set[UUID]:
        exact = {term: [key for key in texts if self._find(term, key)] for term in self._phrases}
        matching = select_calls(self._project, self._query.tree, exact).filter(pk__in=keys)
        return set(matching.values_list("pk", flat=True))

    def build_hit(self, call: Call) -> RowHit | None:
        """The first occurrence of the first term that the call contains, and which halves were searched in part.

        None where there is neither.
        """
        texts = self._texts.get(call.pk, {})
        hit = next((hit for term in self._demanded if (hit := self._find(term, call.pk))), None)
        notes = [
            f"{half}: searched the first {text.searched:,} of {text.total:,} characters"
            for half, text in texts.items()
            if text.is_partial
        ]
        note = "; ".join(notes)
        if hit is None:
            return RowHit(url="", label="", hit=None, note=note) if note else None
        label = receipt_fidelity(call.receipt_fidelity).badge if hit.half == "receipt" else LABELS[hit.half]
        address = urlencode({"find": hit.term.value} | ({"pattern": "yes"} if hit.term.is_pattern else {}))
        return RowHit(url=f"/calls/{call.pk}/found/{hit.half}/?{address}", label=label, hit=hit, note=note)

    def describe_progress(self) -> list[str]:
        """Sentences about calls that the list cannot have: not indexed yet, or not looked at."""
        notes = [note] if (note := describe_unsearchable(self._project)) else []
        if self.is_stopped:
            total = Call.objects.filter(project=self._project).count()
            notes.append(f"Looked at {self._looked:,} of {total:,} calls; “Next” goes on.")
        return notes

    def _find(self, term: Term, call: UUID) -> PayloadHit | None:
        """The first occurrence in a call that was looked at, which is looked for once."""
        if (term, call) not in self._hits:
            self._hits[term, call] = self._look_for(term, self._texts.get(call, {}))
        return self._hits[term, call]

    def _look_for(self, term: Term, texts: CallTexts) -> PayloadHit | None:
        for half in HALVES if term.kind == ANY else (term.kind,):
            searched = texts.get(half, NO_TEXT)
            for name, text in zip(searched.names, searched.texts, strict=True):
                for start, end in self._phrases[term].find(text):
                    return PayloadHit(half, term, start, end, text, name)
        return None


def _is_decided_alone(node: Node) -> bool:
    """True for a payload term, for its negation, and for what has no payload term in it."""
    term = node.node if isinstance(node, Not) else node
    return isinstance(term, Term) or not any(map(phrase_of, iterate_terms(node)))


def _positive_terms(node: Node, *, is_negated: bool = False) -> Iterator[Term]:
    if isinstance(node, Term):
        if not is_negated and phrase_of(node):
            yield node
        return
    for child in inner_nodes(node):
        yield from _positive_terms(child, is_negated=is_negated != isinstance(node, Not))


@dataclass(frozen=True, kw_only=True)
class FoundText:
    """`number` is the occurrence in view, from 1, and 0 when nothing is found; `total` counts those in this half."""

    half: str
    fidelity: Fidelity | None
    number: int
    total: int
    text_number: int  # of the texts of the half that the occurrence is in, from 1
    start: int  # of what is shown, in characters of that text
    end: int
    characters: int
    html: SafeString
    searched: SearchText
    counterpart: str  # the half that is compared: the receipt of a recorded result, and the other way round
    counterpart_text: SearchText
    is_in_counterpart: bool

    @property
    def previous(self) -> int:
        return self.number - 1

    @property
    def following(self) -> int:
        return self.number + 1 if self.number < self.total else 0

    @property
    def is_capped(self) -> bool:
        return self.total == MOST_HITS


def load_found(call: Call, half: str, value: str, *, is_pattern: bool, number: int) -> FoundText | None:
    """The text around the occurrence of that number; None for a half that does not exist."""
    phrase = parse_phrase(value, is_pattern=is_pattern)
    if half not in HALVES:
        return None
    counterpart = COUNTERPARTS.get(half, "")
    halves = load_call_texts([call.pk], [name for name in (half, counterpart) if name])[call.pk]
    searched, other = halves[half], halves.get(counterpart, NO_TEXT)
    texts = enumerate(searched.texts if phrase else ())
    places = ((index, span) for index, text in texts if phrase for span in phrase.find(text))
    hits = list(islice(places, MOST_HITS))
    number = max(1, min(number, len(hits))) if hits else 0
    index, (first, _) = hits[number - 1] if hits else (0, (0, 0))
    text, name = (searched.texts[index], searched.names[index]) if searched.texts else ("", "")
    start = first
    for _ in range(LINES_BEFORE):
        start = max(0, text.rfind("\n", 0, max(0, start - 1)) + 1)
    start = max(start, first - CHARACTERS_BEFORE)
    end = min(len(text), start + CHARACTERS_SHOWN)
    spans = [(a - start, min(b, end) - start) for at, (a, b) in hits if at == index and start <= a < end]
    fidelity = receipt_fidelity(call.receipt_fidelity) if half == "receipt" else None
    return FoundText(
        half=half,
        fidelity=result_fidelity(call.result_fidelity) if half == "canonical" else fidelity,
        number=number,
        total=len(hits),
        text_number=index + 1,
        start=start,
        end=end,
        characters=len(text),
        html=highlight(mask_around(text, start, end, name)[start:end], spans),
        searched=searched,
        counterpart=counterpart,
        counterpart_text=other,
        is_in_counterpart=phrase is not None and any(any(phrase.find(text)) for text in other.texts),
    )
