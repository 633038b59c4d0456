"""The search over everything: runs, calls and messages of one filter, and ids and addresses that open at once."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.calls.list_place import SHOWN_IN_SEARCH
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from tests.cases import each
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, user, write

pytestmark = [pytest.mark.usefixtures("alice"), pytest.mark.postgresql]
OUTPUT = "first\npermission <b>denied</b> here\nlast"


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [
        user("why is permission denied? token=hunter2hunter2", uuid="u1"),
        asks("toolu_one", args={"command": "cat secret"}),
        answers("toolu_one", OUTPUT, {"stdout": OUTPUT, "stderr": "", "interrupted": False}),
        user("permission was denied", uuid="u2"),
    ]
    import_paths(kept_project, [write(tmp_path_factory.mktemp("sessions") / f"{SESSION}.jsonl", lines)])
    Run.objects.update(title="Repair of the Permission table")


@pytest.fixture
def call(project: Project, imported: None) -> Call:
    return project.calls.get()


def load(client: Client, text: str) -> Page:
    response = client.get(f"/search/?q={quote(text)}")
    assert response.status_code == 200
    return parse_page(response)


def found(page: Page) -> list[int]:
    """How many runs, calls and messages are listed."""
    return [len(page.select(f"section[aria-labelledby=found-{name}] li")) for name in ("runs", "calls", "messages")]


@each(
    ("text", "numbers"),
    [
        ("permission", [1, 1, 2]),
        ('"permission denied"', [0, 0, 1]),
        ("any:denied", [1, 1, 2]),
        ("denied", [0, 1, 2]),
        ("permission table", [1, 0, 0]),
        ("denied tool:Bash", [0, 1, 0]),
        ("tool:Bash", [1, 1, 0]),
        ("denied -was", [0, 1, 0]),
        ("any:permiss*", [1, 1, 2]),
        ("nowhere", [0, 0, 0]),
    ],
)
def test_one_filter_finds_runs_calls_and_messages(call: Call, client: Client, text: str, numbers: list[int]) -> None:
    assert found(load(client, text)) == numbers


@pytest.mark.parametrize(("text", "first"), [("receipt:denied", "found-calls"), ("permission", "found-runs")])
def test_calls_with_the_text_come_before_their_runs(call: Call, client: Client, text: str, first: str) -> None:
    sections = load(client, text).select("section.found")
    assert sections[0]["aria-labelledby"] == first


def test_matches_are_highlighted_as_text(call: Call, client: Client) -> None:
    page = load(client, "permission")
    assert page.texts(".found mark") == ["Permission", "permission", "permission", "permission"]
    assert page.select_one("#found-calls").text == "Calls 1"
    assert "<b>denied</b> here" in page.select_one("section[aria-labelledby=found-calls] .match").text


def test_a_message_leads_to_its_place_in_the_model_view(call: Call, client: Client) -> None:
    for link in load(client, "denied").select("section[aria-labelledby=found-messages] li > a:first-child"):
        address, _, anchor = link.attributes["href"].partition("#")
        entries = parse_page(client.get(address)).select("li.entry")
        assert entries[0].attributes["id"] == anchor


def test_each_list_is_bounded_and_leads_to_all(project: Project, client: Client) -> None:
    for number in range(SHOWN_IN_SEARCH + 2):
        create_run(project, f"harbour-{number}")
    page = load(client, "harbour")
    assert found(page) == [SHOWN_IN_SEARCH, 0, 0]
    assert page.select_one("#found-runs").text == f"Runs {SHOWN_IN_SEARCH + 2}"
    assert page.select_one(".found header a").attributes["href"] == "/runs/?q=harbour"


def test_an_id_or_an_address_opens_its_page(call: Call, client: Client) -> None:
    run, own = f"/runs/{call.run_id}/", f"/calls/{call.pk}/"
    for text, address in (
        (str(call.pk), own),
        (call.pk.hex, own),
        (f" {call.run_id} ", run),
        ("toolu_one", own),
        (SESSION, run),
        (f"https://elsewhere.example{own}", own),
        (f"{run}context?step=3", f"{run}context?step=3"),
    ):
        response = client.get("/search/", {"q": text})
        assert (response.status_code, response.headers.get("Location")) == (302, address), text


def test_nothing_of_another_project_is_found_or_opened(call: Call, client: Client) -> None:
    Run.objects.update(project=(other := create_project("other")))
    Call.objects.update(project=other)
    for text in (str(call.pk), "toolu_one", f"/calls/{call.pk}/", f"/runs/{call.run_id}/", "//elsewhere.example/runs/"):
        assert client.get("/search/", {"q": text}).status_code == 200, text
    assert found(load(client, "permission")) == [0, 0, 0]


def test_what_cannot_be_read_is_a_problem_and_no_result(call: Call, client: Client) -> None:
    page = load(client, "tool:")
    assert page.select("#problems")
    assert not page.select(".found")
    assert load(client, "").select_one(".empty h2").text == "Nothing to look for yet"


def test_of_many_messages_the_last_are_shown_and_the_number_is_told(
    project: Project, client: Client, tmp_path: Path
) -> None:
    lines = [user(f"harbour number {number}", uuid=f"u{number}") for number in range(SHOWN_IN_SEARCH + 2)]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", lines)])
    page = load(client, "any:harbour")
    assert found(page)[2] == SHOWN_IN_SEARCH
    assert page.select_one("#found-messages").text == f"Messages {SHOWN_IN_SEARCH + 2}"
    assert page.texts("section[aria-labelledby=found-messages] > p") == [
        "The last 10 that were imported; more words, or words in quotes, find fewer."
    ]


@each("text", ["http://[abc/", "//℀/"])
def test_text_that_is_no_address_is_searched_for(client: Client, text: str) -> None:
    assert load(client, text).by_id("q")["value"] == text


def test_no_title_that_is_cut_shows_a_part_of_a_secret(client: Client, project: Project) -> None:
    create_run(project, title=f"{'t' * 182} ghp_{'a1B2c3D4' * 5}")
    page = load(client, "ttt")
    assert found(page) == [1, 0, 0]
    assert "a1B2" not in page.html


def test_no_match_among_the_newest_messages_is_not_called_no_match_at_all(
    client: Client, call: Call, settings: Settings
) -> None:
    settings.CANDIDATE_MESSAGES = 0
    section = load(client, "permission").select_one("section[aria-labelledby=found-messages]")
    assert call.tool == "Bash"
    assert "No match so far: older messages were not looked at." in section.text
    assert "No message matches" not in section.text


def test_the_address_of_a_form_opens_what_it_is_about(client: Client, call: Call) -> None:
    for pasted, opened in (
        (f"/runs/{call.run_id}/delete/", f"/runs/{call.run_id}/"),
        (f"http://dashboard/calls/{call.pk}/share/", f"/calls/{call.pk}/"),
    ):
        assert client.get("/search/", {"q": pasted}, follow=False)["Location"] == opened


def test_an_id_with_a_nul_is_found_as_it_is_stored(client: Client, project: Project) -> None:
    call = create_call(create_run(project), "a␀b")
    assert client.get("/search/", {"q": "a\0b"}, follow=False)["Location"] == f"/calls/{call.pk}/"
