"""The Calls page: which calls, of all runs?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.calls import call_table
from dashboard.calls.call_columns import COLUMNS
from dashboard.models import Call, Project
from tests.cases import extended_except
from tests.dashboard.factories import START, create_call, create_project, create_run
from tests.dashboard.page_text import Page, parse_page

HTMX = {"HX-Request": "true"}
TOKEN = "ghp_" + "a1B2c3D4" * 5


def load(client: Client, address: str = "", **headers: str) -> Page:
    response = client.get(f"/calls/{address}", headers=headers)
    assert response.status_code == 200
    return parse_page(response)


def names(page: Page) -> list[str]:
    """What the calls of the table asked for, in its order."""
    return page.texts("tbody .c-asked")


def link(page: Page, rel: str) -> str:
    """The address of the page before or behind this one, empty where there is none."""
    links = page.select(f"a[rel={rel}]")
    return links[0]["href"] if links else ""


@pytest.mark.usefixtures("alice")
def test_a_project_without_calls_is_not_an_empty_filter(client: Client) -> None:
    assert load(client).by_role("heading", "No calls yet")
    page = load(client, "?q=tool:Bash")
    assert page.by_role("heading", "No call matches")


@pytest.mark.usefixtures("alice")
def test_a_row_has_what_was_asked_and_what_came_back(client: Client, project: Project) -> None:
    run = create_run(project, title="Fix the login", cwd="/srv/app")
    call = create_call(
        run,
        tool="Bash",
        exit_status=2,
        status="error",
        asked="command=make -C /srv/app/web test",
        first_line="FAIL /srv/app/web/login_test.go",
        duration_ms=445,
        tokens=1_234,
        is_cut=True,
        output_lines=2_578,
        seen_lines=48,
    )
    create_call(create_run(create_project("other"), title="Not ours"), tool="Secret")
    page = load(client)
    row = page.select_one("tbody tr")
    named = row.by_role("rowheader").by_role("link")
    assert (named["href"], named["title"], named.text) == (
        f"/calls/{call.pk}/?list=calls",
        "failed, exit 2",
        "failed, exit 2 Bash",
    )
    cells = {cell["data-head"]: cell.text for cell in row.select("td")}
    del cells["Age"]
    assert cells == {
        "Asked": "make -C web test",
        "Came back": "FAIL web/login_test.go",
        "Run": "Fix the login",
        "Took": "445 ms",
        "Tokens": "≈1,234",
        "Model saw": "48 of 2,578",
    }
    assert row.by_role("link", "Fix the login")["href"] == f"/runs/{run.pk}/"
    assert page.select_one(".pager p").text == "1 call, each as its own run has it."


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    ("status", "summary", "shown"),
    [("error", "exit 2: no rule", "exit 2: no rule"), ("error", "", "Exit code 2"), ("success", "ok", "Exit code 2")],
)
def test_a_failed_call_shows_what_failed(
    client: Client, project: Project, status: str, summary: str, shown: str
) -> None:
    outcome = "failed" if status == "error" else "succeeded"
    create_call(create_run(project), status=status, outcome=outcome, summary=summary, first_line="Exit code 2")
    assert load(client).select_one("td[data-head='Came back']").text == shown


@pytest.mark.usefixtures("alice")
def test_chosen_columns_stay_in_every_address(client: Client, project: Project, settings: Settings) -> None:
    settings.ROWS_PER_PAGE = 1
    run = create_run(project, model="opus")
    for _ in range(2):
        create_call(run, error_kind="timeout", attempt=3)
    page = load(client, "?columns=model&columns=attempt,error&q=tool:Bash&columns=nonsense")
    assert page.texts("thead th") == ["Call", "Error", "Try", "Model"]
    assert page.texts("tbody td") == ["timeout", "3", "opus"]
    assert page.by_role("alert").text == "There is no column “nonsense”."
    chosen = "columns=error%2Cattempt%2Cmodel"
    assert chosen in link(page, "next")
    assert page.select_one("form.search input[name=columns]")["value"] == "error,attempt,model"
    boxes = page.select(".column-choice input[type=checkbox]")
    assert [box["value"] for box in boxes if "checked" in box] == ["error", "attempt", "model"]
    assert page.select_one(".column-choice input[name=q]")["value"] == "tool:Bash"
    assert "columns" not in link(load(client), "next")


def create_ties(project: Project) -> None:
    """Calls with equal values, and calls without one, in two runs."""
    runs = [create_run(project), create_run(project)]
    for number in range(9):
        at = None if number in (2, 5, 7) else START + timedelta(hours=number // 3)
        took = None if number in (0, 4) else number // 4
        create_call(
            runs[number % 2],
            f"tie-{number}",
            asked=f"command=call {number}",
            started_at=at,
            duration_ms=took,
            tokens=number // 4,
            unseen_lines=number // 5,
            is_cut=True,
        )


def in_order(column: str) -> list[str]:
    def key(call: Call) -> tuple[Any, ...]:
        value = call.own_ms if column == "took_ms" else getattr(call, column)
        return (value is not None, value if value is not None else 0, call.pk)

    calls = list(Call.objects.all())
    return [call.asked.removeprefix("command=") for call in sorted(calls, key=key, reverse=True)]


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("counted", extended_except([4, 1_000], 4))
def test_pages_lead_forwards_and_back_over_ties_and_missing_values(
    client: Client, project: Project, settings: Settings, monkeypatch: pytest.MonkeyPatch, counted: int
) -> None:
    """Both ways to a page: by the ids of a few calls, and along the index of the sort."""
    settings.COUNTED_CALLS = counted
    settings.ROWS_PER_PAGE = 2
    create_ties(project)
    for sort, column in call_table.SORTS.items():
        expected = in_order(column)
        pages = [load(client, f"?q=cut:yes&sort={sort}")]
        while address := link(pages[-1], "next"):
            pages.append(load(client, address))
        assert [name for page in pages for name in names(page)] == expected, sort
        assert [len(names(page)) for page in pages] == [2, 2, 2, 2, 1]
        back = pages[-1]
        for page in reversed(pages[:-1]):
            back = load(client, link(back, "prev"))
            assert names(back) == names(page), sort
        assert (link(back, "prev"), link(pages[0], "prev")) == ("", "")
        assert back.select_one("th[aria-sort]").text == pages[0].select_one("th[aria-sort]").text


@pytest.mark.usefixtures("alice")
def test_a_call_that_comes_meanwhile_shifts_no_page(client: Client, project: Project, settings: Settings) -> None:
    settings.ROWS_PER_PAGE = 2
    create_ties(project)
    first, *_, last = in_order("started_at")
    second = load(client, link(load(client), "next"))
    create_call(create_run(project), asked="command=new", started_at=START + timedelta(days=1))
    Call.objects.filter(asked=f"command={first}").delete()
    assert names(load(client, link(load(client, link(second, "next")), "prev"))) == names(second)
    assert names(load(client, link(second, "prev")))[0] == "new"
    assert last not in names(second)


@pytest.mark.usefixtures("alice")
def test_many_calls_are_not_counted_to_the_end(client: Client, project: Project, settings: Settings) -> None:
    create_ties(project)
    settings.COUNTED_CALLS = 8
    assert load(client).select_one(".pager p").text.startswith("8+ calls")
    settings.COUNTED_CALLS = 9
    assert load(client).select_one(".pager p").text.startswith("9 calls")


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("?q=nothing:here", "“nothing:” at character 1 is not a filter."),
        ("?preset=unknown", "There is no preset “unknown”; this is the list without it."),
        ("?sort=backwards", "sort=backwards is not one of newest, took, tokens, unseen"),
        ("?after=yesterday~0", "These are the first calls."),
        ("?sort=tokens&after=~" + "0" * 32, "these are the first calls."),
        ("?before=2026-01-01T00:00:00Z~short", "these are the first calls."),
    ],
)
def test_what_an_address_asks_in_vain_is_reported(client: Client, project: Project, address: str, problem: str) -> None:
    create_call(create_run(project), asked="command=one")
    page = load(client, address)
    assert problem.lower() in page.by_role("alert").text.lower()
    assert names(page) == ([] if "q=" in address else ["one"])


@pytest.mark.usefixtures("alice")
def test_a_name_that_no_call_has_is_answered_with_the_nearest_one(client: Client, project: Project) -> None:
    create_call(create_run(project, facets={"tool": ["WebFetch"]}), tool="WebFetch")
    section = load(client, "?q=tool:WebFech").select_one("section.empty")
    assert "WebFetch" in section.text


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_presets_are_filters_with_ids_that_stay(client: Client, project: Project) -> None:
    run = create_run(project)
    create_call(run, asked="=failed", status="error", tokens=5, duration_ms=1)
    create_call(run, asked="=refused", status="error", outcome="refused", tokens=4, duration_ms=2)
    create_call(run, asked="=cut", is_cut=True, tokens=9, duration_ms=3)
    create_call(run, asked="=retried", attempt=2, tokens=1, duration_ms=9)
    create_call(run, asked="=unanswered", status="unknown", tokens=2, duration_ms=None)
    create_call(run, asked="=halves", source_error=True, tokens=3, duration_ms=4, outcome="succeeded")
    everything = ["halves", "unanswered", "retried", "cut", "refused", "failed"]
    shown = {preset.id: names(load(client, f"?preset={preset.id}")) for preset in call_table.PRESETS}
    assert shown == {
        "all": everything,
        "failed": ["failed"],
        "refused": ["refused"],
        "cut": ["cut"],
        "biggest": ["cut", "failed", "refused", "halves", "unanswered", "retried"],
        "slowest": ["retried", "halves", "cut", "refused", "failed", "unanswered"],
        "retried": ["retried"],
        "unanswered": ["unanswered"],
        "halves": ["halves"],
        "dropped": [],
    }
    page = load(client, "?preset=biggest")
    assert [chip.text for chip in page.select("nav .chip[aria-current]") if chip["href"].startswith("?")] == [
        "Biggest receipts"
    ]


@pytest.mark.usefixtures("alice")
def test_a_secret_is_masked_before_its_line_is_cut(client: Client, project: Project) -> None:
    line = "x" * 150 + f" {TOKEN}"
    create_call(create_run(project), asked=f"command=curl {TOKEN}", first_line=line)
    create_call(create_run(project), asked="password=correct horse battery")
    page = load(client)
    assert TOKEN[:10] not in page.markup
    assert "correct horse" not in page.markup
    assert page.select_one(".c-answer[title^=xxx]").text.startswith("x" * 150 + " *")


@pytest.mark.usefixtures("alice")
def test_a_live_list_is_renewed_only_when_a_call_changed(client: Client, project: Project) -> None:
    run = create_run(project, last_at=timezone.now())
    call = create_call(run, status="unknown")
    page = load(client)
    assert page.select_one("tbody th a")["title"] == "running"
    address = page.by_id("rows")["hx-get"]
    assert client.get(f"/calls/{address}", headers=HTMX).status_code == 204
    Call.objects.filter(pk=call.pk).update(revision=7)
    fragment = client.get(f"/calls/{address}", headers=HTMX)
    assert fragment.status_code == 200
    assert not parse_page(fragment).has("nav")


@pytest.mark.usefixtures("alice")
def test_a_call_that_is_not_counted_yet_is_named_and_nothing_is_claimed_of_it(client: Client, project: Project) -> None:
    run = create_run(project, title="Sent now", last_at=timezone.now())
    create_call(run, tool="Late", status="unknown", derivation="", duration_ms=445)
    columns = ",".join(column.name for column in COLUMNS)
    page = load(client, f"?columns={columns}")
    assert page.select_one("tbody th a")["title"] == "not counted yet"
    cells = {cell["data-head"]: cell.text for cell in page.select("tbody td")}
    recorded = {name: text for name, text in cells.items() if text and name != "Age"}
    assert recorded == {"Run": "Sent now", "Took": "445 ms", "Try": "1", "Agent": "claude-code"}
    note = "1 call is being counted: until then filters and sorts may miss it."
    assert [status.text for status in page.select("#rows [role=status]")] == [note]
    empty = load(client, "?q=tool:Late+status:failed")
    assert empty.by_role("heading", "No match so far")
    assert note in empty.text
    assert "occurs nowhere" not in empty.text
    address = page.by_id("rows")["hx-get"]
    Call.objects.update(derivation="now")
    assert client.get(f"/calls/{address}", headers=HTMX).status_code == 200
    assert "being counted" not in load(client).text


@pytest.mark.usefixtures("alice")
def test_the_variants_of_a_call_that_waits_are_computed(client: Client, project: Project) -> None:
    result = {"stdout": "hello", "stderr": "", "interrupted": False}
    call = create_call(create_run(project), result=result, receipt="hello", status="unknown", derivation="")
    assert client.get(f"/calls/{call.pk}/variants/").status_code == 200
    assert "Nothing answered" not in client.get(f"/calls/{call.pk}/variants/").content.decode()


@pytest.mark.usefixtures("alice")
def test_the_number_of_queries_does_not_grow_with_the_rows(
    client: Client, project: Project, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    create_ties(project)
    load(client)
    with django_assert_max_num_queries(14):
        assert len(names(load(client, f"?q={quote('cut:yes')}"))) == 9
