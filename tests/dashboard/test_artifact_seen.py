"""What the model saw of a stored file, and which later call named it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts import seen as seen_module
from dashboard.artifacts.naming import names
from dashboard.models import Run
from tests.dashboard.artifacts import body, stored
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of

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


def test_a_later_call_that_names_the_file_is_linked(client: Client, run: Run) -> None:
    earlier = create_call(run, args={"command": f"cat {PATH}"})
    call = create_call(run, receipt=receipt_of(LINES[:40]))
    create_call(run, args={"command": "ls"})
    reads = create_call(run, tool="Read", args={"file_path": PATH, "offset": 41})
    prints = create_call(run, args={"command": f"tail -n 5 '{PATH}' 2>/dev/null | head"})
    create_call(run, args={"command": f"cat {PATH}.bak"})
    elsewhere = create_call(create_run(run.project, "two"), args={"file_path": PATH})
    page = body(client, stored(call, FILE, path=PATH))
    assert re.findall(r'href="/calls/([0-9a-f-]+)/">call (\d), (\w+)', page) == [
        (str(reads.pk), "4", "Read"),
        (str(prints.pk), "5", "Bash"),
    ]
    assert str(earlier.pk) not in page
    assert str(elsewhere.pk) not in page


@pytest.mark.parametrize(
    ("args", "is_named"),
    [
        ('{"file_path": "/a/b c.txt"}', True),
        ('{"edits": [{"path": "/a/b c.txt"}]}', True),
        ('{"command": "cat \\"/a/b c.txt\\" >out"}', True),
        ('{"command": "grep x </a/b\\\\ c.txt"}', True),
        ('{"command": "cat /a/b\\\\ c.txt; ls"}', True),
        ('{"command": "cat /a/b c.txt"}', False),
        ('{"command": "cat \'/a/b c.txt"}', False),
        ('{"file_path": "/a/b c.txt/d"}', False),
        ('{"text": "see /a/b c.txt"}', False),
        ('{"/a/b c.txt": 1}', False),
        ("no json", False),
    ],
)
def test_only_a_path_that_stands_whole_is_a_naming(args: str, is_named: bool) -> None:  # noqa: FBT001
    assert names("/a/b c.txt", args.encode()) is is_named


def test_a_path_that_json_escapes_is_found(client: Client, run: Run) -> None:
    path = 'C:\\logs\\"größe".txt'
    call = create_call(run)
    for args in ({"file_path": path}, {"path": [path]}):
        create_call(run, tool="Read", args=args)
    create_call(run, tool="Read", args=b'{"file_path": "C:\\\\logs\\\\\\"gr\\u00f6\\u00dfe\\".txt"}')
    assert body(client, stored(call, FILE, path=path)).count("Named later by") == 3
