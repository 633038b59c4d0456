"""Insights and run against run, by keys, by the pointer, and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Browse
from tests.browser.rest import press


@pytest.mark.extended
def test_tokens_over_time_are_two_keys_from_the_runs_and_a_bar_leads_to_its_calls(
    operator_page: Page, bundled: Project
) -> None:
    page = operator_page
    page.goto("/runs/")
    press(page, "i", "3")
    expect(page.get_by_role("img", name="Tokens of requests, as recorded")).to_be_visible()
    press(page, "1")
    expect(page.get_by_role("img", name="Calls, by outcome")).to_be_visible()
    page.locator("section", has_text="Calls, by outcome").locator(".chart-hits a").last.click()
    page.wait_for_url("**/calls/?q=after*")
    expect(page.locator("tbody tr[data-item]").first).to_be_visible()
    page.go_back()
    press(page, "j")
    expect(page.locator("#tools tbody tr").first.get_by_role("link").first).to_be_focused()
    press(page, "u")
    page.wait_for_url("**/runs/")


@pytest.mark.extended
def test_two_runs_are_compared_by_keys_and_without_scripts(
    browse: Browse, operator_page: Page, bundled: Project
) -> None:
    page = operator_page
    page.goto("/runs/")
    press(page, "j", "x", "j", "x", "C")
    page.wait_for_url("**/against/**")
    press(page, "f")
    page.wait_for_url(re.compile(r"#pair-\d+$"))
    press(page, "j", "Enter")
    page.wait_for_url("**/?pair=*")
    press(page, "j")
    page.wait_for_url("**/?pair=1")
    press(page, "u")
    expect(page.locator("tr#pair-1")).to_be_visible()

    plain = browse(signed_in=True, script=False, viewport={"width": 390, "height": 844})
    plain.goto("/runs/")
    for number in range(2):
        plain.get_by_role("checkbox").nth(number).check()
    plain.get_by_role("button", name="Compare the two chosen runs").click()
    plain.get_by_role("link", name="Differences only").click()
    expect(plain.locator(".against-table tbody tr").first).to_be_visible()
    plain.goto("/insights/")
    plain.get_by_text("As a table").first.click()
    plain.get_by_role("region", name="Table: Calls, by outcome").get_by_role("link").first.click()
    expect(plain.locator("tbody tr[data-item]").first).to_be_visible()
