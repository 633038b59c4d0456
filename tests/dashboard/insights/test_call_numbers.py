"""Insights: every number is that of the list it leads to."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from urllib.parse import quote

import pytest
from django.http import QueryDict
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.filters.language import parse
from dashboard.ingest.run_stats import refresh_stats
from dashboard.insights.call_numbers import choose_unit, next_start, start_of
from dashboard.models import Project, RequestUsage
from dashboard.models.identity import derive_id
from tests.cases import each, extended_except
from tests.dashboard.factories import START, create_call, create_run
from tests.dashboard.page_text import Element, Page, parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


def load(client: Client, address: str = "") -> Page:
    response = client.get(f"/insights/{address}")
    assert response.status_code == 200
    return parse_page(response)


@pytest.fixture(scope="module")
def calls(kept_project: Project) -> None:
    """Two runs of three days: every outcome, two spellings of a tool, a call without a time, an unexplained drop."""
    runs = [create_run(kept_project, model="opus"), create_run(kept_project, model="haiku", branch="main")]
    for number in range(24):
        outcomes = ("succeeded", "failed", "timed_out", "refused", "cancelled", "interrupted", "skipped", "unanswered")
        create_call(
            runs[number % 2],
            tool=("Bash", "Read", "bash")[number % 3],
            outcome=outcomes[number % 8],
            is_cut=number % 5 == 0,
            receipt_fidelity="exact",
            tokens=100 * number,
            duration_ms=None if number % 4 == 0 else 900 * number,
            error_kind="timeout" if number % 8 == 2 else "",
            attempt=1 + number % 2,
            is_waiting=number % 8 == 3,
            started_at=None if number == 7 else START + timedelta(hours=3 * number),
            line=number + 1,
        )
    refresh_stats(runs)
    RequestUsage.objects.create(
        id=derive_id("request", "drop"),
        run=runs[0],
        request="msg_1",
        line=20,
        at=START,
        input_tokens=10,
        cache_read_tokens=1_000,
        cache_creation_tokens=0,
        output_tokens=5,
        dropped_tokens=9_000,
        dropped_after=3,
        dropped_before=20,
        size=2,
        own_data=b"{}",
    )


def count_listed(project: Project, link: Element) -> int:
    """The calls that the Calls page has under the filter of a link."""
    assert link["href"].startswith("/calls/?")
    query = parse(QueryDict(link["href"].partition("?")[2])["q"], over="calls")
    assert not query.problems, link["href"]
    return query.calls_in(project).count()


def leading_number(text: str) -> int:
    return int(text.removeprefix("≈").split(" ")[0].replace(",", ""))


FILTERS = {
    "": 24,
    "q=tool:Bash or cut:yes": 17,
    "from=2026-03-02&to=2026-03-02": 7,
    "q=-outcome:failed&from=2026-03-01": 20,
    "by=hour": 24,
    "to=2199-12-31": 24,  # no time is later
    "by=week&q=model:opus": 12,
}


@pytest.mark.usefixtures("alice", "calls")
@pytest.mark.parametrize("address", extended_except(FILTERS, "", "q=tool:Bash or cut:yes"))
def test_every_number_is_that_of_the_list_it_leads_to(client: Client, project: Project, address: str) -> None:
    page = load(client, f"?{address}")
    assert leading_number(page.facts["Calls"]) == FILTERS[address]
    links = [link for link in page.select("dd a, .chart-table td a, #tools td a") if "sort=tokens" not in link["href"]]
    assert len(links) > 10
    for link in {link["href"]: link for link in links}.values():
        words = link.closest("tr").text if link.closest("tr") else ""  # type: ignore[union-attr]
        assert count_listed(project, link) == leading_number(link.text), (address, link["href"], words)


@pytest.mark.usefixtures("alice", "calls")
def test_the_tools_and_the_days_add_up_to_all_calls(client: Client) -> None:
    page = load(client)
    rows = {row[0]: row for row in page.rows("#tools tbody tr")}
    assert set(rows) == {"Bash", "Read"}, "spellings that differ in case are one tool"
    assert [leading_number(rows[tool][1]) for tool in ("Bash", "Read")] == [16, 8]
    assert "no chart but in the totals and by tool: 1." in page.text
    days = page.by_role("region", "Table: Calls, by outcome").rows("tbody tr")
    assert [day[0] for day in days] == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]
    assert sum(int(cell) for day in days for cell in day[1:]) == 23
    assert leading_number(page.facts["Cut"]) == 5
    assert page.facts["Tokens of receipts"] == f"≈{100 * sum(range(24)):,}"
    assert leading_number(page.facts["In a context that lost tokens unexplained"]) == 8


@pytest.mark.usefixtures("alice")
def test_the_share_of_cut_receipts_leaves_out_calls_without_a_receipt(client: Client, project: Project) -> None:
    run = create_run(project)
    for fidelity, is_cut in (("exact", True), ("exact", False), ("absent", False), ("absent", False)):
        create_call(run, receipt_fidelity=fidelity, is_cut=is_cut)
    create_call(run, tool="Unrecorded", started_at=START + timedelta(days=1))
    refresh_stats([run])
    page = load(client)
    assert (page.facts["Calls"], page.facts["Cut"]) == ("5", "1 (50%)")
    days = page.by_role("region", "Table: Share of calls whose receipt was cut").rows("tbody tr")
    assert [day[-1] for day in days] == ["1 (50%)", "–"]


@pytest.mark.usefixtures("alice", "calls")
def test_a_long_filter_makes_no_large_page(client: Client) -> None:
    words = " or ".join(f"title:{'é' * 90}{number}" for number in range(18))
    page = load(client, f"?by=hour&q={quote(words + ' or tool:*a*')}")
    assert leading_number(page.facts["Calls"]) == 24
    assert len(page.markup) < 500_000
    assert "here the totals alone are links" in page.text
    assert not page.has(".chart a, #tools td a")
    assert page.has("dd a")


@pytest.mark.usefixtures("alice", "calls")
def test_a_table_of_tools_is_sorted_by_what_its_heads_say(client: Client) -> None:
    page = load(client, "?sort=tokens")
    assert page.texts("#tools tbody th") == ["Bash", "Read"]
    assert page.select_one("#tools th[aria-sort]").text == "Tokens"
    assert {link["href"].partition("#")[0] for link in page.select("#tools thead a")} == {
        *("?", "?sort=failed", "?sort=cut", "?sort=tokens", "?sort=uncertain"),
    }


@pytest.mark.usefixtures("alice")
def test_a_project_without_calls_is_not_an_empty_filter(client: Client) -> None:
    assert load(client).by_role("heading", "No calls yet")
    assert load(client, "?q=tool:Bash").by_role("heading", "No call matches")
    assert load(client, "?show=cost").by_role("heading", "No request with recorded usage")


@pytest.mark.usefixtures("alice", "calls")
@each(
    ("address", "problem"),
    [
        ("q=tol:Bash", "did you mean “tool:”"),
        ("from=yesterday", "from=yesterday is not a day"),
        ("from=2026-03-03&to=2026-03-01", "The range ends before it begins"),
        ("by=decade", "by=decade is not"),
        ("show=differs&where=cut:perhaps", "cannot be “perhaps”"),
    ],
)
def test_what_cannot_be_read_is_reported(client: Client, address: str, problem: str) -> None:
    assert problem in load(client, f"?{address}").by_role("alert").text


@pytest.mark.usefixtures("alice", "calls")
def test_the_runs_page_leads_to_the_numbers_of_its_filter(client: Client) -> None:
    link = parse_page(client.get("/runs/?q=tool:Read")).by_role("link", "Insights")
    assert link["href"] == "/insights/?q=tool%3ARead"
    assert link["data-key"] == "i"
    page = parse_page(client.get(link["href"]))
    assert page.select_one('header nav [aria-current="true"]').text == "Runs"


@pytest.mark.usefixtures("alice", "calls")
def test_the_number_of_queries_does_not_grow(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for show, most in {"numbers": 12, "differs": 16, "cost": 10}.items():
        with django_assert_max_num_queries(most):
            load(client, f"?show={show}&q=tool:bash")


@each(
    ("chosen", "days", "unit"),
    [
        ("", [], "day"),
        ("", [0], "hour"),
        ("", [0, 1], "day"),
        ("", [0, 119], "day"),
        ("", [0, 120], "week"),
        ("hour", [0, 4], "hour"),
        ("hour", [0, 5], "day"),
        ("day", [0, 3_000], "month"),
        ("month", [0], "month"),
        ("month", [0, 3_651], "month"),
        ("month", [0, 3_652], "year"),
        ("year", [0], "year"),
    ],
)
def test_a_chart_has_no_more_places_than_it_can_show(chosen: str, days: list[int], unit: str) -> None:
    assert choose_unit(chosen, [date(2026, 1, 1) + timedelta(days=day) for day in days]) == unit


@pytest.mark.usefixtures("alice", "calls")
def test_a_call_with_a_time_of_1970_makes_no_page_of_months(client: Client, project: Project) -> None:
    run = create_run(project)
    create_call(run, started_at=datetime(1970, 1, 1, tzinfo=UTC), line=1)
    refresh_stats([run])
    page = load(client)
    years = page.select_one("#chart-outcomes-title").closest("section")
    assert years
    rows = years.rows("tbody tr")
    assert [rows[0][0], rows[-1][0]] == ["1970", str(START.year)]
    assert count_listed(project, years.select("tbody a")[0]) == 1


def test_weeks_begin_on_monday_and_months_have_their_own_length() -> None:
    assert start_of("2026-03-01", "week") == datetime(2026, 2, 23)
    assert next_start(start_of("2026-02-15", "month"), "month") == start_of("2026-03-09", "month")
    assert next_start(start_of("2026-02-15 23", "hour"), "hour") == start_of("2026-02-16 00", "hour")


@pytest.mark.usefixtures("alice", "calls")
def test_a_number_whose_filter_the_calls_page_would_refuse_is_no_link(client: Client) -> None:
    long = f"q=-{'x' * 1_995}"
    page = load(client, f"?{long}")
    assert leading_number(page.facts["Calls"]) == 24
    assert page.select("dd a")  # the filter as it is
    assert not page.select("#tools td a")
    differs = load(client, f"?{long}&show=differs&where=cut:yes")
    assert not differs.has("caption a")


@pytest.mark.usefixtures("alice", "calls")
def test_a_large_project_begins_with_its_last_days(client: Client, project: Project, settings: Settings) -> None:
    """Of the 23 calls with a time 5, 7, 8 and 3 are of the four days."""
    expected = {23: ("", 24), 22: ("02", 18), 18: ("02", 18), 17: ("03", 11), 3: ("04", 3), 2: ("04", 3)}
    for settings.NEWEST_CALLS, (day, number) in expected.items():
        page = load(client)
        total = page.select(".insights-facts a")[0]
        assert leading_number(total.text) == count_listed(project, total) == number
        note = f"These are the calls since 2026-03-{day}, because this project has many. Count all calls."
        assert page.texts("#last-days") == ([note] if day else [])
        assert not page.has("form a"), "there is nothing to clear"
    whole = page.select_one("#last-days a")["href"].removeprefix("/insights/")
    assert leading_number(load(client, whole).facts["Calls"]) == 24
    for address in ("?q=tool:*", "?from=2026-03-01", "?to=2026-03-09", "?show=quoted"):
        assert not load(client, address).has("#last-days"), address
