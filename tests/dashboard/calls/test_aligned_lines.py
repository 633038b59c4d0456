"""Both halves line by line: equal lines beside each other, and a gutter that shows which lines the model saw."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Project, Run
from tests.dashboard.factories import create_run
from tests.dashboard.page_text import Page, assert_harmless
from tests.dashboard.recorded_calls import HOSTILE, bash, load_call, read_result, recorded

Row = tuple[str, str, str, str]


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    return create_run(project, "session-one")


def rows(page: Page) -> list[Row]:
    """Number and text of the output's line, then those of the receipt's."""
    found = []
    for row in page.select(".lines-table tbody tr:not(.fold)"):
        number, receipt_number = row.texts(".line-number")
        output, receipt = (part.exact for part in row.select("pre"))
        found.append((number, output, receipt_number, receipt))
    return found


def test_equal_lines_stand_beside_each_other_and_a_header_stands_alone(client: Client, run: Run) -> None:
    call = recorded(
        run, "Read", {"file_path": "/a"}, read_result("one\ntwo", 5, 2), "     5→one\n     6→two\n\n<reminder>"
    )
    assert rows(load_call(client, call, "?left=lines")) == [
        ("5", "one", "1", "     5→one"),
        ("6", "two", "2", "     6→two"),
        ("", "", "3", ""),
        ("", "", "4", "<reminder>"),
    ]


def test_the_line_with_the_exit_status_has_no_number_of_the_output(client: Client, run: Run) -> None:
    text = "Exit code 3\nboom\nsecond"
    call = recorded(run, "Bash", {"command": "make"}, f"Error: {text}", text, source_error=True)
    page = load_call(client, call, "?left=lines")
    assert [row[:2] for row in rows(page)] == [("", "Error: Exit code 3"), ("1", "boom"), ("2", "second")]
    assert (call.output_lines, call.seen_lines) == (2, 2)


def test_lines_that_the_model_did_not_see_are_marked_and_the_middle_of_many_is_folded(client: Client, run: Run) -> None:
    lines = [f"line {number} of a long output" for number in range(1, 101)]
    preview = "\n".join(lines[:3])
    receipt = f"<persisted-output>\nFull output saved to: /x/y.txt\n\nPreview (first 2KB):\n{preview}\n...\n"
    page = load_call(client, bash(run, "\n".join(lines), receipt + "</persisted-output>"), "?left=lines")
    states = [row.get("data-seen") for row in page.select(".lines-table tbody tr:not(.fold)")]
    seen = dict(zip([row[0] for row in rows(page)], states, strict=True))
    assert [number for number, state in seen.items() if state == "seen"] == ["1", "2", "3"]
    unseen = [number for number, state in seen.items() if state == "unseen"]
    assert unseen == [*map(str, range(4, 14)), *map(str, range(91, 101))]
    assert page.select_one(".fold").text == "77 more lines were not seen and are folded here"


def test_a_line_of_which_the_model_saw_a_part_is_marked_as_that(client: Client, run: Run) -> None:
    line = "".join(f"word {number} " for number in range(600))
    head = "<persisted-output>\nFull output saved to: /x/y.txt\n\nPreview (first 2KB):\n"
    receipt = f"{head}{line[:2_000]}\n...\n</persisted-output>"
    page = load_call(client, bash(run, f"{line}\nlast line of it", receipt), "?left=lines")
    states = [row.get("data-seen") for row in page.select(".lines-table tbody tr:not(.fold)")]
    assert list(filter(None, states)) == ["partly", "unseen"]


def test_no_line_is_called_unseen_where_nothing_of_the_output_is_in_the_receipt(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "one thing\nand another", "something else entirely"), "?left=lines")
    assert "which of its lines the model got is not known" in page.select_one("[data-half=lines]").text
    assert not page.has("[data-seen=unseen]:not(span)")


def test_the_other_outputs_of_the_call_are_named(client: Client, run: Run) -> None:
    result = {"stdout": "one\ntwo", "stderr": "warning", "interrupted": False, "isImage": False}
    page = load_call(client, recorded(run, "Bash", {"command": "x"}, result, "one\ntwo\nwarning"), "?left=lines")
    assert "Not laid out here: stderr, 1 line." in page.select_one("[data-half=lines]").texts(".part-named")


def test_a_call_too_long_is_shown_as_canonical_result_with_the_reason(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "x" * 500_000), "?left=lines")
    assert "too long to be laid out line by line" in page.select_one("[data-half=lines]").text
    assert page.has("[data-half=receipt]")


def test_hostile_lines_are_text_and_stepping_keeps_the_form(client: Client, run: Run) -> None:
    first, _ = bash(run, HOSTILE, line=1), bash(run, "two", line=2)
    page = load_call(client, first, "?left=lines")
    assert_harmless(page)
    assert page.select_one("a[rel=next]")["href"] == f"/runs/{run.pk}/2/halves?left=lines"
    assert page.select_one("[data-key='=']")["href"].startswith("/runs/") is False
