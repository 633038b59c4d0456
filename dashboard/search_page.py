"""The search page: the first runs, calls and messages that one filter finds, and where an id or an address leads.

Words are looked for in titles and ids of runs, in every half of calls and in messages; every other term of the filter
language is about runs and calls. A list shows at most SHOWN_IN_SEARCH rows and leads to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from dashboard.calls.call_table import SEARCH, CallTable, load_call_table
from dashboard.calls.list_place import SHOWN_IN_SEARCH, read_list
from dashboard.filters.language import MAX_CHARACTERS, Query, parse
from dashboard.filters.queryset import select_runs
from dashboard.filters.syntax import TEXT, And, Node, Term
from dashboard.models import Call, Message, Project, Run
from dashboard.models.search import ANY, HALVES, is_exact, newest_matching, select_messages
from dashboard.runs.run_list import LISTED_FIELDS, RunRow, build_row
from dashboard.runs.timeline import HistoryCursor
from dashboard.search.documents import SearchText, load_message_texts
from dashboard.search.match import PayloadHit, describe_unsearchable
from dashboard.text.formatting import column_text, format_place
from dashboard.text.masks import mask_text
from dashboard.text.text_markup import highlight, printable
from envelopes.text.search_words import Phrase, parse_phrase

MOST_COUNTED = 100  # runs
MOST_READ = 50  # messages whose texts are looked at together
LONGEST_LABEL = 200  # characters
# Pages of one object, whose addresses begin with what the object is.
PLACES = re.compile(r"/(?P<noun>runs|calls|artifacts)/[0-9a-f-]{36}/", re.IGNORECASE)
FORMS = ("/annotate/", "/delete/", "/reveal/", "/share/")  # ends of addresses that only forms are sent to
OPENED = ("calls", "runs", "artifacts")  # relations of a project
LAST_RANK, LAST_KEY = 99, UUID(int=2**128 - 1)  # of a cursor behind everything that has the same line


class FoundRun(NamedTuple):
    row: RunRow
    title: SafeString
    name: str  # the agent's id for the run


@dataclass(frozen=True)
class FoundRuns:
    """`total` is MOST_COUNTED + 1 for more than MOST_COUNTED."""

    rows: Sequence[FoundRun] = ()
    total: int = 0
    problem: str = ""

    @property
    def count(self) -> str:
        return f"{MOST_COUNTED}+" if self.total > MOST_COUNTED else f"{self.total}"

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


class FoundMessage(NamedTuple):
    """`url` leads to the place in the history of the run, `whole_url` to the message by itself."""

    hit: PayloadHit
    heading: str
    run: str
    place: str
    url: str
    whole_url: str
    is_partial: bool


@dataclass(frozen=True)
class FoundMessages:
    """`candidates` messages have the words by the index, at most CANDIDATE_MESSAGES; the rows by their texts."""

    rows: Sequence[FoundMessage] = ()
    candidates: int = 0
    is_capped: bool = False  # older messages with these words were not looked at
    problem: str = ""

    @property
    def count(self) -> str:
        return f"{self.candidates:,}+" if self.is_capped else f"{self.candidates:,}"

    @property
    def more(self) -> str:
        """A sentence about messages that are not shown; no list has all of them."""
        if not self.is_capped and (self.candidates <= len(self.rows) or not self.rows):
            return ""
        if not self.rows:
            return "No match so far: older messages were not looked at. More words, or words in quotes, find fewer."
        return f"The last {len(self.rows)} that were imported; more words, or words in quotes, find fewer."


@dataclass(frozen=True)
class SearchPage:
    text: str
    query: Query
    problems: Sequence[str]
    runs: FoundRuns
    calls: CallTable | None
    messages: FoundMessages
    unsearchable: str

    @property
    def begins_with_calls(self) -> bool:
        """Texts of payloads are looked for: the calls that have them are listed before their runs."""
        return any(term.kind in HALVES for term in self.query.terms)

    @property
    def calls_count(self) -> str:
        if self.calls is None or self.calls.matching is None:
            rows = self.calls.rows if self.calls else ()
            return f"{len(rows)}{'+' if self.calls and self.calls.next_url else ''}"
        return (
            f"{settings.COUNTED_CALLS:,}+"
            if self.calls.matching > settings.COUNTED_CALLS
            else f"{self.calls.matching:,}"
        )

    @property
    def call_notes(self) -> list[str]:
        return [note for note in (self.calls.notes if self.calls else ()) if note != self.unsearchable]

    @property
    def runs_url(self) -> str:
        return f"{reverse('run-list')}?{urlencode({'q': self.text})}"

    @property
    def calls_url(self) -> str:
        return f"{reverse('call-list')}?{urlencode({'q': self.calls.params.q if self.calls else self.text})}"


def find_address(project: Project, text: str) -> str:
    """The address that a pasted id or address leads to; empty unless exactly one object of the project is meant.

    An id is ours, or the one that the agent gave to a run or call.
    """
    text = text.strip()
    try:
        parts = urlsplit(text)
    except ValueError:  # such as http://[
        return ""
    if match := PLACES.match(parts.path):
        return _find_place(project, match["noun"].lower(), parts.path, parts.query)
    try:
        key = UUID(text)
    except ValueError:
        key = None
    for relation in OPENED if key else ():
        if found := getattr(project, relation).filter(pk=key).first():
            return str(found.get_absolute_url())
    if not text or len(text) > LONGEST_LABEL or " " in text:
        return ""
    text = column_text(text, LONGEST_LABEL)
    of_project = Exact(Coalesce("project_id", "project_id"), project.pk)  # SQLite would walk all calls of the project
    calls = Call.objects.filter(of_project, external_id=text)
    named = [*calls[:2], *project.runs.filter(external_id=text)[:2]]
    return named[0].get_absolute_url() if len(named) == 1 else ""


def _find_place(project: Project, noun: str, path: str, query: str) -> str:
    try:
        key = resolve(path).kwargs["pk"]
    except (Resolver404, KeyError):
        return ""
    exists = getattr(project, noun).filter(pk=key).exists()
    if not exists:
        return ""
    if path.endswith(FORMS):
        return reverse(f"{noun.removesuffix('s')}-detail", args=[key])
    return f"{path}?{query}" if query else path


def load_search_page(project: Project, text: str) -> SearchPage:
    query = parse(text, over="calls", reads_texts=True)
    is_asked = bool(query) and not query.problems
    name = f"{SEARCH}?{urlencode({'q': text})}"
    found = read_list(name) if is_asked else None
    calls = load_call_table(project, found, size=SHOWN_IN_SEARCH, opened_from=name) if found else None
    return SearchPage(
        text=text[: MAX_CHARACTERS + 1],
        query=query,
        problems=(*query.problems, *(calls.problems if calls else ())),
        runs=_find_runs(project, text) if is_asked else FoundRuns(),
        calls=calls,
        messages=_find_messages(project, query) if is_asked else FoundMessages(),
        unsearchable=describe_unsearchable(project),
    )


def _find_runs(project: Project, text: str) -> FoundRuns:
    query = parse(text, over="runs")
    if query.problems:
        return FoundRuns(problem=query.problems[0])
    runs = select_runs(project, query.tree).runs
    keys = list(runs.order_by("-sort_at", "-id").values_list("pk", flat=True)[: MOST_COUNTED + 1])
    rows = Run.objects.only(*LISTED_FIELDS).in_bulk(keys[:SHOWN_IN_SEARCH])
    words = [term.value for term in query.terms if term.kind == TEXT]
    now = timezone.now()
    shown = [_build_run(rows[key], words, build_row(rows[key], now, "", None)) for key in keys[:SHOWN_IN_SEARCH]]
    return FoundRuns(shown, len(keys))


def _build_run(run: Run, words: Sequence[str], row: RunRow) -> FoundRun:
    title = mask_text(str(run))[:LONGEST_LABEL]
    pattern = "|".join(map(re.escape, filter(None, words)))
    spans = [match.span() for match in re.finditer(pattern, title, re.IGNORECASE)] if pattern else []
    return FoundRun(row, highlight(title, spans), printable(mask_text(run.external_id)[:LONGEST_LABEL]))


def _find_messages(project: Project, query: Query) -> FoundMessages:
    terms = list(_required_terms(query.tree))
    if None in terms:
        return FoundMessages(problem="Messages are searched for words and “any:” alone; this filter has other terms.")
    phrases = {
        term: phrase for term in terms if term and (phrase := parse_phrase(term.value, is_pattern=term.is_pattern))
    }
    if not phrases or any(phrase.parts for phrase in phrases.values()):
        return FoundMessages(problem="Messages are searched for whole words and beginnings of words.")
    ids = newest_matching("message", list(phrases.values()), settings.CANDIDATE_MESSAGES + 1)
    values = select_messages(project, ids[: settings.CANDIDATE_MESSAGES]).values_list("search_id", flat=True)
    own = [entry for entry in values if entry is not None]
    found: list[FoundMessage] = []
    looked = 0
    while len(found) < SHOWN_IN_SEARCH and looked < len(own):
        entries = own[looked : looked + (MOST_READ if looked else SHOWN_IN_SEARCH)]
        found += _read_messages(list(select_messages(project, entries).select_related("run")), phrases)
        looked += len(entries)
    is_exact_count = all(map(is_exact, phrases.values()))
    is_capped = len(ids) > settings.CANDIDATE_MESSAGES or (looked < len(own) and not is_exact_count)
    return FoundMessages(found[:SHOWN_IN_SEARCH], len(own) if is_exact_count else len(found), is_capped)


def _required_terms(tree: Node) -> Iterator[Term | None]:
    """The terms that a message must contain all of; None for anything else that the filter asks."""
    for node in tree.nodes if isinstance(tree, And) else (None,):
        if isinstance(node, And):
            yield from _required_terms(node)
        else:
            yield node if isinstance(node, Term) and node.kind in (TEXT, ANY) else None


def _read_messages(messages: Sequence[Message], phrases: Mapping[Term, Phrase]) -> Iterator[FoundMessage]:
    """Those that contain every phrase, each with the first occurrence of the first one."""
    texts = load_message_texts(messages)
    for message in messages:
        text = texts[message.pk]
        hits = [_find_hit(text, term, phrase) for term, phrase in phrases.items()]
        if not all(hits) or hits[0] is None:
            continue
        model_url = reverse("run-context", args=[message.run_id])
        start = HistoryCursor(message.line - 1, LAST_RANK, key=LAST_KEY)
        yield FoundMessage(
            hit=hits[0],
            heading=message.heading,
            run=printable(mask_text(str(message.run))[:LONGEST_LABEL]),
            place=format_place(message.line, message.run.source_format),
            url=f"{model_url}?after={start}#m-{message.pk}",
            whole_url=f"{model_url}?message={message.pk}",
            is_partial=text.is_partial,
        )


def _find_hit(text: SearchText, term: Term, phrase: Phrase) -> PayloadHit | None:
    for name, part in zip(text.names, text.texts, strict=True):
        for start, end in phrase.find(part):
            return PayloadHit("message", term, start, end, part, name)
    return None
