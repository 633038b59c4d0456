"""The conditions of the database for a filter's tree.

A condition is on the row of a run, of a call, or of a call as a run lists it (`RunCall`): a fork may have another
receipt of a call that it copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.lookups import In
from django.utils import timezone

from dashboard.filters.call_values import (
    CALL,
    MEASURES,
    MEMBER,
    RUN,
    TIMES,
    Row,
    compare,
    has_receipt,
    has_seen,
    has_time,
    hidden,
    receipt_value,
)
from dashboard.filters.keys import KEYS, describe_subject, phrase_of
from dashboard.filters.names import Names
from dashboard.filters.syntax import TEXT, And, Node, Not, Or, Term
from dashboard.models import (
    Assignment,
    Message,
    Note,
    ReceiptFingerprint,
    RecordedReceipt,
    Remark,
    RequestUsage,
    ReviewMark,
    RunCall,
    RunFacet,
    Tag,
)
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import FAILED, HALVES_DISAGREE, IDLE_BEFORE_ASSUMED_ENDED, UNANSWERED
from dashboard.models.search import ANY, count_calls_with, is_exact, is_read_whole, matching_ids
from envelopes.text.search_words import Phrase

FACETS = frozenset(
    {"tool", "family", "outcome", "risk", "reason", "author", "error"}
    | {"agent", "source", "model", "branch", "state", "context", "remark", "tag", "assigned"}
)
# Terms that are another name of a facet.
FACET_ALIASES = {
    ("status", "failed"): ("state", "failed"),
    ("status", "unanswered"): ("state", "unanswered"),
    ("status", "skipped"): ("outcome", Outcome.SKIPPED.value),
    ("cut", "yes"): ("state", "cut"),
    ("child", "yes"): ("state", "child"),
}
# Terms that mean of a run that it lacks a facet.
ABSENT_FACETS = {("status", "ok"): ("state", "failed"), ("cut", "no"): ("state", "cut")}

CALL_CONDITIONS: dict[tuple[str, str], Q] = {
    ("status", "failed"): FAILED,
    ("status", "ok"): Q(outcome=Outcome.SUCCEEDED),
    ("status", "skipped"): Q(outcome=Outcome.SKIPPED),
    ("status", "unanswered"): UNANSWERED,
    ("status", "waiting"): Q(is_waiting=True),
    ("state", "failed"): FAILED,
    ("state", "unanswered"): UNANSWERED,
    ("state", "retried"): Q(attempt__gt=1),
    ("state", "halves"): HALVES_DISAGREE,
    ("state", "disagree"): Q(is_disagreeing=True),
    ("state", "drifted"): Q(pk__in=ReceiptFingerprint.objects.exclude(drift="").values("receipt__call")),
}
CALL_TEXTS = ("tool", "summary", "external_id", "error_kind")
RUN_COLUMNS = {"failed": "failed_count", "calls": "call_count"}
COLUMNS = {"error": "error_kind", "exit": "exit_status"}
COLUMNS |= dict.fromkeys(("after", "before", "age"), "started_at")
RECEIPT_COLUMNS = {"cut": "is_cut", "author": "author", "tokens": "tokens"}


class Conditions:
    """Builds the conditions for one project, all at one time of day.

    A term about payloads becomes what the index finds: with `exact`, the calls that contain it, the condition is met
    by those alone; without, by every call that may contain it, and in a negation by none that may not.
    """

    def __init__(self, project_id: int, exact: Mapping[Term, Collection[UUID]] | None = None) -> None:
        self.names = Names(project_id)
        self._now = timezone.now()
        self._exact = exact or {}
        self._is_negated = False
        self._counts: dict[Term, int] = {}

    def on_call(self, node: Node, row: Row) -> Q:
        """A condition on each call, its run included. `row` is CALL or MEMBER."""
        match node:
            case Term():
                is_about_run = describe_subject(node, "calls") == "run"
                return self._run_term(node, row) if is_about_run else self._call_term(node, row)
            case Not():
                return self._negate(self.on_call, node, row)
        return _join(node, [self.on_call(child, row) for child in node.nodes])

    def on_run(self, node: Node, row: Row = RUN) -> Q:
        """A condition on each run. `row` is RUN, or MEMBER for the run of a call that it lists."""
        match node:
            case Term():
                if describe_subject(node, "runs") == "run":
                    return self._run_term(node, row)
                facet = self.facet(node)
                condition = _has_facet(row, *facet) if facet else _has_call(row, self._call_term(node, MEMBER))
                return condition | self._has_message(node, row) if node.kind == ANY else condition
            case Not():
                return self._negate(self.on_run, node, row)
            case Or():
                return _join(node, [self.on_run(child, row) for child in node.nodes])
        one_call = [child for child in node.nodes if asks_for_call(child)]
        if len(one_call) < 2:
            return _join(node, [self.on_run(child, row) for child in node.nodes])
        facets = [facet for child in one_call if isinstance(child, Term) and (facet := self.facet(child))]
        conditions = [_has_facet(row, *facet) for facet in facets]
        conditions += [self.on_run(child, row) for child in node.nodes if child not in one_call]
        shared = And(tuple(one_call))
        met = _has_call(row, self.on_one_call(shared, MEMBER))
        if not any(isinstance(child, Term) for child in one_call):  # a run without calls may meet every `or`
            met |= self.on_one_call(shared, row, has_call=False)
        return _join(node, [*conditions, met])

    def _negate(self, build: Callable[[Node, Row], Q], node: Not, row: Row) -> Q:
        self._is_negated = not self._is_negated
        try:
            return ~build(node.node, row)
        finally:
            self._is_negated = not self._is_negated

    def on_one_call(self, node: Node, row: Row, *, has_call: bool = True) -> Q:
        """A condition on a call that a run lists, in a filter over runs; or on the run alone, for no call at all."""
        match node:
            case Term():
                if describe_subject(node, "runs") == "run":
                    return self._run_term(node, row)
                return self._call_term(node, row) if has_call else Q(pk__in=[])
            case Not():
                return self._negate(self.on_run, node, row)
        parts = [
            self.on_run(child, row)
            if isinstance(node, And) and isinstance(child, And)
            else self.on_one_call(child, row, has_call=has_call)
            for child in node.nodes
        ]
        return _join(node, parts)

    def facet(self, term: Term) -> tuple[str, list[str]] | None:
        """The kind and the values of the facet that runs with such a call, or such runs, have; None without one."""
        kind, value = FACET_ALIASES.get((term.kind, term.value), (term.kind, term.value))
        if kind not in FACETS:
            return None
        return kind, self._names_of(term) if KEYS[kind].is_name else [value]

    def _names_of(self, term: Term) -> list[str]:
        """The names that the term means; the term's own is one even when it occurs nowhere."""
        names = self.names.matching(term)
        return names if term.is_pattern or term.value in names else [*names, term.value]

    def _run_term(self, term: Term, row: Row) -> Q:
        if absent := ABSENT_FACETS.get((term.kind, term.value)):
            return ~_has_facet(row, absent[0], [absent[1]])
        if facet := self.facet(term):
            return _has_facet(row, *facet)
        last_at = f"{row.run}last_at"
        lease = f"{row.run}lease_until"
        is_silent = Q(**{f"{last_at}__isnull": True}) | Q(**{f"{last_at}__lt": self._now - IDLE_BEFORE_ASSUMED_ENDED})
        is_idle = (is_silent & Q(**{f"{lease}__isnull": True})) | Q(**{f"{lease}__lt": self._now})
        is_open = Q(**{f"{row.run}ended_at__isnull": True})
        match term.kind, term.value:
            case "status", "ended":
                return ~is_open
            case "status", status:
                return is_open & (is_idle if status == "idle" else ~is_idle)
            case "child", "no":
                return Q(**{f"{row.run}parent__isnull": True})
            case "child", _:
                return Q()
            case "note" | "reviewed", _:
                return _is_annotated(term, row.run_id, is_run=True)
            case "title", text:
                return Q(**{f"{row.run}title__icontains": text})
            case "text", text:
                return Q(**{f"{row.run}title__icontains": text}) | Q(**{f"{row.run}external_id__icontains": text})
        return self.bounded(term, row.run + RUN_COLUMNS.get(term.kind, "sort_at"))

    def _call_term(self, term: Term, row: Row) -> Q:
        kind, value = term.kind, term.value
        if phrase := phrase_of(term):
            return self._payload_term(term, phrase, row)
        if condition := CALL_CONDITIONS.get((kind, value)):
            return _prefix(condition, row.call)
        if kind == TEXT:
            return reduce(or_, (Q(**{f"{row.call}{column}__icontains": value}) for column in CALL_TEXTS))
        if (kind, value) == ("state", "cut") or kind in RECEIPT_COLUMNS:
            bounds = self.bounds(term) or {"exact": value if kind == "author" else value != "no"}
            condition = compare(receipt_value(row, RECEIPT_COLUMNS.get(kind, "is_cut")), bounds)
            return condition & has_receipt(row) if (kind, value) == ("cut", "no") else condition
        if kind == "context":
            return _is_uncertain(row)
        if kind == "remark":
            remarks = Remark.objects.filter(kind=value, call__isnull=False)
            return Q(**{f"{row.call}pk__in": remarks.values("call")})
        if kind in ("tag", "assigned", "note", "reviewed"):
            key = "call_id" if row is MEMBER else "pk"
            return _is_annotated(term, key, is_run=False, names=self._names_of(term) if KEYS[kind].is_name else ())
        column = row.call + COLUMNS.get(kind, kind)
        if KEYS[kind].is_name:
            return Q(**{f"{column}__in": self._names_of(term)})
        if kind in MEASURES:
            bounds = self.bounds(term)
            return has_time(kind, bounds, row.call, is_hidden=True) if kind in TIMES else has_seen(row, bounds)
        return Q(**{column: value}) if KEYS[kind].words else self.bounded(term, column)

    def _payload_term(self, term: Term, phrase: Phrase, row: Row) -> Q:
        exact = self._exact.get(term)
        if exact is not None:
            return Q(**{f"{row.call}pk__in": exact})
        if self._is_negated and not is_exact(phrase):
            return Q(pk__in=[])
        column = f"{row.call}search_id"
        if phrase.parts:
            return Q(**{f"{column}__isnull": False})
        if row is not CALL:
            return Q(**{f"{column}__in": matching_ids(term.kind, phrase)})
        if self.is_in_few_calls(term):
            return Q(**{f"{column}__in": matching_ids(term.kind, phrase, is_listed=True)})
        # Of a phrase that only the texts decide on, no more is read than a page shows.
        if is_exact(phrase) and is_read_whole(self._count_calls(term, phrase)):
            return _probed(In(hidden(column), matching_ids(term.kind, phrase, is_listed=True)))
        ids = matching_ids(term.kind, phrase, is_listed=self._is_negated)
        return Q(In(hidden(column), ids))  # not one by one

    def is_in_few_calls(self, term: Term) -> bool:
        """True for a payload term that few calls contain; those with it are looked up one by one."""
        phrase = phrase_of(term)
        return phrase is not None and not phrase.parts and self._count_calls(term, phrase) <= settings.FEW_CALLS

    def _count_calls(self, term: Term, phrase: Phrase) -> int:
        """The calls that contain a payload term, as `count_calls_with` counts or estimates more than a few."""
        if term not in self._counts:
            self._counts[term] = count_calls_with(term.kind, phrase, settings.FEW_CALLS + 1)
        return self._counts[term]

    def _has_message(self, term: Term, row: Row) -> Q:
        phrase = phrase_of(term)
        if phrase is None or not is_exact(phrase):
            return Q(pk__in=[])
        messages = Message.objects.filter(search_id__in=matching_ids(term.kind, phrase), run=OuterRef(row.run_id))
        return _probed(Exists(messages))

    def bounded(self, term: Term, column: str) -> Q:
        return Q(**{f"{column}__{lookup}": bound for lookup, bound in self.bounds(term).items()})

    def bounds(self, term: Term) -> dict[str, Any]:
        read = KEYS[term.kind].read
        bounds = (read and read(term.value)) or {}
        return {lookup: self._now - bound if term.kind == "age" else bound for lookup, bound in bounds.items()}


def _join(node: And | Or, conditions: list[Q]) -> Q:
    return reduce(or_ if isinstance(node, Or) else and_, conditions, Q())


def asks_for_call(node: Node) -> bool:
    """True for a term about calls, and for an `or` with one: what stands beside it may ask for the same call."""
    match node:
        case Term():
            return describe_subject(node, "runs") == "call"
        case Or():
            return any(_contains_call_term(child) for child in node.nodes)
    return False


def _contains_call_term(node: Node) -> bool:
    match node:
        case Term():
            return asks_for_call(node)
        case Not():
            return False
    return any(map(_contains_call_term, node.nodes))


def _has_facet(row: Row, kind: str, values: list[str]) -> Q:
    """Runs that have the facet, looked up in an index run by run along a list, until the page is full."""
    facets = RunFacet.objects.filter(kind=kind, value__in=values)
    return _probed(Exists(facets.filter(run=OuterRef(row.run_id), project_id__lte=OuterRef(row.project))))


def _has_call(row: Row, condition: Q) -> Q:
    members = RunCall.objects.filter(condition, run=OuterRef(row.run_id))
    return _probed(Exists(members.filter(call__project_id__lte=OuterRef(row.project))))


def _probed(probe: Exists | In) -> Q:
    """The probe as a condition that is tried row by row; the list of an `In` is read once.

    PostgreSQL would rather hash all facets of a value, 10,000 for a page of 50. The CASE keeps it from joining, and
    the comparison of projects in the probe, which always holds, from hashing because it is not an equality. An
    equality there would lead it to the index of the whole project.
    """
    return Q(Case(When(probe, then=Value(value=True)), default=Value(value=False), output_field=BooleanField()))


def _is_annotated(term: Term, key: str, *, is_run: bool, names: Collection[str] = ()) -> Q:
    """A condition on the run or the call whose id is in the column `key`; a run has the notes of its calls too."""
    subject = "run" if is_run else "call"
    is_absent = term.value.casefold() == "no"
    value = "yes" if is_absent else term.value
    match term.kind:
        case "tag":
            rows: QuerySet[Any] = Tag.objects.filter(name__in=names)
        case "assigned":
            rows = Assignment.objects.filter(to__username__in=names)
        case "reviewed":
            rows = ReviewMark.objects.all()
        case _:
            rows = Note.objects.matching(value)
    condition = Q(**{f"{key}__in": rows.filter(**{f"{subject}__isnull": False}).values(subject)})
    if is_run and term.kind == "note":
        of_calls = RunCall.objects.filter(call__in=rows.filter(call__isnull=False).values("call"))
        condition |= Q(**{f"{key}__in": of_calls.values("run")})
    return ~condition if is_absent and term.kind in ("note", "reviewed") else condition


def _is_uncertain(row: Row) -> Q:
    """Calls that were in the context of a run when tokens left it unexplained, and that nothing had removed before.

    Of a CALL its own run counts, of a MEMBER the run that lists it.
    """
    removed = RecordedReceipt.objects.filter(
        call=OuterRef(OuterRef("call")), superseded_line__lte=OuterRef("line"), run=OuterRef("run")
    )
    drops = RequestUsage.objects.filter(
        run=OuterRef("run"),
        dropped_tokens__gt=0,
        dropped_after__lt=OuterRef("ordinal"),
        dropped_before__gt=OuterRef("ordinal"),
    ).exclude(Exists(removed))
    if row is MEMBER:
        return Q(Exists(drops))
    # The few runs with a drop first: otherwise the databases look for drops of every call.
    with_drops = RequestUsage.objects.filter(dropped_tokens__gt=0).values("run")
    return Q(pk__in=RunCall.objects.filter(Exists(drops), run=F("call__run"), run__in=with_drops).values("call"))


def _prefix(condition: Q, prefix: str) -> Q:
    """The condition on the row that `prefix` leads to."""
    children: list[Any] = condition.children
    moved = [_prefix(item, prefix) if isinstance(item, Q) else (prefix + item[0], item[1]) for item in children]
    return Q(*moved, _connector=condition.connector, _negated=condition.negated)
