"""What the rules found in a receipt, beside the text that it means."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import pytest
from django.test import Client

from dashboard.evidence.call_evidence import load_evidence
from dashboard.evidence.lint_findings import lint_pane
from dashboard.models import Run
from tests.dashboard.calls.test_call_page import HOSTILE, bash, body, receipt_of, recorded
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def run(client: Client, db: None) -> Run:
    project = create_project()
    client.force_login(create_user("bob", project=project, role="viewer"))
    return create_run(project, "session-one")


def findings(page: str) -> list[str]:
    found = re.search(r'<ul class="findings".*?</ul>', page, re.DOTALL)
    return [" ".join(text_of(one).split()) for one in found[0].split("<li")[1:]] if found else []


def test_a_finding_has_its_severity_its_sentence_and_its_place(client: Client, run: Run) -> None:
    page = body(client, bash(run, f"first line\ntoken: {TOKEN}\n"))
    assert len(findings(page)) == 1
    assert "error The receipt contains a GitHub token. show the place" in findings(page)[0]
    place = re.search(r'href="#receipt-text" data-span="(\d+)-(\d+)"', page)
    assert place
    assert receipt_of(page)[int(place[1]) : int(place[2])] == TOKEN
    assert 'id="receipt-text"' in page
    assert TOKEN not in findings(page)[0]


def test_a_finding_about_a_field_lights_it_up_in_both_forms_of_the_result(client: Client, run: Run) -> None:
    text = 'This line of the output says "word" and more\nand so does the second line of it\n'
    call = bash(run, text, json.dumps({"stdout": text}))
    page = body(client, call)
    assert "warning A text with line breaks or quotes is escaped here" in findings(page)[0]
    assert 'data-pointer="/result/stdout_preview" data-recorded="/stdout">/result/stdout_preview</button>' in page


def test_a_receipt_in_order_has_no_list(client: Client, run: Run) -> None:
    assert '<ul class="findings"' not in body(client, bash(run, "hello\n"))
    assert '<ul class="findings"' not in body(client, create_call(run))
    assert '<ul class="findings"' not in body(client, bash(run, TOKEN), "?right=compacted")


def looked(page: str) -> str:
    found = re.search(r'<p class="lint-reach muted">.*?</p>', page, re.DOTALL)
    return " ".join(text_of(found[0]).split()) if found else ""


def test_of_a_long_receipt_the_beginning_is_looked_at_and_said_so(client: Client, run: Run) -> None:
    early = bash(run, TOKEN + "\n" + "line of output\n" * 20_000)
    page = body(client, early)
    assert len(findings(page)) == 1
    assert looked(page) == "The rules looked at the first 32,768 characters of the receipt. Look at 262,144"
    further = body(client, early, "?lint=more")
    assert len(findings(further)) == 1
    assert looked(further) == "The rules looked at the first 262,144 characters of the receipt."


def test_what_stands_later_is_found_when_it_is_asked_for(client: Client, run: Run) -> None:
    late = bash(run, "line of output\n" * 10_000 + TOKEN)
    page = body(client, late)
    assert findings(page) == []
    assert looked(page) == (
        "The rules looked at the first 32,768 characters of the receipt and found nothing. Look at 150,040"
    )
    further = body(client, late, "?lint=more")
    assert "error The receipt contains a GitHub token." in findings(further)[0]
    assert looked(further) == "The rules looked at all of the receipt."
    assert looked(body(client, bash(run, "hello\n"))) == ""
    assert looked(body(client, bash(run, "hello\n"), "?lint=more")) == (
        "The rules looked at all of the receipt and found nothing."
    )


def test_what_a_finding_says_is_text(client: Client, run: Run) -> None:
    patch = {"filePath": HOSTILE, "content": "x", "structuredPatch": []}
    call = recorded(run, "Write", {"file_path": HOSTILE, "content": "x"}, patch, f"{TOKEN} {HOSTILE}")
    page = body(client, call)
    assert findings(page)
    assert "<script>alert" not in page
    assert "<b hx-post" not in page
    assert "\x1b" not in unescape(page)


def test_many_members_do_not_make_the_page_wait(run: Run) -> None:
    rows = [f'"row {number}" of a long list, with a\nline break' for number in range(5_000)]
    call = recorded(run, "mcp__x__rows", {}, {"rows": rows}, "\\n".join(rows)[:60_000])
    surfaces = load_evidence(call, {})
    assert surfaces.halves.receipt is not None
    start = time.process_time()
    lint_pane(surfaces, ())
    assert time.process_time() - start < 0.5
