"""Matchers: the text that each links, the text that it does not, and the lines that the links show."""

from __future__ import annotations

import pytest

from envelopes.alignment.spans import (
    Span,
    find_cut,
    iterate_lines,
    match_at,
    match_items,
    match_numbered,
    match_once,
    match_prefix,
    to_segments,
)
from envelopes.schema.receipt import Segment, SegmentSource, TextPart

ONE = SegmentSource("complete", "/one", 0, 9)


@pytest.mark.parametrize(("value", "at", "expected"), [("b", 2, Span(2, 3, "/x", 0, 1)), ("b", 0, None), ("", 0, None)])
def test_a_value_is_whole_at_its_position_or_is_not_linked(value: str, at: int, expected: Span | None) -> None:
    assert match_at("a b", at, value, "/x") == expected


@pytest.mark.parametrize(
    ("value", "start", "expected"),
    [
        ("b", 0, Span(2, 3, "/x", 0, 1)),
        ("a", 0, None),
        ("a", 1, Span(4, 5, "/x", 0, 1)),
        ("c", 0, None),
        ("", 0, None),
    ],
)
def test_a_value_that_occurs_twice_is_ambiguous(value: str, start: int, expected: Span | None) -> None:
    assert match_once("a b a", value, "/x", start=start) == expected


@pytest.mark.parametrize(("value", "shown"), [("abcd", 4), ("abcx", 3), ("axxx", 1), ("abcdefgh", 4), ("xbcd", None)])
def test_the_longest_common_beginning_is_linked(value: str, shown: int | None) -> None:
    span = match_prefix("..abcd", 2, value, "/x")
    assert span == (None if shown is None else Span(2, 2 + shown, "/x", 0, shown))


@pytest.mark.parametrize(
    ("text", "first", "lines"),
    [
        ("     1→a\n     2→b", 1, ["a", "b"]),
        ("1\ta\n2\tb", 1, ["a", "b"]),
        ("   9→a\n  10→b", 9, ["a", "b"]),
        ("     9→a\n    11→b", 9, ["a"]),
        ("x  9→a", 9, []),
        ("     9 a", 9, []),
        ("     9→a tail", 9, []),
    ],
)
def test_numbered_lines_are_linked_until_a_number_or_a_line_differs(text: str, first: int, lines: list[str]) -> None:
    spans = list(match_numbered(text, 0, "a\nb", "/x", first=first))
    assert [text[span.start : span.end] for span in spans] == lines
    assert ["a\nb"[span.value_start : span.value_end] for span in spans] == lines


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "a\n", "\na\n\nb", "line\n" * 5_000, "x" * 30_000 + "\n\n" + "y" * 9_000]
)
def test_lines_one_by_one_are_those_of_the_whole_text(text: str) -> None:
    assert list(iterate_lines(text)) == text.split("\n")


@pytest.mark.parametrize(
    ("items", "linked"), [(["a", "b"], ["/x/0", "/x/1"]), (["a", "c"], ["/x/0"]), (["a", "", "b"], ["/x/0"])]
)
def test_items_are_linked_a_line_each_until_one_differs(items: list[str], linked: list[str]) -> None:
    assert [span.pointer for span in match_items("a\nb", 0, items, "/x")] == linked


def test_of_two_links_that_overlap_the_earlier_one_stays_and_no_character_is_lost() -> None:
    text = "a bc d"
    segments = to_segments(text, [Span(3, 5, "/late", 0, 2), Span(2, 4, "/x", 0, 2), Span(5, 5, "/empty")])
    assert [(segment.text, segment.source.pointer if segment.source else None) for segment in segments] == [
        ("a ", None),
        ("bc", "/x"),
        (" d", None),
    ]


@pytest.mark.parametrize(
    ("value", "ranges", "start", "shown"),
    [
        ("a\nb\nc\n", [(0, 1), (2, 5)], 0, ((0, 3),)),
        ("a\nb\nc", [(0, 1), (4, 5)], 0, ((0, 1), (2, 3))),
        ("a\nbb\nc", [(0, 3)], 0, ((0, 1),)),
        ("abc\nd", [(1, 2)], 0, ()),
        ("\n\na\nb", [(2, 3)], 0, ((0, 3),)),
        ("a\nb\nc", [(2, 3), (2, 5)], 0, ((1, 3),)),
        ("Error: a\nb", [(7, 8)], 7, ((0, 1),)),
        ("a\nb", [], 0, ()),
    ],
)
def test_a_line_is_shown_when_all_of_it_is(
    value: str, ranges: list[tuple[int, int]], start: int, shown: tuple[tuple[int, int], ...]
) -> None:
    spans = [Span(0, end - begin, "/x", begin, end) for begin, end in ranges]
    assert find_cut(value, spans, start=start).shown == shown


@pytest.mark.parametrize(
    ("start", "stop", "shown"),
    [
        (0, 9, ["one", "-", "three"]),
        (0, 3, ["one"]),
        (1, 4, ["ne", "-"]),
        (3, 5, ["-", "t"]),
        (5, 7, ["hr"]),
        (8, 99, ["e"]),
        (9, 99, []),
        (4, 4, []),
    ],
)
def test_a_part_of_a_receipt_keeps_its_segments_and_cuts_those_at_its_edges(
    start: int, stop: int, shown: list[str]
) -> None:
    part = TextPart((Segment("one", "value", ONE), Segment("-", "label"), Segment("three", "value", ONE)))
    segments = part.within(start, stop)
    assert [segment.text for segment in segments] == shown
    assert all(segment.source == (None if segment.role == "label" else ONE) for segment in segments)
