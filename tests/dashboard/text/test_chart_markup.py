"""Charts: what is drawn, what stands beside it, and that a missing value is no nought."""

from __future__ import annotations

import pytest
from django.template.loader import render_to_string

from dashboard.text.chart_markup import Chart, ChartKind, ChartSeries, format_compact, format_share
from tests.cases import each
from tests.dashboard.page_text import Page, parse_page

pytestmark = pytest.mark.rendering


def build(kind: ChartKind = "stacked", **fields: object) -> Chart:
    series = (
        ChartSeries(name="worked", ink="ok", values=[8, None, 2], urls=["/worked/1", "", "/worked/3"]),
        ChartSeries(name="failed", ink="failed", values=[2, None, 0], urls=["/failed/1", "", ""]),
    )
    values = {"id": "calls", "title": "Calls", "head": "Day", "labels": ["1 Mar", "2 Mar", "3 Mar"]}
    return Chart(**{**values, "series": series, "kind": kind, **fields})  # type: ignore[arg-type]


def draw(chart: Chart) -> Page:
    return parse_page(render_to_string("charts/_chart.html", {"chart": chart}))


def test_a_drawing_has_a_name_and_a_sentence_for_those_who_do_not_see_it() -> None:
    drawing = draw(build()).by_role("img", "Calls")
    assert drawing.select_one("desc").text == (
        "Day 1 Mar to 3 Mar; most worked 8 at 1 Mar; most failed 2 at 1 Mar. The table has all numbers."
    )


def test_the_table_has_each_value_and_its_link_and_a_dash_for_a_missing_one() -> None:
    page = draw(build())
    assert page.rows("table tr") == [
        ["Day", "worked", "failed"],
        ["1 Mar", "8", "2"],
        ["2 Mar", "–", "–"],
        ["3 Mar", "2", "0"],
    ]
    assert [link["href"] for link in page.select("td a")] == ["/worked/1", "/failed/1", "/worked/3"]


@each(
    ("kind", "paths"),
    [
        ("stacked", ["M1 100h8v-80h-8zM21 100h8v-20h-8z", "M1 20h8v-20h-8z"]),
        ("bars", ["M1 100h4v-80h-4zM21 100h4v-20h-4z", "M5 100h4v-20h-4z"]),
        ("steps", ["M0 20h10M20 80h10", "M0 80h10M20 100h10"]),
        ("line", ["M0 20h10M20 80h10", "M0 80h10M20 100h10"]),  # a label alone is a dash
    ],
)
def test_each_series_is_one_path(kind: ChartKind, paths: list[str]) -> None:
    chart = build(kind, most=10)
    assert [path["d"] for path in draw(chart).select("svg path[data-ink]")] == paths


def test_a_line_joins_neighbours() -> None:
    series = [ChartSeries(name="share", ink="cut", values=[0.5, 1, None, 0])]
    chart = build("line", labels=["a", "b", "c", "d"], series=series, most=1.0)
    assert draw(chart).select_one("svg path[data-ink]")["d"] == "M5 50L15 0M30 100h10"


def test_the_pointer_finds_a_place_for_each_label_and_the_keyboard_only_the_table() -> None:
    page = draw(build())
    places = page.select(".chart-hits > *")
    assert [(place.get("href"), place["title"]) for place in places] == [
        ("/worked/1", "1 Mar: worked 8, failed 2"),
        (None, "2 Mar: worked –, failed –"),
        ("/worked/3", "3 Mar: worked 2, failed 0"),
    ]
    assert {place.get("tabindex") for place in places if place.get("href")} == {"-1"}
    assert [place.get("href") for place in draw(build("bars")).select(".chart-hits > *")][:2] == [
        "/worked/1",
        "/failed/1",
    ]


@each(
    ("largest", "marks"),
    [(0, ["1", "0.5", "0"]), (7, ["8", "4", "0"]), (21, ["30", "15", "0"]), (0.03, ["0.03", "0.015", "0"])],
)
def test_the_scale_ends_at_a_round_number(largest: float, marks: list[str]) -> None:
    chart = build("bars", labels=["a"], series=[ChartSeries(name="n", ink="ok", values=[largest])])
    assert chart.marks == marks


@each(("number", "edges"), [(1, ["0"]), (4, ["0", "1", "2", "3"]), (5, ["0", "2", "4"]), (6, ["0", "5"])])
def test_labels_below_stand_where_their_value_is(number: int, edges: list[str]) -> None:
    labels = [str(index) for index in range(number)]
    assert build(labels=labels, series=[ChartSeries(name="n", ink="ok", values=[1] * number)]).edges == edges


def test_numbers_are_written_short_and_shares_with_a_digit_where_they_are_small() -> None:
    assert [format_compact(number) for number in (0, 0.25, 950, 1_200, 34_000, 5_600_000, 2e9)] == [
        *("0", "0.25", "950", "1.2k", "34k", "5.6M", "2G"),
    ]
    assert [format_share(share) for share in (None, 0, 0.004, 0.5, 1)] == ["–", "0%", "0.4%", "50%", "100%"]


def test_names_from_recordings_are_escaped() -> None:
    series = [ChartSeries(name="<script>alert(1)</script>\u202e", ink="ok", values=[1])]
    page = draw(build(labels=["<b>"], series=series))
    assert not page.has("script, b")
    assert "\u202e" not in page.markup
