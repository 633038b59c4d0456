"""Times in the reader's own zone: in the title of each, and in the text of stamps once the switch asks for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Browse
from tests.browser.rest import press
from tests.dashboard.factories import create_call, create_run

BEGAN = datetime(2026, 2, 15, 20, 9, 40, 768_000, tzinfo=UTC)
# The elements that moved after they were painted.
SHIFTED = """async () => {
  const shifted = [];
  new PerformanceObserver((list) => {
    for (const { sources } of list.getEntries()) shifted.push(...sources.map(({ node }) => node?.nodeName));
  }).observe({ type: "layout-shift", buffered: true });
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  return shifted;
}"""


@pytest.fixture
def kolkata(operator_page: Page) -> Iterator[Page]:
    """A window in a zone that is half an hour off the others, and a day ahead of UTC in the evening."""
    session = operator_page.context.new_cdp_session(operator_page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    yield operator_page
    session.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
    session.detach()


def test_a_time_has_the_local_one_beside_it_and_its_text_follows_the_switch(
    kolkata: Page, project: Project, assert_accessible: Callable[[Page], None]
) -> None:
    page = kolkata
    run = create_run(project, "evening", started_at=BEGAN)
    create_call(run, line=1, started_at=BEGAN)
    page.goto("/calls/")
    age = page.locator("tbody time")
    text = age.inner_text()
    expect(age).to_have_attribute("title", re.compile(r"^2026-02-15 20:09:40 UTC\n2026-02-16 01:39:40 UTC\+5:30 here"))
    page.goto(f"/runs/{run.pk}/1/halves")
    press(page, "d")
    began = page.locator("#step-details time").first
    expect(began).to_have_text(re.compile(r"^15 Feb.* UTC$"))
    expect(began).to_have_attribute("title", re.compile(r"\.768 UTC\n2026-02-16 01:39:40 UTC\+5:30 here \(Asia/"))
    switch = page.locator("[data-zone-switch]")
    press(page, "Z")
    expect(began).to_have_text(re.compile(r"^16 Feb.* UTC\+5:30$"))
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(switch).to_contain_text("UTC+5:30")
    assert_accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("main time[data-stamp]").first).to_have_text(re.compile(r"UTC\+5:30$"))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert "TIME" not in page.evaluate(SHIFTED)
    page.goto("/calls/")
    expect(age).to_have_text(text)  # an age has no zone
    press(page, "Z")
    expect(switch).to_have_attribute("aria-pressed", "false")
    page.goto(f"/runs/{run.pk}/1/halves")
    press(page, "d")
    expect(began).to_have_text(re.compile(r"^15 Feb.* UTC$"))


def test_there_is_no_switch_without_a_script_or_where_the_local_time_is_utc(
    browse: Browse, operator_page: Page, project: Project
) -> None:
    create_call(create_run(project), line=1, started_at=BEGAN)
    session = operator_page.context.new_cdp_session(operator_page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    for page in (operator_page, browse(signed_in=True, script=False)):
        page.goto("/calls/")
        expect(page.locator("tbody time")).to_have_attribute("title", "2026-02-15 20:09:40 UTC")
        expect(page.locator("[data-zone-switch]")).to_be_hidden()
    session.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
    session.detach()
