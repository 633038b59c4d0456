"""The view Quoted later: the share of receipts' tokens that no later step quoted, with how many calls were measured."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.models import Project
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.measured_comparisons import recalled
from tests.dashboard.page_text import Page, parse_page

pytestmark = pytest.mark.django_db


def load(client: Client, query: str = "") -> Page:
    response = client.get(f"/insights/?show=quoted{query}")
    assert response.status_code == 200
    return parse_page(response)


@pytest.mark.usefixtures("alice")
def test_without_a_report_the_view_leads_to_a_new_one_with_the_filter(client: Client, project: Project) -> None:
    create_call(create_run(project), tool="Read")
    page = load(client, "&q=tool:Read")
    assert page.by_role("link", "Measure it for these calls")["href"] == "/experiments/recall/?query=tool%3ARead"
    assert not page.has("table")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_the_share_is_that_of_the_measured_calls_and_names_those_that_are_not(client: Client, project: Project) -> None:
    """One of 125 equal lines is quoted, and one of two calls was measured."""
    run = create_run(project)
    measured, _ = create_call(run, tool="Read"), create_call(run, "newer", tool="Bash")
    report = recalled(project, measured)
    page = load(client)
    assert page.facts["Calls measured"] == "1"
    assert page.facts["With a quoted line"] == "1 (100%)"
    assert page.facts["Tokens of their receipts"] == "≈1,250"
    assert page.facts["Not quoted by a later step"] == "99%"
    assert "1 of the 2 calls of the filter are not measured in it" in page.text
    assert page.texts("[aria-labelledby=tools-title] tbody tr")[0] == "Read 1 1 (100%) ≈1,250 99%"
    assert page.texts(".chart-table tbody td") == ["99% of 1 calls"]
    assert client.get(page.by_role("link", "Read")["href"]).status_code == 200
    measured.delete()
    assert load(client).facts["Calls measured"] == "0"
    assert load(client, "&q=tool:Bash").facts["Not quoted by a later step"] == "–"
    assert str(report.pk) in page.select(".insights-note a")[0]["href"]
