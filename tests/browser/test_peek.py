"""A run beside the list, by keys alone; and by its address, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Browse
from tests.browser.rest import come_to_rest, press
from tests.dashboard.factories import create_run


def test_the_peek_follows_the_keys_and_its_address_holds_it(
    browse: Browse, operator_page: Page, bundled: Project, assert_accessible: Callable[[Page], None]
) -> None:
    page = operator_page
    title = page.locator("#peek h2")
    page.goto("/runs/?q=agent:claude-code")
    come_to_rest(page)
    names = page.locator(".run-table tbody th a:first-of-type").all_inner_texts()
    press(page, "j", "p")
    expect(title).to_have_text(names[0])
    expect(page).to_have_url(re.compile(r"q=agent%3Aclaude-code&peek=[0-9a-f]{32}$"))
    first = page.url
    press(page, "j")
    expect(title).to_have_text(names[1])
    expect(page.locator(".peek-link[aria-current]")).to_have_count(1)
    assert_accessible(page)
    page.reload()
    expect(title).to_have_text(names[1])
    press(page, "k")
    expect(title).to_have_text(names[0])
    expect(page).to_have_url(first)
    press(page, "Escape")
    expect(title).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?q=agent%3Aclaude-code$"))
    press(page, "Space")
    expect(title).to_have_text(names[0])
    page.set_viewport_size({"width": 390, "height": 844})
    assert_accessible(page)
    press(page, "Enter")
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))
    page.go_back()
    expect(title).to_have_text(names[0])
    plain = browse(signed_in=True, script=False)
    plain.goto(first)
    expect(plain.locator("#peek h2")).to_have_text(names[0])
    plain.get_by_role("link", name="Close the peek").click()
    expect(plain.locator("#peek h2")).to_have_count(0)


@pytest.mark.extended
def test_going_back_closes_a_peek_that_followed_the_keys(operator_page: Page, bundled: Project) -> None:
    page = operator_page
    title = page.locator("#peek h2")
    page.goto("/runs/?q=agent:claude-code")
    come_to_rest(page)
    names = page.locator(".run-table tbody th a:first-of-type").all_inner_texts()
    press(page, "j")
    for key, name in (("p", names[0]), ("j", names[1]), ("j", names[2]), ("k", names[1])):
        press(page, key)
        expect(title).to_have_text(name)
    page.go_back()
    expect(title).to_have_count(0)


def test_columns_beside_a_peek_are_those_of_the_head_whether_a_run_has_times_or_not(
    operator_page: Page, project: Project
) -> None:
    dated = create_run(project, duration_ms=5_000)
    create_run(project, started_at=None)
    operator_page.set_viewport_size({"width": 1440, "height": 900})
    operator_page.goto(f"/runs/?peek={dated.pk.hex}")
    come_to_rest(operator_page)
    ends = operator_page.evaluate("""() => [...document.querySelectorAll(".run-table tr")].map((row) => {
      const cells = [...row.cells].filter((cell) => cell.checkVisibility());
      return [cells.length, cells.at(-1).getBoundingClientRect().right];
    })""")
    assert len({tuple(end) for end in ends}) == 1, ends
