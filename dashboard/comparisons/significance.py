"""Arithmetic of comparisons and verdicts. Pure functions; whatever is drawn is drawn with a given seed.

Interval       a low and a high end; 95 % unless said otherwise
Spread         sums by group, so that an interval over any number of calls needs a bounded memory
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from operator import itemgetter
from statistics import NormalDist
from uuid import UUID

RESAMPLES = 1_000
GROUPS = 500
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)


def groups_of(count: int, seed: int) -> array[int]:
    """The group of each of `count` calls: as many groups as calls up to GROUPS, then equally large random ones."""
    places = array("I", range(count))
    random.Random(seed).shuffle(places)
    return array("I", (place % GROUPS for place in places)) if count > GROUPS else array("I", range(count))


@dataclass(frozen=True)
class Spread:
    """Sums and counts by group. Groups are drawn at random, so means of groups scatter as means of calls do.

    Spreads of the same calls share their `counts`, which then are added up once.
    """

    sums: Sequence[float]
    counts: Sequence[int]

    @cached_property
    def count(self) -> int:
        return sum(self.counts)

    @cached_property
    def total(self) -> float:
        return sum(self.sums)


def bootstrap_means(spreads: Sequence[Spread], seed: int) -> list[Interval | None]:
    """Percentile intervals of the mean of each spread, all of them from the same draws of groups.

    None for fewer than two calls: nothing scatters there.
    """
    means: list[list[float]] = [[] for _ in spreads]
    groups = len(spreads[0].counts) if spreads else 0
    generator = random.Random(seed)
    for _ in range(RESAMPLES if groups > 1 else 0):
        drawn = itemgetter(*generator.choices(range(groups), k=groups))
        counts = {id(one.counts): sum(drawn(one.counts)) for one in spreads if one.count}
        for spread, found in zip(spreads, means, strict=True):
            if count := counts.get(id(spread.counts), 0):
                found.append(sum(drawn(spread.sums)) / count)
    return [
        _percentiles(found) if spread.count > 1 and found else None
        for spread, found in zip(spreads, means, strict=True)
    ]


def _percentiles(values: list[float]) -> Interval:
    values.sort()
    tail = int(len(values) * (1 - CONFIDENCE) / 2)
    return Interval(values[tail], values[-1 - tail])


def sign_test(wins: int, losses: int) -> float:
    """The two-sided exact probability of a split as uneven as this, were both sides alike. Ties are left out."""
    total, fewer = wins + losses, min(wins, losses)
    if total == 0:
        return 1.0
    logs = [_log_choose(total, number) - total * math.log(2) for number in range(fewer + 1)]
    largest = max(logs)
    return min(1.0, 2 * math.exp(largest) * math.fsum(math.exp(one - largest) for one in logs))


def _log_choose(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def share_interval(wins: int, total: int) -> Interval | None:
    """Wilson's interval of a share: it stays within 0 and 1 and holds for few verdicts."""
    if total == 0:
        return None
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, square = wins / total, z * z
    middle = (share + square / (2 * total)) / (1 + square / total)
    reach = z * math.sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


@dataclass(frozen=True)
class Agreement:
    """`kappa` is Cohen's: 1 is full agreement, 0 what chance gives; None where nobody ever differed in choice."""

    first: str
    second: str
    pairs: int
    alike: int
    kappa: float | None


def agreements(choices: dict[str, dict[UUID, str]]) -> list[Agreement]:
    """Of each two reviewers who judged some of the same pairs; `choices` is by reviewer, then by call."""
    return [
        _agreement(first, second, [(choices[first][call], choices[second][call]) for call in common])
        for first, second in combinations(sorted(choices), 2)
        if (common := sorted(choices[first].keys() & choices[second].keys()))
    ]


def _agreement(first: str, second: str, pairs: list[tuple[str, str]]) -> Agreement:
    total = len(pairs)
    alike = sum(one == other for one, other in pairs)
    kinds = {choice for pair in pairs for choice in pair}
    by_chance = sum(
        sum(one == kind for one, _ in pairs) * sum(other == kind for _, other in pairs) for kind in kinds
    ) / (total * total)
    kappa = None if by_chance == 1 else (alike / total - by_chance) / (1 - by_chance)
    return Agreement(first, second, total, alike, kappa)
