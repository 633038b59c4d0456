"""The page on which a comparison is put together: which calls, which variants, and how many calls that are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet
from django.http import QueryDict

from dashboard.comparisons.lifecycle import Selection
from dashboard.models import Call, Project
from dashboard.variants.variant_list import (
    RECORDED,
    OfferedVariant,
    OffersByFamily,
    find_variant,
    offered_by_family,
    variant_names,
)

SUGGESTED = ("receipt",)
MOST_SAMPLED = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Offer:
    """`families` names those that have the variant, when not all do; `origin` is empty for a built-in one."""

    name: str
    origin: str
    families: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class ComparisonForm:
    name: str
    query: str
    family: str
    sample: str
    seed: str
    baseline: str
    offers: tuple[Offer, ...]
    families: tuple[str, ...]
    matching: int
    unanswered: int  # of those that match: there is no result to write
    problems: tuple[str, ...]

    @property
    def chosen(self) -> list[str]:
        """The baseline first."""
        return [self.baseline, *(one.name for one in self.offers if one.is_chosen and one.name != self.baseline)]

    @property
    def answered(self) -> int:
        return self.matching - self.unanswered

    @property
    def drawn(self) -> int | None:
        """The size of the sample; None where all are taken."""
        return min(self.answered, int(self.sample)) if self.sample.isascii() and self.sample.isdigit() else None


def comparison_form(project: Project, asked: QueryDict) -> tuple[ComparisonForm, Selection]:
    wrong, numbers = _numbers(asked)
    selection = Selection(
        query=asked.get("query", "").strip(),
        family=asked.get("family", ""),
        sample=numbers["sample"],
        seed=numbers["seed"] or 0,
    )
    problems = (*wrong, *selection.problems())
    every = offered_by_family(project, also=[*asked.getlist("variant"), asked.get("baseline", "")])
    offers = {selection.family: every[selection.family]} if selection.family in every else every
    names = variant_names(offers)
    wanted = asked.getlist("variant") or list(SUGGESTED)
    baseline = asked.get("baseline", RECORDED)
    matching, unanswered = (0, 0) if problems else _counts(selection.calls(project))
    form = ComparisonForm(
        name=asked.get("name", ""),
        query=selection.query,
        family=selection.family,
        sample=asked.get("sample", ""),
        seed=asked.get("seed", "0"),
        baseline=baseline if baseline in names else RECORDED,
        offers=tuple(_offer(one, offers, is_chosen=one in wanted) for one in _ordered(names, asked.getlist("variant"))),
        families=tuple(every),
        matching=matching,
        unanswered=unanswered,
        problems=problems,
    )
    return form, selection


def _ordered(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those that are chosen first, in the order in which they were: it is that of the columns."""
    chosen = [one for one in dict.fromkeys(wanted) if one in names]
    return [*chosen, *(one for one in names if one not in chosen)]


def _counts(calls: QuerySet[Call]) -> tuple[int, int]:
    """Those that match, and those of them that nothing answered."""
    found = calls.order_by().aggregate(all=Count("pk"), unanswered=Count("pk", filter=Q(status=Call.Status.UNKNOWN)))
    return found["all"], found["unanswered"]


def _numbers(asked: Mapping[str, str]) -> tuple[list[str], dict[str, int | None]]:
    """Whole numbers, or the sentences that say which are none."""
    problems: list[str] = []
    found: dict[str, int | None] = {}
    for name, most in (("sample", MOST_SAMPLED), ("seed", 2**31)):
        text = asked.get(name, "").strip()
        is_number = text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= most
        found[name] = int(text) if is_number else None
        if text and not is_number:
            problems.append(f"The {name} has to be a whole number up to {most:,}.")
    return problems, found


def _offer(name: str, offers: OffersByFamily, *, is_chosen: bool) -> Offer:
    having: dict[str, OfferedVariant] = {
        owner: one for owner, some in offers.items() if (one := find_variant(some, name)) is not None
    }
    first = next(iter(having.values()), None)
    is_everywhere = len(having) in (0, len(offers))
    return Offer(
        name=name,
        families="" if is_everywhere else ", ".join(having),
        origin="" if first is None or first.origin == "built in" else first.origin,
        is_chosen=is_chosen,
    )
