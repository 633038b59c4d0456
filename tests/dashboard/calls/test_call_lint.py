"""The findings of the rules in a receipt, beside the text that they mean."""

from __future__ import annotations

import json
import time

import pytest
from django.test import Client

from dashboard.evidence.call_evidence import load_evidence
from dashboard.evidence.lint_findings import build_lint_pane
from dashboard.models import Run
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, assert_harmless
from tests.dashboard.recorded_calls import HOSTILE, bash, load_call, receipt_text, recorded

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def run(client: Client, db: None) -> Run:
    project = create_project()
    client.force_login(create_user("bob", project=project, role="viewer"))
    return create_run(project, "session-one")


def findings(page: Page) -> list[str]:
    return page.texts(".findings li")


def reach(page: Page) -> str:
    """The sentence about how much of the receipt was checked."""
    return "".join(page.texts(".lint-reach"))


def test_a_finding_has_its_severity_its_sentence_and_its_place(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, f"first line\ntoken: {TOKEN}\n"))
    assert len(findings(page)) == 1
    assert "error The receipt contains a GitHub token. show the place" in findings(page)[0]
    place = page.by_role("link", "show the place")
    start, end = map(int, place["data-span"].split("-"))
    assert receipt_text(page)[start:end].endswith("*" * 20)  # the place of the token, which is masked
    assert len(receipt_text(page)) == len(f"first line\ntoken: {TOKEN}\n")
    assert page.by_id(place["href"].removeprefix("#"))
    assert TOKEN not in findings(page)[0]


def test_a_finding_about_a_field_lights_it_up_in_both_forms_of_the_result(client: Client, run: Run) -> None:
    text = 'This line of the output says "word" and more\nand so does the second line of it\n'
    page = load_call(client, bash(run, text, json.dumps({"stdout": text})))
    assert "warning A text with line breaks or quotes is escaped here" in findings(page)[0]
    field = page.select_one(".findings button")
    assert (field.text, field["data-pointer"], field["data-recorded"]) == (
        "/result/stdout_preview",
        "/result/stdout_preview",
        "/stdout",
    )


def test_a_receipt_in_order_has_no_list(client: Client, run: Run) -> None:
    assert findings(load_call(client, bash(run, "hello\n"))) == []
    assert findings(load_call(client, create_call(run))) == []
    assert findings(load_call(client, bash(run, TOKEN), "?right=compacted")) == []


def test_only_the_beginning_of_a_long_receipt_is_searched_and_the_page_reports_it(client: Client, run: Run) -> None:
    early = bash(run, TOKEN + "\n" + "line of output\n" * 20_000)
    page = load_call(client, early)
    assert len(findings(page)) == 1
    checked = "The first 32,768 characters of the receipt were checked. Check the first 262,144 characters"
    assert reach(page) == checked
    further = load_call(client, early, "?lint=more")
    assert len(findings(further)) == 1
    assert reach(further) == "The first 262,144 characters of the receipt were checked."


def test_a_later_finding_is_shown_on_request(client: Client, run: Run) -> None:
    late = bash(run, "line of output\n" * 10_000 + TOKEN)
    page = load_call(client, late)
    assert findings(page) == []
    assert reach(page) == (
        "The first 32,768 characters of the receipt were checked; the rules found nothing. "
        "Check the whole receipt (150,040 characters)"
    )
    further = load_call(client, late, page.select_one(".lint-reach a")["href"])
    assert "error The receipt contains a GitHub token." in findings(further)[0]
    assert reach(further) == "The whole receipt was checked."
    assert reach(load_call(client, bash(run, "hello\n"))) == ""
    assert reach(load_call(client, bash(run, "hello\n"), "?lint=more")) == (
        "The whole receipt was checked; the rules found nothing."
    )


def test_what_a_finding_says_is_text(client: Client, run: Run) -> None:
    patch = {"filePath": HOSTILE, "content": "x", "structuredPatch": []}
    call = recorded(run, "Write", {"file_path": HOSTILE, "content": "x"}, patch, f"{TOKEN} {HOSTILE}")
    page = load_call(client, call)
    assert findings(page)
    assert_harmless(page)


def test_many_members_do_not_make_the_page_wait(run: Run) -> None:
    rows = [f'"row {number}" of a long list, with a\nline break' for number in range(5_000)]
    call = recorded(run, "mcp__x__rows", {}, {"rows": rows}, "\\n".join(rows)[:60_000])
    evidence = load_evidence(call, {})
    assert evidence.halves.receipt is not None
    start = time.process_time()
    build_lint_pane(evidence, ())
    assert time.process_time() - start < 0.5
