"""Statistics of comparisons and verdicts: samples, bootstrap intervals, sign tests and agreement.

Pure functions. Whatever is random depends on a given seed alone.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from operator import itemgetter
from statistics import NormalDist
from uuid import UUID

import msgspec

RESAMPLES = 1_000
GROUPS = 500
CONFIDENCE = 0.95


class Interval(msgspec.Struct, frozen=True, array_like=True):
    low: float
    high: float


def draw_sample(ids: Iterable[UUID], count: int, seed: int) -> list[UUID]:
    """At most `count` ids, in an order that only the seed decides: those whose hashes with the seed are lowest.

    The same ids and the same seed give the same sample, and an added id replaces one at most.
    """
    key = seed.to_bytes(16, "big", signed=True)
    return heapq.nsmallest(count, ids, key=lambda call: hashlib.blake2b(call.bytes, digest_size=8, key=key).digest())


def assign_groups(count: int, seed: int) -> array[int]:
    """The group of each of `count` calls: up to GROUPS calls a group each, more in equally large random groups."""
    positions = array("I", range(count))
    if count <= GROUPS:
        return positions
    random.Random(seed).shuffle(positions)  # noqa: S311 - the same groups each time
    return array("I", (position % GROUPS for position in positions))


@dataclass(frozen=True)
class GroupedValues:
    """Sums and counts of a measure by group, so that an interval over any number of calls needs bounded memory.

    Groups are random, so means of groups scatter as means of calls do. Values of the same calls share one `counts`
    list, which the bootstrap then adds up once.
    """

    sums: Sequence[float]
    counts: Sequence[int]

    @cached_property
    def count(self) -> int:
        return sum(self.counts)

    @cached_property
    def total(self) -> float:
        return sum(self.sums)


def bootstrap_means(values: Sequence[GroupedValues], seed: int) -> list[Interval | None]:
    """Percentile intervals of the mean of each of `values`, all from the same draws of groups.

    None for fewer than two calls, whose mean does not scatter. Equal lists are added up once for all `values`: many
    measures of a comparison are zero in every group, and those of a call share their counts.
    """
    lists = [(tuple(grouped.sums), tuple(grouped.counts)) for grouped in values]
    drawn: dict[tuple[float, ...], list[float]] = {numbers: [] for pair in lists for numbers in pair}
    groups = len(values[0].counts) if values else 0
    generator = random.Random(seed)  # noqa: S311 - the same draws each time
    for _ in range(RESAMPLES if groups > 1 else 0):
        draw = itemgetter(*generator.choices(range(groups), k=groups))
        for numbers, totals in drawn.items():
            totals.append(sum(draw(numbers)))
    intervals: dict[tuple[tuple[float, ...], tuple[float, ...]], Interval | None] = {}
    for sums, counts in set(lists):
        means = [total / count for total, count in zip(drawn[sums], drawn[counts], strict=True) if count]
        intervals[sums, counts] = _percentiles(means) if sum(counts) > 1 and means else None
    return [intervals[pair] for pair in lists]


def _percentiles(values: list[float]) -> Interval:
    values.sort()
    tail = int(len(values) * (1 - CONFIDENCE) / 2)
    return Interval(values[tail], values[-1 - tail])


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided probability of so uneven a split if both sides were alike. Ties are left out."""
    total, fewer = wins + losses, min(wins, losses)
    if total == 0:
        return 1.0
    logs = [_log_choose(total, number) - total * math.log(2) for number in range(fewer + 1)]
    largest = max(logs)
    return min(1.0, 2 * math.exp(largest) * math.fsum(math.exp(log - largest) for log in logs))


def _log_choose(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def share_interval(wins: int, total: int) -> Interval | None:
    """Wilson's interval of a share, which stays within 0 and 1 and is right for few verdicts. None of nothing."""
    if total == 0:
        return None
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, square = wins / total, z * z
    middle = (share + square / (2 * total)) / (1 + square / total)
    reach = z * math.sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


@dataclass(frozen=True)
class Agreement:
    """`kappa` is Cohen's: 1 is full agreement, 0 what chance gives; None where both always made the same choice."""

    first: str
    second: str
    pairs: int
    alike: int
    kappa: float | None


def compute_agreements(choices: dict[str, dict[UUID, str]]) -> list[Agreement]:
    """One for each two reviewers who judged some of the same pairs; `choices` is by reviewer, then by call."""
    agreements = []
    for first, second in combinations(sorted(choices), 2):
        common = sorted(choices[first].keys() & choices[second].keys())
        if common:
            pairs = [(choices[first][call], choices[second][call]) for call in common]
            agreements.append(_compute_agreement(first, second, pairs))
    return agreements


def _compute_agreement(first: str, second: str, pairs: list[tuple[str, str]]) -> Agreement:
    total = len(pairs)
    alike = sum(left == right for left, right in pairs)
    kinds = {choice for pair in pairs for choice in pair}
    by_chance = sum(
        sum(left == kind for left, _ in pairs) * sum(right == kind for _, right in pairs) for kind in kinds
    ) / (total * total)
    kappa = None if by_chance == 1 else (alike / total - by_chance) / (1 - by_chance)
    return Agreement(first, second, total, alike, kappa)
