"""What the large frame below every test is for."""

from __future__ import annotations

import resource
from collections.abc import Callable

DEEPEST, TURNS = 200, 2_000
WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def call_at_depth(depth: int, function: Callable[[], int]) -> int:
    return function() if depth == 0 else call_at_depth(depth - 1, function)


def do_nothing() -> None:
    pass


def count_page_faults() -> int:
    before = resource.getrusage(WHOSE).ru_minflt
    for _ in range(TURNS):
        do_nothing()
    return resource.getrusage(WHOSE).ru_minflt - before


def most_page_faults() -> int:
    return max(call_at_depth(depth, count_page_faults) for depth in range(DEEPEST))


def test_a_loop_maps_no_memory_however_deep_it_is() -> None:
    assert most_page_faults() < TURNS / 10
