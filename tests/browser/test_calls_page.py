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
    page.wait_for_url(re.compile("/halves$"))
    page.go_back()
    expect(name).to_be_visible()
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
