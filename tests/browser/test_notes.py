"""A note on selected characters, and a review queue, by keys; and the same forms without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from dashboard.models import Call, Note, Project, SavedView
from dashboard.sharing.share_file import check_file
from tests.browser.conftest import VIEWPORT, Browse, Serious
from tests.browser.rest import come_to_rest, download, press
from tests.browser.test_every_page import NARROW
from tests.dashboard.factories import create_call, create_run

# The lines on which the text of a cell lies.
LINES = """cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return [...new Set([...range.getClientRects()].map(({ top }) => Math.round(top)))];
}"""
OUTPUT = "".join(f"line {number} of the build\n" for number in range(1, 9))


@pytest.fixture
def calls(project: Project) -> list[Call]:
    run = create_run(project)
    return [create_call(run, f"call-{number}", result={"stdout": OUTPUT}, receipt=OUTPUT) for number in range(3)]


def select(page: Page, text: Locator, line: int) -> None:
    """Selects a line as a reader does: three clicks on it."""
    box = text.bounding_box()
    assert box
    height = box["height"] / len(OUTPUT.splitlines())
    page.mouse.click(box["x"] + 20, box["y"] + height * (line - 0.5), click_count=3)


@pytest.mark.extended
def test_a_note_on_a_range_takes_a_selection_a_key_and_the_text(
    operator_page: Page, calls: list[Call], in_both_themes: Serious
) -> None:
    page = operator_page
    page.goto(f"/calls/{calls[0].pk}/")
    come_to_rest(page)
    select(page, page.locator("#receipt-text .exact"), 4)
    expect(page.get_by_role("button", name="Note on the selection")).to_be_visible()
    press(page, "e")
    expect(page.locator("#note-text")).to_be_focused()
    expect(page.locator("#note-half")).to_have_value("receipt")
    page.keyboard.type("here it broke")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator(".note")).to_contain_text("here it broke")
    note = Note.objects.get()
    assert OUTPUT[note.start : note.end].strip("\n") == "line 4 of the build"
    link = page.locator("[data-note-range]")
    link.click()  # the characters are on the page: it stays
    expect(page.locator("#receipt-text")).to_be_in_viewport()
    expect(page.locator("#step")).to_be_visible()
    assert not in_both_themes(page)
    page.get_by_role("link", name="Edit").click()
    expect(page.locator(".half mark")).to_have_text(re.compile("line 4 of the build"))
    assert not in_both_themes(page)
    press(page, "u")
    expect(page.locator(".note")).to_be_visible()
    press(page, "y")
    shared = download(page, page.get_by_role("button", name="One HTML file"))
    assert check_file(shared.path().read_bytes()).changes == ()


@pytest.mark.extended
def test_e_without_a_selection_does_what_the_page_says(operator_page: Page, calls: list[Call]) -> None:
    operator_page.goto(f"/calls/{calls[0].pk}/")
    press(operator_page, "e")
    expect(operator_page.locator("#note-text")).not_to_be_visible()


@pytest.mark.extended
def test_calls_are_added_to_review_and_reviewed_by_keys(
    operator_page: Page, calls: list[Call], in_both_themes: Serious
) -> None:
    page = operator_page
    page.goto("/calls/")
    press(page, "j", "x", "j", "x")
    page.get_by_role("button", name="Add to review").click()
    expect(page.locator("h1")).to_have_text("2 calls tagged")
    view = SavedView.objects.get()
    page.set_viewport_size({"width": NARROW, "height": 844})
    page.goto("/review/")
    for text in ("2 to review", "tag:review"):  # each on one line
        assert len(page.get_by_role("cell", name=text).evaluate(LINES)) == 1
    page.set_viewport_size(VIEWPORT)
    page.goto(f"/calls/?view={view.pk}")
    expect(page.locator("tbody [data-item]")).to_have_count(2)
    press(page, "R")
    page.wait_for_url("**/3/halves?queue=*")
    press(page, "R")
    page.wait_for_url("**/2/halves?queue=*")
    press(page, "R")
    expect(page.locator("main")).to_contain_text("Nothing else is left to review")
    assert not in_both_themes(page)
    page.goto("/review/")
    expect(page.locator("tbody")).to_contain_text("0 to review")
    assert not in_both_themes(page)


@pytest.mark.extended
def test_the_forms_work_without_scripts_on_a_narrow_page(browse: Browse, calls: list[Call]) -> None:
    plain = browse(signed_in=True, script=False)
    plain.set_viewport_size({"width": 390, "height": 844})
    plain.goto(f"/calls/{calls[0].pk}/")
    plain.get_by_role("link", name="add a note").click()  # opens the form
    expect(plain.locator("#note-text")).to_be_focused()
    plain.get_by_label("About").select_option("receipt")
    plain.get_by_label("These characters").fill("line 7 of")
    plain.get_by_label("Note", exact=True).fill("without scripts")
    plain.get_by_role("button", name="Save the note").click()
    expect(plain.locator(".note")).to_contain_text("without scripts")
    plain.get_by_label("Tag", exact=True).fill("flaky")
    plain.get_by_role("button", name="Add", exact=True).click()
    expect(plain.locator(".annotations .chip")).to_contain_text("flaky")
    plain.get_by_role("button", name="Mark as reviewed").click()
    expect(plain.locator(".annotations")).to_contain_text("reviewed by")
    plain.get_by_text("Copy", exact=False).first.click()
    with plain.expect_download() as started:
        plain.get_by_role("button", name="One HTML file").click()
    assert started.value.suggested_filename.endswith(".html")
