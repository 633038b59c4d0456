"""From a budget that is dragged to a variant that is decided on: the preview, a template, a comparison, verdicts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.models import Comparison, Project
from dashboard.worker import work_until_idle
from tests.browser.conftest import VIEWPORT, Serious
from tests.browser.rest import come_to_rest, download, press, scroll_to_end
from tests.browser.test_every_page import NARROW, needed_width
from tests.dashboard.measured_comparisons import import_commands

pytestmark = pytest.mark.django_db(transaction=True)

MENDED = "{{ summary_text | headline }}\n{{ result.stdout_preview | last_lines: 5 }}"
JUDGED = "abtxabtxab"


def outputs(count: int) -> list[str]:
    """Builds and listings of all lengths; no two alike."""
    return ["\n".join(f"step {number}.{line}: compiled" for line in range(number % 37)) for number in range(count)]


def test_fields_fall_out_while_the_budget_is_dragged(
    operator_page: Page, project: Project, troubles: list[str]
) -> None:
    operator_page.goto("/experiments/renderers/command/?sample=ExecCommand/large&variant=canonical_json")
    budget = operator_page.locator("#field-budget")
    expect(budget).to_contain_text("fields complete")
    come_to_rest(operator_page)
    handle = operator_page.locator("#budget").bounding_box()
    assert handle is not None
    middle = handle["y"] + handle["height"] / 2
    operator_page.mouse.move(handle["x"] + handle["width"] - 8, middle)
    operator_page.mouse.down()
    for share in (0.8, 0.5):
        operator_page.mouse.move(handle["x"] + handle["width"] * share, middle)
    expect(budget.locator('tr[data-state="shortened"]').first).to_be_visible()  # while one still drags
    operator_page.mouse.move(handle["x"] + handle["width"] * 0.02, middle)
    operator_page.mouse.up()
    expect(budget.locator('tr[data-state="dropped"]').first).to_be_visible()
    expect(operator_page).to_have_url(re.compile("budget="))
    press(operator_page, "b", "End")
    expect(budget.locator('tr[data-state="dropped"]')).to_have_count(0)


@pytest.mark.extended
def test_the_last_of_many_quick_turns_is_the_one_that_is_shown(operator_page: Page, project: Project) -> None:
    """All in one moment, the letting go included: none of them may keep the last from being asked for."""
    operator_page.goto("/experiments/renderers/command/?sample=ExecCommand/large")
    slider = operator_page.locator("#budget")
    slider.evaluate("""(slider) => {
        for (const budget of [900, 700, 500, 300, 101]) {
            slider.value = budget;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
        }
        slider.dispatchEvent(new Event("change", { bubbles: true }));
    }""")
    expect(operator_page.locator("output[for=budget]")).to_have_text("101")
    expect(operator_page).to_have_url(re.compile(r"budget=101\b"))
    expect(operator_page.locator("#field-budget")).to_contain_text("dropped")


def test_the_preview_is_turned_by_keys_alone(operator_page: Page, project: Project, troubles: list[str]) -> None:
    operator_page.goto("/experiments/renderers/command/?sample=ExecCommand/large")
    press(operator_page, "c")
    expect(operator_page.get_by_label("Id of a call")).to_be_focused()
    press(operator_page, "Escape")  # leaves the field
    press(operator_page, "Escape")  # closes what was opened
    expect(operator_page.get_by_label("Id of a call")).to_be_hidden()
    expect(operator_page).to_have_url(re.compile("/experiments/renderers/command/"))
    operator_page.get_by_role("radio", name="receipt 1").focus()
    press(operator_page, "ArrowRight")
    expect(operator_page.locator("#variant-text")).to_contain_text("command/tail_first")
    expect(operator_page.get_by_role("radio", name="tail_first 2")).to_be_focused()  # and so on from there
    press(operator_page, "b")
    shown_budget = operator_page.locator("output[for=budget]")
    come_to_rest(operator_page)
    whole = shown_budget.inner_text()
    press(operator_page, "PageDown")
    expect(shown_budget).not_to_have_text(whole)
    press(operator_page, "s")  # a slider takes no letters
    expect(operator_page.locator("#variant-text .mark-space").first).to_be_visible()


@pytest.mark.extended
def test_a_key_shows_the_text_of_a_variant_and_the_same_key_or_escape_goes_back(
    operator_page: Page, project: Project, tmp_path: Path, serious: Serious
) -> None:
    import_commands(project, tmp_path, outputs(3))
    call = project.calls.order_by("-receipt_characters", "pk")[0]
    operator_page.goto(f"/calls/{call.pk}/")
    right = operator_page.locator(".halves > section").nth(1)
    come_to_rest(operator_page)
    receipt = right.inner_text()
    press(operator_page, "H")
    expect(right).to_contain_text("Receipt by markdown")
    expect(right).to_contain_text("not seen by the model")
    for width in (NARROW, 1024, VIEWPORT["width"]):
        operator_page.set_viewport_size({"width": width, "height": VIEWPORT["height"]})
        assert needed_width(operator_page) <= width
        heading = right.locator("h2")
        assert heading.evaluate("heading => heading.scrollWidth <= heading.clientWidth")
    expect(operator_page).to_have_url(re.compile(r"/replay\?right=variant-markdown$"))
    assert not serious(operator_page)
    press(operator_page, "n")  # a source link: the field lights up in the canonical half
    expect(operator_page.locator("[data-link-status]")).to_contain_text("in the text of markdown shown here")
    expect(operator_page.locator("[data-half=canonical] :is(.is-linked, .is-around)")).not_to_have_count(0)
    press(operator_page, "Escape")  # lets go first
    expect(right).to_contain_text("Receipt by markdown")
    press(operator_page, "Escape")
    expect(right).not_to_contain_text("Receipt by")
    expect(operator_page).not_to_have_url(re.compile("right="))
    come_to_rest(operator_page)
    assert right.inner_text() == receipt
    for key, name in (("B", "tail_first"), ("G", "tagged")):
        press(operator_page, key)
        expect(right).to_contain_text(f"Receipt by {name}")
        expect(operator_page.locator("[data-variant][aria-current]")).to_have_attribute("data-variant", name)
    press(operator_page, "G")
    expect(right).not_to_contain_text("Receipt by")
    operator_page.go_back()
    expect(right).to_contain_text("Receipt by tagged")
    scroll_to_end(operator_page)
    expect(operator_page.locator("#variants")).to_contain_text("tok")
    come_to_rest(operator_page)
    operator_page.get_by_role("link", name="canonical_json D").click()
    expect(right).to_contain_text("Receipt by canonical_json")
    expect(right.get_by_role("heading")).to_be_in_viewport()
    expect(operator_page.locator("#variants")).to_contain_text("tok")  # the new strip is loaded once it is in view
    press(operator_page, "?")
    expect(operator_page.locator("#help")).to_contain_text("The text of markdown")


@pytest.mark.parametrize(
    "calls", [pytest.param(60, marks=pytest.mark.extended), pytest.param(1_000, marks=pytest.mark.long)]
)
def test_a_template_is_mended_compared_judged_and_exported(
    operator_page: Page, project: Project, tmp_path: Path, troubles: list[str], serious: Serious, *, calls: int
) -> None:
    import_commands(project, tmp_path, outputs(calls))
    write_a_template(operator_page, troubles)
    compare(operator_page)
    comparison = Comparison.objects.get()
    assert comparison.call_count == calls
    assert not serious(operator_page)
    open_the_worst_call(operator_page)
    assert not serious(operator_page)
    lines = judge(operator_page, comparison, tmp_path, serious)
    assert len(lines) == len(JUDGED)
    assert {line["variant"]["id"] for line in lines} == {"template/command/terse"}
    assert {line["baseline"]["id"] for line in lines} == {"command/receipt"}


def write_a_template(page: Page, troubles: list[str]) -> None:
    """With an error first, which is shown while one types and again when one saves."""
    page.goto("/experiments/renderers/command/templates/?sample=ExecCommand/large")
    page.get_by_label("Name").fill("terse")
    page.get_by_label("Template, in Liquid").fill("{{ summary_text }}\n{{ nothing }}")
    expect(page.locator("#draft-output")).to_contain_text("Line 2: there is no 'nothing'")
    come_to_rest(page)
    page.locator("#draft-output").get_by_role("link", name="Line 2").click()
    marked = "box => box.value.slice(box.selectionStart, box.selectionEnd)"
    assert page.get_by_label("Template, in Liquid").evaluate(marked) == "{{ nothing }}"
    with page.expect_console_message(lambda message: "422" in message.text):  # of which the browser complains
        page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_role("alert")).to_contain_text("Not saved. Line 2")
    troubles[:] = [trouble for trouble in troubles if "422" not in trouble]
    come_to_rest(page)  # what is typed before the page's scripts run is not rendered
    page.get_by_label("Template, in Liquid").fill(MENDED)
    expect(page.locator("#draft-output")).to_contain_text("showing last 5 of")
    page.get_by_role("button", name="Save as a new version").click()
    page.wait_for_url("**/experiments/renderers/command/?*variant=terse")


def compare(page: Page) -> None:
    page.goto("/experiments/new/?family=command")
    page.get_by_label("Baseline").select_option("receipt")
    page.get_by_role("checkbox", name="terse").check()
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#progress")).to_contain_text("of")
    work_until_idle()
    expect(page.get_by_role("heading", name="Totals and differences")).to_be_visible(timeout=60_000)


def open_the_worst_call(page: Page) -> None:
    press(page, "j")
    press(page, "Enter")
    expect(page.get_by_role("region", name="Text by terse")).to_contain_text("showing last 5 of")
    press(page, "u")
    expect(page.get_by_role("heading", name="Totals and differences")).to_be_visible()


def judge(page: Page, comparison: Comparison, folder: Path, serious: Serious) -> list[dict[str, Any]]:
    """Ten pairs by keys alone; the fifth is taken back and judged again."""
    press(page, "v")
    page.get_by_role("button", name="Start a review").first.click()
    done = page.locator(".page-head .actions")
    expect(done).to_contain_text("0 of")
    assert not serious(page)
    for number, key in enumerate(JUDGED, 1):
        press(page, key)
        expect(done).to_contain_text(f"{number} of")
        if number == 5:
            press(page, "z")
            expect(done).to_contain_text("4 of")
            press(page, key)
            expect(done).to_contain_text("5 of")
    press(page, "u")
    expect(page.locator(".verdict-tally").first).to_contain_text("10 of")
    path = folder / "verdicts.jsonl"
    download(page, page.get_by_role("link", name="Verdicts", exact=True)).save_as(path)
    assert not serious(page)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
