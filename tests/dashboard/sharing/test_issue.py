"""Markdown for an issue tracker: what it states, and that no recorded text acts in a tracker."""

from __future__ import annotations

import pytest
from django.test import Client
from markdown_it import MarkdownIt

from dashboard.models import Call, Project, Run
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, parse_page

TOKEN = "ghp_" + "a1B2c3D4" * 5
HOSTILE = "@everyone ![x](https://evil.example/p.png) <img src=x> ``` ````\n# heading\n~~~\n"


def read(client: Client, subject: Run | Call) -> tuple[str, Page]:
    """The Markdown, and the page that a tracker makes of it."""
    response = client.get(f"{subject.get_absolute_url()}issue/")
    assert response.status_code == 200
    text = response.content.decode()
    return text, parse_page(f"<body>{MarkdownIt('commonmark').render(text)}</body>")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_call_states_its_outcome_what_was_asked_and_both_halves(client: Client, project: Project) -> None:
    receipt = f"{HOSTILE}password: {TOKEN}"
    call = create_call(
        create_run(project, title=HOSTILE),
        asked=f"command=cat `x` {HOSTILE}",
        summary=HOSTILE,
        exit_status=1,
        result={"stdout": HOSTILE},
        receipt=receipt,
    )
    text, page = read(client, call)
    assert page.select_one("h3").text == "Bash: failed, exit 1"
    assert TOKEN not in text
    assert f"http://testserver/calls/{call.pk}/" in page.text
    assert page.has("li code")
    assert page.select("pre code")[2].exact.startswith(HOSTILE)
    outside = parse_page(page.html)
    for code in outside.select("code"):
        assert code.tag == "code"
    assert not page.has("img, h1, a, em")
    plain = "".join(element.text for element in page.select("p, li, h3") if not element.has("code"))
    assert "@everyone" not in plain


@pytest.mark.usefixtures("alice")
def test_a_large_call_is_cut_to_what_a_tracker_accepts_and_says_so(client: Client, project: Project) -> None:
    call = create_call(create_run(project), args={"a": "x" * 90_000}, result={"a": 1}, receipt="y" * 90_000)
    text, page = read(client, call)
    assert len(text) < 65_536
    assert "the first 22,000 of 90,000 characters" in page.text


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_run_lists_its_failed_and_cut_calls(client: Client, project: Project) -> None:
    run = create_run(project, call_count=45, failed_count=1)
    create_call(run, receipt="fine")
    failed = create_call(run, asked="command=make all", exit_status=2, receipt="bad")
    for _ in range(42):
        create_call(run, is_cut=True, receipt="cut")
    text, page = read(client, run)
    items = [item.text for item in page.select("li")]
    assert "45 calls, 1 failed, 0 refused, 0 cut before the model, 0 without an answer" in items
    assert f"Bash failed, exit 2: make all http://testserver/calls/{failed.pk}/" in items
    assert len([item for item in items if "/calls/" in item]) == 40
    assert "More calls failed or were cut" in text


def test_nobody_outside_the_project_reads_it(client: Client, project: Project) -> None:
    call = create_call(create_run(project), receipt="secret")
    client.force_login(create_user("otto", project=create_project("other")))
    assert client.get(f"/calls/{call.pk}/issue/").status_code == 404
    assert client.get(f"/runs/{call.run_id}/issue/").status_code == 404
