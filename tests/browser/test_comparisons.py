"""Comparisons in a browser: a plot that is clicked into its calls, keys from list to pair, and no script at all."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from dashboard.experiments.stored_comparison import Selection, start_comparison
from dashboard.experiments.verdicts import start_review
from dashboard.models import Comparison, Project, Verdict
from tests.browser.rest import come_to_rest, press
from tests.dashboard.measured_comparisons import compared

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def comparison(bundled: Project) -> Comparison:
    found, _ = compared(bundled, ["recorded", "receipt", "canonical_json"], sample=40)
    return found


def test_a_bar_of_a_plot_opens_its_calls_and_keys_open_a_pair(
    operator_page: Page, comparison: Comparison, assert_accessible: Callable[[Page], None]
) -> None:
    operator_page.goto(comparison.get_absolute_url())
    plot = operator_page.get_by_role("img", name="Change in tokens")
    expect(plot).to_be_visible()
    assert_accessible(operator_page)
    press(operator_page, "l")
    operator_page.wait_for_url("**?columns=0.2.1&column=2")
    expect(operator_page.locator(".column-order [aria-current]")).to_contain_text("receipt")
    operator_page.go_back()
    operator_page.wait_for_url(f"**{comparison.get_absolute_url()}")
    expect(plot).to_be_visible()
    press(operator_page, "j")
    press(operator_page, "Enter")
    expect(operator_page.get_by_role("region", name="Text by recorded")).to_be_visible()
    assert_accessible(operator_page)
    press(operator_page, "j")
    expect(operator_page.get_by_text(re.compile(r"^2 of \d+$"))).to_be_visible()
    press(operator_page, "u")
    operator_page.wait_for_url(f"**{comparison.get_absolute_url()}*")
    operator_page.locator("#chart-sizes-title").locator("xpath=../..").locator(".chart-hits a").first.click()
    operator_page.wait_for_url("**/calls/?*sizes=*")
    expect(operator_page.locator("tr[data-item]").first).to_be_visible()


def test_without_script_the_tables_say_it_all(browse: Callable[..., Page], comparison: Comparison) -> None:
    page = browse(signed_in=True, script=False, viewport={"width": 390, "height": 800})
    page.goto(comparison.get_absolute_url())
    page.get_by_text("As a table").first.click()
    table = page.get_by_role("region", name="Table: Tokens of each call")
    expect(table.get_by_role("table")).to_be_visible()
    table.get_by_role("link").first.click()
    expect(page.locator("tr[data-item]").first).to_be_visible()


def test_the_form_counts_while_one_types(operator_page: Page, bundled: Project) -> None:
    operator_page.goto("/experiments/new/")
    press(operator_page, "/")
    operator_page.keyboard.type("tool:Nobody")
    expect(operator_page.locator(".matching")).to_contain_text("0 calls match")
    operator_page.get_by_label("Which calls").fill("")
    operator_page.get_by_label("Sample").fill("7")
    operator_page.get_by_label("Seed").fill("41")  # while the answer to the sample is still on its way
    expect(operator_page.locator(".matching")).to_contain_text("7 of the 209 with a recorded result are sampled")
    expect(operator_page.get_by_label("Seed")).to_have_value("41")
    operator_page.get_by_role("button", name="Start").click()
    operator_page.wait_for_url("**/experiments/*-*/")
    assert Comparison.objects.values_list("sample", "seed").get() == (7, 41)


def test_enter_in_the_note_judges_nothing_and_the_next_key_does(operator_page: Page, comparison: Comparison) -> None:
    start_review(comparison, 1)
    operator_page.goto(f"{comparison.get_absolute_url()}review/1/")
    press(operator_page, "n")
    operator_page.keyboard.type("too long")
    press(operator_page, "Enter")
    press(operator_page, "Escape")
    press(operator_page, "b")
    expect(operator_page.locator(".page-head .actions")).to_contain_text("1 of")
    verdict = Verdict.objects.get()
    assert (verdict.note, verdict.choice != verdict.first) == ("too long", True)


@pytest.mark.extended
def test_a_narrow_page_says_beside_each_figure_whose_it_is(browse: Callable[..., Page], comparison: Comparison) -> None:
    page = browse(signed_in=True, viewport={"width": 390, "height": 800})
    page.goto(comparison.get_absolute_url())
    come_to_rest(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in page.locator(".table-box").all():
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), "a column lies out of sight"
    whose = page.locator(".figures tbody td").nth(1).evaluate("cell => getComputedStyle(cell, '::before').content")
    assert whose == '"receipt"'


def test_the_focus_stays_while_the_list_renews_itself(browse: Callable[..., Page], bundled: Project) -> None:
    for _ in range(2):
        start_comparison(bundled, Selection(sample=5), ["recorded", "receipt"])
    page = browse(signed_in=True, clocked=True)
    page.goto("/experiments/")
    first, second = (page.locator("#rows [data-item]").nth(index).locator("a").first for index in range(2))
    first.focus()
    press(page, "j")
    expect(second).to_be_focused()
    page.locator("#rows").evaluate("rows => rows.dataset.isOld = ''")
    page.clock.run_for(2_100)
    expect(page.locator("#rows:not([data-is-old])")).to_be_visible()
    expect(second).to_be_focused()
