"""Starts comparisons from a form, and cancels, resumes and pins them. `dashboard.worker` computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q
from django.http import QueryDict
from django.utils import timezone

from dashboard.comparisons.cells import pack_ids
from dashboard.comparisons.significance import draw_sample
from dashboard.comparisons.stored_comparison import column_rows
from dashboard.filters.language import Query, parse
from dashboard.models import Call, Comparison, ComparisonBatch, ComparisonColumn, Project
from dashboard.models.runs import CallQuerySet
from dashboard.text.formatting import column_text
from dashboard.text.params import Params
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
MOST_CALLS = 1_000_000
LARGEST_SEED = 2**31
BATCH_SIZE = 200  # calls
NAME_CHARACTERS = 200


class CannotCompare(ValueError):
    """These calls cannot be compared, or these texts not judged; the sentence is for the operator."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which calls are compared: a filter, one family or all (empty), and all of them or a sample.

    A sample is drawn from answered calls. Without one, unanswered calls are left out when they are measured, and
    counted, so that the numbers of a comparison add up to what the filter finds.
    """

    query: str = ""
    family: str = ""
    sample: int | None = None
    seed: int = 0

    @property
    def filter(self) -> Query:
        return parse(self.query, over="calls")

    def problems(self) -> tuple[str, ...]:
        problems = list(self.filter.problems)
        if self.family and self.family not in {family.name for family in all_families()}:
            problems.append(f"There is no family “{self.family}”.")
        if self.sample is not None and self.sample <= 0:
            problems.append("A sample needs at least one call.")
        return tuple(problems)

    def calls(self, project: Project) -> CallQuerySet:
        calls = self.filter.calls_in(project)
        return calls.filter(family=self.family) if self.family else calls

    def load_ids(self, project: Project) -> list[UUID]:
        """Ascending, whatever the database's order; one more than MOST_CALLS where there are more."""
        calls = self.calls(project).order_by("id").values_list("id", flat=True)
        if self.sample is None:
            return list(islice(calls.iterator(chunk_size=2_000), MOST_CALLS + 1))
        answered = calls.exclude(status=Call.Status.UNKNOWN).iterator(chunk_size=2_000)
        return sorted(draw_sample(answered, self.sample, self.seed))


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
    baseline: str
    variants: tuple[VariantChoice, ...]
    families: tuple[str, ...]
    matching: int
    unanswered: int
    problems: tuple[str, ...]

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
        sample=params.integer("sample", default=None, most=MOST_CALLS),
        seed=params.integer("seed", default=0, most=LARGEST_SEED),
    )
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


def start_comparison(
    project: Project,
    selection: Selection,
    variants: Sequence[str],
    *,
    name: str = "",
    user: User | None = None,
    batch_size: int = BATCH_SIZE,
) -> Comparison:
    """Freezes the calls and the variants and queues the work. Raises CannotCompare and UnusableColumns."""
    problems = selection.problems()
    if problems:
        raise CannotCompare(" ".join(problems))
    calls = selection.calls(project)
    if not calls.exists():
        raise CannotCompare("No call matches.")
    if not calls.exclude(status=Call.Status.UNKNOWN).exists():
        raise CannotCompare("Nothing answered the calls that match: there is nothing to render.")
    ids = selection.load_ids(project)
    if len(ids) > MOST_CALLS:
        raise CannotCompare(f"More than {MOST_CALLS:,} calls match; narrow the filter or take a sample.")
    families = calls.order_by().values_list("family", flat=True).distinct()
    columns = bind_columns(project, variants, families)
    default_name = f"{selection.family or 'all families'}: {' · '.join(variants)}"
    with transaction.atomic():
        comparison = Comparison.objects.create(
            project=project,
            name=column_text(name.strip() or default_name, NAME_CHARACTERS),
            query=selection.query,
            family=selection.family,
            sample=selection.sample,
            seed=selection.seed,
            created_by=user,
            call_count=len(ids),
        )
        ComparisonColumn.objects.bulk_create(column_rows(comparison, columns))
        portions = [ids[start : start + batch_size] for start in range(0, len(ids), batch_size)]
        ComparisonBatch.objects.bulk_create(
            ComparisonBatch(comparison=comparison, number=number, calls=pack_ids(portion), size=len(portion))
            for number, portion in enumerate(portions)
        )
    return comparison


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
        comparison.batches.filter(finished_at=None).update(attempts=0, leased_until=None)
    return True


def pin(comparison: Comparison, *, is_pinned: bool) -> None:
    """Makes a comparison a baseline: `check_receipts` renders its calls again and lists what changed."""
    comparison.pinned_at = timezone.now() if is_pinned else None
    comparison.checked_at, comparison.last_check = None, {}
    comparison.save(update_fields=["pinned_at", "checked_at", "last_check"])
