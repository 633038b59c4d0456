"""Comparisons from their form to their stored results, which `measure_batches` computes in the background.

A comparison has columns, the rows of its batches and a summary; it can be cancelled, resumed and pinned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, Sum
from django.http import QueryDict
from django.utils import timezone

from dashboard.experiments.measure_calls import MeasuredCall, pack_ids, unpack_rows
from dashboard.experiments.significance import draw_sample
from dashboard.experiments.stored_columns import column_rows
from dashboard.experiments.summary import Summary, unpack_summary
from dashboard.filters.language import Query, parse
from dashboard.models import Call, Comparison, ComparisonBatch, ComparisonColumn, Project
from dashboard.models.runs import CallQuerySet
from dashboard.text.formatting import column_text
from dashboard.text.params import Params, parse_integer
from dashboard.variants.variant_list import (
    RECORDED,
    OffersByFamily,
    bind_columns,
    find_variant,
    offered_by_family,
    variant_names,
)
from envelopes.families.registry import all_families

SUGGESTED = ("receipt",)
MOST_SAMPLED = 1_000_000  # calls: a sample is drawn in memory
MOST_CHOSEN = 200
LARGEST_SEED = 2**31
LEAST_BUDGET, MOST_BUDGET = 16, 1_000_000  # tokens
BATCH_SIZE = 200  # calls
ID_BYTES = 16
SEARCHED_AT_ONCE = 64  # batches
SPOOLED_IN_MEMORY = 4_000_000  # bytes of ids; those of more calls go to a temporary file
SPOOLED_AT_ONCE = 10_000  # ids
BATCHES_INSERTED_AT_ONCE = 500
NAME_CHARACTERS = 200
BATCHES_AT_ONCE = 8  # in memory: a batch of 200 calls under 3 variants takes about 6 KB packed


class CannotCompare(ValueError):
    """These calls cannot be compared, or these texts not judged; the sentence is for the operator."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which calls are compared: a filter or `chosen` ones, one family or all (empty), and all of them or a sample.

    A sample is drawn from answered calls. Without one, unanswered calls are left out when they are measured, and
    counted, so that the numbers of a comparison add up to what the filter finds.
    """

    query: str = ""
    family: str = ""
    sample: int | None = None
    seed: int = 0
    chosen: tuple[UUID, ...] = ()

    @property
    def filter(self) -> Query:
        return parse(self.query, over="calls")

    def problems(self) -> tuple[str, ...]:
        problems = list(self.filter.problems)
        if self.family and self.family not in {family.name for family in all_families()}:
            problems.append(f"There is no family “{self.family}”.")
        if self.sample is not None and self.sample <= 0:
            problems.append("A sample needs at least one call.")
        if len(self.chosen) > MOST_CHOSEN:
            problems.append(f"At most {MOST_CHOSEN} calls can be chosen one by one; select more by a filter.")
        return tuple(problems)

    def calls(self, project: Project) -> CallQuerySet:
        calls = self.filter.calls_in(project)
        calls = calls.filter(pk__in=self.chosen) if self.chosen else calls
        return calls.filter(family=self.family) if self.family else calls

    def stream_ids(self, project: Project) -> Iterator[UUID]:
        """Ascending, whatever the database's order. Of all calls only a few are in memory, of a sample all."""
        calls = self.calls(project).order_by("id").values_list("id", flat=True)
        if self.sample is None:
            return calls.iterator(chunk_size=2_000)
        answered = calls.exclude(status=Call.Status.UNKNOWN).iterator(chunk_size=2_000)
        return iter(sorted(draw_sample(answered, self.sample, self.seed)))


@dataclass(frozen=True, kw_only=True)
class VariantChoice:
    """A variant that can be chosen.

    `families` names the families that have it, when not all do; `origin` is empty for a built-in one.
    """

    name: str
    origin: str
    families: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class ComparisonForm:
    """The form as the address or a post filled it in; `unanswered` of the `matching` calls have no result."""

    name: str
    selection: Selection
    sample: str
    seed: str
    budget: str
    baseline: str
    variants: tuple[VariantChoice, ...]
    families: tuple[str, ...]
    matching: int
    unanswered: int
    problems: tuple[str, ...]

    @property
    def budget_tokens(self) -> int | None:
        return parse_integer(self.budget, least=LEAST_BUDGET, most=MOST_BUDGET)

    @property
    def columns(self) -> list[str]:
        """The names to compare, the baseline first."""
        chosen = [variant.name for variant in self.variants if variant.is_chosen]
        return [self.baseline, *(name for name in chosen if name != self.baseline)]

    @property
    def answered(self) -> int:
        return self.matching - self.unanswered

    @property
    def sample_size(self) -> int | None:
        """None where all calls are compared."""
        return None if self.selection.sample is None else min(self.answered, self.selection.sample)


def load_form(project: Project, query: QueryDict) -> ComparisonForm:
    params = Params(query)
    selection = Selection(
        query=query.get("query", "").strip(),  # uncut: the filter reports a text that is too long
        family=query.get("family", ""),
        sample=params.integer("sample", default=None, most=MOST_SAMPLED),
        seed=params.integer("seed", default=0, most=LARGEST_SEED),
        chosen=params.uuids("call", query.getlist("call")),
    )
    params.integer("budget", default=None, least=LEAST_BUDGET, most=MOST_BUDGET)
    problems = (*params.problems, *selection.problems())
    chosen = query.getlist("variant")
    baseline = query.get("baseline", RECORDED)
    every = offered_by_family(project, also=[*chosen, baseline])
    offers = {selection.family: every[selection.family]} if selection.family in every else every
    names = variant_names(offers)
    # Chosen names first, in the order in which they were chosen: it is the order of the columns.
    ordered = [name for name in dict.fromkeys([*chosen, *names]) if name in names]
    counts = {"matching": 0, "unanswered": 0}
    if not problems:
        is_unanswered = Q(status=Call.Status.UNKNOWN)
        calls = selection.calls(project).order_by()
        counts = calls.aggregate(matching=Count("pk"), unanswered=Count("pk", filter=is_unanswered))
    return ComparisonForm(
        name=query.get("name", ""),
        selection=selection,
        sample=query.get("sample", ""),
        seed=query.get("seed", "0"),
        budget=query.get("budget", "").strip(),
        baseline=baseline if baseline in names else RECORDED,
        variants=tuple(_variant_choice(name, offers, is_chosen=name in (chosen or SUGGESTED)) for name in ordered),
        families=tuple(every),
        problems=problems,
        **counts,
    )


def _variant_choice(name: str, offers: OffersByFamily, *, is_chosen: bool) -> VariantChoice:
    by_family = {owner: find_variant(family_offers, name) for owner, family_offers in offers.items()}
    having = {owner: offer for owner, offer in by_family.items() if offer is not None}
    origin = next((offer.origin for offer in having.values()), "")
    return VariantChoice(
        name=name,
        families="" if len(having) in (0, len(offers)) else ", ".join(having),
        origin="" if origin == "built in" else origin,
        is_chosen=is_chosen,
    )


def start_form(project: Project, form: ComparisonForm, user: User) -> Comparison:
    """Starts what the form says. Raises CannotCompare and UnusableColumns."""
    budget = form.budget_tokens
    if form.budget and budget is None:
        raise CannotCompare(" ".join(form.problems))
    return start_comparison(project, form.selection, form.columns, name=form.name, user=user, budget=budget)


def start_comparison(
    project: Project,
    selection: Selection,
    variants: Sequence[str],
    *,
    name: str = "",
    user: User | None = None,
    budget: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> Comparison:
    """Freezes the calls and the variants and queues the work. Raises CannotCompare and UnusableColumns."""
    problems = selection.problems()
    if problems:
        raise CannotCompare(" ".join(problems))
    if budget is not None and not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise CannotCompare(f"A budget has {LEAST_BUDGET:,} to {MOST_BUDGET:,} tokens.")
    calls = selection.calls(project)
    if not calls.exists():
        raise CannotCompare("No call matches.")
    if not calls.exclude(status=Call.Status.UNKNOWN).exists():
        raise CannotCompare("Nothing answered the calls that match: there is nothing to render.")
    families = calls.order_by().values_list("family", flat=True).distinct()
    columns = bind_columns(project, variants, families)
    selected = " ".join(filter(None, (selection.family, selection.query))) or "all calls"
    default_name = f"{'chosen calls' if selection.chosen else selected}: {' · '.join(variants)}"
    if budget is not None:
        default_name += f" at {budget:,} tokens"
    with spool_ids(selection.stream_ids(project)) as spool, transaction.atomic():
        comparison = Comparison.objects.create(
            project=project,
            name=column_text(name.strip() or default_name, NAME_CHARACTERS),
            query=selection.query,
            family=selection.family,
            sample=selection.sample,
            seed=selection.seed,
            budget=budget,
            is_chosen=bool(selection.chosen),
            created_by=user,
            call_count=spool.tell() // ID_BYTES,
        )
        ComparisonColumn.objects.bulk_create(column_rows(comparison, columns))
        _insert_batches(comparison, spool, batch_size)
    return comparison


@contextmanager
def spool_ids(ids: Iterator[UUID]) -> Iterator[IO[bytes]]:
    """A temporary file with the packed ids, open at its end.

    A filter over ten million calls takes a minute to read and must not hold the lock of the database meanwhile; their
    ids would take a gigabyte of memory.
    """
    with SpooledTemporaryFile(SPOOLED_IN_MEMORY) as spool:
        while portion := pack_ids(islice(ids, SPOOLED_AT_ONCE)):
            spool.write(portion)
        yield spool


def _insert_batches(comparison: Comparison, spool: IO[bytes], batch_size: int) -> None:
    spool.seek(0)
    portions = iter(lambda: spool.read(ID_BYTES * batch_size), b"")
    rows = (
        ComparisonBatch(comparison=comparison, number=number, calls=portion, size=len(portion) // ID_BYTES)
        for number, portion in enumerate(portions)
    )
    while some := list(islice(rows, BATCHES_INSERTED_AT_ONCE)):
        ComparisonBatch.objects.bulk_create(some)


def cancel(comparison: Comparison) -> bool:
    """Stops after the batches at hand, which are still stored. False when the comparison had ended."""
    running = Comparison.objects.open().filter(pk=comparison.pk)
    return bool(running.update(state=Comparison.State.CANCELLED))


def resume(comparison: Comparison) -> bool:
    """Continues a cancelled or failed comparison with the batches that are not done."""
    ended = (Comparison.State.CANCELLED, Comparison.State.FAILED)
    with transaction.atomic():
        stopped = Comparison.objects.filter(pk=comparison.pk, state__in=ended)
        if not stopped.update(state=Comparison.State.QUEUED, problem=""):
            return False
        comparison.batches.filter(finished_at=None).update(attempts=0)
    return True


def pin(comparison: Comparison, *, is_pinned: bool) -> None:
    """Makes a comparison a baseline: `check_receipts` renders its calls again and lists what changed."""
    comparison.pinned_at = timezone.now() if is_pinned else None
    comparison.checked_at, comparison.last_check = None, {}
    comparison.save(update_fields=["pinned_at", "checked_at", "last_check"])


def load_summary(comparison: Comparison) -> Summary:
    """The summary of a finished comparison."""
    return unpack_summary(bytes(comparison.summary or b""))


def load_results(comparison: Comparison) -> Iterator[list[MeasuredCall]]:
    """The rows of each finished batch in order, one batch in memory."""
    batches = comparison.batches.filter(finished_at__isnull=False).order_by("number")
    for results in batches.values_list("results", flat=True).iterator(chunk_size=BATCHES_AT_ONCE):
        yield unpack_rows(bytes(results or b""))


def load_batches(comparison: Comparison, numbers: Sequence[int]) -> Iterator[tuple[int, list[MeasuredCall]]]:
    """The finished ones of the numbered batches with their rows, in the order of `numbers`."""
    done = comparison.batches.filter(finished_at__isnull=False)
    for start in range(0, len(numbers), BATCHES_AT_ONCE):
        portion = numbers[start : start + BATCHES_AT_ONCE]
        results = dict(done.filter(number__in=portion).order_by().values_list("number", "results"))
        yield from ((number, unpack_rows(bytes(results[number] or b""))) for number in portion if number in results)


def find_row(comparison: Comparison, call: UUID, *, at_once: int = SEARCHED_AT_ONCE) -> MeasuredCall | None:
    """The numbers of one call; None when the comparison has none of it."""
    number = _find_batch(comparison, call.bytes, at_once)
    rows = [row for _, batch in load_batches(comparison, [number]) for row in batch] if number is not None else []
    return next((row for row in rows if row.call == call.bytes), None)


def _find_batch(comparison: Comparison, call: bytes, at_once: int) -> int | None:
    """The number of the only batch that can contain the call. Ids ascend over all batches.

    One query for the first `at_once` batches, two more for each time so many.
    """

    def load(low: int, step: int) -> list[tuple[int, bytes]]:
        numbers = list(range(low, low + at_once * step, step))
        rows = comparison.batches.filter(number__in=numbers).order_by("number").values_list("number", "calls")
        return [(number, bytes(calls)[:ID_BYTES]) for number, calls in rows]

    step, rows = 1, load(0, 1)
    while len(rows) == at_once and rows[-1][1] <= call:
        step *= at_once
        rows = load(rows[-1][0], step)
    while before := [number for number, first in rows if first <= call]:
        if step == 1:
            return before[-1]
        step //= at_once
        rows = load(before[-1], step)
    return None


def count_done(comparison: Comparison) -> int:
    """Calls of the finished batches."""
    done = comparison.batches.filter(finished_at__isnull=False).aggregate(done=Sum("size"))["done"]
    return int(done or 0)


def baseline_first(baseline: int, columns: int) -> tuple[int, ...]:
    """The order of ordinals in which a baseline's summary has the columns."""
    return (baseline, *(ordinal for ordinal in range(columns) if ordinal != baseline))
