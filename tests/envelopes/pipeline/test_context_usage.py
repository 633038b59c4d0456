"""Requests beside the one before them: growth, drops that something recorded explains, and drops that nothing does."""

from __future__ import annotations

import pytest

from envelopes.pipeline.context_usage import ContextRemoval, ModelRequest, compare_requests, find_drops, grade_presence

COMPACTION = ContextRemoval(15, "compaction")


def requests(*tokens: int) -> list[ModelRequest]:
    return [ModelRequest(10 * number, count) for number, count in enumerate(tokens, 1)]


@pytest.mark.parametrize(
    ("before", "after", "removals", "unexplained"),
    [
        pytest.param(138_395, 95_864, [], 42_531, id="nothing is recorded"),
        pytest.param(138_395, 95_864, [COMPACTION], 0, id="a compaction"),
        pytest.param(138_395, 95_864, [ContextRemoval(20, "rewind")], 0, id="a rewind at the request's own line"),
        pytest.param(138_395, 95_864, [ContextRemoval(10, "compaction")], 42_531, id="one before the earlier request"),
        pytest.param(138_395, 95_864, [ContextRemoval(21, "compaction")], 42_531, id="one behind the request"),
        pytest.param(138_395, 95_864, [ContextRemoval(15, "clear", 21_294)], 0, id="a clear of half of it"),
        pytest.param(138_395, 95_864, [ContextRemoval(15, "clear", 1_200)], 42_531, id="a clear of little of it"),
        pytest.param(138_395, 95_864, [ContextRemoval(15, "clear", 11_000)] * 2, 0, id="two clears together"),
        pytest.param(138_395, 95_864, [ContextRemoval(20, "edit", None)], 0, id="an edit of unknown size"),
        pytest.param(100_000, 80_000, [], 0, id="a fifth is not more than a fifth"),
        pytest.param(100_000, 79_999, [], 20_001, id="more than a fifth"),
        pytest.param(8_000, 3_000, [], 0, id="5,000 are not more than 5,000"),
        pytest.param(8_000, 2_999, [], 5_001, id="more than 5,000"),
        pytest.param(8_000, 90_000, [], 0, id="growth"),
    ],
)
def test_a_drop_is_explained_only_by_what_is_recorded_between_the_two_requests(
    before: int, after: int, removals: list[ContextRemoval], unexplained: int
) -> None:
    first, second = compare_requests(requests(before, after), removals)
    assert (first.before, first.unexplained, first.growth) == (None, 0, before)
    assert second.unexplained == unexplained
    assert second.growth == after - before


def test_each_request_is_compared_with_the_one_before_it() -> None:
    changes = compare_requests(requests(50_000, 90_000, 30_000, 31_000, 9_000), [ContextRemoval(25, "compaction")])
    assert [change.is_drop for change in changes] == [False, False, True, False, True]
    assert [change.unexplained for change in changes] == [0, 0, 0, 0, 22_000]
    assert find_drops(requests(50_000, 90_000, 30_000, 31_000, 9_000)) == [2, 4]
    assert compare_requests([], []) == []


def test_a_removal_of_little_is_counted_beside_what_nothing_explains() -> None:
    [_, change] = compare_requests(requests(138_395, 95_864), [ContextRemoval(15, "clear", 1_200)])
    assert (change.removed, change.is_explained) == (1_200, False)


@pytest.mark.parametrize(
    ("facts", "shown", "recorded", "grade"),
    [
        ("", 50_000, 90_000, "recorded"),
        ("", 50_000, 0, "recorded"),
        ("superseded before-drop drop", 105_089, 95_864, "superseded"),
        ("before-drop drop", 50_000, 95_864, "uncertain"),
        ("before-drop drop", 50_000, 0, "uncertain"),
        ("before-drop drop", 105_089, 95_864, "contradicted"),
        ("drop", 105_089, 95_864, "recorded"),
        ("", 105_089, 95_864, "recorded"),
        ("", 115_036, 95_864, "recorded"),
        ("", 115_037, 95_864, "contradicted"),
    ],
)
def test_a_receipt_is_still_there_unless_something_says_otherwise(
    facts: str, shown: int, recorded: int, grade: str
) -> None:
    assert grade == grade_presence(
        is_superseded="superseded" in facts.split(),
        is_before_drop="before-drop" in facts.split(),
        has_drop="drop" in facts.split(),
        shown=shown,
        recorded=recorded,
    )
