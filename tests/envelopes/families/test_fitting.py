from __future__ import annotations

import pytest

from envelopes.families.base import count_fitting
from envelopes.families.fitting import cut_segment, fit
from envelopes.schema.budget import CutAt, ProjectionPolicy, RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource

OUTPUT = "".join(f"line {number}\n" for number in range(200))
PREVIEW = Segment(OUTPUT, "preview", SegmentSource("canonical", "/result/text", 0, len(OUTPUT)))
HEAD = Segment("It worked\n", "headline")
PATHS = Segment("\nartifacts/1.txt", "value")


def test_what_fits_is_left_alone() -> None:
    assert fit([HEAD, PREVIEW], RenderPolicy(characters=5_000), tail=[PATHS]) == [HEAD, PREVIEW, PATHS]


def test_a_preview_gives_way_before_anything_else_and_keeps_its_places() -> None:
    segments = fit([HEAD, PREVIEW], RenderPolicy(characters=800), tail=[PATHS])

    head, tail = segments[1], segments[3]
    assert [segment.role for segment in segments] == ["headline", "preview", "marker", "preview", "value"]
    assert sum(len(segment.text) for segment in segments) <= 800
    assert "of 200 lines]" in segments[2].text
    for part in (head, tail):
        assert part.source is not None
        assert OUTPUT[part.source.start : part.source.end] == part.text


def test_text_that_is_no_preview_is_cut_at_a_line_and_says_so() -> None:
    rows = [Segment(f"row {number}\n", "value") for number in range(100)]

    text = "".join(segment.text for segment in fit(rows, RenderPolicy(characters=400)))

    assert len(text) <= 400
    assert text.endswith("of 690 characters]")
    assert text.split("\n[receipt cut")[0].splitlines()[-1].startswith("row ")


def test_no_policy_is_too_small() -> None:
    for limit in range(0, 200, 7):
        assert (
            sum(len(segment.text) for segment in fit([HEAD, PREVIEW], RenderPolicy(characters=limit), tail=[PATHS]))
            <= limit
        )


def test_items_are_counted_by_number_and_by_size() -> None:
    assert count_fitting([5, 5, 5], rows=2, characters=100) == 2
    assert count_fitting([5, 5, 5], rows=9, characters=11) == 2
    assert count_fitting([50], rows=9, characters=11) == 0
    assert count_fitting([], rows=9, characters=11) == 0


@pytest.mark.parametrize(
    ("head_share", "cut_at", "first", "last", "unit"),
    [
        (50, "lines", "line 0", "line 199", "lines"),
        (100, "lines", "line 0", "", "lines"),
        (0, "lines", "", "line 199", "lines"),
        (90, "characters", "line 0", "line 199", "characters"),
    ],
)
def test_a_policy_says_which_end_of_a_text_stays(
    head_share: int, cut_at: CutAt, first: str, last: str, unit: str
) -> None:
    policy = RenderPolicy(characters=800, head_share=head_share, cut_at=cut_at)
    head, _, tail = "".join(segment.text for segment in fit([PREVIEW], policy)).partition("[receipt shortened here")
    assert head.startswith(first or "...")
    assert tail.rstrip("\n").endswith(last or "...")
    assert tail.partition("]")[0].endswith(unit)


def test_a_knob_at_its_default_changes_no_fingerprint() -> None:
    assert RenderPolicy(head_share=50, cut_at="lines").fingerprint == RenderPolicy().fingerprint
    policies = [RenderPolicy(), RenderPolicy(head_share=51), RenderPolicy(cut_at="characters")]
    assert len({policy.fingerprint for policy in policies}) == 3


def test_a_size_of_a_projection_has_its_own_fingerprint() -> None:
    sizes = [ProjectionPolicy(), ProjectionPolicy(preview=1), ProjectionPolicy(details=1), ProjectionPolicy(rows=1)]
    assert len({policy.fingerprint for policy in sizes}) == 4
    assert ProjectionPolicy(preview=1).fingerprint == sizes[1].fingerprint


@pytest.mark.parametrize(("budget", "roles"), [(len(OUTPUT), ["preview"]), (500, ["preview", "marker", "preview"])])
def test_a_text_that_fits_its_budget_is_one_piece_still(budget: int, roles: list[str]) -> None:
    assert [segment.role for segment in cut_segment(PREVIEW, budget, RenderPolicy())] == roles
