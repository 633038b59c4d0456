"""What each page must hold by itself, over the bundled recordings: in both themes, wide and narrow."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from dashboard.models import Project
from tests.browser.conftest import Browse, Serious

NARROW, WIDE = 390, 1440


@pytest.fixture
def addresses(bundled: Project) -> list[str]:
    """One for each page that has an address; the call is one that has an artifact."""
    artifact = bundled.artifacts.select_related("call").order_by("-state", "role", "size", "pk")[0]
    run = f"/runs/{artifact.call.run_id}/"
    lists = ["/runs/", "/problems/", "/docs/", "/runs/import/", "/tools/", "/tools/WebFetch/"]
    call = f"/calls/{artifact.call_id}/"
    forms = [f"{call}?right=wire-anthropic", f"{call}?left=recorded&right=compacted"]
    return [*lists, *forms, run, f"{run}model/", f"{run}delete/", call, f"/artifacts/{artifact.pk}/"]


def test_no_page_has_a_serious_fault_of_accessibility(
    addresses: list[str], operator_page: Page, serious: Serious
) -> None:
    found: list[str] = []
    for address in addresses:
        operator_page.emulate_media(color_scheme="light")
        operator_page.goto(address)
        found += [f"{address} light: {sentence}" for sentence in serious(operator_page)]
        if "right=" in address:
            continue
        # The elements are the same in the dark; only their colours are not.
        operator_page.emulate_media(color_scheme="dark")
        operator_page.goto(address)
        found += [f"{address} dark: {sentence}" for sentence in serious(operator_page, "color-contrast")]
    assert not found, "\n".join(found)


def test_no_page_is_wider_than_its_window(addresses: list[str], operator_page: Page) -> None:
    found: list[str] = []
    for width in (NARROW, WIDE):
        operator_page.set_viewport_size({"width": width, "height": 900})
        for address in addresses:
            operator_page.goto(address)
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
