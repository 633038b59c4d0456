"""The language of the search bar: `status:failed tool:Bash -family:file cut:yes "quoted text" words`.

`parse(text)` reads a filter over runs, `parse(text, over="calls")` one over the calls of a run. What it
cannot read, or what can never hold, is in `Query.problems`, a sentence each that names the word; such a
query finds nothing, so that a mistake never looks like an answer.

    query = parse(request.GET.get("q", ""), over="calls")
    query.problems            # sentences for the page
    query.calls(run)          # the run's calls that match, in their order
    query.toggled("tool", "Bash")   # the text of the filter with that term added, or taken out

Every term must hold. Facets of a run come from `RunFacet`, by index; a negated term is a dash before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from django.db.models import QuerySet

from dashboard.filters import queryset
from dashboard.models import Call, Project, Run
from dashboard.text.column_values import column_text

LONGEST = 2_000  # characters
MOST_TERMS = 20

Over = Literal["runs", "calls"]

STATES = ("failed", "cut", "unanswered", "retried", "halves", "disagree", "drifted")
# What may stand behind the colon; None is any text. A call has no agent of its own, so there it is refused.
KEYS: dict[Over, dict[str, tuple[str, ...] | None]] = {
    "runs": {
        "status": ("failed", "ok", "unanswered", "live", "ended", "idle"),
        "state": (*STATES, "child"),
        "cut": ("yes", "no"),
        "child": ("any", "yes", "no"),
        "tool": None,
        "family": None,
        "agent": None,
        "source": None,
        "model": None,
    },
    "calls": {
        "status": ("failed", "ok", "unanswered", "waiting"),
        "state": STATES,
        "cut": ("yes", "no"),
        "tool": None,
        "family": None,
    },
}
# Of these, a run or a call has one value at a time.
SINGLE: dict[Over, frozenset[str]] = {
    "runs": frozenset({"cut", "child", "agent", "source"}),
    "calls": frozenset({"cut", "tool", "family", "status"}),
}
EXCLUSIVE = (
    frozenset({"failed", "ok"}),
    frozenset({"live", "ended"}),
    frozenset({"live", "idle"}),
    frozenset({"ended", "idle"}),
)

# A quoted string ends at its quote; a backslash keeps the next character from meaning anything.
_TERM = re.compile(r'(?P<dash>-?)(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>\S*))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = re.compile(r'[^\s":\\-][^\s":\\]*')


@dataclass(frozen=True)
class Term:
    """One condition; `kind` is a key of the language, or "text"."""

    kind: str
    value: str
    is_negated: bool = False

    def __str__(self) -> str:
        value = self.value if self._is_plain else '"' + re.sub(r'(["\\])', r"\\\1", self.value) + '"'
        return ("-" if self.is_negated else "") + (value if self.kind == "text" else f"{self.kind}:{value}")

    @property
    def _is_plain(self) -> bool:
        return _PLAIN.fullmatch(self.value) is not None

    @property
    def opposite(self) -> Term:
        return Term(self.kind, self.value, not self.is_negated)


@dataclass(frozen=True)
class Query:
    """A parsed filter. `str(query)` writes it again in the language."""

    terms: tuple[Term, ...] = ()
    problems: tuple[str, ...] = ()
    over: Over = "runs"

    def __bool__(self) -> bool:
        return bool(self.terms or self.problems)

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __contains__(self, term: object) -> bool:
        return term in self.terms

    def runs(self, project: Project) -> QuerySet[Run]:
        """Unordered. Without a term, runs of subagents are left out; `child:no` leaves them out of a filter."""
        return Run.objects.none() if self.problems else queryset.runs(project, self.terms)

    def calls(self, run: Run) -> QuerySet[Call]:
        """In the order in which they stand in the run, inherited ones included."""
        return Call.objects.none() if self.problems else queryset.calls(run, self.terms)

    def calls_in(self, project: Project) -> QuerySet[Call]:
        """Of all runs, each once. Unordered."""
        return Call.objects.none() if self.problems else queryset.calls_in(project, self.terms)

    def toggled(self, kind: str, value: str) -> str:
        """The filter's text without that term when it has it, else with it and without its opposite."""
        term = Term(kind, value)
        kept = tuple(one for one in self.terms if one not in (term, term.opposite))
        added = () if term in self.terms else (term,)
        return str(Query(kept + added))


def parse(text: str, *, over: Over = "runs") -> Query:
    """Reads a filter; never raises."""
    if len(text) > LONGEST:
        return Query((), (f"The filter has {len(text)} characters; at most {LONGEST} are read.",), over)
    terms: list[Term] = []
    problems: list[str] = []
    for found in _words(text):
        term, problem = _term(found, over)
        if problem:
            problems.append(problem)
        elif term is not None and term not in terms:
            terms.append(term)
    if len(terms) > MOST_TERMS:
        problems.append(f"The filter has {len(terms)} terms; at most {MOST_TERMS} are read.")
    return Query(tuple(terms), (*problems, *_contradictions(terms, over)), over)


def _words(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None or found.end() == position:
            position += 1  # white space
            continue
        position = found.end()
        yield found


def _term(found: re.Match[str], over: Over) -> tuple[Term | None, str]:
    """The term, or the sentence that says what is wrong with the word."""
    key, quoted, bare = found["key"], found["quoted"], found["bare"] or ""
    value = column_text(bare if quoted is None else _ESCAPED.sub(r"\1", quoted), LONGEST)
    if quoted is None and bare.startswith('"'):
        return None, f"{_shown(found.group())} opens a quotation that nothing closes."
    if key is None:
        return _text_term(value, is_negated=bool(found["dash"]), word=found.group())
    return _keyed_term(key.lower(), value, over, is_negated=bool(found["dash"]))


def _text_term(value: str, *, is_negated: bool, word: str) -> tuple[Term | None, str]:
    if not value.strip():
        return None, f"{_shown(word)} names nothing to look for."
    return Term("text", value, is_negated), ""


def _keyed_term(key: str, value: str, over: Over, *, is_negated: bool) -> tuple[Term | None, str]:
    known = KEYS[over]
    if key not in known:
        return None, _unknown_key(key, over)
    allowed = known[key]
    if not value.strip():
        return None, f"“{key}:” has no value behind it."
    if allowed is None:
        return Term(key, value, is_negated), ""
    if value.lower() not in allowed:
        return None, f"“{key}:” cannot be {_shown(value)}; it is one of {', '.join(allowed)}."
    if is_negated and (key, value.lower()) == ("child", "any"):
        return None, "“-child:any” leaves no run at all."
    return Term(key, value.lower(), is_negated), ""


def _unknown_key(key: str, over: Over) -> str:
    elsewhere = "“{}:” filters runs, not the calls of a run." if key in KEYS["runs"] else "“{}:” is not a filter."
    known = ", ".join(f"{one}:" for one in KEYS[over])
    return f"{elsewhere.replace('{}', _clipped(key))} Known are {known}. To look for it as text, put it in quotes."


def _contradictions(terms: list[Term], over: Over) -> Iterator[str]:
    for term in terms:
        if not term.is_negated and term.opposite in terms:
            yield f"{_shown(str(term))} and {_shown(str(term.opposite))} cannot both hold."
    for first, second in _pairs([term for term in terms if not term.is_negated]):
        values = frozenset({first.value, second.value})
        if first.kind in SINGLE[over] or (first.kind == "status" and values in EXCLUSIVE):
            yield f"{_shown(str(first))} and {_shown(str(second))} cannot both hold."


def _pairs(terms: list[Term]) -> Iterator[tuple[Term, Term]]:
    for index, first in enumerate(terms):
        yield from ((first, second) for second in terms[index + 1 :] if second.kind == first.kind != "text")


def _shown(word: str) -> str:
    return f"“{_clipped(word)}”"


def _clipped(word: str) -> str:
    return word if len(word) <= 60 else word[:59] + "…"
