"""Fifteen tasks of an operator in a browser, each with the number of clicks and keys that it may take.

Every key and every click counts one, also the key that goes to a box and the one that sends its text; selecting a line
with the mouse counts one. Texts that are typed are counted apart. A task starts on the Runs page, or, where it is about
a call or a list that is open already, there.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Note, Project, Run
from dashboard.variants.variant_list import save_version
from envelopes.families.registry import family
from tests.browser.conftest import Browse
from tests.browser.counted_page import CountedPage, link_in_bar
from tests.browser.test_every_page import NARROW, needed_width
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.sessions import SESSION, answers, asks, user, write

UNSEEN = "TestAutoCommitStrategy_SaveChanges_CommitHasMetadataRef"  # in line 21 of an output of which 18 were seen
CUT_LINES = 293
PRICES = """
currency = "EUR"
[[price]]
model = "claude-*"
from = 2025-01-01
input = 5.0
output = 25.0
cache_read = 0.5
cache_write = 6.0
"""


@pytest.fixture
def counted(operator_page: Page) -> CountedPage:
    return CountedPage(operator_page)


@pytest.fixture
def cut_call(bundled: Project) -> Call:
    return bundled.calls.get(output_lines=CUT_LINES)


def link_to(page: Page, call: Call) -> Locator:
    return page.locator(f"tr[data-item]:has(#chosen-{call.pk.hex}) a.call-name")


def stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def test_1_the_failed_runs_of_today_and_why_take_three(counted: CountedPage, bundled: Project, tmp_path: Path) -> None:
    now = timezone.now()
    lines = [
        user("Run the tests", uuid="u-1", at=stamp(now - timedelta(minutes=5))),
        asks("toolu_1", args={"command": "make test"}, at=stamp(now - timedelta(minutes=4))),
        answers(
            "toolu_1",
            "Exit code 2\nno rule to make target",
            "Error: Exit code 2\nno rule to make target",
            at=stamp(now - timedelta(minutes=3)),
            is_error=True,
        ),
    ]
    import_paths(bundled, [write(tmp_path / f"{SESSION}.jsonl", lines)])
    page = counted.start("/runs/")
    counted.press("3")
    rows = page.locator(".run-table tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Run the tests")
    counted.press("j", "p")
    expect(page.locator("#peek")).to_contain_text("no rule to make target")
    assert counted.presses <= 3


def test_2_the_unseen_lines_of_a_cut_call_take_four_and_ten_lines_before_them_are_shown(
    counted: CountedPage, cut_call: Call
) -> None:
    page = counted.start("/runs/")
    counted.click(link_in_bar(page, "Calls"))
    counted.click(page.get_by_role("link", name="Cut before the model"))
    counted.click(link_to(page, cut_call))
    counted.click(page.get_by_role("link", name="Go to line 19"))
    line = page.locator("[data-highlighted]")
    expect(line).to_have_id("L19")
    expect(line).to_have_attribute("data-seen", "no")
    expect(line).to_be_in_viewport()
    for number in range(9, 19):
        expect(page.locator(f"#L{number}")).to_be_in_viewport()
        expect(page.locator(f"#L{number}")).to_have_attribute("data-seen", "yes")
    assert counted.presses <= 4


@pytest.mark.extended
def test_3_text_in_a_result_but_not_in_its_receipt_takes_one_query(counted: CountedPage, cut_call: Call) -> None:
    page = counted.start("/runs/")
    counted.search(f"canonical:{UNSEEN} -receipt:{UNSEEN}")
    hits = page.locator(".found[aria-labelledby=found-calls] [data-item]")
    expect(hits).to_have_count(1)
    expect(hits.locator("mark")).to_have_text(UNSEEN)
    expect(hits).to_contain_text("in the recorded result")
    assert (counted.presses, counted.texts) == (2, 1)


def test_4_text_in_payloads_takes_one_query_and_a_hit_opens_at_its_characters(
    counted: CountedPage, cut_call: Call
) -> None:
    page = counted.start("/runs/")
    counted.search(UNSEEN)
    expect(page.locator(".found .match mark")).to_have_text(UNSEEN)
    assert (counted.presses, counted.texts) == (2, 1)
    counted.press("j", "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("in the recorded result")
    expect(page.locator("pre mark")).to_have_text(UNSEEN)
    expect(page.locator("pre mark")).to_be_in_viewport()
    assert counted.presses <= 4


@pytest.mark.extended
def test_5_comparing_two_runs_takes_three(counted: CountedPage, bundled: Project) -> None:
    page = counted.start("/runs/")
    titles = page.locator(".run-table tbody th a:first-of-type")
    chosen = [titles.nth(number).get_attribute("title") for number in range(2)]
    for number in range(2):
        counted.click(page.locator(".run-table tbody").get_by_role("checkbox").nth(number))
    counted.click(page.get_by_role("button", name="Compare the two chosen runs"))
    for title in chosen:
        expect(page.locator("main")).to_contain_text(str(title)[:40])
    expect(page.locator(".against-table tbody tr").first).to_be_visible()
    assert counted.presses <= 3


def test_6_a_note_on_a_range_takes_three(counted: CountedPage, project: Project) -> None:
    output = "".join(f"line {number} of the build\n" for number in range(1, 9))
    call = create_call(create_run(project), result={"stdout": output}, receipt=output)
    page = counted.start(call.get_absolute_url())
    text = page.locator("#receipt-text .exact")
    box = text.bounding_box()
    assert box is not None
    fourth = {"x": 20, "y": box["height"] / len(output.splitlines()) * 3.5}
    counted.click(text, position=fourth, click_count=3)
    expect(page.get_by_role("button", name="Note on the selection")).to_be_visible()
    counted.press("e")
    expect(page.locator("#note-text")).to_be_focused()
    counted.write("here it broke", send="Control+Enter")
    expect(page.locator(".note")).to_contain_text("here it broke")
    note = Note.objects.get()
    assert output[note.start : note.end].strip("\n") == "line 4 of the build"
    assert (counted.presses, counted.texts) == (3, 1)


@pytest.mark.extended
def test_6_a_note_on_a_linked_text_takes_three_keys_and_no_mouse(counted: CountedPage, cut_call: Call) -> None:
    page = counted.start(cut_call.get_absolute_url())
    counted.press("n")
    linked = page.locator("[data-exact] .linked.is-pinned")
    expect(linked).to_be_visible()
    counted.press("N")
    expect(page.locator("#note-text")).to_be_focused()
    counted.write("seen", send="Control+Enter")
    expect(page.locator(".note")).to_contain_text("seen")
    note = Note.objects.get()
    assert (note.half, note.created_by) == ("receipt", User.objects.get())
    assert note.end - note.start == len(linked_text(page, note))
    assert (counted.presses, counted.texts) == (3, 1)


def linked_text(page: Page, note: Note) -> str:
    """The text of the first linked piece of the receipt, which begins where the note does."""
    receipt = str(page.locator("#receipt-text .exact").evaluate("text => plainText(text)"))
    piece = str(page.locator("#receipt-text .linked").first.evaluate("piece => plainText(piece)"))
    assert receipt.startswith(piece, note.start)
    return piece


def test_7_the_context_at_a_step_takes_one(counted: CountedPage, cut_call: Call) -> None:
    page = counted.start(cut_call.get_absolute_url())
    counted.press("c")
    page.wait_for_url("**/20/context")
    expect(page.locator("#step")).to_contain_text("19 receipts")
    expect(page.locator("#step")).to_contain_text("Since the step before")
    assert counted.presses <= 1


def test_8_a_shorter_receipt_on_what_happened_takes_five(counted: CountedPage, cut_call: Call) -> None:
    page = counted.start("/runs/")
    counted.click(page.locator(f'.run-table a[href="{cut_call.run.get_absolute_url()}"]'))
    counted.click(page.locator(f"#c-{cut_call.pk}"))
    counted.press("3")
    counted.click(page.get_by_role("link", name=re.compile("outcome_json .* 70 tok −647")))
    right = page.locator(".halves > section").nth(1)
    expect(right).to_contain_text("Receipt by outcome_json")
    expect(right).to_contain_text("70 tokens")
    assert counted.presses <= 5


@pytest.mark.extended
def test_9_a_template_with_errors_takes_four(
    counted: CountedPage, bundled: Project, operator: User, troubles: list[str]
) -> None:
    fields = {"title": "", "source": "{{ status }}", "characters": "4000"}
    save_version(bundled, family("command"), operator, name="terse", **fields)
    page = counted.start("/runs/")
    counted.click(link_in_bar(page, "Experiments"))
    counted.click(page.get_by_role("link", name="write a variant of Commands"))
    output = page.locator("#draft-output")
    counted.write("{{ summary_text }}\n{% if %}", box="Template, in Liquid")
    expect(output).to_contain_text("Line 2: missing expression")
    counted.write("{{ summary_text }}\n\n{{ nothing }}", box="Template, in Liquid")
    expect(output).to_contain_text("Line 3: there is no 'nothing'")
    counted.write("{{ summary_text }}", box="Template, in Liquid")
    expect(output).not_to_contain_text("there is no")
    counted.write("terse", box="Name")
    counted.click(page.get_by_role("button", name="Save as a new version"))
    expect(page.get_by_role("alert")).to_contain_text("There is already a template terse")
    troubles[:] = [trouble for trouble in troubles if "422" not in trouble]  # which the browser reports as an error
    assert (counted.presses, counted.texts) == (4, 4)


def test_10_tokens_and_cost_over_time_take_two(
    counted: CountedPage, bundled: Project, settings: LazySettings, tmp_path: Path
) -> None:
    settings.PRICES = str(tmp_path / "prices.toml")
    Path(settings.PRICES).write_text(PRICES)
    page = counted.start("/runs/")
    counted.press("i", "3")
    expect(page.get_by_role("img", name="Tokens of requests, as recorded")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Cost"))).to_be_visible()
    assert counted.presses <= 2


def test_11_the_end_of_a_live_run_is_followed(browse: Browse, project: Project) -> None:
    page = browse(signed_in=True, clocked=True)
    run = create_run(project, "live", last_at=timezone.now(), call_count=40, revision=1)
    calls = [create_call(run, line=line) for line in range(1, 41)]
    page.goto(f"/runs/{run.pk}/40/halves")
    expect(page.locator(f"#c-{calls[-1].pk}")).to_be_in_viewport()
    for number in (41, 42):
        newest = create_call(run, line=number)
        Run.objects.filter(pk=run.pk).update(revision=number, call_count=number)
        page.clock.run_for(2_100)
        expect(page.locator(f"#c-{newest.pk}")).to_be_in_viewport()


@pytest.mark.extended
def test_11_the_end_of_the_history_of_a_live_run_is_followed_too(browse: Browse, project: Project) -> None:
    page = browse(signed_in=True, clocked=True)
    run = create_run(project, "live", last_at=timezone.now(), call_count=40, revision=1)
    for line in range(1, 41):
        create_call(run, line=line, receipt=f"receipt {line}")
    page.goto(f"/runs/{run.pk}/context?at=end")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    for number in (41, 42):
        create_call(run, line=number, receipt=f"receipt {number}")
        Run.objects.filter(pk=run.pk).update(revision=number, call_count=number)
        page.clock.run_for(2_100)
        expect(page.locator(".history")).to_contain_text(f"receipt {number}")
        expect(page.locator(".history .entry").last).to_be_in_viewport()
        expect(page.locator(".steps-counts")).to_contain_text(f"{number} calls")


def test_12_an_export_of_the_calls_on_the_screen_takes_two(counted: CountedPage, bundled: Project) -> None:
    page = counted.start("/calls/?q=cut:yes")
    boxes = page.locator("tbody tr[data-item] input")
    expect(boxes).to_have_count(bundled.calls.filter(is_cut=True).count())
    shown = boxes.evaluate_all("boxes => boxes.map((box) => box.value)")
    counted.click(page.get_by_text("Export", exact=True))
    with page.expect_download() as download:
        counted.click(page.get_by_role("button", name="JSON lines"))
    rows = [json.loads(line) for line in download.value.path().read_bytes().splitlines()]
    assert [UUID(row["call"]).hex for row in rows] == shown
    assert counted.presses <= 2


@pytest.mark.extended
def test_12_the_same_export_takes_two_keys(counted: CountedPage, bundled: Project) -> None:
    page = counted.start("/calls/?q=cut:yes")
    counted.press("E")
    expect(page.get_by_role("button", name="CSV")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="CSV")).to_be_hidden()
    expect(page).to_have_url(re.compile("/calls/"))
    page.keyboard.press("E")
    with page.expect_download() as download:
        counted.press("Enter")
    assert download.value.suggested_filename == "calls.csv"
    exported = download.value.path().read_text("utf-8")
    assert {call for call in bundled.calls.all() if str(call.pk) in exported} == set(bundled.calls.filter(is_cut=True))
    assert counted.presses <= 2


@pytest.mark.extended
def test_13_the_keyboard_alone_leads_to_the_unseen_lines_in_five_keys(counted: CountedPage, cut_call: Call) -> None:
    page = counted.start("/runs/")
    counted.search("cut:yes tool:Grep took:>400ms")
    expect(page.locator(".found[aria-labelledby=found-calls] [data-item]").last).to_be_visible()
    counted.press("k", "Enter")
    page.wait_for_url("**/halves?list=*")
    counted.press("g")
    expect(page.locator("[data-highlighted]")).to_have_attribute("data-seen", "no")
    expect(page.locator("[data-highlighted]")).to_be_in_viewport()
    assert (counted.presses, counted.texts) == (5, 1)


def test_14_without_scripts_the_same_pages_answer(browse: Browse, cut_call: Call) -> None:
    page = browse(signed_in=True, script=False)
    page.goto("/runs/?preset=errors")
    expect(page.locator(".run-table tbody tr")).to_have_count(Run.objects.filter(failed_count__gt=0).count())
    page.get_by_label("search everything").fill(f"canonical:{UNSEEN} -receipt:{UNSEEN}")
    page.keyboard.press("Enter")
    page.locator(".found .match").click()
    expect(page.locator("pre mark")).to_have_text(UNSEEN)
    page.get_by_role("link", name="Both halves").click()
    page.get_by_role("link", name="Go to line 19").click()
    expect(page.locator("#L19")).to_have_attribute("data-seen", "no")


@pytest.mark.extended
def test_15_at_390_pixels_nothing_lies_beyond_the_edge(counted: CountedPage, cut_call: Call) -> None:
    counted.page.set_viewport_size({"width": NARROW, "height": 844})
    page = counted.start("/runs/")
    assert needed_width(page) <= NARROW
    counted.click(link_in_bar(page, "Calls"))
    counted.click(page.get_by_role("link", name="Cut before the model"))
    expect(page.locator(".presets [aria-current]")).to_have_text("Cut before the model")
    assert needed_width(page) <= NARROW
    counted.click(link_to(page, cut_call))
    expect(page.get_by_role("link", name="Go to line 19")).to_be_visible()
    assert needed_width(page) <= NARROW
    counted.click(page.get_by_role("link", name="Go to line 19"))
    expect(page.locator("#L19")).to_be_in_viewport()
    assert needed_width(page) <= NARROW
    assert counted.presses <= 4
