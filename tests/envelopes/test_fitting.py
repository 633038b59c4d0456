from __future__ import annotations

from envelopes.fitting import fit, fitting
from envelopes.receipt import Segment, Source

OUTPUT = "".join(f"line {number}\n" for number in range(200))
PREVIEW = Segment(OUTPUT, "preview", Source("canonical", "/result/text", 0, len(OUTPUT)))
HEAD = Segment("It worked\n", "headline")
PATHS = Segment("\nartifacts/1.txt", "value")


def test_what_fits_is_left_alone() -> None:
    assert fit([HEAD, PREVIEW], 5_000, tail=[PATHS]) == [HEAD, PREVIEW, PATHS]


def test_a_preview_gives_way_before_anything_else_and_keeps_its_places() -> None:
    segments = fit([HEAD, PREVIEW], 800, tail=[PATHS])

    head, tail = segments[1], segments[3]
    assert [segment.role for segment in segments] == ["headline", "preview", "marker", "preview", "value"]
    assert sum(len(segment.text) for segment in segments) <= 800
    assert "of 200 lines]" in segments[2].text
    for part in (head, tail):
        assert part.source is not None
        assert OUTPUT[part.source.start : part.source.end] == part.text


def test_text_that_is_no_preview_is_cut_at_a_line_and_says_so() -> None:
    rows = [Segment(f"row {number}\n", "value") for number in range(100)]

    text = "".join(segment.text for segment in fit(rows, 400))

    assert len(text) <= 400
    assert text.endswith("of 690 characters]")
    assert text.split("\n[receipt cut")[0].splitlines()[-1].startswith("row ")


def test_no_policy_is_too_small() -> None:
    for limit in range(0, 200, 7):
        assert sum(len(segment.text) for segment in fit([HEAD, PREVIEW], limit, tail=[PATHS])) <= limit


def test_items_are_counted_by_number_and_by_size() -> None:
    assert fitting([5, 5, 5], rows=2, characters=100) == 2
    assert fitting([5, 5, 5], rows=9, characters=11) == 2
    assert fitting([50], rows=9, characters=11) == 0
    assert fitting([], rows=9, characters=11) == 0
