"""The parser that the tests look at pages with."""

from __future__ import annotations

import pytest

from tests.dashboard.page_text import assert_harmless, parse_page, text_of

PAGE = """<!doctype html><html lang="en"><head><title>Runs</title></head><body>
<nav aria-label="Pages"><a href="/runs/?a=1&amp;b=2" aria-current="page">All <b>runs</b></a><a>no link</a></nav>
<main><label for="q">Filter</label><input id="q" value="tool:Bash">
<h2 id="h">Facts</h2><section aria-labelledby="h"><dl><dt>Took</dt><dd>3 <i>s</i></dd></dl></section>
<table><tr><th scope="row">one</th><td>1</td></tr></table>
<pre>
  a &lt;b&gt; <i class="mark" data-code="27">ESC</i>[31m<i class="mark" data-code="55296">D800</i></pre>
</main></body></html>
"""


def test_parts_are_found_by_role_text_and_id() -> None:
    page = parse_page(PAGE)
    assert page.by_role("link", "runs")["href"] == "/runs/?a=1&b=2"
    assert page.by_role("navigation", "Pages", exact=True).texts("[aria-current]") == ["All runs"]
    assert page.by_role("region", "Facts").facts == {"Took": "3 s"}
    assert page.by_role("textbox", "Filter")["value"] == "tool:Bash"
    assert page.by_text("no link", exact=True).tag == "a"
    assert page.by_role("rowheader").closest("table") is not None
    assert page.by_role("rowheader").closest("nav") is None
    assert page.select_one("table").rows() == [["one", "1"]]


def test_a_text_has_its_marked_characters_and_its_space() -> None:
    page = parse_page(PAGE)
    assert page.select_one("pre").exact == "  a <b> \x1b[31m\ud800"
    assert page.select_one("pre").text == "a <b> \x1b[31m\ud800"
    assert text_of(' <b>a</b>\n<i class="mark" data-code="9">TAB</i> ') == " a\n\t "


def test_rows_without_their_table_are_rows() -> None:
    assert parse_page("<tr><td>1</td></tr>\n<tr><td>2</td></tr>").rows() == [["1"], ["2"]]


@pytest.mark.parametrize("ask", ["by_role", "by_text", "by_id", "select_one"])
def test_what_is_not_there_exactly_once_fails(ask: str) -> None:
    with pytest.raises(AssertionError):
        getattr(parse_page("<p>x</p><p>x</p>"), ask)({"by_role": "link", "by_text": "x"}.get(ask, "p"))


def test_an_element_with_its_role_written_out_is_listed_once() -> None:
    page = parse_page(
        '<ul role="list"><li role="listitem">a<ol role="list"><li>b</li></ol></li></ul><ul><li>c</li></ul>'
    )
    assert [element.text for element in page.all_by_role("list")] == ["ab", "b", "c"]
    assert [element.text for element in page.all_by_role("listitem")] == ["ab", "b", "c"]


def test_a_fragment_has_no_page_around_it() -> None:
    assert not parse_page(PAGE).is_fragment
    assert parse_page('<div id="rows"><header>Runs</header></div>').is_fragment


@pytest.mark.parametrize(
    "markup",
    [
        "<p><script>alert(1)</script>",
        '<b hx-post="/x">x</b>',
        "<p>\u202e",
        "<p>\x1b[31m",
        '<p title="<script>alert(1)</script>">',
    ],
)
def test_a_text_that_acts_on_the_page_is_not_harmless(markup: str) -> None:
    assert_harmless(parse_page("<p>&lt;script>alert(1)&lt;/script>"))
    with pytest.raises(AssertionError):
        assert_harmless(parse_page(markup))
