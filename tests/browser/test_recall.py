"""Used-line recall in a browser: from the report to a quoted line by keys, its limits, both themes, 390 pixels."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.experiments.recall_report import measure_next_recall
from dashboard.models import Project, RecallReport
from tests.browser.conftest import Serious
from tests.browser.rest import press
from tests.browser.test_every_page import NARROW, WIDE, needed_width

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.extended]


@pytest.fixture
def report(bundled: Project) -> RecallReport:
    RecallReport.objects.create(project=bundled, variants=["receipt"])
    assert measure_next_recall()
    return RecallReport.objects.get()


def test_keys_lead_from_the_experiments_to_a_quoted_line(operator_page: Page, report: RecallReport) -> None:
    operator_page.goto("/experiments/")
    press(operator_page, "r")
    operator_page.wait_for_url("**/experiments/recall/")
    press(operator_page, "j")
    press(operator_page, "Enter")
    operator_page.wait_for_url(f"**{report.get_absolute_url()}")
    operator_page.locator(".recall-table a").first.click()
    operator_page.wait_for_url("**/calls/?tool=*")
    press(operator_page, "j")
    press(operator_page, "Enter")
    expect(operator_page.locator(".quoted-line code").first).to_be_visible()
    press(operator_page, "u")
    press(operator_page, "w")
    operator_page.wait_for_url("**/limits/")
    operator_page.get_by_label("No receipt longer than").fill("20")
    operator_page.get_by_role("button", name="Apply").click()
    operator_page.wait_for_url("**/limits/?cap=20*")
    expect(operator_page.get_by_text(re.compile(r"^\d+ of 209$"))).to_be_visible()


def test_the_pages_are_accessible_and_fit_a_narrow_window(
    operator_page: Page, report: RecallReport, in_both_themes: Serious, subtests: pytest.Subtests
) -> None:
    address = report.get_absolute_url()
    operator_page.goto(f"{address}calls/")
    call = operator_page.locator("tr[data-item] a").first.get_attribute("href")
    for page in (address, f"{address}calls/?tool=Read&budget=256&column=first", f"{address}limits/?cap=20", str(call)):
        with subtests.test(page):
            operator_page.set_viewport_size({"width": NARROW, "height": 900})
            operator_page.goto(page)
            assert needed_width(operator_page) <= NARROW
            operator_page.set_viewport_size({"width": WIDE, "height": 900})
            assert not in_both_themes(operator_page)
