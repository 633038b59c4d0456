"""What each page must hold by itself, over the bundled recordings: in both themes, wide and narrow."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from dashboard.insights.call_numbers import VIEWS
from dashboard.models import Note, Project
from dashboard.tokens import create_token
from tests.browser.conftest import Serious
from tests.browser.rest import come_to_rest
from tests.dashboard.measured_comparisons import compared, recalled
from tests.dashboard.page_text import parse_page

NARROW, WIDE = 390, 1440
ALSO = re.compile(r"right=|^/docs/$|^/tools/$")


@pytest.fixture
def addresses(bundled: Project) -> list[str]:
    """One for each page that has an address; the call is one that has an artifact."""
    artifact = bundled.artifacts.select_related("call").order_by("-state", "role", "size", "pk")[0]
    run = f"/runs/{artifact.call.run_id}/"
    dropped = f"/runs/{bundled.runs.get(drop_count=1).pk}/"
    insights = [f"/insights/?show={view}" for view in VIEWS]
    recalled(bundled, artifact.call)
    create_token(bundled, "a machine with a long name", "ingest", by="operator")
    lists = [
        "/runs/",
        "/calls/",
        "/problems/",
        *insights,
        "/setup/",
        "/tokens/",
        "/docs/",
        "/runs/import/",
        "/tools/",
        "/tools/WebFetch/",
        "/masking/",
        "/audit/",
        "/docs/query/",
    ]
    lists += ["/experiments/", "/experiments/recall/", "/experiments/new/", "/experiments/drifted/", "/search/?q=the"]
    renderer, comparison = (
        "/experiments/renderers/command/",
        compared(bundled, ["recorded", "receipt"], query="tool:Glob")[0],
    )
    lists += [renderer, f"{renderer}templates/", f"{renderer}canonical/?sample=ExecCommand/success"]
    lists += [f"/experiments/{comparison.pk}/{page}" for page in ("", "calls/", "verdicts/")]
    position = artifact.call.run.own_calls.filter(line__lt=artifact.call.line).count() + 1
    call = f"{run}{position}/halves"
    forms = [f"{run}{position}/{tab}" for tab in ("context", "replay", "wire", "raw")]
    forms += [f"{call}?right=wire-anthropic", f"{call}?left=recorded&right=compacted"]
    note = Note.objects.create(project=bundled, call=artifact.call, text="see line 3")
    added = ["/review/", f"/notes/{note.pk}/", f"/calls/{artifact.call_id}/notes/", f"{run}notes/"]
    others = bundled.runs.exclude(pk=artifact.call.run_id).order_by("-call_count", "pk")
    added += [f"{run}against/{others[0].pk}/", f"{run}against/{others[0].pk}/?pair=0"]
    of_call, message = f"/calls/{artifact.call_id}/", artifact.call.run.messages.exclude(role="system")[0]
    added += [
        f"{of_call}half/receipt/",
        f"{of_call}found/args/?find=a",
        f"{of_call}variants/",
        f"{run}context?message={message.pk}",
    ]
    drops = [dropped, f"{dropped}context?after=147-0-{'0' * 32}"]
    return [
        *lists,
        *added,
        *forms,
        run,
        f"{run}context",
        f"{run}replay",
        *drops,
        f"{run}delete/",
        call,
        f"/artifacts/{artifact.pk}/",
    ]


@pytest.mark.extended
def test_each_page_fits_its_window_and_is_whole_without_script(
    addresses: list[str], operator_page: Page, subtests: pytest.Subtests
) -> None:
    for address in addresses:
        with subtests.test(address):
            operator_page.set_viewport_size({"width": NARROW, "height": 900})
            response = operator_page.goto(address)
            assert response
            assert response.ok
            assert response.request.redirected_from is None
            assert parse_page(response.text()).select_one("main h1").text
            assert needed_width(operator_page) <= NARROW
            assert not buttons_and_tabs_beyond(operator_page, NARROW)
            operator_page.set_viewport_size({"width": WIDE, "height": 900})
            assert needed_width(operator_page) <= WIDE


@pytest.mark.parametrize(
    "whole",
    [pytest.param(False, marks=pytest.mark.extended), pytest.param(True, marks=pytest.mark.long)],
    ids=["each-look", "every-element"],
)
def test_no_page_has_a_serious_fault_of_accessibility(
    addresses: list[str], operator_page: Page, in_both_themes: Serious, subtests: pytest.Subtests, *, whole: bool
) -> None:
    """The extended run looks at a page of each kind; the long one takes the call under other variants, the list of
    tools and the index of the documents as well, whose parts stand on the others, and the contrast of every element.
    """
    operator_page.set_viewport_size({"width": WIDE, "height": 900})
    for address in addresses:
        if whole or not ALSO.search(address):
            with subtests.test(address):
                operator_page.goto(address)
                assert not in_both_themes(operator_page, whole=whole)


def needed_width(page: Page) -> int:
    come_to_rest(page)  # at the size that it has just been given
    return int(page.evaluate("document.documentElement.scrollWidth"))


def buttons_and_tabs_beyond(page: Page, width: int) -> list[str]:
    """Those that nobody sees who does not scroll sideways in the box that they are in."""
    texts: list[str] = page.evaluate(
        """width => [...document.querySelectorAll("main :is(button, .tabs a)")]
        .filter((control) => control.checkVisibility() && control.getBoundingClientRect().right > width)
        .map((control) => control.textContent.trim())""",
        width,
    )
    return texts


@pytest.mark.extended
def test_a_faint_text_is_found_once_in_a_thousand_rows(page: Page, serious: Serious) -> None:
    """In a page of our own: what `serious` passes over has the look of something that it saw."""
    rows = "".join(f"<tr><th>row {number}</th><td>seen</td></tr>" for number in range(1_000))
    page.emulate_media(color_scheme="light")
    page.goto("/sign-in/")
    page.evaluate(f"""document.querySelector("main").innerHTML = `<table>{rows}</table>`""")
    assert not serious(page, contrast_alone=True)
    page.evaluate("""document.querySelectorAll("td")[700].style.color = "silver" """)
    assert [sentence.partition(": ")[0] for sentence in serious(page, contrast_alone=True)] == ["serious"]


def test_the_sign_in_page_is_accessible(page: Page, serious: Serious) -> None:
    page.goto("/sign-in/")
    assert not serious(page)


def test_the_title_of_a_child_run_is_cut_at_its_end_and_not_replaced_by_dots(
    operator_page: Page, bundled: Project
) -> None:
    child = bundled.runs.filter(parent__isnull=False)[0]
    assert len(child.title) > 100  # more than any width shows
    for width in (WIDE, NARROW):
        operator_page.set_viewport_size({"width": width, "height": 900})
        operator_page.goto("/runs/?q=child:yes")
        cell = operator_page.locator("tr[data-item] th")
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_the_bar_has_all_names_of_pages_and_the_outcomes_stand_in_the_line_of_the_status(
    operator_page: Page, bundled: Project
) -> None:
    operator_page.goto("/runs/")
    for width in (640, 700, 860):
        operator_page.set_viewport_size({"width": width, "height": 900})
        assert operator_page.get_by_role("navigation", name="Pages").evaluate(
            "nav => nav.scrollWidth <= nav.clientWidth"
        )
    row = operator_page.locator("tr[data-item]").first
    for width in (NARROW, 860):
        operator_page.set_viewport_size({"width": width, "height": 900})
        status, strip = (row.locator(cell).bounding_box() for cell in ("td.status", "td.strip"))
        assert status
        assert strip
        assert abs(status["y"] + status["height"] / 2 - strip["y"] - strip["height"] / 2) < 2


SHIFTS = """() => new Promise((resolve) => {
  let sum = 0;
  const observer = new PerformanceObserver((list) => { for (const entry of list.getEntries()) sum += entry.value; });
  observer.observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
})"""


def test_a_narrow_page_has_its_facets_folded_before_it_is_painted(operator_page: Page, bundled: Project) -> None:
    run = bundled.runs.order_by("-call_count")[0]
    operator_page.set_viewport_size({"width": NARROW, "height": 900})
    for address in ("/runs/", f"/runs/{run.pk}/"):
        operator_page.goto(address)
        come_to_rest(operator_page)
        folds = operator_page.locator("[data-folds-narrow]")
        assert folds.count() >= 1
        assert not folds.evaluate_all("folds => folds.some((fold) => fold.open)")
        assert operator_page.evaluate(SHIFTS) < 0.01
