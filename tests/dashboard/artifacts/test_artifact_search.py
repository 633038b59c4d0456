"""Search in an artifact: every hit with its line, links to the next one, and a search that can be stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.models import Artifact, Call
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.stored_artifacts import key_link, open_page, rows_of, stored

pytestmark = pytest.mark.django_db
LOG = "".join(
    f"{number} " + ("ERROR: no such file <b>\n" if number in (4_000, 70_000) else "fine\n")
    for number in range(1, 90_001)
)


@pytest.fixture
def call(client: Client, settings: Settings, tmp_path: Path) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project))


@pytest.fixture
def log(call: Call) -> Artifact:
    return stored(call, LOG.encode())


def hits_of(page: Page) -> list[tuple[str, str]]:
    """The address of each hit, and its line."""
    return [(hit.select_one("a")["href"], hit.select_one("pre").exact) for hit in page.select(".hits li")]


def open_address(client: Client, address: str) -> Page:
    return parse_page(client.get(address, follow=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("query", ["q=ERROR", "q=error&any_case=1", "q=E%5BR%5D%2BOR&regex=1", "errors"])
def test_hits_are_listed_with_their_lines(client: Client, log: Artifact, query: str) -> None:
    page = open_page(client, log, f"find/?{query}")
    hits = hits_of(page)
    assert [text for _, text in hits] == ["4000 ERROR: no such file <b>", "70000 ERROR: no such file <b>"]
    assert "2 hits in the whole output" in page.text
    assert rows_of(open_address(client, hits[1][0]))[0][0] == 70_000


@pytest.mark.rendering
def test_a_hit_leads_to_its_line_where_it_is_set_off(client: Client, log: Artifact) -> None:
    response = client.get(f"/artifacts/{log.pk}/find/?q=ERROR&next=0")
    assert response.status_code == 302
    assert response.url.endswith("as=text#L4000")
    page = open_address(client, response.url)
    assert rows_of(page)[0] == (4_000, "4000 ERROR: no such file <b>")
    assert page.by_id("L4000").texts("mark") == ["ERROR"]


@pytest.mark.rendering
def test_the_first_line_that_looks_like_an_error_is_one_key_away(client: Client, log: Artifact) -> None:
    assert key_link(open_page(client, log), "e") == f"/artifacts/{log.pk}/find/?errors&next=0"
    page = open_address(client, f"/artifacts/{log.pk}/find/?errors&next=0")
    assert rows_of(page)[0][0] == 4_000
    fine = stored(log.call, b"all is well\n")
    page = open_address(client, f"/artifacts/{fine.pk}/find/?errors&next=0")
    assert "Nothing in it looks like an error" in page.text


@pytest.mark.rendering
def test_an_error_in_colour_is_stepped_to_as_well(client: Client, log: Artifact) -> None:
    """The sequence of a colour ends in a letter, so there is no word boundary behind it."""
    coloured = "".join(
        f"\x1b[1;31m{'error[E0308]' if line % 300 == 0 else 'fine'}\x1b[0m\n" for line in range(1, 1_000)
    )
    artifact = stored(log.call, coloured.encode())
    page = open_address(client, f"/artifacts/{artifact.pk}/find/?errors&next=0")
    assert rows_of(page)[0][0] == 300
    page = open_address(client, key_link(page, "f"))
    assert rows_of(page)[0][0] == 600
    assert page.by_id("L600").texts("mark") == ["error"]


@pytest.mark.rendering
def test_hits_are_stepped_through_both_ways_and_the_last_says_so(client: Client, log: Artifact) -> None:
    first = open_address(client, f"/artifacts/{log.pk}/find/?q=ERROR&next=0")
    second = open_address(client, key_link(first, "f"))
    assert rows_of(second)[0][0] == 70_000
    assert "No further hit that way" in open_address(client, key_link(second, "f")).text
    assert rows_of(open_address(client, key_link(second, "F")))[0][0] == 4_000


def test_a_search_that_ends_before_the_output_goes_on_and_can_be_stopped(
    client: Client, log: Artifact, settings: Settings
) -> None:
    settings.ANSWER_SECONDS = 0.0
    page = open_page(client, log, "find/?q=ERROR")
    assert "1 hit so far" in page.text
    paused = open_page(client, log, "find/" + page.by_role("link", "Stop")["href"])
    assert "Stopped: 1 hit" in paused.text
    assert not paused.has("[hx-trigger]")
    count, slices = 0, 0
    while progress := page.select('[hx-trigger="load delay:50ms"]'):
        assert slices < 50
        address = f"/artifacts/{log.pk}/find/{progress[0]['hx-get']}"
        page = parse_page(client.get(address, headers={"HX-Request": "true"}))  # type: ignore[arg-type]
        assert page.is_fragment
        count, slices = count + len(hits_of(page)), slices + 1
    assert count == 1
    assert "2 hits in the whole output" in page.text


@pytest.mark.rendering
def test_more_hits_than_a_page_lists_are_counted_and_reached(client: Client, log: Artifact) -> None:
    page = open_page(client, log, "find/?q=fine")
    assert len(hits_of(page)) == 50
    assert "89,998 hits in the whole output" in page.text
    following = open_page(client, log, "find/" + page.by_role("link", "Later hits")["href"])
    assert hits_of(following)[0][1] == "51 fine"
    assert "89,998 hits in the whole output" in following.text


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("q=(&regex=1", "This cannot be searched for: a ( has no )"),
        ("q=a%0Ab", "This cannot be searched for: a line break"),
        ("q=" + "x" * 1_001, "longer than 1,000 characters"),
        ("q=nowhere", "It is not in this output"),
        ("q=fine&from=-1&count=x&listed=99999999999999999999", "89,998 hits"),
        ("q=fine&from=99999999", "It is not in this output"),
        ("", "Enter a text"),
    ],
)
def test_a_search_explains_its_outcome(client: Client, log: Artifact, query: str, message: str) -> None:
    assert message in open_page(client, log, f"find/?{query}").text


@pytest.mark.rendering
@pytest.mark.parametrize("size", [1, 150])
def test_marks_and_hits_stop_when_the_time_of_the_page_is_over(
    client: Client, call: Call, settings: Settings, size: int
) -> None:
    """`(a|a)+[bc]` took 73 s on 400 lines, because each line had a time limit of its own."""
    settings.ANSWER_SECONDS = 0.0
    artifact = stored(call, (b"a" * size + b"b\n") * 400 + b"c\n" * 9_000)
    page = open_page(client, artifact, "?q=(a|a)%2B[bc]&regex=1&as=text")
    assert page.texts("mark") == ["a" * size + "b"]
    assert (
        "Matches are marked up to line 1: there are too many for one page, or the expression takes too long"
        in page.text
    )
    assert "1 hit so far, 0% searched" in open_page(client, artifact, "find/?q=(a|a)%2B[bc]&regex=1").text


@pytest.mark.rendering
def test_a_page_marks_so_many_matches_and_states_where_it_stops(client: Client, call: Call) -> None:
    artifact = stored(call, "äb".encode() * 3_000 + b"\nb\n")
    page = open_page(client, artifact, "?q=B&any_case=1&as=text")
    assert page.texts("mark") == ["b"] * 2_000
    assert "Matches are marked up to line 1" in page.text


@pytest.mark.rendering
def test_what_is_looked_for_is_shown_as_text(client: Client, log: Artifact) -> None:
    page = open_page(client, log, "find/?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.by_role("textbox", "Find")["value"] == "<script>alert(1)</script>"
    assert not any("alert" in script.text for script in page.select("script"))


@pytest.mark.rendering
def test_a_hit_far_into_a_line_opens_there(client: Client, call: Call) -> None:
    artifact = stored(call, b"x" * 500_000 + b"needle" + b"y" * 1_000 + b"\nz\n")
    response = client.get(f"/artifacts/{artifact.pk}/find/?q=needle&next=0")
    page = open_address(client, response.url)
    assert rows_of(page)[0][1].startswith("x" * 160 + "needleyyy")


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("find/", "Give the text to find as q=."),
        ("find/?q=", "Give the text to find as q=."),
        ("find/?q=(&regex=1", "This cannot be searched for: a ( has no )"),
        ("find/?q=%00a%0Ab", "This cannot be searched for: a line break"),
        ("fold/", "This part of a page needs value=, a whole number"),
        ("fold/?value=-1", "This part of a page needs value=, a whole number"),
        ("follow/", "This part of a page needs from=, a whole number"),
        ("follow/?from=x&mark=%ED%A0%80", "This part of a page needs from=, a whole number"),
    ],
)
def test_a_fragment_without_its_parameters_answers_what_it_needs(
    client: Client, log: Artifact, part: str, sentence: str
) -> None:
    """`find/` without a text was an error of the server; `follow/` claimed that the file had been replaced."""
    response = client.get(f"/artifacts/{log.pk}/{part}", headers={"HX-Request": "true"})
    assert response.status_code == 400
    assert sentence in parse_page(response).text


def test_another_project_finds_nothing(client: Client, log: Artifact) -> None:
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{log.pk}/find/?q=ERROR").status_code == 404
