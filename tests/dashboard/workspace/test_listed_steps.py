"""Steps that were opened from a list of calls: the walk goes on in the filter and the order of that list."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.calls.call_order import SORTS
from dashboard.models import Call, Project
from tests.cases import extended_except
from tests.dashboard.factories import START, create_call, create_run
from tests.dashboard.imported_sessions import import_session
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import answers, asks

pytestmark = [pytest.mark.postgresql, pytest.mark.usefixtures("alice")]


def load(client: Client, address: str) -> Page:
    response = client.get(address, follow=True)
    assert response.status_code == 200
    return parse_page(response)


def create_ties(project: Project) -> None:
    """Calls of two runs, some with equal values, some without any, and one that the filter leaves out."""
    runs = [create_run(project, "even"), create_run(project, "odd")]
    for number in range(7):
        at = None if number in (2, 5) else START + timedelta(hours=number // 3)
        took = None if number in (0, 4) else number // 4
        create_call(
            runs[number % 2],
            f"tie-{number}",
            line=number,
            asked=f"command=call {number}",
            started_at=at,
            duration_ms=took,
            tokens=number // 4,
            unseen_lines=number // 5,
            is_cut=True,
        )
    create_call(runs[0], "outside", line=9, asked="command=outside")


def opened(page: Page) -> str:
    """What the call of a step asked for."""
    return page.select_one(".step-asked code").text


def place(page: Page) -> str:
    return page.select_one("[data-list-place]").text.removesuffix("Leave the list: step through the run").strip()


def neighbour(page: Page, rel: str) -> str:
    links = page.select(f"#step a[rel={rel}]")
    return links[0]["href"] if links else ""


@pytest.mark.parametrize("counted", extended_except([3, 1_000], 1_000))
def test_next_and_previous_walk_the_list_that_the_call_was_opened_from(
    client: Client, project: Project, settings: Settings, counted: int
) -> None:
    settings.COUNTED_CALLS = counted
    create_ties(project)
    for sort in SORTS:
        rows = load(client, f"/calls/?q=cut:yes&sort={sort}")
        expected = rows.texts("tbody .c-asked")
        pages = [load(client, rows.select("tbody th a")[0]["href"])]
        while address := neighbour(pages[-1], "next"):
            pages.append(load(client, address))
        assert [opened(page) for page in pages] == expected, sort
        if counted > len(pages):
            assert [place(page) for page in pages] == [f"{number} of 7 in Calls" for number in range(1, 8)]
        else:
            assert place(pages[0]) == "1 of 3+ in Calls"
            assert place(pages[-1]) == "one of 3+ in Calls"
        back = pages[-1]
        for page in reversed(pages[:-1]):
            back = load(client, neighbour(back, "prev"))
            assert opened(back) == opened(page), sort
        assert neighbour(back, "prev") == ""


def test_a_call_that_was_opened_from_no_list_has_the_order_of_its_run(client: Client, project: Project) -> None:
    create_ties(project)
    call = Call.objects.get(external_id="tie-2")
    for query in ("", "?list=", "?list=nowhere", "?list=runs%3Fq%3Dx"):
        page = load(client, f"/calls/{call.pk}/{query}")
        assert page.select_one(".walk .number").text == "2 of 5"
        assert opened(load(client, neighbour(page, "next"))) == "call 4"


def test_the_tab_and_the_form_of_the_halves_stay_along_the_list(client: Client, project: Project) -> None:
    create_ties(project)
    first = load(client, load(client, "/calls/?q=cut:yes").select("tbody th a")[0]["href"])
    wire = load(client, first.by_id("tab-wire")["href"] + "&spaces=1")
    assert place(wire) == "1 of 7 in Calls"
    page = load(client, neighbour(wire, "next"))
    assert page.by_id("tab-wire").get("aria-current") == "page"
    assert "spaces=1" in page.by_id("tab-raw")["href"]
    assert place(page) == "2 of 7 in Calls"


def test_the_place_leads_back_to_the_row_of_the_list(client: Client, project: Project, settings: Settings) -> None:
    settings.ROWS_PER_PAGE = 12
    run = create_run(project)
    for number in range(40):
        create_call(run, f"call-{number}", line=number, asked=f"command=call {number}", tokens=number)
    filtered = "/calls/?q=tool%3ABash&sort=tokens&columns=asked%2Ctokens"
    last = load(client, filtered).select("tbody th a")[-1]
    link = load(client, last["href"]).select("[data-list-place] a")[0]
    assert link["href"].endswith(f"#{last['id']}")
    back = client.get(link["href"], follow=False)
    assert back.url == filtered  # which is the first page; the browser keeps the fragment
    call = Call.objects.get(external_id="call-7")
    deep = load(client, f"/calls/{call.pk}/?list={quote('calls?q=tool:Bash&sort=tokens')}")
    assert place(deep) == "33 of 40 in Calls"
    rows = load(client, deep.select("[data-list-place] a")[0]["href"])
    assert rows.texts("tbody .c-asked") == [f"call {number}" for number in range(17, 5, -1)]
    assert rows.by_id(f"call-{call.pk.hex}")
    assert rows.select_one("a[rel=prev]")


def test_a_step_beside_the_list_goes_on_from_the_call_that_was_left(client: Client, project: Project) -> None:
    create_ties(project)
    named = quote("calls?q=cut:yes&sort=took")
    call = Call.objects.get(external_id="tie-4")  # without a time: it stands at the end, far from the step beside it
    listed = load(client, f"/calls/{call.pk}/?list={named}")
    address = next(row["href"] for row in listed.select(".steps .call-row") if "outside" in row.text)
    beside = load(client, address)
    assert (opened(beside), place(beside)) == ("outside", f"outside the list: {place(listed)}")
    for rel in ("prev", "next"):
        assert neighbour(beside, rel).partition("?")[0] == neighbour(listed, rel).partition("?")[0]
    leave = beside.by_role("link", "Leave the list: step through the run")["href"]
    left = load(client, address.partition("?")[0] + leave)
    assert left.select_one(".walk .number").text == "5 of 5"
    failed = load(client, f"{beside.by_id('tab-halves')['href']}&go=next-failed")
    assert place(failed) == place(beside)


def test_a_call_that_no_longer_matches_keeps_its_neighbours(client: Client, project: Project) -> None:
    """As one that was marked as reviewed, in a list of those that are not."""
    create_ties(project)
    rows = load(client, "/calls/?q=cut:yes&sort=unseen").select("tbody th a")
    Call.objects.filter(pk=rows[2]["id"].removeprefix("call-")).update(is_cut=False)
    page = load(client, rows[2]["href"])
    assert place(page) == "outside the list: Calls"
    assert neighbour(page, "prev").startswith(f"/calls/{rows[1]['href'].split('/')[2]}/")
    assert neighbour(page, "next").startswith(f"/calls/{rows[3]['href'].split('/')[2]}/")
    unreadable = load(client, f"/calls/{Call.objects.get(external_id='tie-1').pk}/?list={quote('calls?q=nothing:x')}")
    assert (neighbour(unreadable, "prev"), neighbour(unreadable, "next")) == ("", "")


def test_the_calls_of_a_search_lead_from_match_to_match(client: Client, project: Project, tmp_path: Path) -> None:
    lines = []
    for number, text in enumerate(("needle one", "hay", "needle two", "needle three")):
        lines += [asks(f"toolu_{number}"), answers(f"toolu_{number}", text)]
    import_session(project, tmp_path, *lines)
    rows = load(client, "/search/?q=needle").select("#found-calls ~ ul .call-name, .found .call-name")
    page = load(client, rows[0]["href"])
    assert place(page) == "1 of 3 in the search"
    assert page.select("[data-list-place] a")[0]["href"] == f"/search/?q=needle#{rows[0]['id']}"
    second = load(client, neighbour(page, "next"))
    assert second.select("[data-list-place] a")[0]["href"] == f"/search/?q=needle#{rows[1]['id']}"
    parts = load(client, f"/calls/?q={quote('receipt:*eedl*')}")
    found = load(client, parts.select(".row-hit a")[0]["href"])
    whole = load(client, found.by_role("link", "Both halves")["href"])
    assert place(whole) == "in Calls"  # the texts alone tell how many match
    assert neighbour(load(client, neighbour(whole, "next")), "next")


def test_a_filter_that_is_too_long_for_an_address_gives_plain_addresses(client: Client, project: Project) -> None:
    create_ties(project)
    query = f"cut:yes -title:{'ü' * 350}"
    href = load(client, f"/calls/?q={quote(query)}").select("tbody th a")[0]["href"]
    assert "?" not in href


def test_the_place_in_a_list_takes_a_fixed_number_of_queries(
    client: Client, project: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    create_ties(project)
    call = Call.objects.get(external_id="tie-3")
    address = client.get(f"/calls/{call.pk}/", follow=False).url
    load(client, address)
    with django_assert_num_queries(19):
        load(client, address)
    with django_assert_num_queries(19 + 3):  # of a filter: the newest calls, those behind; and the facet of a rare term
        load(client, f"{address}?list={quote('calls?q=cut:yes')}")
    with django_assert_num_queries(19 + 4):  # those before, too, which the order of time has from the same query
        load(client, f"{address}?list={quote('calls?q=cut:yes&sort=tokens')}")
