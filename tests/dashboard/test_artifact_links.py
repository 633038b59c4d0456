"""Links to places in an artifact: a line, a range of lines, and what was typed into the box."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.artifacts.place import lines_of
from dashboard.models import Artifact, Project
from tests.dashboard.artifacts import body, field_artifact, rows_of
from tests.dashboard.factories import create_call, create_project, create_run, create_user

LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def alice(project: Project, client: Client) -> User:
    user = create_user("alice", project=project)
    client.force_login(user)
    return user


@pytest.fixture
def log(project: Project, alice: User) -> Artifact:
    return field_artifact(create_call(create_run(project, "one")), LINES)


def set_off(page: str) -> list[int]:
    return [int(line) for line in re.findall(r'<(?:div|tr) id="L(\d+)"[^>]* data-asked>', page)]


def link_of(page: str) -> str:
    found = re.search(r'href="([^"]*)" data-copy-link', page)
    assert found
    return html.unescape(found[1])


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ("120", range(120, 121)),
        ("120-180", range(120, 181)),
        ("L120-L180", range(120, 181)),
        ("180 - 120", range(120, 181)),
        ("1,200–1,300", range(1_200, 1_301)),
        ("0", range(0)),
        ("0-5", range(0)),
        ("-5", range(0)),
        ("ten", range(0)),
        ("9" * 16, range(0)),
        ("", range(0)),
    ],
)
def test_a_range_is_read_as_it_is_written(said: str, lines: range) -> None:
    assert lines_of(said) == lines


@pytest.mark.parametrize("query", ["?line=120-180", "?go=120-180", "?line=L120-L180", "?line=180-120"])
def test_a_range_of_lines_is_set_off_and_its_link_leads_there_again(client: Client, log: Artifact, query: str) -> None:
    page = body(client, log, query)
    assert rows_of(page)[0] == (120, "line 120")
    assert set_off(page) == list(range(120, 181))
    assert link_of(page) == "?line=120-180#L120"


def test_a_range_goes_on_in_the_next_window(client: Client, log: Artifact) -> None:
    page = body(client, log, "?line=100-600")
    assert set_off(page) == list(range(100, 500))
    later = re.search(r'href="(\?offset=[^"]*)" data-hotkey="click" data-key="j"', page)
    assert later
    assert set_off(body(client, log, html.unescape(later[1]))) == list(range(500, 601))


@pytest.mark.parametrize(
    ("query", "link"),
    [
        ("", "?line=1#L1"),
        ("?at=50", "?line=507#L507"),
        ("?go=50 %25", "?line=507#L507"),
        ("?line=40&as=diff", "?line=40&as=text#L40"),
        ("?line=40&q=line&any_case=1", "?line=40&q=line&any_case=1#L40"),
    ],
)
def test_the_link_of_a_window_keeps_how_it_is_looked_at(client: Client, log: Artifact, query: str, link: str) -> None:
    assert link_of(body(client, log, query)).replace("as=diff", "as=text") == link


def test_a_range_is_set_off_in_a_table_too(client: Client, log: Artifact) -> None:
    log = field_artifact(create_call(create_run(log.project, "two")), "a,b,c\n1,2,3\n" * 20)
    assert set_off(body(client, log, "?as=table&line=2-4")) == [2, 3, 4]
