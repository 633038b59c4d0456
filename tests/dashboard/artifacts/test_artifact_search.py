"""Find in an artifact: every hit with its line, the way to the next, and a search that can be stopped."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts import search as artifact_find
from dashboard.models import Artifact, Call
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of
from tests.dashboard.stored_artifacts import body, rows_of, stored

pytestmark = pytest.mark.django_db
LOG = "".join(
    f"{number} " + ("ERROR: no such file <b>\n" if number in (4_000, 70_000) else "fine\n")
    for number in range(1, 90_001)
)


@pytest.fixture
def call(client: Client, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    monkeypatch.setattr(artifact_find, "SECONDS", 60.0)
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project))


@pytest.fixture
def log(call: Call) -> Artifact:
    return stored(call, LOG.encode())


def hits_of(page: str) -> list[tuple[str, str]]:
    found = re.findall(r"<li data-item><a href=\"([^\"]*)\".*?<pre>(.*?)</pre></li>", page, re.S)
    return [(html.unescape(href), text_of(line)) for href, line in found]


@pytest.mark.parametrize("query", ["q=ERROR", "q=error&any_case=1", "q=E%5BR%5D%2BOR&regex=1", "errors"])
def test_hits_are_listed_with_their_lines(client: Client, log: Artifact, query: str) -> None:
    page = body(client, log, f"find/?{query}")
    found = hits_of(page)
    assert [text for _, text in found] == ["4000 ERROR: no such file <b>", "70000 ERROR: no such file <b>"]
    assert "2 hits in the whole output" in page
    assert rows_of(client.get(found[1][0]).content.decode())[0][0] == 70_000


@pytest.mark.rendering
def test_a_hit_leads_to_its_line_where_it_is_set_off(client: Client, log: Artifact) -> None:
    response = client.get(f"/artifacts/{log.pk}/find/?q=ERROR&next=0")
    assert response.status_code == 302
    assert response.url.endswith("as=text#L4000")
    page = client.get(response.url).content.decode()
    assert rows_of(page)[0] == (4_000, "4000 ERROR: no such file <b>")
    assert "4000 <mark>ERROR</mark>: no such file &lt;b&gt;" in page


@pytest.mark.rendering
def test_the_first_line_that_looks_like_an_error_is_one_key_away(client: Client, log: Artifact) -> None:
    assert f'href="/artifacts/{log.pk}/find/?errors&amp;next=0"' in body(client, log)
    page = client.get(f"/artifacts/{log.pk}/find/?errors&next=0", follow=True).content.decode()
    assert rows_of(page)[0][0] == 4_000
    fine = stored(log.call, b"all is well\n")
    page = client.get(f"/artifacts/{fine.pk}/find/?errors&next=0", follow=True).content.decode()
    assert "Nothing in it looks like an error" in page


@pytest.mark.rendering
def test_an_error_in_colour_is_stepped_to_as_well(client: Client, log: Artifact) -> None:
    """A colour's sequence ends in a letter: to a word's border that is one word with what stands behind it."""
    coloured = "".join(
        f"\x1b[1;31m{'error[E0308]' if line % 300 == 0 else 'fine'}\x1b[0m\n" for line in range(1, 1_000)
    )
    artifact = stored(log.call, coloured.encode())
    page = client.get(f"/artifacts/{artifact.pk}/find/?errors&next=0", follow=True).content.decode()
    assert rows_of(page)[0][0] == 300
    following = re.search(r'href="([^"]*)"[^>]*data-key="f"', page)
    assert following
    page = client.get(html.unescape(following[1]), follow=True).content.decode()
    assert rows_of(page)[0][0] == 600
    assert "<mark>error</mark>" in page


@pytest.mark.rendering
def test_hits_are_stepped_through_both_ways_and_the_last_says_so(client: Client, log: Artifact) -> None:
    def step(page: str, key: str) -> str:
        href = re.search(rf'href="([^"]*)"[^>]*data-key="{key}"', page)
        assert href
        return client.get(html.unescape(href[1]), follow=True).content.decode()

    first = client.get(f"/artifacts/{log.pk}/find/?q=ERROR&next=0", follow=True).content.decode()
    second = step(first, "f")
    assert rows_of(second)[0][0] == 70_000
    assert "No further hit that way" in step(second, "f")
    assert rows_of(step(second, "F"))[0][0] == 4_000


def test_a_search_that_ends_before_the_output_goes_on_and_can_be_stopped(
    client: Client, log: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_find, "SECONDS", 0.0)
    page = body(client, log, "find/?q=ERROR")
    assert "1 hit so far" in page
    assert 'hx-trigger="load delay:50ms"' in page
    on = re.search(r'hx-get="([^"]*)" hx-trigger', page)
    assert on
    stop = re.search(r'href="([^"]*paused=1)"', page)
    assert stop
    paused = body(client, log, "find/" + html.unescape(stop[1]))
    assert "Stopped: 1 hit" in paused
    assert "hx-trigger" not in paused
    count = 0
    for _ in range(50):
        part = client.get(f"/artifacts/{log.pk}/find/{html.unescape(on[1])}", headers={"HX-Request": "true"})
        text = part.content.decode()
        assert "<html" not in text
        count += len(hits_of(text))
        following = re.search(r'hx-get="([^"]*)" hx-trigger', text)
        if following is None:
            break
        on = following
    assert count == 1
    assert "2 hits in the whole output" in text


@pytest.mark.rendering
def test_more_hits_than_a_page_lists_are_counted_and_reached(client: Client, log: Artifact) -> None:
    page = body(client, log, "find/?q=fine")
    assert len(hits_of(page)) == 50
    assert "89,998 hits in the whole output" in page
    later = re.search(r'href="([^"]*)">Later hits', page)
    assert later
    following = body(client, log, "find/" + html.unescape(later[1]))
    assert hits_of(following)[0][1] == "51 fine"
    assert "89,998 hits in the whole output" in following


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("q=(&regex=1", "This cannot be searched for: missing )"),
        ("q=a%0Ab", "This cannot be searched for: a line break"),
        ("q=" + "x" * 1_001, "longer than 1,000 characters"),
        ("q=nowhere", "It does not stand in this output"),
        ("q=fine&from=-1&count=x&listed=99999999999999999999", "89,998 hits"),
        ("q=fine&from=99999999", "It does not stand in this output"),
        ("", "Enter a text"),
    ],
)
def test_what_cannot_be_found_is_said(client: Client, log: Artifact, query: str, said: str) -> None:
    assert said in html.unescape(body(client, log, f"find/?{query}"))


@pytest.mark.rendering
def test_an_expression_without_end_is_stopped(client: Client, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_find, "SECONDS", 0.2)
    artifact = stored(call, b"a" * 45 + b"!\n")
    assert "the expression takes too long" in body(client, artifact, "find/?q=(a|aa)%2B%24&regex=1")
    assert client.get(f"/artifacts/{artifact.pk}/?q=(a|aa)%2B%24&regex=1&as=text").status_code == 200


@pytest.mark.rendering
def test_what_is_looked_for_is_shown_as_text(client: Client, log: Artifact) -> None:
    page = body(client, log, "find/?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in page


@pytest.mark.rendering
def test_a_hit_far_into_a_line_opens_there(client: Client, call: Call) -> None:
    artifact = stored(call, b"x" * 500_000 + b"needle" + b"y" * 1_000 + b"\nz\n")
    response = client.get(f"/artifacts/{artifact.pk}/find/?q=needle&next=0")
    page = client.get(response.url).content.decode()
    assert rows_of(page)[0][1].startswith("x" * 160 + "needleyyy")


def test_another_project_finds_nothing(client: Client, log: Artifact) -> None:
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{log.pk}/find/?q=ERROR").status_code == 404
