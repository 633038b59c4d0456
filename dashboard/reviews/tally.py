"""What the verdicts of a comparison say: who won how often, how sure that is, and whether reviewers agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from dashboard.comparisons.export import column_names
from dashboard.comparisons.significance import CONFIDENCE, Agreement, Interval, agreements, share_interval, sign_test
from dashboard.comparisons.tables import probability
from dashboard.models import Comparison, Review, Verdict


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Over pairs: where several people judged one, the choice of most of them counts, and a draw is a tie."""

    ordinal: int
    baseline: str
    variant: str
    size: int
    verdicts: int
    pairs: int
    wins: int
    losses: int
    ties: int
    both_bad: int
    interval: Interval | None
    probability: float
    first_share: float | None  # of decided verdicts, those for the text on the left
    reviewers: tuple[tuple[str, int], ...]
    agreements: tuple[Agreement, ...]

    @property
    def decided(self) -> int:
        return self.wins + self.losses

    @property
    def share(self) -> str:
        return f"{self.wins / self.decided:.0%}" if self.decided else "–"

    @property
    def ends(self) -> str:
        return f"{self.interval.low:.0%} to {self.interval.high:.0%}" if self.interval else "–"

    @property
    def chance(self) -> str:
        """Of no winner at all there is nothing to say."""
        return f"p {probability(self.probability)}" if self.decided else "–"

    @property
    def said(self) -> str:
        """Who won, as far as the interval says, and of how much of the review that is."""
        part = "" if self.pairs >= self.size else f", of {self.size} drawn"
        over = f"{self.pairs} judged pair{'' if self.pairs == 1 else 's'}{part}"
        if self.interval is None:
            return f"No pair has a winner yet, over {over}."
        # Of four pairs that one side won, the interval leaves a half out and the sign test says 1 in 8.
        if self.interval.low <= 0.5 <= self.interval.high or self.probability >= 1 - CONFIDENCE:
            return f"Undecided: {self.variant} and {self.baseline} cannot be told apart over {over}."
        winner = self.variant if self.interval.low > 0.5 else self.baseline
        return f"{winner} is found better over {over}."

    @property
    def left(self) -> str:
        return "–" if self.first_share is None else f"{self.first_share:.0%}"


@dataclass(frozen=True, kw_only=True)
class VerdictPage:
    comparison: Comparison
    tallies: tuple[Tally, ...]
    open: tuple[tuple[int, str], ...]  # columns that nobody has judged yet


def verdict_page(comparison: Comparison) -> VerdictPage:
    names = column_names(comparison)
    reviews = {one.ordinal: one for one in comparison.reviews.order_by("ordinal")}
    return VerdictPage(
        comparison=comparison,
        tallies=tuple(tally(one, names) for one in reviews.values()),
        open=tuple((place, name) for place, name in enumerate(names) if place and place not in reviews),
    )


def tally(review: Review, names: list[str]) -> Tally:
    found = list(review.verdicts.select_related("reviewer").order_by("at", "pk"))
    by_call: dict[UUID, list[str]] = defaultdict(list)
    by_reviewer: dict[str, dict[UUID, str]] = defaultdict(dict)
    for one in found:
        by_call[one.call].append(one.choice)
        by_reviewer[one.reviewer.get_username()][one.call] = one.choice
    counts = Counter(_most(choices) for choices in by_call.values())
    wins, losses = counts[Verdict.Choice.VARIANT], counts[Verdict.Choice.BASELINE]
    return Tally(
        ordinal=review.ordinal,
        baseline=names[0],
        variant=names[review.ordinal],
        size=review.size,
        verdicts=len(found),
        pairs=len(by_call),
        wins=wins,
        losses=losses,
        ties=counts[Verdict.Choice.TIE],
        both_bad=counts[Verdict.Choice.BOTH_BAD],
        interval=share_interval(wins, wins + losses),
        probability=sign_test(wins, losses),
        first_share=_first_share(found),
        reviewers=tuple((name, len(choices)) for name, choices in sorted(by_reviewer.items())),
        agreements=tuple(agreements(by_reviewer)),
    )


def _most(choices: list[str]) -> str:
    (choice, most), *others = Counter(choices).most_common()
    return Verdict.Choice.TIE if any(count == most for _, count in others) else choice


def _first_share(verdicts: Iterable[Verdict]) -> float | None:
    """Far from a half, somebody prefers a side."""
    decided = [one for one in verdicts if one.choice in (Verdict.Choice.BASELINE, Verdict.Choice.VARIANT)]
    return sum(one.choice == one.first for one in decided) / len(decided) if decided else None
