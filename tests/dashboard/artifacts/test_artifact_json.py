"""JSON and lines of JSON on the Artifact page: unfolded on demand, bounded whatever they hold."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.models import Artifact, Call
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of
from tests.dashboard.stored_artifacts import body, rows_of, stored

pytestmark = [pytest.mark.django_db, pytest.mark.rendering]


@pytest.fixture
def call(client: Client, settings: Settings, tmp_path: Path) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project), result={"a": 1}, receipt="a")


def form_of(page: str) -> str:
    found = re.search(r'href="\?as=(\w+)&amp;offset=\d+" aria-current="true"', page)
    assert found
    return found[1]


def tree_of(page: str) -> str:
    return text_of(page.partition('aria-label="Members of the JSON value">')[2].partition("</section>")[0])


def folded(client: Client, artifact: Artifact, address: str) -> str:
    response = client.get(html.unescape(address), headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize(
    ("content", "form"),
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
def test_json_is_known_by_what_it_is(client: Client, call: Call, content: bytes, form: str) -> None:
    assert form_of(body(client, stored(call, content))) == form


def test_small_values_stand_unfolded_with_what_is_in_them(client: Client, call: Call) -> None:
    value = {"name": "x", "nested": {"list": [1, None, True], "empty": {}}, "text": "<b>\u202e"}
    page = body(client, stored(call, json.dumps(value, ensure_ascii=False).encode()))
    shown = tree_of(page)
    for part in ('"name": "x"', '"list":', "0: 1", "1: null", '"empty": {}'):
        assert part in shown
    assert "<b>" not in page.partition('aria-label="Members')[2]
    assert "\u202e" not in page


def test_a_large_value_asks_for_its_members_when_it_is_opened(client: Client, call: Call) -> None:
    rows = [{"id": number, "text": "word " * 20} for number in range(2_000)]
    artifact = stored(call, json.dumps({"rows": rows, "after": 1}).encode())
    page = body(client, artifact)
    assert len(page) < 40_000
    assert '"after": 1' in tree_of(page)
    (address,) = re.findall(r'hx-get="(/artifacts/[^"]+/fold/[^"]+)"', page)
    part = folded(client, artifact, address)
    assert len(part) < 400_000
    assert "0: {" in text_of(part)
    later = re.search(r'hx-get="([^"]+)" hx-target="closest p"', part)
    assert later
    assert "200: {" in text_of(folded(client, artifact, later[1]))


def test_without_script_a_fold_is_a_page_of_its_own(client: Client, call: Call) -> None:
    artifact = stored(call, json.dumps({"rows": ["x" * 500] * 300}).encode())
    (link,) = re.findall(r'<a href="(\?as=json&amp;value=\d+)">Open it by itself', body(client, artifact))
    page = body(client, artifact, html.unescape(link))
    assert "The value at byte 9" in tree_of(page)
    assert "0: " in tree_of(page)
    response = client.get(f"/artifacts/{artifact.pk}/fold/?as=json&value=9")
    assert (response.status_code, response.url) == (302, f"/artifacts/{artifact.pk}/?as=json&value=9")


def test_a_long_string_is_a_head_that_leads_into_the_text(client: Client, call: Call) -> None:
    artifact = stored(call, json.dumps({"a": "é" * 100_000}, ensure_ascii=False).encode())
    page = body(client, artifact)
    assert len(page) < 40_000
    assert "200.0 KB in all" in tree_of(page)
    assert "udcc3" not in page
    rest = re.search(r'href="(\?as=text&amp;offset=\d+)">…', page)
    assert rest
    assert rows_of(body(client, artifact, html.unescape(rest[1])))[0][1].startswith("é")


def test_what_stops_being_json_says_where(client: Client, call: Call) -> None:
    content = b'{"a": "%s", "b": {"c": 1 2}, "d": 1 2}' % (b"x" * 70_000)
    shown = tree_of(body(client, stored(call, content)))
    assert '"a":' in shown
    assert f"From byte {content.index(b'2}, '):,} on this is no JSON" in shown
    assert f"From byte {len(content) - 2:,} on this is no JSON" in shown
    assert 'href="?as=text&amp;tail">Look there' in body(client, stored(call, b'{"a": 1, "b": {'))


@pytest.mark.parametrize("query", ["value=999999", "value=3", "value=0&from=4&count=9&depth=7&string=1", "value=-1"])
def test_a_place_that_is_none_is_answered_in_words(client: Client, call: Call, query: str) -> None:
    artifact = stored(call, b'{"a": [1, 2, 3], "b": "c"}')
    assert "Members of the JSON value" in body(client, artifact, f"?as=json&{query}")
    assert client.get(f"/artifacts/{artifact.pk}/fold/?{query}", headers={"HX-Request": "true"}).status_code == 200


def test_lines_of_json_are_lines_each_with_a_fold(client: Client, call: Call) -> None:
    artifact = stored(call, b"".join(b'{"n": %d, "inner": {"text": "%s"}}\n' % (n, b"x" * 400) for n in range(1_000)))
    page = body(client, artifact, "?line=501")
    assert form_of(page) == "jsonl"
    assert '<div id="L501" class="line" data-asked>' in page
    addresses = re.findall(r'hx-get="(fold/[^"]+)"', page)
    assert '"n": 500' in text_of(folded(client, artifact, f"{artifact.get_absolute_url()}{addresses[0]}"))
    assert len(page) < 400_000


def test_a_line_that_is_asked_for_is_shown_in_the_text(client: Client, call: Call) -> None:
    artifact = stored(call, json.dumps({"rows": list(range(50))}, indent=1).encode())
    assert rows_of(body(client, artifact, "?line=3"))[0] == (3, "  0,")
    assert rows_of(body(client, artifact, "?q=rows&hit=4"))[1] == (2, ' "rows": [')


def test_a_fold_of_another_project_is_nowhere(client: Client, call: Call) -> None:
    artifact = stored(call, b"{}")
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/artifacts/{artifact.pk}/fold/", headers={"HX-Request": "true"}).status_code == 404


def test_a_page_does_not_wait_for_a_large_member_and_goes_on_by_itself(client: Client, call: Call) -> None:
    """What is behind a member of megabytes is asked for by the page that is there already; a fold asks for nothing."""
    large = b'{"first": 1, "rows": [' + b"[1, 2, 3], " * 150_000 + b'0], "last": "here"}'
    artifact = stored(call, large)
    page = body(client, artifact)
    assert "too large to be measured here" in page
    onward = re.search(r'hx-get="([^"]+)" hx-target="closest p" hx-swap="outerHTML" hx-trigger="load, click"', page)
    assert onward
    rest = folded(client, artifact, onward[1])
    assert '"here"' in html.unescape(rest)
    assert "hx-trigger" not in rest
