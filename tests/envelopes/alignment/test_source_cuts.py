"""Marks of what a source cut out of an output before it recorded it, and texts that only look like one."""

from __future__ import annotations

import pytest

from envelopes.alignment.source_cuts import (
    CutPlace,
    SourceCut,
    complete_cut,
    find_receipt_cuts,
    find_source_cuts,
)
from envelopes.text.preview import Cut

HALF = "a line of the log\n" * 278  # 5,004 characters, 278 lines
LONG = "x" * 2_000
LIMIT = "[OUTPUT TRUNCATED - exceeded 25000 token limit]\n\nThe tool output was truncated. Use pagination."
SAVED = (
    "Error: result (71,204 characters) exceeds maximum allowed tokens. Output has been saved to /t/m.txt.\nFormat: JSON"
)
MarkedLines = tuple[str, int | None, int, int, int]


def marks(text: str, place: CutPlace, start: int = 0) -> list[MarkedLines]:
    cuts = find_source_cuts(text, "/out", place, start=start)
    return [(cut.unit, cut.count, cut.start, cut.end, cut.lines) for cut in cuts]


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        (
            "stream",
            f"{HALF}be\n\n... [39012 characters truncated] ...\n\nfore\n{HALF}",
            ("characters", 39_012, 278, 283, 1),
        ),
        ("stream", f"{HALF}be\n\n... [40 lines truncated] ...", ("lines", 40, 278, 281, 40)),
        ("stream", f"{HALF}be\n\n... [40 lines truncated] ...\n", ("lines", 40, 278, 281, 40)),
        ("stream", f"{HALF}be\n\n... [40 lines truncated] ...\n\nfore\n{HALF}", ("lines", 40, 278, 283, 40)),
        ("stream", f"{HALF}be\n\n... [40 lines truncated] ...\nShell cwd was reset to /a", ("lines", 40, 278, 282, 40)),
        ("task", "[Truncated. Full output: /tmp/b1.output]\n\nthe end", ("output", None, 0, 3, 1)),
        ("task", f"{HALF}be\n\n... [40 lines truncated] ...", ("lines", 40, 278, 281, 40)),
        ("server", f"one\n\n{LIMIT}", ("output", None, 0, 5, 1)),
        ("server", SAVED, ("output", None, 0, 2, 1)),
        ("server", SAVED.replace("characters", "characters across 1,900 lines"), ("lines", 1_900, 0, 2, 1_900)),
        ("failure", SAVED.removeprefix("Error: "), ("output", None, 0, 2, 1)),
        ("notebook", "Outputs are too large to include. Use Bash with: cat", ("output", None, 0, 1, 1)),
        ("server", LIMIT, ("output", None, 0, 3, 1)),
        ("file", f"one\n{LONG}... [truncated]\nthree", ("line ends", 1, 1, 2, 1)),
        ("file", f"{LONG}… [truncated]", ("line ends", 1, 0, 1, 1)),
        ("matches", "a.js:1:x\na.js:2:[Omitted long matching line]\n", ("long lines", 1, 1, 2, 1)),
        ("matches", "[Omitted long context line]", ("long lines", 1, 0, 1, 1)),
    ],
)
def test_a_mark_counts_in_its_form_and_at_its_place(place: CutPlace, text: str, expected: MarkedLines) -> None:
    assert marks(text, place) == [expected]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("stream", "one\n\n... [40 lines truncated] ...\n\ntwo"),
        ("stream", "one\n\n... [40 lines truncated] ..."),
        ("stream", f"{HALF}\n\n... [9 characters truncated] ...\n\nonly a little behind it"),
        ("stream", f"a little before it\n\n... [9 characters truncated] ...\n\n{HALF}"),
        ("stream", f"{HALF}\n... [9 characters truncated] ...\n{HALF}"),
        ("stream", f'{HALF}print(f"\\n\\n... [{{n}} lines truncated] ...")\n{HALF}'),
        ("stream", f"{LONG}... [truncated]"),
        ("file", f"{HALF}\n\n... [9 characters truncated] ...\n\n{HALF}"),
        ("file", 'return text[:limit] + "... [truncated]"'),
        ("file", "a line that ends so ... [truncated]\n… [truncated]"),
        ("file", f"{LONG}... [truncated] and goes on"),
        ("server", f"{HALF}\n\n... [9 characters truncated] ...\n\n{HALF}"),
        ("server", f"the words of {LIMIT}\n\nin the middle"),
        ("server", f"It printed:\n{SAVED}"),
        ("stream", SAVED),
        ("notebook", "The words: Outputs are too large to include. Use Bash"),
        ("task", "what [Truncated. Full output: /tmp/b1] means\n\n"),
        ("matches", "a.md:3:ripgrep prints [Omitted long matching line] for one\n"),
    ],
)
def test_a_text_that_only_contains_such_words_is_not_cut(place: CutPlace, text: str) -> None:
    assert marks(text, place) == []


def test_marks_are_counted_behind_a_prefix_that_the_source_added() -> None:
    prefix = "Error: Exit code 1\n"
    text = f"{prefix}{HALF}\n\n... [9 characters truncated] ...\n\n{HALF}"
    assert marks(text, "stream", len("Error: ")) == [("characters", 9, 279, 284, 1)]


@pytest.mark.parametrize(
    ("receipt", "unit"),
    [
        ("a.go\nb.go\n(Results are truncated. Consider using a more specific path or pattern.)", "files"),
        (f"{HALF}\n\n... [9 characters truncated] ...\n\n{HALF}", "characters"),
    ],
)
def test_a_receipt_without_a_recorded_result_shows_its_cut_by_itself(receipt: str, unit: str) -> None:
    assert [cut.unit for cut in find_receipt_cuts(receipt)] == [unit]


def gap(start: int, end: int, lines: int) -> SourceCut:
    return SourceCut(pointer="", unit="lines", count=lines, start=start, end=end, lines=lines)


@pytest.mark.parametrize(
    ("shown", "gaps", "total", "complete"),
    [
        (((0, 10),), [gap(4, 9, 1)], 6, ((0, 4), (5, 6))),
        (((0, 10),), [gap(7, 10, 40)], 47, ((0, 7),)),
        (((0, 10),), [gap(10, 10, 5)], 15, ((0, 10),)),
        (((0, 10),), [gap(2, 3, 1), gap(6, 7, 1)], 10, ((0, 2), (3, 6), (7, 10))),
        (((0, 3), (8, 10)), [gap(4, 7, 20)], 27, ((0, 3), (25, 27))),
        ((), [gap(4, 7, 1)], 8, ()),
    ],
)
def test_the_lines_of_a_mark_stand_for_those_that_are_gone(
    shown: tuple[tuple[int, int], ...], gaps: list[SourceCut], total: int, complete: tuple[tuple[int, int], ...]
) -> None:
    assert complete_cut(Cut("lines", 10, shown), gaps) == Cut("lines", total, complete)
