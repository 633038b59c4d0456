"""A plan that a command runs, watched in a browser: it waits, is approved, its calls arrive, it is cancelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection  # noqa: F401 - the condition of the mark
from playwright.sync_api import Page, expect

from dashboard.models import Project
from tests.browser.conftest import Serious
from tests.browser.rest import come_to_rest
from tests.dashboard.plans.orders import command, plan, running_plan

PATCH = "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+one\n"
PLAN = plan(
    {"id": "patch", "tool": "ApplyPatch", "args": {"patch": PATCH}},
    command("each", "cat {file.path}", foreach={"from": "$steps.patch.changed_files", "itemName": "file"}),
    command("long", "sleep 600", args={"cmd": "sleep 600", "login": False, "yield_time_ms": 600_000}),
    command("never", "touch never.txt", dependsOn=["long"]),
)


@pytest.mark.extended
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the process opens the file of the test database")
def test_a_plan_is_seen_waiting_approved_followed_and_cancelled(
    operator_page: Page, project: Project, tmp_path: Path, in_both_themes: Serious
) -> None:
    page = operator_page
    with running_plan(project, tmp_path, PLAN, "--confirm", "dashboard") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "Waits for a confirmation" in line)
        assert line.rstrip().endswith(f"/confirmation?project={project.slug}")
        page.goto("/runs/")
        row = page.get_by_role("link", name="Count the lines").first
        page.goto(row.get_attribute("href") or "")  # rows of a live run are replaced: none is clicked
        expect(page.locator("#live")).to_contain_text("Waits for a confirmation")
        page.get_by_role("link", name="Plan", exact=True).click()
        expect(page.locator("#plan")).to_contain_text("Waits for a confirmation")
        page.get_by_role("link", name="Confirmation").click()
        expect(page.get_by_role("heading", name="Count the lines")).to_be_visible()
        expect(page.locator("main")).to_contain_text("This plan runs commands")
        assert not in_both_themes(page)
        page.get_by_label("Reason").fill("it only counts")
        page.get_by_role("button", name="Approve and run").click()

        # The page asks for the steps again by itself.
        expect(page.locator("#step-each .plan-step-head")).to_contain_text("1 ok")
        expect(page.locator("#step-long .badge")).to_have_text("running")
        expect(page.locator("#step-never .badge")).to_have_text("waiting")
        page.get_by_role("button", name="Cancel the run").click()
        expect(page.locator("main")).to_contain_text("The command was asked to cancel the run")
        expect(page.locator("#step-long .badge")).to_have_text("cancelled")
        expect(page.locator("#plan[hx-get]")).to_have_count(0)  # the run is over
        expect(page.get_by_role("button", name="Cancel the run")).to_have_count(0)
        expect(page.locator("#run-head")).not_to_contain_text("live")
        expect(page.locator("#step-long .plan-rounds, #step-each .plan-rounds")).to_contain_text("1 ok, 0 failed")
        come_to_rest(page)
        assert not in_both_themes(page)
        narrow(page)
        page.locator("#step-patch .plan-proof").click()
        expect(page.locator(".plan-proof-chain")).to_contain_text("approved by olga")
        expect(page.locator(".notice")).to_contain_text("it only counts")
        narrow(page)
        output, _ = process.communicate()
    printed: dict[str, Any] = json.loads(output)
    assert (process.returncode, printed["status"]) == (3, "cancelled")
    assert printed["steps"] == {"patch": "ok", "each": "ok", "long": "cancelled", "never": "skipped"}
    assert not (tmp_path / "workspace" / "never.txt").exists()


def narrow(page: Page) -> None:
    """The page has no sideways scroll at 390 px."""
    page.set_viewport_size({"width": 390, "height": 844})
    come_to_rest(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
