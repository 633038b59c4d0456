"""A finding leads to the very characters that it means."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Serious
from tests.browser.rest import come_to_rest, press
from tests.dashboard.factories import create_run
from tests.dashboard.recorded_calls import bash

TOKEN = "ghp_" + "a1B2" * 9
LIT = 'CSS.highlights.has("linked") ? [...CSS.highlights.get("linked")].map(String).join("") : ""'


def test_a_position_is_highlighted_and_escape_ends_the_highlight(
    operator_page: Page, project: Project, serious: Serious
) -> None:
    call = bash(create_run(project), "\x1b[31m🙂 tab\there\n" + "line\n" * 200 + f"token {TOKEN} end\n")
    for query in ("", "?spaces=1"):
        operator_page.goto(f"/calls/{call.pk}/{query}")
        assert not serious(operator_page)
        operator_page.get_by_role("link", name="show the place").click()
        status = operator_page.locator("[data-link-status]")
        expect(status).to_contain_text("Characters 1,022 to 1,062 of the receipt")
        come_to_rest(operator_page)
        shown = operator_page.locator("[data-half=receipt] .half-body").inner_text()
        assert re.findall(r"token(?:\s|·)(\*\S{39})(?:\s|·)end", shown) == [operator_page.evaluate(LIT)], "not its mask"
        press(operator_page, "Escape")
        expect(status).to_be_hidden()
        assert operator_page.evaluate(LIT) == ""
