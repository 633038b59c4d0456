"""Which lines of a stored file the model saw."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.models import Run
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page
from tests.dashboard.stored_artifacts import key_link, open_page, stored

pytestmark = pytest.mark.django_db

PATH = "/home/x/.claude/projects/p/session/tool-results/toolu_1.txt"
LINES = [f"line {number} of the build" for number in range(1, 3_001)]
FILE = "".join(f"{line}\n" for line in LINES).encode()
PREVIEW = (
    "<persisted-output>\nOutput too large (70KB). Full output saved to: {}\n\n"
    "Preview (first 2KB):\n{}\n...\n</persisted-output>"
)


@pytest.fixture
def run(client: Client, settings: Settings, tmp_path: Path) -> Run:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_run(project, "one")


def receipt_of(shown: list[str]) -> str:
    return PREVIEW.format(PATH, "\n".join(shown))


def seen_lines(page: Page) -> list[int]:
    return [int(row["id"][1:]) for row in page.select('.line[data-seen="yes"]')]


def test_the_preview_of_a_saved_output_is_marked_in_the_file(client: Client, run: Run) -> None:
    artifact = stored(create_call(run, receipt=receipt_of(LINES[:40])), FILE, path=PATH)
    page = open_page(client, artifact)
    assert seen_lines(page) == list(range(1, 41))
    assert "40 of 3,000 lines" in page.text
    assert key_link(page, "n") == "?from=31&line=41#L31"
    assert seen_lines(open_page(client, artifact, "?line=41")) == []


def test_a_preview_that_ends_within_a_line_has_not_shown_that_line(client: Client, run: Run) -> None:
    artifact = stored(create_call(run, receipt=receipt_of([*LINES[:10], "line 11 of"])), FILE, path=PATH)
    assert seen_lines(open_page(client, artifact)) == list(range(1, 11))


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_beginning_and_end_around_a_cut_are_marked(client: Client, run: Run, count: int) -> None:
    """The same in a file that is read whole and in one of which only the two ends are read."""
    lines = LINES[:count]
    receipt = "\n".join([*lines[:30], "", f"... [{count - 40} lines truncated] ...", "", *lines[-10:]])
    content = "".join(f"{line}\n" for line in lines).encode()
    artifact = stored(create_call(run, receipt=receipt), content, path=PATH)
    page = open_page(client, artifact)
    assert seen_lines(page) == list(range(1, 31))
    assert seen_lines(open_page(client, artifact, "?tail")) == list(range(count - 9, count + 1))
    assert key_link(page, "n") == "?from=21&line=31#L21"


@pytest.mark.parametrize("receipt", ["The build ran.", "", receipt_of(["another output"]), PREVIEW.format(PATH, "")])
def test_a_file_that_the_receipt_does_not_show_is_not_mentioned(client: Client, run: Run, receipt: str) -> None:
    page = open_page(client, stored(create_call(run, receipt=receipt), FILE, path=PATH))
    assert not page.has("[data-seen]")
    assert "Next unseen" not in page.text
