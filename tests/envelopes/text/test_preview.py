"""Cuts and previews, value by value, and details of an error that are too large."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families import FAMILIES
from envelopes.families.base import FieldCut
from envelopes.lint.model import Shortened
from envelopes.pipeline.project import Projection
from envelopes.pipeline.render import ReceiptTooLong, lint_input, render
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.receipt import Segment, text_receipt
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.storage.sinks import MemorySink
from envelopes.text.preview import Cut, TextPreview, count_fitting_lines, head_tail, shorten, split_lines
from tests.envelopes.built_in import failure, projected, receipt_of

BOTH = Cut("lines", 10, ((0, 2), (9, 10)))
TAIL = Cut("lines", 10, ((7, 10),))
WHOLE = Cut("characters", 3, ((0, 3),))
DONE = CanonicalResult(tool_name="Ask", status="success", summary_text="done", result={})


@pytest.mark.parametrize(
    ("cut", "shown", "dropped", "gaps", "first_and_last"),
    [(BOTH, 3, 7, ((2, 9),), (2, 1)), (TAIL, 3, 7, ((0, 7),), (0, 3)), (WHOLE, 3, 0, (), (3, 0))],
)
def test_a_cut_counts_what_is_shown_and_what_is_not(
    cut: Cut, shown: int, dropped: int, gaps: Any, first_and_last: tuple[int, int]
) -> None:
    assert (cut.shown_count, cut.dropped_count, cut.gaps) == (shown, dropped, gaps)
    assert cut.is_whole is (dropped == 0)
    first, last = first_and_last
    unit = f"of {cut.total} {cut.unit}"
    assert cut.marker() == f"[output truncated: showing first {first} and last {last} {unit}]"


def test_a_cut_of_nothing_shown_has_one_gap() -> None:
    cut = Cut("lines", 4, ())
    assert (cut.is_whole, cut.gaps, cut.shown_count) == (False, ((0, 4),), 0)
    assert "first 0 and last 0 of 4" in cut.marker()


def test_one_line_that_is_not_shown_is_a_cut() -> None:
    assert not Cut("lines", 4, ((0, 3),)).is_whole


@pytest.mark.parametrize(
    ("head", "shown"), [("a\n", "a\n...\n{0}\n...\nz"), ("a", "a\n...\n{0}\n...\nz"), ("", "...\n{0}\n...\nz")]
)
def test_the_marker_is_on_lines_of_its_own(head: str, shown: str) -> None:
    assert TextPreview(head, "z", BOTH).text == shown.format(BOTH.marker())


def test_a_preview_without_a_cut_is_the_text() -> None:
    assert TextPreview("a\nb", "", None).text == "a\nb"
    assert head_tail("a\nb", 3) == TextPreview("a\nb", "", None)


@pytest.mark.parametrize(
    ("sizes", "budget", "count"),
    [((2, 2, 2), 4, 2), ((2, 2, 2), 5, 2), ((2, 2, 2), 3, 1), ((2, 2), 4, 2), ((2, 2), 9, 2), ((3,), 2, 0), ((), 2, 0)],
)
def test_lines_fit_up_to_the_last_character_of_the_budget(sizes: tuple[int, ...], budget: int, count: int) -> None:
    assert count_fitting_lines(["x" * size for size in sizes], budget) == count


@pytest.mark.parametrize(
    ("text", "budget", "head", "tail", "unit"),
    [
        ("a\nb\nc\n", 4, "a\n", "c\n", "lines"),
        ("a\nb\nc\n", 5, "a\n", "c\n", "lines"),
        ("a\nb\ncc\n", 5, "a\n", "cc\n", "lines"),
        ("long\nb\nc\n", 4, "lo", "c\n", "characters"),
        ("a\nb\nlong\n", 4, "a\n", "g\n", "characters"),
        ("a\nb\nc\nd\ne\n", 8, "a\nb\n", "d\ne\n", "lines"),
        ("a\nb\nc\nlong\ne\n", 8, "a\nb\n", "e\n", "lines"),
        ("x" * 200, 100, "x" * 50, "x" * 50, "characters"),
        ("abcdef", 3, "a", "ef", "characters"),
        ("abcdef", 0, "", "", "characters"),
    ],
)
def test_an_end_is_cut_in_its_lines_only_when_both_ends_have_one(
    text: str, budget: int, head: str, tail: str, unit: str
) -> None:
    shown = head_tail(text, budget)
    assert (shown.head, shown.tail) == (head, tail)
    assert shown.cut is not None
    assert shown.cut.unit == unit or budget == 0
    first, last, total = (len(split_lines(part) if shown.cut.unit == "lines" else part) for part in (head, tail, text))
    assert (shown.cut.total, shown.cut.shown) == (total, ((0, first), (total - last, total)))


@given(st.text("ab\n\u2028", min_size=1, max_size=30), st.integers(0, 20), st.integers(0, 100))
def test_each_end_has_the_lines_that_fit_it_of_the_lines_of_the_text(text: str, budget: int, head_share: int) -> None:
    shown, lines = head_tail(text, budget, head_share=head_share), split_lines(text)
    for_head = budget * head_share // 100
    head, tail = count_fitting_lines(lines, for_head), count_fitting_lines(lines[::-1], budget - for_head)
    if shown.cut is not None and shown.cut.unit == "lines":
        assert (shown.head, shown.tail) == ("".join(lines[:head]), "".join(lines[len(lines) - tail :]))
        assert shown.cut == Cut("lines", len(lines), ((0, head), (len(lines) - tail, len(lines))))
    elif shown.cut is not None:
        assert (for_head and not head) or (budget > for_head and not tail)


@pytest.mark.parametrize(("text", "lines"), [("", []), ("a", ["a"]), ("a\n", ["a\n"]), ("a\nb", ["a\n", "b"])])
def test_a_line_ends_with_its_newline(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


def details_of(details: dict[str, Any], limit: int) -> dict[str, Any]:
    error = ToolError(kind="network_failed", message="no route", details=details, retryable=True)
    canonical = projected(failure("WebFetch", error), policy=ProjectionPolicy(details=limit)).canonical
    assert canonical.error is not None
    assert canonical.error.details is not None
    return canonical.error.details


def test_of_details_that_are_too_large_the_longest_texts_are_shortened_first() -> None:
    """Members that a receipt names stay themselves: RFC-066, RFC-079."""
    details = details_of({"url": "https://example.org/", "log": "v" * 2_000, "port": 443, "trace": ["t" * 90]}, 1_000)
    assert details["url"] == "https://example.org/"
    assert (details["port"], details["trace"]) == (443, ["t" * 90])
    assert details["log"] == "v" * 499 + "…"


def test_of_details_with_too_many_members_the_short_ones_that_fit_stay() -> None:
    error = ToolError(
        kind="network_failed",
        message="no route",
        details={"url": "https://example.org/", "rows": [[index] for index in range(900)], "port": 443},
        retryable=True,
    )
    sink = MemorySink()
    projection = projected(failure("WebFetch", error), sink)
    assert projection.canonical.error is not None
    (whole,) = sink.texts.values()
    assert json.loads(whole) == msgspec.to_builtins(error)
    assert projection.canonical.error.details == {
        "url": "https://example.org/",
        "port": 443,
        "members_omitted": 1,
        "error_characters": len(whole),
        "error_artifact": 0,
    }
    text = receipt_of(projection.canonical).text
    assert "\nURL: https://example.org/\n" in text
    assert f"all of it: ReadArtifact path={projection.canonical.artifacts[0].path}]" in text


def test_details_of_exactly_the_limit_stay() -> None:
    details = {"log": "é" * 20, "n": [1, 2]}
    size = len(json.dumps(details, ensure_ascii=False, separators=(",", ":")))
    assert details_of(details, size) == details
    assert details_of(details, size - 1)["members_omitted"] == 1


def test_a_receipt_may_have_exactly_as_many_characters_as_its_policy_allows() -> None:
    renderers = {"receipt": lambda _canonical, _policy: [Segment("x" * 5, "label")]}
    family = msgspec.structs.replace(FAMILIES[0], renderers=renderers)
    assert render(DONE, family, RenderPolicy(characters=5)).text == "xxxxx"
    with pytest.raises(ReceiptTooLong, match="command/receipt wrote 5 characters, its policy allows 4$"):
        render(DONE, family, RenderPolicy(characters=4))


def test_both_halves_of_a_call_hold_the_cuts_of_their_projection() -> None:
    projection = Projection(DONE, (FieldCut("/result/stdout_preview", BOTH),))
    pair = lint_input(projection, text_receipt((Segment("done", "headline"),)))
    assert (pair.canonical, pair.receipt.text) == (DONE, "done")
    assert pair.cuts == (Shortened("/result/stdout_preview", BOTH),)


@pytest.mark.parametrize(
    ("thing", "field"), [(BOTH, "total"), (TextPreview("a", "", None), "head"), (Projection(DONE), "canonical")]
)
def test_what_was_cut_cannot_be_changed(thing: Any, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(thing, field, None)


def test_a_preview_that_is_cut_again_gives_each_of_its_ends_half() -> None:
    once = head_tail("".join(f"{number:03}\n" for number in range(100)), 40)
    text, cut = shorten(once.text, once.cut, 24)
    assert cut == Cut("lines", 100, ((0, 3), (97, 100)))
    assert text == f"000\n001\n002\n...\n{cut.marker()}\n...\n097\n098\n099\n"


def test_one_long_line_that_is_cut_again_gives_each_of_its_ends_half() -> None:
    once = head_tail("abcdefghij" * 10, 20)
    text, cut = shorten(once.text, once.cut, 12)
    assert cut == Cut("characters", 100, ((0, 6), (94, 100)))
    assert text == f"abcdef\n...\n{cut.marker()}\n...\nefghij"


@pytest.mark.parametrize(("budget", "shown", "count"), [(0, "", 0), (1, "…", 0), (3, "ab…", 2)])
def test_a_text_on_one_line_is_cut_before_its_ellipsis(budget: int, shown: str, count: int) -> None:
    assert shorten("abcdef", None, budget) == (shown, Cut("characters", 6, ((0, count),)))
