"""The filter box: completions by keys and by the pointer, and none of them without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Browse
from tests.browser.rest import come_to_rest, press

pytestmark = pytest.mark.extended


def test_a_filter_is_completed_by_keys(
    browse: Browse, operator_page: Page, bundled: Project, assert_accessible: Callable[[Page], None]
) -> None:
    page = operator_page
    page.goto("/runs/")
    box, options = page.get_by_role("combobox", name="Filter"), page.get_by_role("option")
    press(page, "/")
    page.keyboard.type("outc")
    expect(options).to_have_count(1)
    expect(box).to_have_attribute("aria-expanded", "true")
    press(page, "ArrowDown", "Enter")
    expect(box).to_have_value("outcome:")
    expect(options.nth(1)).to_be_visible()
    come_to_rest(page)
    page.keyboard.type("fai")
    expect(options).to_have_count(1)
    press(page, "ArrowUp")
    expect(box).to_have_attribute("aria-activedescendant", "completion-1")
    assert_accessible(page)
    press(page, "Enter")
    expect(box).to_have_value("outcome:failed ")
    page.keyboard.type("to")
    expect(options.first).to_be_visible()
    press(page, "Escape")
    expect(options.first).to_be_hidden()
    expect(box).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 844})
    press(page, "ArrowDown")
    expect(options.first).to_be_visible()
    come_to_rest(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("option", name="tool: the tool").click()
    come_to_rest(page)
    page.keyboard.type("bas")
    come_to_rest(page)
    page.get_by_role("option", name=re.compile("^tool:Bash$")).click()
    expect(box).to_have_value("outcome:failed tool:Bash ")
    press(page, "Enter")
    expect(page).to_have_url(re.compile(r"/runs/\?q=outcome%3Afailed\+tool%3ABash\+?$"))

    plain = browse(signed_in=True, script=False)
    plain.goto("/runs/")
    plain.get_by_role("searchbox", name="Filter").fill("tool:bash")
    plain.get_by_role("button", name="Filter").click()
    expect(plain).to_have_url(re.compile(r"q=tool%3Abash$"))
