"""Differences of two texts: exact, bounded, and rendered."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

import pytest

from dashboard.text.diff import Difference, DiffPiece, compute_difference, diff_words, pair_lines
from dashboard.text.diff_markup import PAGE_WEIGHT, DiffRow, DiffView, build_diff_page
from tests.dashboard.page_text import parse_page, text_of

LONG = 1_000_000


def rebuilt(difference: Difference) -> tuple[list[str], list[str]]:
    """Both sides, joined from the blocks; equal blocks are equal on both sides."""
    left, right = [], []
    for block in difference.blocks:
        before = difference.left[block.left_start : block.left_end]
        after = difference.right[block.right_start : block.right_end]
        assert (before == after) is block.is_same
        left += before
        right += after
    return left, right


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("", "", 0, 0),
        ("a\nb\n", "a\nb\n", 0, 0),
        ("", "a\n", 0, 1),
        ("a\nb\nc", "a\nx\nc", 1, 1),
        ("a\n", "a", 1, 1),
        ("one\ntwo\nthree\n", "two\nthree\nfour\n", 1, 1),
        ("same\n" * 5, "same\n" * 3, 2, 0),
    ],
)
def test_lines_that_went_and_came_are_counted(before: str, after: str, removed: int, added: int) -> None:
    difference = compute_difference(before, after)
    assert (difference.removed, difference.added) == (removed, added)
    assert ["".join(side) for side in rebuilt(difference)] == [before, after]
    assert difference.is_none is (before == after)


def test_any_two_texts_are_rebuilt_from_their_difference() -> None:
    chance = random.Random(5)
    for _ in range(60):
        sides = ["".join(chance.choice("abc") + "\n" for _ in range(chance.randrange(30))) for _ in range(2)]
        assert ["".join(side) for side in rebuilt(compute_difference(*sides))] == sides


def test_words_within_similar_lines_are_compared_and_other_lines_are_whole() -> None:
    left, right = diff_words("exit status 0 after 12 ms\n", "exit status 7 after 12 ms\n")
    assert [piece.text for piece in left if piece.is_changed] == ["0"]
    assert [piece.text for piece in right if piece.is_changed] == ["7"]
    assert diff_words("alpha", "12345") == (
        [DiffPiece("alpha", is_changed=True)],
        [DiffPiece("12345", is_changed=True)],
    )


def test_similar_lines_of_a_block_are_side_by_side() -> None:
    assert pair_lines(["alpha one", "beta two"], ["zzz", "alpha 1", "beta 2"]) == [(None, 0), (0, 1), (1, 2)]


def similar(lines: int, changed: int) -> tuple[str, str]:
    before = [f"line {number} of the output, {number * 7} bytes\n" for number in range(lines)]
    every = lines // changed
    after = [line.replace("output", "result") if number % every == 0 else line for number, line in enumerate(before)]
    return "".join(before), "".join(after)


def at_random(alphabet: str, seed: int) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=LONG))


# Made when a test asks for them: they take half a second, and each worker collects this file.
HOSTILE: dict[str, Callable[[], tuple[str, ...]]] = {
    "empty lines": lambda: ("\n" * LONG, "a\n" * (LONG // 2)),
    "two lines in turns": lambda: ("a\nb\n" * (LONG // 4), "b\na\nb\n" * (LONG // 6)),
    "one line": lambda: ("a b " * (LONG // 4), "b a " * (LONG // 4)),
    "unique lines reversed": lambda: (
        "".join(f"{number}\n" for number in range(140_000)),
        "".join(f"{number}\n" for number in reversed(range(140_000))),
    ),
    "long lines": lambda: ("x" * 9_000 + "\n" * 100, ("x" * 8_999 + "y\n") * 100),
    "one character of each line": lambda: tuple(
        "".join(f"{'x' * 60}{(number + more) % 10}\n" for number in range(16_000)) for more in (0, 1)
    ),
    "two lines in turns, shifted": lambda: (
        "aaaaaaaaa\nbbbbbbbbb\n" * (LONG // 20),
        "bbbbbbbbb\naaaaaaaaa\n" * (LONG // 20),
    ),
    "same and other in turns": lambda: tuple(
        "".join(f"same {number} {'y' * 20}\n{word} {number} {'z' * 20}\n" for number in range(16_000))
        for word in ("old", "new")
    ),
    "one equal line, three others": lambda: tuple(
        "".join(f"{number}\n" + f"{word}\n" * 3 for number in range(60_000)) for word in ("d", "e")
    ),
    "one line of random words": lambda: (at_random(" abcdefgh", 1), at_random(" abcdefgh", 2)),
    "random lines": lambda: (at_random("abcdef \n\n", 1), at_random("abcdef \n\n", 2)),
    "nothing but white space": lambda: ("  \t \n" * (LONG // 5), " \t  \n" * (LONG // 5)),
    "other line ends": lambda: ("a line of the output\r\n" * (LONG // 22), "a line of the output\n" * (LONG // 21)),
    "lone surrogates": lambda: ("\ud800a\n" * (LONG // 3), "\udfffa\n" * (LONG // 3)),
}


@pytest.mark.parametrize("name", ["one line", "long lines", "two lines in turns"])
def test_a_megabyte_of_anything_makes_a_page_of_bounded_size(name: str) -> None:
    page = build_diff_page(compute_difference(*HOSTILE[name]()), "unified", spaces=True)
    assert sum(len(side.html) for row in page.rows for side in (row.left, row.right) if side) < 2 * PAGE_WEIGHT
    assert page.next_row is not None or name == "one line"


@pytest.mark.long
@pytest.mark.parametrize("view", ["side", "unified"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_anything_is_compared_in_bounded_memory(name: str, view: DiffView) -> None:
    before, after = HOSTILE[name]()
    tracemalloc.start()
    build_diff_page(compute_difference(before, after), view, spaces=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120_000_000


@pytest.mark.bench
def test_two_thousand_lines_with_four_hundred_changed_take_under_200_ms() -> None:
    before, after = similar(2_000, 400)
    taken = []
    for _ in range(5):
        start = time.process_time()
        build_diff_page(compute_difference(before, after), "side", spaces=False)
        taken.append(time.process_time() - start)
    print(f"{min(taken) * 1000:.0f} ms")
    assert min(taken) < 0.2


@pytest.mark.bench
@pytest.mark.parametrize("name", HOSTILE)
def test_two_megabytes_take_under_a_second(name: str) -> None:
    taken, texts = [], HOSTILE[name]()
    for _ in range(3):
        start = time.process_time()
        build_diff_page(compute_difference(*texts), "side", spaces=False)
        taken.append(time.process_time() - start)
    print(f"{name}: {min(taken) * 1000:.0f} ms")
    assert min(taken) < 1.0


@pytest.mark.parametrize("view", ["side", "unified"])
def test_rows_before_the_first_one_of_a_page_are_only_counted(view: DiffView) -> None:
    """They were rendered: a row behind the end of this difference took 18 s."""
    lines = [" ".join(random.Random(number).choices("ab", k=700)) + "\n" for number in range(1_200)]
    difference = compute_difference("".join(lines[:600]), "".join(lines[600:]))
    began = time.process_time()
    page = build_diff_page(difference, view, spaces=True, start=10**9)
    assert time.process_time() - began < 1
    assert (page.rows, page.next_row) == ((), None)


def test_four_hundred_changed_lines_of_two_thousand_are_found_as_such() -> None:
    difference = compute_difference(*similar(2_000, 400))
    assert (difference.removed, difference.added, difference.is_rough) == (400, 400, False)


def rendered(
    before: str, after: str, view: DiffView = "side", *, spaces: bool = False, start: int = 0
) -> tuple[DiffRow, ...]:
    return build_diff_page(compute_difference(before, after), view, spaces=spaces, start=start).rows


def test_equal_lines_far_from_a_change_are_a_gap_with_their_number() -> None:
    before = "".join(f"{number}\n" for number in range(100))
    rows = rendered(before, before.replace("50\n", "fifty\n"))
    assert [row.kind for row in rows] == ["gap", "same", "same", "same", "changed", "same", "same", "same", "gap"]
    assert (rows[0].count, rows[-1].count) == (47, 46)
    assert [row.left.number for row in rows if row.left] == [48, 49, 50, 51, 52, 53, 54]


def test_a_unified_difference_says_what_goes_before_what_comes() -> None:
    assert [row.kind for row in rendered("a 1\nb 1\n", "a 2\nb 2\n", "unified")] == [
        "removed",
        "removed",
        "added",
        "added",
    ]


def test_changed_white_space_is_marked_by_default() -> None:
    row = rendered("a\tb\n", "a  b\n")[0]
    assert row.left is not None
    assert row.right is not None
    assert "→" in row.left.html
    assert "··" in row.right.html
    last = rendered("end\n", "end")[0]
    assert last.left is not None
    assert "↵" in last.left.html


def test_hostile_lines_are_text() -> None:
    row = rendered("<script>alert(1)</script>\x1b[31m\n", "<b hx-post=x>\u202e\n")[0]
    markup = "".join(side.html for side in (row.left, row.right) if side)
    page = parse_page(markup)
    assert not page.has("script, b")
    assert "\x1b" not in markup
    marks = page.select(".mark")
    assert [mark["data-code"] for mark in marks] == ["27", str(0x202E)]
    assert text_of(row.left.html if row.left else "") == "<script>alert(1)</script>\x1b[31m"


def test_a_long_difference_goes_on_where_it_stopped() -> None:
    before = "".join(f"{number} before {'x' * 90}\n" for number in range(3_000))
    difference = compute_difference(before, before.replace("before", "after"))
    seen, start = 0, 0
    while True:
        page = build_diff_page(difference, "side", spaces=False, start=start)
        seen += len(page.rows)
        if page.next_row is None:
            break
        assert page.next_row == start + len(page.rows)
        start = page.next_row
    assert seen == 3_000


def test_a_line_that_is_not_whole_says_how_much_is_left_out() -> None:
    row = rendered("x" * 10_000 + "\n", "short\n")[0]
    assert row.left is not None
    assert row.left.left_out == 6_001
