"""The rows behind a filter's terms: a QuerySet for runs, and one for the calls of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.core.cache import cache
from django.db.models import BooleanField, Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact, IsNull
from django.utils import timezone

from dashboard.filters.trigram import runs_with_text
from dashboard.models import Call, Project, ReceiptFingerprint, Run, RunFacet
from dashboard.models.identity import derived
from dashboard.models.runs import IDLE_BEFORE_ASSUMED_ENDED
from dashboard.prepared import Given, given, prepared

# Up to so many runs of a facet, or with a text, are named by id and sorted; more of them are met soon by
# walking the list's own index. Either way the work is bounded, whatever the planner believes.
FEW = 400
COMMON_FOR = 600  # seconds


class TermLike(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def is_negated(self) -> bool: ...


Facet = tuple[str, str]

FACETS = frozenset({"tool", "family", "agent", "source", "model", "state"})
# Terms that are a facet under another name.
SPELLINGS: dict[Facet, Facet] = {
    ("status", "failed"): ("state", "failed"),
    ("status", "unanswered"): ("state", "unanswered"),
    ("cut", "yes"): ("state", "cut"),
    ("child", "yes"): ("state", "child"),
}
# And those that are the absence of one.
ABSENT: dict[Facet, Facet] = {("status", "ok"): ("state", "failed"), ("cut", "no"): ("state", "cut")}


class Narrowed(NamedTuple):
    """`few` are ids among which every run is that can match; None where nothing rare was asked for."""

    terms: tuple[TermLike, ...]
    few: frozenset[UUID] | None


def narrowed(project: int, terms: Sequence[TermLike]) -> Narrowed:
    """What of the terms the database has still to look at, run by run. A text is compared even where it is rare."""
    few: frozenset[UUID] | None = None
    left = []
    for term in terms:
        found = None if term.is_negated else _if_few(project, term)
        if found is None or term.kind == "text":
            left.append(term)
        if found is not None:
            few = found if few is None else few & found
    return Narrowed(tuple(left), few)


def matching(
    project: int | Given, terms: Iterable[TermLike], idle: datetime | Given, *, has_children: bool, is_few: bool
) -> QuerySet[Run]:
    """Unordered. `idle` is the stamp before which a run that says nothing counts as over.

    Few runs are looked up by their ids: SQLite would take the index of the project, or of runs without a
    parent, for the better one and walk them all, so that those two columns are hidden from it.
    """
    own, parent = ((Coalesce(name, name) if is_few else F(name)) for name in ("project_id", "parent_id"))
    found: QuerySet[Run] = Run.objects.filter(Exact(own, project))
    found = found if has_children else found.filter(IsNull(parent, True))  # noqa: FBT003
    for term in terms:
        found = _run_term(found, term, idle)
    return found


def idle_before() -> datetime:
    return timezone.now() - IDLE_BEFORE_ASSUMED_ENDED


def with_children(terms: Sequence[TermLike]) -> bool:
    """Whether the runs of subagents are among what is asked for.

    The list of all runs has them below their parents. Whoever filters looks for something, a failure for
    instance, and a parent does not fail with its child: left out, nobody would find it.
    """
    return bool(terms)


def runs(project: Project, terms: Sequence[TermLike]) -> QuerySet[Run]:
    asked = narrowed(project.pk, terms)
    has_children, is_few = with_children(terms), asked.few is not None
    found = matching(project.pk, asked.terms, idle_before(), has_children=has_children, is_few=is_few)
    return found if asked.few is None else found.filter(pk__in=asked.few)


def _facet(term: TermLike) -> Facet | None:
    written = (term.kind, term.value)
    return SPELLINGS.get(written, written) if term.kind in FACETS or written in SPELLINGS else None


def _run_term(found: QuerySet[Run], term: TermLike, idle: datetime | Given) -> QuerySet[Run]:
    facet, absent = _facet(term), ABSENT.get((term.kind, term.value))
    if named := facet or absent:
        has = RunFacet.objects.filter(kind=named[0], value=named[1])
        return found.filter(_probed(has, is_wanted=bool(facet) is not term.is_negated))
    condition = _run_condition(term, idle)
    return found.exclude(condition) if term.is_negated else found.filter(condition)


def _probed(facets: QuerySet[RunFacet], *, is_wanted: bool) -> Case:
    """Asks the index of one run's facets, run by run along the list, until the page is full.

    PostgreSQL would rather hash all facets of that value, 10,000 for a page of 50. The CASE keeps it from
    joining, and the comparison of projects, which always holds, from hashing: it is no equality. An equality
    there would lead it to the index of the whole project.
    """
    probe = Exists(facets.filter(run=OuterRef("pk"), project_id__lte=OuterRef("project_id")))
    return Case(When(probe, then=Value(is_wanted)), default=Value(not is_wanted), output_field=BooleanField())


@prepared
def _runs_with_facet(most: int) -> QuerySet[Any, Any]:
    wanted = {name: given(name, RunFacet, name) for name in ("project", "kind", "value")}
    return RunFacet.objects.filter(**wanted).values_list("run_id")[:most]


def _if_few(project: int, term: TermLike) -> frozenset[UUID] | None:
    """The runs of a rare facet or text; None for a common one, which stays common and is not asked about each time."""
    facet = _facet(term)
    if facet is None and term.kind != "text":
        return None
    key = f"common-term:{derived(project, *(facet or ('text', term.value))).hex}"
    if cache.get(key):
        return None
    found = _runs_with(project, facet) if facet else runs_with_text(project, term.value, FEW + 1)
    if found is not None and len(found) > FEW:
        cache.set(key, "common", COMMON_FOR)
        return None
    return None if found is None else frozenset(found)


def _runs_with(project: int, facet: Facet) -> list[UUID]:
    return [row[0] for row in _runs_with_facet(FEW + 1, project=project, kind=facet[0], value=facet[1])]


def _run_condition(term: TermLike, idle_before: datetime | Given) -> Q:
    """Conditions on the run's own row."""
    idle = Q(last_at__isnull=True) | Q(last_at__lt=idle_before)
    match term.kind, term.value:
        case "text", text:
            return Q(title__icontains=text) | Q(external_id__icontains=text)
        case "status", "ended":
            return Q(ended_at__isnull=False)
        case "status", "live":
            return Q(ended_at__isnull=True) & ~idle
        case "status", "idle":
            return Q(ended_at__isnull=True) & idle
        case "child", "no":
            return Q(parent__isnull=True)
        case _:  # child:any
            return Q()


_FAILED_IN_TRUTH = Q(status=Call.Status.ERROR) | (Q(exit_status__isnull=False) & ~Q(exit_status=0))
FAILED = Q(source_error=True) | _FAILED_IN_TRUTH
UNANSWERED = Q(status=Call.Status.UNKNOWN)
# By the rule of tally.do_halves_disagree, asked of the database.
HALVES_DISAGREE = ~UNANSWERED & (
    (Q(source_error=True) & ~_FAILED_IN_TRUTH) | (Q(source_error=False) & _FAILED_IN_TRUTH)
)

CALL_CONDITIONS: dict[Facet, Q] = {
    ("status", "failed"): FAILED,
    ("status", "ok"): ~FAILED & ~UNANSWERED,
    ("status", "unanswered"): UNANSWERED,
    ("status", "waiting"): Q(is_waiting=True),
    ("state", "failed"): FAILED,
    ("state", "cut"): Q(is_cut=True),
    ("state", "unanswered"): UNANSWERED,
    ("state", "retried"): Q(attempt__gt=1),
    ("state", "halves"): HALVES_DISAGREE,
    ("state", "disagree"): Q(is_disagreeing=True),
    ("state", "drifted"): Q(pk__in=ReceiptFingerprint.objects.exclude(drift="").values("receipt__call")),
    ("cut", "yes"): Q(is_cut=True),
    ("cut", "no"): Q(is_cut=False),
}
CALL_VALUES: dict[str, Callable[[str], Q]] = {
    "tool": lambda value: Q(tool=value),
    "family": lambda value: Q(family=value),
    "text": lambda value: _any_contains(("tool", "summary", "external_id", "error_kind"), value),
}


def calls(run: Run | Given, terms: Sequence[TermLike]) -> QuerySet[Call]:
    return _matching(Call.objects.filter(memberships__run=run).order_by("memberships__ordinal", "id"), terms)


def calls_in(project: Project, terms: Sequence[TermLike]) -> QuerySet[Call]:
    return _matching(Call.objects.filter(project=project), terms)


def _matching(found: QuerySet[Call], terms: Sequence[TermLike]) -> QuerySet[Call]:
    for term in terms:
        condition = _call_condition(term)
        found = found.exclude(condition) if term.is_negated else found.filter(condition)
    return found


def _call_condition(term: TermLike) -> Q:
    known = CALL_CONDITIONS.get((term.kind, term.value))
    return CALL_VALUES[term.kind](term.value) if known is None else known


def _any_contains(columns: Iterable[str], value: str) -> Q:
    condition = Q()
    for column in columns:
        condition |= Q(**{f"{column}__icontains": value})
    return condition
