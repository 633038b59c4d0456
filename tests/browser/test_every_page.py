"""What each page must hold by itself, over the bundled recordings: in both themes, wide and narrow."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from dashboard.models import Project
from tests.browser.conftest import Browse, Serious

NARROW, WIDE = 390, 1440
ALSO = re.compile(r"right=|^/docs/$|^/tools/$")


@pytest.fixture
def addresses(bundled: Project) -> list[str]:
    """One for each page that has an address; the call is one that has an artifact."""
    artifact = bundled.artifacts.select_related("call").order_by("-state", "role", "size", "pk")[0]
    run = f"/runs/{artifact.call.run_id}/"
    lists = ["/runs/", "/problems/", "/docs/", "/runs/import/", "/tools/", "/tools/WebFetch/"]
    call = f"/calls/{artifact.call_id}/"
    forms = [f"{call}?right=wire-anthropic", f"{call}?left=recorded&right=compacted"]
    return [*lists, *forms, run, f"{run}model/", f"{run}delete/", call, f"/artifacts/{artifact.pk}/"]


@pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["each-look", "every-element"]
)
def test_no_page_has_a_serious_fault_of_accessibility(
    addresses: list[str], operator_page: Page, in_both_themes: Serious, *, whole: bool
) -> None:
    """By default on a page of each kind; the long run takes the call under other variants, the list of tools and
    the index of the documents as well, whose parts stand on the others, and the contrast of every element.
    """
    found: list[str] = []
    for address in addresses if whole else [one for one in addresses if not ALSO.search(one)]:
        found += in_both_themes(operator_page, address, whole=whole)
    assert not found, "\n".join(found)


def test_a_faint_text_is_found_once_in_a_thousand_rows(page: Page, serious: Serious) -> None:
    """In a page of our own: what `serious` passes over has the look of something that it saw."""
    rows = "".join(f"<tr><th>row {number}</th><td>seen</td></tr>" for number in range(1_000))
    page.emulate_media(color_scheme="light")
    page.goto("/sign-in/")
    page.evaluate(f"""document.querySelector("main").innerHTML = `<table>{rows}</table>`""")
    assert not serious(page, contrast_alone=True)
    page.evaluate("""document.querySelectorAll("td")[700].style.color = "silver" """)
    assert [sentence.partition(": ")[0] for sentence in serious(page, contrast_alone=True)] == ["serious"]


def test_no_page_is_wider_than_its_window(addresses: list[str], operator_page: Page) -> None:
    found: list[str] = []
    for address in addresses:
        operator_page.set_viewport_size({"width": NARROW, "height": 900})
        operator_page.goto(address)
        for width in (NARROW, WIDE):
            operator_page.set_viewport_size({"width": width, "height": 900})
            needed = operator_page.evaluate("document.documentElement.scrollWidth")
            found += [f"{address} needs {needed} pixels of {width}"] if needed > width else []
    assert not found, "\n".join(found)


def test_every_page_is_whole_without_script(addresses: list[str], browse: Browse) -> None:
    page = browse(signed_in=True, java_script_enabled=False)
    for address in addresses:
        response = page.goto(address)
        assert response is not None
        assert response.status == 200
        assert page.locator("main h1").count() == 1, address


def test_the_sign_in_page_is_accessible(page: Page, serious: Serious) -> None:
    page.goto("/sign-in/")
    assert not serious(page)
