"""The filter language of Runs, Calls, comparisons and the command line, and what a filter selects.

    query = parse(request.GET.get("q", ""), over="calls")
    query.problems            # sentences for the page
    query.calls(run)          # the run's calls that match, in their order
    query.toggled("tool", "Bash")   # the text of the filter with that term added, or removed

`parse(text)` reads a filter over runs, `parse(text, over="calls")` one over calls; both know the same keys. What cannot
be read, or cannot hold, is reported in `Query.problems`, a sentence each that names the place. Such a query matches
nothing, so that a mistake is never taken for a result.

Over calls every term is about the row's call, or about the run of that call. Over runs:

* a term about the run holds for the run; words are looked for in its title and id.
* terms about calls that stand beside each other ask for one call that meets all of them; `or` between them too.
* parentheses without an `or` ask for a call of their own: `(tool:Bash) (cut:yes)`. Terms that no one call can meet
  together (`tool:Bash tool:Read`) are taken as if each stood in parentheses.
* a dash before a term about calls means that the run has no such call.
* `status:ok` and `cut:no` mean that no call of the run failed, or was cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from dashboard.filters import queryset
from dashboard.filters.keys import CALL_STATUSES, KEYS, Over, check_term, describe_subject, phrase_of
from dashboard.filters.names import Names
from dashboard.filters.syntax import (
    TEXT,
    And,
    Node,
    Not,
    Or,
    Term,
    describe_place,
    inner_nodes,
    iterate_terms,
    parse_tree,
    replace_terms,
)
from dashboard.models import Call, Project, Run
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import CallQuerySet, RunQuerySet
from dashboard.models.search import ANY, is_exact
from dashboard.text.formatting import column_text
from envelopes.text.search_words import split_words

MAX_CHARACTERS = 2_000
MAX_TERMS = 20
NEWEST = "newest"  # the sort of a list that names no other
PRESET_KEYS = "1234567890"

# A call or a run has only one value of these at a time.
SINGLE_IN_CALL = frozenset({"cut", "author", "tool", "family", "outcome", "risk", "reason", "error"})
SINGLE_IN_RUN = frozenset({"cut", "child", "agent", "source", "branch"})
EXCLUSIVE_STATUSES = (
    frozenset({"failed", "ok"}),
    frozenset({"live", "ended"}),
    frozenset({"live", "idle"}),
    frozenset({"ended", "idle"}),
)
# What `conditions` makes of a status: the outcomes that a call with it may have.
OUTCOMES_OF_STATUSES = {
    "failed": (Outcome.FAILED, Outcome.TIMED_OUT),
    "ok": (Outcome.SUCCEEDED,),
    "skipped": (Outcome.SKIPPED,),
}


class Preset(NamedTuple):
    """A frequent filter. Bookmarks contain the id: it is never renamed or reused for another filter."""

    id: str
    label: str
    meaning: str
    query: str
    sort: str = NEWEST


class PresetLink(NamedTuple):
    """`key` is its key on the keyboard: 1 to 9, then 0, none for later ones."""

    preset: Preset
    is_current: bool
    key: str


@dataclass(frozen=True)
class Query:
    """A parsed filter. `str(query)` writes it again in the language."""

    tree: And | Or = And()
    problems: tuple[str, ...] = ()
    over: Over = "runs"

    def __bool__(self) -> bool:
        return bool(self.tree.nodes or self.problems)

    def __str__(self) -> str:
        return str(self.tree)

    def __contains__(self, term: object) -> bool:
        """True when the whole filter demands the term, written in any case."""
        return isinstance(term, Term) and any(_are_same(term, other) for _, other in _demanded_terms(self.tree))

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms, those that are negated or behind an `or` too."""
        return tuple(iterate_terms(self.tree))

    @property
    def payload_terms(self) -> tuple[Term, ...]:
        """The terms that search in payloads, each once."""
        return tuple(dict.fromkeys(term for term in self.terms if phrase_of(term)))

    def runs(self, project: Project) -> RunQuerySet:
        """Matching runs, unordered. Runs of subagents are omitted without a term, or with `child:no`."""
        return Run.objects.none() if self.problems else queryset.select_runs(project, self.tree).runs

    def calls(self, run: Run) -> CallQuerySet:
        """Matching calls of a run in its order, inherited ones included, each as this run has it."""
        if self.problems:
            return Call.objects.none()
        return queryset.filter_run_calls(Call.objects.in_run(run), self.tree, run)

    def calls_in(self, project: Project) -> CallQuerySet:
        """Matching calls of all runs, each once and as its own run has it, unordered."""
        return Call.objects.none() if self.problems else queryset.select_calls(project, self.tree)

    def hints(self, project: Project) -> list[str]:
        """A sentence for each name in the filter that occurs nowhere in the project, with the nearest that does."""
        return [] if self.problems else list(Names(project.pk).hints(iterate_terms(self.tree)))

    def in_payloads(self) -> str:
        """The filter's text with its words searched in payloads; empty without words."""
        if not any(term.kind == TEXT and split_words(term.value) for term in self.terms):
            return ""
        return str(replace_terms(self.tree, lambda term: Term(ANY, term.value) if term.kind == TEXT else term))

    @property
    def is_readable(self) -> bool:
        """False for a filter that was narrowed until it passes what `parse` reads."""
        return len(str(self)) <= MAX_CHARACTERS and len(list(iterate_terms(self.tree))) <= MAX_TERMS

    def narrowed(self, *nodes: Node) -> Query:
        """The filter with more conditions, which hold beside all of it, an `or` included."""
        own = self.tree.nodes if isinstance(self.tree, And) else (self.tree,)
        return Query(And((*own, *(node for node in nodes if node not in own))), self.problems, self.over)

    def toggled(self, kind: str, value: str) -> str:
        """The filter's text without that term when it has it, else with it and without its opposite."""
        toggled = Term(kind, value)
        if toggled in self:
            gone = [node for node, term in _demanded_terms(self.tree) if _are_same(term, toggled)]
            return str(And(tuple(node for node in self.tree.nodes if node not in gone)))
        nodes = self.tree.nodes if isinstance(self.tree, And) else (self.tree,)
        is_opposite = [isinstance(node, Not) and _are_same(node.node, toggled) for node in nodes]
        others = (node for node, is_gone in zip(nodes, is_opposite, strict=True) if not is_gone)
        return str(And((*others, toggled)))


def parse(text: str, *, over: Over = "runs", reads_texts: bool = False) -> Query:
    """Reads a filter. Never raises.

    A caller that looks at the texts of what is selected (`search.match`) `reads_texts`; for others, what no index can
    tell is a problem.
    """
    if len(text) > MAX_CHARACTERS:
        problem = f"The filter has {len(text)} characters; at most {MAX_CHARACTERS} are read."
        return Query(problems=(problem,), over=over)
    read, problems = parse_tree(text)

    def check(term: Term) -> Term | None:
        clean = Term(term.kind, column_text(term.value, MAX_CHARACTERS), term.is_pattern, term.at)
        checked, problem = check_term(clean)
        problem = problem or ("" if reads_texts else _explain_unindexed(checked))
        problems.extend([problem] if problem else [])
        return None if problem else checked

    tree = replace_terms(read, check) or And()
    tree = tree if isinstance(tree, (And, Or)) else And((tree,))
    if (number := len(list(iterate_terms(tree)))) > MAX_TERMS:
        problems.append(f"The filter has {number} terms; at most {MAX_TERMS} are read.")
    tree = _separate_calls(tree) if over == "runs" else tree
    return Query(tree, (*problems, *_contradictions(tree, over)), over)


def _explain_unindexed(term: Term) -> str:
    phrase = phrase_of(term)
    if phrase is None or is_exact(phrase):
        return ""
    name = f"“{_shorten(term)}” {describe_place(term.at)}"
    if phrase.parts:
        return f"{name} is looked for call by call, which only the Calls page does; whole words are found here too."
    return f"{name} is looked for call by call, which only the Calls page does; single words are found here too."


def link_presets(presets: Sequence[Preset], query: str, sort: str) -> list[PresetLink]:
    """The presets of a list that shows this filter and sort."""
    return [
        PresetLink(preset, (preset.query, preset.sort) == (query, sort), PRESET_KEYS[index : index + 1])
        for index, preset in enumerate(presets)
    ]


def _demanded_terms(tree: And | Or) -> Iterator[tuple[Node, Term]]:
    """The terms that every match meets, each with its node of the tree: the term, or parentheses around it alone."""
    for node in tree.nodes if isinstance(tree, And) else ():
        inner = node.nodes[0] if isinstance(node, And) and len(node.nodes) == 1 else node
        if isinstance(inner, Term):
            yield node, inner


def _are_same(first: Node, second: Node) -> bool:
    if not (isinstance(first, Term) and isinstance(second, Term)):
        return False
    is_name = first.kind in KEYS and KEYS[first.kind].is_name
    values = [term.value.casefold() if is_name else term.value for term in (first, second)]
    return (first.kind, first.is_pattern, values[0]) == (second.kind, second.is_pattern, values[1])


def _separate_calls(tree: And | Or) -> And | Or:
    """The tree with parentheses around each term about calls, where no one call can meet all of them."""
    nodes = tuple(_separate_calls(node) if isinstance(node, (And, Or)) else node for node in tree.nodes)
    if isinstance(tree, Or):
        return Or(nodes)
    terms = [node for node in nodes if isinstance(node, Term) and describe_subject(node, "runs") == "call"]
    if not any(exclude_each_other(first, second, "calls") for first, second in combinations(terms, 2)):
        return And(nodes)
    return And(tuple(And((node,)) if node in terms else node for node in nodes))


def _contradictions(node: Node, over: Over) -> Iterator[str]:
    for child in inner_nodes(node):
        yield from _contradictions(child, over)
    if not isinstance(node, And):
        return
    demanded = [term for _, term in _demanded_terms(node)]
    for opposite in (child.node for child in node.nodes if isinstance(child, Not)):
        if str(opposite) == "child:any":
            yield "“-child:any” leaves no run at all."
        for term in demanded:
            if _are_same(term, opposite):
                yield f"“{_shorten(term)}” and “-{_shorten(opposite)}” cannot both hold."
    for first, second in combinations(demanded, 2):
        if exclude_each_other(first, second, over):
            yield f"“{_shorten(first)}” and “{_shorten(second)}” cannot both hold."


def exclude_each_other(first: Term, second: Term, over: Over) -> bool:
    """True for terms that no one run or call can meet together."""
    if first.is_pattern or second.is_pattern:
        return False
    if (first.kind, second.kind) in (("status", "outcome"), ("outcome", "status")):
        status, outcome = sorted((first, second), key=lambda term: term.kind == "outcome")
        return over == "calls" and outcome.value not in OUTCOMES_OF_STATUSES.get(status.value, (outcome.value,))
    if first.kind != second.kind or first.kind == TEXT or _are_same(first, second):
        return False
    values = frozenset({first.value, second.value})
    if first.kind == "status":
        return values in EXCLUSIVE_STATUSES or (over == "calls" and values <= frozenset(CALL_STATUSES))
    return first.kind in SINGLE_IN_RUN or (over == "calls" and first.kind in SINGLE_IN_CALL)


def _shorten(node: Node) -> str:
    word = str(node)
    return word if len(word) <= 60 else word[:59] + "…"
