"""The search in payloads and messages on the Runs page and in the list of a run's calls."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.filters.language import parse
from dashboard.filters.queryset import select_runs
from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run
from dashboard.search.index import index_waiting, reset_index
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import answers, asks, user, write

pytestmark = [pytest.mark.usefixtures("alice"), pytest.mark.postgresql]
FIRST, SECOND, EMPTY = (f"0f5f6d8e-0000-4000-8000-00000000000{digit}" for digit in "123")


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("sessions")
    texts = {FIRST: [("denied", "denied", "ls"), ("fine", "all fine", "rm")], SECOND: [("fine", "denied", "rm")]}
    for name, calls in texts.items():
        lines = [user(f"Please fix {name[-1]} zeppelins", uuid=f"u{name}", session=name)]
        for number, (receipt, result, command) in enumerate(calls):
            call = f"{name}-{number}"
            lines.append(asks(call, args={"command": command}, session=name))
            lines.append(answers(call, receipt, {"stdout": result, "stderr": ""}, session=name))
        write(folder / f"{name}.jsonl", lines)
    write(folder / f"{EMPTY}.jsonl", [user("Denied in a message", uuid="u3", session=EMPTY)])
    import_paths(kept_project, [folder])


@pytest.fixture
def runs(project: Project, imported: None) -> Project:
    return project


def numbers(project: Project, query: str) -> str:
    """The last digits of the ids of the runs that match."""
    parsed = parse(query)
    assert not parsed.problems
    return "".join(sorted(run.external_id[-1] for run in parsed.runs(project)))


def test_a_run_is_found_by_what_one_of_its_calls_has(runs: Project) -> None:
    expected = {
        "receipt:denied": "1",
        "canonical:denied": "12",
        "canonical:denied receipt:fine": "2",  # one call with both
        "(canonical:denied) (receipt:fine)": "12",
        "-receipt:denied": "23",
        "canonical:denied -receipt:denied": "2",
        "args:rm receipt:fine": "12",
        "any:denied": "123",
        "-any:denied": "",
        "any:zeppelins": "12",
        "any:zepp*": "12",
        "receipt:zeppelins": "",
        "-any:zeppelins": "3",
        "receipt:denied or any:message": "13",
        "canonical:denied tool:Read": "",
        "canonical:denied tool:bash": "12",
    }
    assert {query: numbers(runs, query) for query in expected} == expected


def test_runs_are_looked_up_by_a_word_in_few_calls_and_walked_for_a_common_one(
    runs: Project, settings: Settings
) -> None:
    """On PostgreSQL a walk of 200,000 runs for a word that no call contains took more than 20 seconds."""
    for query, expected in {"receipt:nowhere": "", "any:denied": "123", 'canonical:"denied"': "12"}.items():
        for settings.FEW_CALLS, is_small in ((3_000, True), (0, query == "receipt:nowhere")):
            selection = select_runs(runs, parse(query).tree)
            assert selection.is_small is is_small, query
            assert "".join(sorted(run.external_id[-1] for run in selection.runs)) == expected


def test_the_calls_of_a_run_and_its_facets_follow_the_search(runs: Project, client: Client) -> None:
    run = Run.objects.get(external_id=FIRST)
    assert [call.asked for call in parse("receipt:fine", over="calls").calls(run)] == ["command=rm"]
    assert client.get(f"/runs/{run.pk}/?q=receipt:fine").status_code == 200
    page = parse_page(client.get(f"/runs/?q={quote('canonical:denied')}"))
    assert len(page.select("[data-item]")) == 2


def test_runs_say_how_many_calls_are_not_searchable_yet(runs: Project, client: Client) -> None:
    reset_index()
    assert "3 calls are not searchable yet." in parse_page(client.get("/runs/?q=canonical:denied")).text
    assert "searchable" not in parse_page(client.get("/runs/?q=denied")).text
    index_waiting(runs)
    assert "searchable" not in parse_page(client.get("/runs/?q=canonical:denied")).text


def test_a_text_on_runs_leads_to_the_search_in_payloads(runs: Project, client: Client) -> None:
    page = parse_page(client.get("/runs/?q=denied+tool:Bash"))
    assert page.select('a[href="?q=any%3Adenied+tool%3ABash"]')
    assert "any:denied" in page.text
    assert not parse_page(client.get("/runs/?q=tool:Bash")).select('a[href*="any%3A"]')
