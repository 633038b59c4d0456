"""What the model saw of a stored file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts import visible_lines as seen_module
from dashboard.models import Run
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of
from tests.dashboard.stored_artifacts import body, stored

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


def seen_lines(page: str) -> list[int]:
    return [int(line) for line in re.findall(r'<div id="L(\d+)" class="line" data-seen="yes"', page)]


def test_the_preview_of_a_saved_output_is_marked_in_the_file(client: Client, run: Run) -> None:
    artifact = stored(create_call(run, receipt=receipt_of(LINES[:40])), FILE, path=PATH)
    page = body(client, artifact)
    assert seen_lines(page) == list(range(1, 41))
    assert "40 of 3,000 lines" in text_of(page)
    assert 'href="?line=41#L41"' in page
    assert seen_lines(body(client, artifact, "?line=41")) == []


def test_a_preview_that_ends_within_a_line_has_not_shown_that_line(client: Client, run: Run) -> None:
    artifact = stored(create_call(run, receipt=receipt_of([*LINES[:10], "line 11 of"])), FILE, path=PATH)
    assert seen_lines(body(client, artifact)) == list(range(1, 11))


@pytest.mark.parametrize("ends", [256 * 1024, 20_000])
def test_beginning_and_end_around_a_cut_are_marked(
    client: Client, run: Run, ends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in a file of which only the two ends are read."""
    monkeypatch.setattr(seen_module, "ENDS", ends)
    receipt = "\n".join([*LINES[:30], "", "... [2960 lines truncated] ...", "", *LINES[-10:]])
    artifact = stored(create_call(run, receipt=receipt), FILE, path=PATH)
    assert seen_lines(body(client, artifact)) == list(range(1, 31))
    assert seen_lines(body(client, artifact, "?tail")) == list(range(2_991, 3_001))
    following = re.findall(r'href="\?line=(\d+)#L\d+" data-hotkey="click" data-key="n"', body(client, artifact))
    assert following == ["31"]


@pytest.mark.parametrize("receipt", ["The build ran.", "", receipt_of(["another output"]), PREVIEW.format(PATH, "")])
def test_of_a_file_that_the_receipt_does_not_show_nothing_is_said(client: Client, run: Run, receipt: str) -> None:
    page = body(client, stored(create_call(run, receipt=receipt), FILE, path=PATH))
    assert "data-seen" not in page
    assert "Next unseen" not in page
