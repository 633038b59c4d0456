"""The query language of the filter bar: `status:failed tool:Bash -family:file cut:yes "quoted text" words`.

`parse(text)` reads a filter over runs, `parse(text, over="calls")` one over the calls of a run. A word that cannot be
read, or terms that no run can meet together, are reported in `Query.problems`, a sentence each that names the word.
Such a query matches nothing, so that a mistake is never taken for a result.

    query = parse(request.GET.get("q", ""), over="calls")
    query.problems            # sentences for the page
    query.calls(run)          # the run's calls that match, in their order
    query.toggled("tool", "Bash")   # the text of the filter with that term added, or removed

Every term must hold. A dash before a term negates it. Facets of a run are looked up in `RunFacet`, by index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

from dashboard.filters import queryset
from dashboard.models import Call, Project, Remark, Run
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import CallQuerySet, ReceiptAuthor, RunQuerySet
from dashboard.text.formatting import column_text
from envelopes.schema.outcome import DeniedReason
from envelopes.schema.tool import RiskLevel

MAX_CHARACTERS = 2_000
MAX_TERMS = 20

Over = Literal["runs", "calls"]

STATES = ("failed", "cut", "unanswered", "retried", "halves", "disagree", "drifted")
# The values that may follow the colon; None is any text. A call has no agent of its own, so `agent:` is for runs only.
KEYS: dict[Over, dict[str, tuple[str, ...] | None]] = {
    "runs": {
        "status": ("failed", "ok", "skipped", "unanswered", "live", "ended", "idle"),
        "outcome": tuple(Outcome.values),
        "risk": get_args(RiskLevel),
        "reason": get_args(DeniedReason),
        "state": (*STATES, "child"),
        "cut": ("yes", "no"),
        "author": tuple(ReceiptAuthor.values),
        "context": ("uncertain",),
        "remark": tuple(Remark.Kind.values),
        "child": ("any", "yes", "no"),
        "tool": None,
        "family": None,
        "agent": None,
        "source": None,
        "model": None,
    },
    "calls": {
        "status": ("failed", "ok", "skipped", "unanswered", "waiting"),
        "outcome": tuple(Outcome.values),
        "risk": get_args(RiskLevel),
        "reason": get_args(DeniedReason),
        "state": STATES,
        "cut": ("yes", "no"),
        "author": tuple(ReceiptAuthor.values),
        "context": ("uncertain",),
        "remark": tuple(Remark.Kind.values),
        "tool": None,
        "family": None,
    },
}
# A run or a call has only one value of these at a time.
SINGLE: dict[Over, frozenset[str]] = {
    "runs": frozenset({"cut", "child", "agent", "source"}),
    "calls": frozenset({"cut", "author", "tool", "family", "status", "outcome", "risk", "reason"}),
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

    def runs(self, project: Project) -> RunQuerySet:
        """Matching runs, unordered. Runs of subagents are omitted without a term, or with `child:no`."""
        return Run.objects.none() if self.problems else queryset.select_runs(project, self.terms).runs

    def calls(self, run: Run) -> CallQuerySet:
        """Matching calls of a run in its order, inherited ones included."""
        return (
            Call.objects.none() if self.problems else queryset.filter_calls(Call.objects.in_run(run), self.terms, run)
        )

    def calls_in(self, project: Project) -> CallQuerySet:
        """Matching calls of all runs, each once and as its own run has it, unordered."""
        calls = Call.objects.filter(project=project)
        return Call.objects.none() if self.problems else queryset.filter_calls(calls, self.terms)

    def toggled(self, kind: str, value: str) -> str:
        """The filter's text without that term when it has it, else with it and without its opposite."""
        toggled = Term(kind, value)
        terms = tuple(term for term in self.terms if term not in (toggled, toggled.opposite))
        return str(Query(terms if toggled in self.terms else (*terms, toggled)))


def parse(text: str, *, over: Over = "runs") -> Query:
    """Reads a filter. Never raises."""
    if len(text) > MAX_CHARACTERS:
        return Query((), (f"The filter has {len(text)} characters; at most {MAX_CHARACTERS} are read.",), over)
    terms: list[Term] = []
    problems: list[str] = []
    for word in _TERM.finditer(text):
        if not word.group():
            continue  # white space
        term, problem = _parse_term(word, over)
        if problem:
            problems.append(problem)
        elif term is not None and term not in terms:
            terms.append(term)
    if len(terms) > MAX_TERMS:
        problems.append(f"The filter has {len(terms)} terms; at most {MAX_TERMS} are read.")
    return Query(tuple(terms), (*problems, *_contradictions(terms, over)), over)


def _parse_term(word: re.Match[str], over: Over) -> tuple[Term | None, str]:
    """The term, or a sentence about what is wrong with the word."""
    key, quoted, bare = word["key"], word["quoted"], word["bare"] or ""
    value = column_text(bare if quoted is None else _ESCAPED.sub(r"\1", quoted), MAX_CHARACTERS)
    is_negated = bool(word["dash"])
    if quoted is None and bare.startswith('"'):
        return None, f"{_quote(word.group())} opens a quotation that nothing closes."
    if key is not None:
        return _parse_keyed_term(key.lower(), value, over, is_negated=is_negated)
    if not value.strip():
        return None, f"{_quote(word.group())} contains no text to search for."
    return Term("text", value, is_negated), ""


def _parse_keyed_term(key: str, value: str, over: Over, *, is_negated: bool) -> tuple[Term | None, str]:
    if key not in KEYS[over]:
        return None, _unknown_key(key, over)
    values = KEYS[over][key]
    if not value.strip():
        return None, f"“{key}:” has no value behind it."
    if values is None:
        return Term(key, value, is_negated), ""
    if value.lower() not in values:
        return None, f"“{key}:” cannot be {_quote(value)}; it is one of {', '.join(values)}."
    if is_negated and (key, value.lower()) == ("child", "any"):
        return None, "“-child:any” leaves no run at all."
    return Term(key, value.lower(), is_negated), ""


def _unknown_key(key: str, over: Over) -> str:
    name = f"“{_shorten(key)}:”"
    problem = f"{name} filters runs, not the calls of a run." if key in KEYS["runs"] else f"{name} is not a filter."
    keys = ", ".join(f"{known}:" for known in KEYS[over])
    return f"{problem} Known are {keys}. Payload text is not searchable yet; titles and ids are, in quotes."


def _contradictions(terms: list[Term], over: Over) -> Iterator[str]:
    for term in terms:
        if not term.is_negated and term.opposite in terms:
            yield f"{_quote(str(term))} and {_quote(str(term.opposite))} cannot both hold."
    for first, second in combinations([term for term in terms if not term.is_negated], 2):
        if first.kind != second.kind or first.kind == "text":
            continue
        values = frozenset({first.value, second.value})
        if first.kind in SINGLE[over] or (first.kind == "status" and values in EXCLUSIVE):
            yield f"{_quote(str(first))} and {_quote(str(second))} cannot both hold."


def _quote(word: str) -> str:
    return f"“{_shorten(word)}”"


def _shorten(word: str) -> str:
    return word if len(word) <= 60 else word[:59] + "…"
