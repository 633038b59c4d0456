"""The form of a new comparison: which calls and which variants are compared, and how many calls that is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.db.models import Count, Q
from django.http import QueryDict

from dashboard.comparisons.significance import draw_sample
from dashboard.filters.language import Query, parse
from dashboard.models import Call, Project
from dashboard.models.runs import CallQuerySet
from dashboard.text.params import Params
from dashboard.variants.variant_list import RECORDED, OffersByFamily, find_variant, offered_by_family, variant_names
from envelopes.families.registry import all_families

SUGGESTED = ("receipt",)
MOST_CALLS = 1_000_000
LARGEST_SEED = 2**31


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
