"""The list of all calls, by keys alone, and without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Browse
from tests.browser.rest import press
from tests.dashboard.factories import create_call, create_run


@pytest.mark.extended
def test_calls_are_listed_chosen_and_exported_by_keys(
    browse: Browse, operator_page: Page, bundled: Project, assert_accessible: Callable[[Page], None]
) -> None:
    page = operator_page
    page.goto("/calls/")
    press(page, "4")
    expect(page.locator(".presets [aria-current]")).to_have_text("Cut before the model")
    expect(page.locator(".c-cut").nth(1)).to_have_text(re.compile(r" of [0-9,]+$"))
    press(page, "j", "x", "j", "j", "x")
    expect(page.locator("tbody input:checked")).to_have_count(2)
    press(page, "x")
    expect(page.locator("tbody input:checked")).to_have_count(1)
    assert_accessible(page)
    name = page.locator("tbody tr").nth(2).locator("th a")
    expect(name).to_be_focused()
    press(page, "Enter")
    page.wait_for_url(re.compile("/halves[?]list="))
    page.go_back()
    expect(name).to_be_focused()
    press(page, "?")
    expect(page.locator("#help")).to_contain_text("Choose the focused call")
    keys = " ".join(page.locator("#help dt").all_inner_texts()).split()
    assert len(set(keys)) == len(keys)  # `/` goes to the page's own filter, so only `S` is listed for the bar's

    plain = browse(signed_in=True, script=False)
    plain.set_viewport_size({"width": 390, "height": 844})
    plain.goto("/calls/?preset=cut")
    total = plain.locator("tbody tr").count()
    plain.get_by_text("Columns", exact=True).click()
    plain.get_by_label("Model", exact=True).check()
    plain.get_by_role("button", name="Show these").click()
    expect(plain.locator("td.c-model")).to_have_count(total)
    plain.get_by_text("Export", exact=True).click()
    with plain.expect_download() as download:
        plain.get_by_role("button", name="JSON lines").click()
    rows = [json.loads(line) for line in download.value.path().read_bytes().splitlines()]
    assert [row["is_cut"] for row in rows] == [True] * total
    plain.locator("tbody input").first.check()
    plain.get_by_role("button", name="Compare the chosen calls").click()
    expect(plain.locator("#matching")).to_have_text(re.compile(r"^\s*1\s+call matches"))


@pytest.mark.usefixtures("bundled")
def test_the_keys_of_an_opened_call_follow_the_list_and_lead_back_to_its_row(operator_page: Page) -> None:
    page = operator_page
    page.goto("/calls/?q=cut:yes&sort=tokens")
    names = page.locator("tbody .call-name")
    rows = [names.nth(number).get_attribute("id") or "" for number in range(3)]
    place = page.locator("[data-list-place]")
    press(page, "j", "j", "Enter")
    expect(place).to_contain_text("2 of ")
    first = page.url
    press(page, "j")
    expect(place).to_contain_text("3 of ")
    expect(page.locator(".steps .call-row[aria-current]")).to_have_attribute("id", re.compile(_dashless(rows[2])))
    assert page.url.partition("/halves")[0] != first.partition("/halves")[0]
    press(page, "k", "k")
    expect(place).to_contain_text("1 of ")
    press(page, "k")  # there is none before it
    expect(place).to_contain_text("1 of ")
    press(page, "b")
    expect(page.locator(f"#{rows[0]}")).to_be_focused()
    press(page, "j", "j", "Enter")
    expect(place).to_contain_text("3 of ")
    page.go_back()
    expect(page.locator(f"#{rows[2]}")).to_be_focused()
    press(page, "k")
    expect(page.locator(f"#{rows[1]}")).to_be_focused()


def _dashless(row: str) -> str:
    """A pattern for the id of the row beside a step, which has the same call with dashes."""
    return "-?".join(row.removeprefix("call-"))


@pytest.mark.extended
def test_a_live_list_keeps_the_focus_the_choice_and_what_is_typed(browse: Browse, project: Project) -> None:
    page = browse(signed_in=True, clocked=True)
    run = create_run(project, "live", last_at=timezone.now())
    create_call(run, line=1)
    page.goto("/calls/")
    names = page.locator("tbody .call-name")
    tag = page.locator("#tag-chosen")
    tag.fill("flaky")
    press(page, "Escape", "j", "x")
    for count, focused in ((2, names.last), (3, tag)):  # the newest call is first
        create_call(run, line=count)
        page.clock.run_for(5_100)
        expect(names).to_have_count(count)
        expect(focused).to_be_focused()
        tag.focus()
    expect(tag).to_have_value("flaky")
    expect(page.locator("tbody input").last).to_be_checked()
