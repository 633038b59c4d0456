"""JSON and lines of JSON on the Artifact page: unfolded on demand, and bounded whatever they contain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.models import Call
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Element, Page, parse_page
from tests.dashboard.stored_artifacts import open_page, rows_of, stored

pytestmark = [pytest.mark.django_db, pytest.mark.rendering]


@pytest.fixture
def call(client: Client, settings: Settings, tmp_path: Path) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project), result={"a": 1}, receipt="a")


def mode_of(page: Page) -> str:
    mode = page.by_role("navigation", "View as").select_one("[aria-current]")
    return mode["href"].removeprefix("?as=").partition("&")[0]


def tree_of(page: Page) -> Element:
    return page.by_role("region", "Members of the JSON value")


def open_fold(client: Client, address: str) -> Page:
    response = client.get(address, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return parse_page(response)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        (b'{"a": 1}', "json"),
        (b"[]", "json"),
        (b'\xef\xbb\xbf {"a": [1, 2]}\n', "json"),
        (b'{\n  "a": {\n    "b": "--- c"\n  }\n}\n', "json"),
        (b'{"long": [' + b"1234567, " * 20_000 + b"1]}", "json"),
        (b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        (b'{"a": 1}\n[2]\n{"cut', "jsonl"),
        (b"[INFO] begins\n[INFO] ends\n", "text"),
        (b"[2026-01-01 10:00:00] begins\n", "text"),
        (b"{not json}", "text"),
        (b'{"a": 1, "b": {"c": tr', "json"),
        (b'{"a": [1, {"c": tr', "text"),
        (b'{"a": 1} trailing', "text"),
        (b"1234", "text"),
        ('{"a": 1}'.encode("utf-16"), "text"),
    ],
)
def test_json_is_known_by_what_it_is(client: Client, call: Call, content: bytes, mode: str) -> None:
    assert mode_of(open_page(client, stored(call, content))) == mode


def test_small_values_are_unfolded_with_their_contents(client: Client, call: Call) -> None:
    value = {"name": "x", "nested": {"list": [1, None, True], "empty": {}}, "text": "<b>\u202e"}
    page = open_page(client, stored(call, json.dumps(value, ensure_ascii=False).encode()))
    for part in ('"name": "x"', '"list":', "0: 1", "1: null", '"empty": {}'):
        assert part in tree_of(page).text
    assert not tree_of(page).has("b")
    assert "\u202e" not in page.markup


def test_a_large_value_asks_for_its_members_when_it_is_opened(client: Client, call: Call) -> None:
    rows = [{"id": number, "text": "word " * 20} for number in range(2_000)]
    artifact = stored(call, json.dumps({"rows": rows, "after": 1}).encode())
    page = open_page(client, artifact)
    assert len(page.markup) < 40_000
    assert '"after": 1' in tree_of(page).text
    part = open_fold(client, tree_of(page).select_one("details [hx-get]")["hx-get"])
    assert len(part.markup) < 400_000
    assert "0: {" in part.text
    assert "200: {" in open_fold(client, part.by_role("link", "Later members")["hx-get"]).text


def test_without_script_a_fold_is_a_page_of_its_own(client: Client, call: Call) -> None:
    artifact = stored(call, json.dumps({"rows": ["x" * 500] * 300}).encode())
    link = open_page(client, artifact).by_role("link", "Open it by itself")
    tree = tree_of(open_page(client, artifact, link["href"]))
    assert "The value at byte 9" in tree.text
    assert "0: " in tree.text
    response = client.get(f"/artifacts/{artifact.pk}/fold/?as=json&value=9")
    assert (response.status_code, response.url) == (302, f"/artifacts/{artifact.pk}/?as=json&value=9")


def test_a_long_string_is_a_head_that_leads_into_the_text(client: Client, call: Call) -> None:
    artifact = stored(call, json.dumps({"a": "é" * 100_000}, ensure_ascii=False).encode())
    page = open_page(client, artifact)
    assert len(page.markup) < 40_000
    assert "udcc3" not in page.markup
    rest = tree_of(page).by_role("link", "200.0 KB in all")
    assert rows_of(open_page(client, artifact, rest["href"]))[0][1].startswith("é")


def test_what_stops_being_json_says_where(client: Client, call: Call) -> None:
    content = b'{"a": "%s", "b": {"c": 1 2}, "d": 1 2}' % (b"x" * 70_000)
    tree = tree_of(open_page(client, stored(call, content)))
    assert '"a":' in tree.text
    assert f"From byte {content.index(b'2}, '):,} on this is not JSON" in tree.text
    assert f"From byte {len(content) - 2:,} on this is not JSON" in tree.text
    cut_short = open_page(client, stored(call, b'{"a": 1, "b": {'))
    assert cut_short.by_role("link", "Go to byte")["href"] == "?as=text&tail"


@pytest.mark.parametrize("query", ["value=999999", "value=3", "value=0&from=4&count=9&depth=7&string=1"])
def test_a_place_that_is_none_is_answered_in_words(client: Client, call: Call, query: str) -> None:
    artifact = stored(call, b'{"a": [1, 2, 3], "b": "c"}')
    assert tree_of(open_page(client, artifact, f"?as=json&{query}")).text
    assert client.get(f"/artifacts/{artifact.pk}/fold/?{query}", headers={"HX-Request": "true"}).status_code == 200


def test_lines_of_json_are_lines_each_with_a_fold(client: Client, call: Call) -> None:
    artifact = stored(call, b"".join(b'{"n": %d, "inner": {"text": "%s"}}\n' % (n, b"x" * 400) for n in range(1_000)))
    page = open_page(client, artifact, "?line=501")
    assert mode_of(page) == "jsonl"
    line = page.by_id("L501")
    assert "data-highlighted" in line
    address = line.select_one("details [hx-get]")["hx-get"]
    assert '"n": 500' in open_fold(client, f"{artifact.get_absolute_url()}{address}").text
    assert len(page.markup) < 400_000


def test_a_requested_line_is_shown_in_the_text(client: Client, call: Call) -> None:
    artifact = stored(call, json.dumps({"rows": list(range(50))}, indent=1).encode())
    assert rows_of(open_page(client, artifact, "?line=3"))[0] == (3, "  0,")
    assert rows_of(open_page(client, artifact, "?q=rows&hit=4"))[1] == (2, ' "rows": [')


def test_a_fold_of_another_project_is_nowhere(client: Client, call: Call) -> None:
    artifact = stored(call, b"{}")
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{artifact.pk}/fold/?value=0", headers={"HX-Request": "true"}).status_code == 404


def test_a_page_does_not_wait_for_a_large_member_and_goes_on_by_itself(client: Client, call: Call) -> None:
    """The members behind one of megabytes are requested by the page once it is there; a fold requests nothing."""
    large = b'{"first": 1, "rows": [' + b"[1, 2, 3], " * 150_000 + b'0], "last": "here"}'
    artifact = stored(call, large)
    page = open_page(client, artifact)
    assert "too large to be measured here" in page.text
    later = page.by_role("link", "Later members")
    assert later["hx-trigger"] == "load, click"
    rest = open_fold(client, later["hx-get"])
    assert '"here"' in rest.text
    assert not rest.has("[hx-trigger]")
