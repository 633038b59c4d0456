"""The arithmetic of comparisons and verdicts, against values that can be worked out by hand."""

from __future__ import annotations

from uuid import UUID

import pytest

from dashboard.experiments.significance import (
    GROUPS,
    GroupedValues,
    assign_groups,
    bootstrap_means,
    compute_agreements,
    share_interval,
    sign_test,
)

ONE, TWO, THREE, FOUR = (UUID(int=number) for number in range(1, 5))


def spread(values: list[float], seed: int = 0) -> GroupedValues:
    groups = assign_groups(len(values), seed)
    size = max(groups, default=-1) + 1
    sums, counts = [0.0] * size, [0] * size
    for group, value in zip(groups, values, strict=True):
        sums[group] += value
        counts[group] += 1
    return GroupedValues(sums, counts)


def test_groups_are_as_many_as_calls_until_there_are_too_many_and_equally_large_then() -> None:
    assert list(assign_groups(3, seed=1)) == [0, 1, 2]
    many = assign_groups(GROUPS * 4, seed=1)
    assert {many.count(group) for group in range(GROUPS)} == {4}
    assert assign_groups(GROUPS * 4, seed=1) == many != assign_groups(GROUPS * 4, seed=2)


def test_an_interval_holds_the_mean_and_is_the_same_for_the_same_seed() -> None:
    (interval,) = bootstrap_means([spread([float(number % 10) for number in range(400)])], seed=5)
    (again,) = bootstrap_means([spread([float(number % 10) for number in range(400)])], seed=5)
    assert interval is not None
    assert interval == again
    assert interval.low < 4.5 < interval.high
    # The standard error of this mean is 0.1436; a 95 % interval reaches about twice as far.
    assert interval.high - interval.low == pytest.approx(4 * 0.1436, rel=0.2)


def test_an_interval_over_groups_is_as_wide_as_one_over_calls() -> None:
    values = [float((number * 7919) % 100) for number in range(20_000)]
    (interval,) = bootstrap_means([spread(values)], seed=5)
    assert interval is not None
    error = 28.866 / 20_000**0.5  # the standard deviation of 0 to 99, over the root of the count
    assert interval.high - interval.low == pytest.approx(4 * error, rel=0.2)


def test_calls_that_all_changed_alike_leave_no_room_and_one_call_says_nothing() -> None:
    alike, nothing = bootstrap_means([spread([3.0] * 50), GroupedValues([0.0] * 50, [0] * 50)], seed=0)
    assert alike is not None
    assert (alike.low, alike.high) == (3.0, 3.0)
    assert nothing is None
    assert bootstrap_means([spread([3.0])], seed=0) == [None]


@pytest.mark.parametrize(
    ("wins", "losses", "probability"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (6, 0, 2 / 64), (8, 2, 112 / 1024), (2, 8, 112 / 1024), (60_000, 0, 0.0)],
)
def test_the_sign_test_is_exact(wins: int, losses: int, probability: float) -> None:
    assert sign_test(wins, losses) == pytest.approx(probability)


def test_the_interval_of_a_share_stays_a_share() -> None:
    all_of_ten = share_interval(10, 10)
    half = share_interval(5, 10)
    assert all_of_ten is not None
    assert half is not None
    assert (all_of_ten.low, all_of_ten.high) == (pytest.approx(0.7225, abs=1e-3), 1.0)
    assert (half.low, half.high) == (pytest.approx(0.2366, abs=1e-3), pytest.approx(0.7634, abs=1e-3))
    assert share_interval(0, 0) is None


def test_agreement_is_counted_over_pairs_that_both_judged() -> None:
    ann = {ONE: "variant", TWO: "variant", THREE: "baseline", FOUR: "tie"}
    ben = {ONE: "variant", TWO: "baseline", THREE: "baseline"}
    (agreement,) = compute_agreements({"ben": ben, "ann": ann, "cy": {}})
    assert (agreement.first, agreement.second, agreement.pairs, agreement.alike) == ("ann", "ben", 3, 2)
    # By chance: variant 2/3 · 1/3 + baseline 1/3 · 2/3 = 4/9; (2/3 - 4/9) / (5/9) = 0.4
    assert agreement.kappa == pytest.approx(0.4)


def test_reviewers_with_a_single_verdict_have_no_kappa() -> None:
    (agreement,) = compute_agreements({"ann": {ONE: "tie"}, "ben": {ONE: "tie"}})
    assert (agreement.alike, agreement.kappa) == (1, None)
