"""Links to locations in an artifact: a line, a range of lines, and what is typed into the box."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.artifacts.location import parse_lines
from dashboard.models import Artifact, Project
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.stored_artifacts import field_artifact, highlighted_lines, key_link, open_page, rows_of

pytestmark = pytest.mark.rendering
LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


@pytest.fixture
def log(project: Project, alice: User) -> Artifact:
    return field_artifact(create_call(create_run(project, "one")), LINES)


@pytest.mark.parametrize(
    ("typed", "lines"),
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
def test_a_range_is_read_as_it_is_written(typed: str, lines: range) -> None:
    assert parse_lines(typed) == lines


@pytest.mark.parametrize("query", ["?line=120-180", "?go=120-180", "?line=L120-L180", "?line=180-120"])
def test_a_range_of_lines_is_set_off_and_its_link_leads_there_again(client: Client, log: Artifact, query: str) -> None:
    page = open_page(client, log, query)
    assert rows_of(page)[0] == (120, "line 120")
    assert highlighted_lines(page) == list(range(120, 181))
    assert key_link(page, "y") == "?line=120-180#L120"


def test_a_range_goes_on_in_the_next_window(client: Client, log: Artifact) -> None:
    page = open_page(client, log, "?line=100-600")
    assert highlighted_lines(page) == list(range(100, 500))
    assert highlighted_lines(open_page(client, log, key_link(page, "j"))) == list(range(500, 601))


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
    assert key_link(open_page(client, log, query), "y").replace("as=diff", "as=text") == link


def test_a_range_is_set_off_in_a_table_too(client: Client, log: Artifact) -> None:
    log = field_artifact(create_call(create_run(log.project, "two")), "a,b,c\n1,2,3\n" * 20)
    assert highlighted_lines(open_page(client, log, "?as=table&line=2-4")) == [2, 3, 4]


STAMPED = "".join(f"2026-11-22 10:{minute:02}:{second:02} tick\n" for minute in range(60) for second in range(60))


@pytest.mark.parametrize(
    ("query", "line", "message"),
    [
        ("?go=10:20", 1_201, "The first line at or after 2026-11-22 10:20:00 is of 2026-11-22 10:20:00."),
        ("?time=2026-11-22T10:20:00Z", 1_201, "The first line at or after"),
        ("?go=1795342800", 1_201, "The first line at or after"),
        ("?go=2026-11-23", 3_201, "All time stamps are before 2026-11-23 00:00:00: the last is 2026-11-22 10:59:59."),
        ("?go=soon", 1, "“soon” is no line, range, percentage or time. These lines begin at 2026-11-22 10:00:00."),
    ],
)
def test_a_time_leads_to_its_line(client: Client, log: Artifact, query: str, line: int, message: str) -> None:
    log = field_artifact(create_call(create_run(log.project, "two")), STAMPED)
    page = open_page(client, log, query)
    assert rows_of(page)[0][0] == line
    assert message in page.text
    assert highlighted_lines(page) == ([line] if line == 1_201 else [])


def test_a_time_that_is_drawn_in_a_colour_is_one(client: Client, log: Artifact) -> None:
    """Loggers dim their stamps: the last letter of the sequence stands before the first digit of the year."""
    coloured = re.sub(r"(2026\S+ \S+)", "\x1b[2m\\1\x1b[0m", STAMPED)
    log = field_artifact(create_call(create_run(log.project, "two")), coloured)
    page = open_page(client, log, "?go=10:20&as=text")
    assert highlighted_lines(page) == [1_201]
    assert "2026-11-22 10:00:00" in open_page(client, log).text


def test_a_year_that_no_line_names_is_inferred_and_marked_as_inferred(client: Client, log: Artifact) -> None:
    begin = datetime(2026, 12, 31, 22, 30, tzinfo=UTC)
    lines = [f"{begin + timedelta(seconds=10 * number):%b %d %H:%M:%S} tick\n" for number in range(1_500)]
    stamped = field_artifact(create_call(create_run(log.project, "two")), "".join(lines))
    page = open_page(client, stamped, "?go=Jan+1+00:10")
    assert rows_of(page)[0][1] == "Jan 01 00:10:00 tick"
    assert "The lines name no year: it is inferred" in page.text


def test_a_time_in_lines_that_name_no_date_is_refused_in_words(client: Client, log: Artifact) -> None:
    begin = datetime(2026, 12, 31, 22, 30, tzinfo=UTC)
    lines = [f"{begin + timedelta(seconds=10 * number):%H:%M:%S} tick\n" for number in range(1_500)]
    clocks = field_artifact(create_call(create_run(log.project, "two")), "".join(lines))
    page = open_page(client, clocks, "?go=00:10")
    assert rows_of(page)[0][1] == "22:30:00 tick"
    assert "“00:10” is no line, range or percentage, and these lines carry no time stamps with a date." in page.text


def test_a_time_in_lines_without_any_or_out_of_order_is_refused_in_words(client: Client, log: Artifact) -> None:
    assert "carry no time stamps" in open_page(client, log, "?go=10:20").text
    mixed = field_artifact(create_call(create_run(log.project, "two")), STAMPED * 2)
    page = open_page(client, mixed, "?time=10:20")
    assert "they go back from 2026-11-22 10:59:59 to 2026-11-22 10:00:00" in page.text
    assert highlighted_lines(page) == [3_601]
