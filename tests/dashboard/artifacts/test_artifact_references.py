"""Which later call opened an artifact, with which program and which part; and which only mentioned it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client

from dashboard.artifacts.read_commands import parse_read_command
from dashboard.artifacts.references import SHOWN, find_later_references
from dashboard.models import Artifact, Project, Run
from tests.dashboard.factories import START, create_call, create_run
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.stored_artifacts import field_artifact, open_page

PATH = "/home/x/.claude/projects/p/session/tool-results/toolu_1.txt"


def parsed(tool: str, args: Any, path: str = "/a/b.txt") -> str | None:
    command = parse_read_command(path, tool, args if isinstance(args, bytes) else json.dumps(args).encode())
    if command is None:
        return None
    return f"{command.program}: {command.part}".removesuffix(": ") if command.program else "mentioned"


@pytest.mark.parametrize(
    ("command", "opening"),
    [
        ("cat /a/b.txt", "cat: all of it"),
        ("cat /a/b.txt | grep x", "cat: through a pipe"),
        ("ls && cat /a/b.txt 2>&1", "cat: all of it"),
        ("LANG=C sudo /bin/cat '/a/b.txt'", "cat: all of it"),
        ("cat -A /a/b.txt", "cat"),
        ("cat /a/b.txt > /tmp/copy", "mentioned"),
        ("head /a/b.txt", "head: lines 1–10"),
        ("head -n 20 < /a/b.txt", "head: lines 1–20"),
        ("head -c 20 /a/b.txt", "head"),
        ("tail -n 5 '/a/b.txt' 2>/dev/null | head", "tail: the last 5 lines, through a pipe"),
        ("tail -1 /a/b.txt", "tail: the last line"),
        ("tail -n +1200 /a/b.txt", "tail: from line 1,200 on"),
        ("sed -n '5,9p' /a/b.txt", "sed: lines 5–9"),
        ("sed -n 5p /a/b.txt", "sed: line 5"),
        ("sed -n '5,$p' /a/b.txt", "sed: from line 5 on"),
        ("sed s/a/b/ /a/b.txt", "sed"),
        ("grep -n 'out of memory' /a/b.txt", "grep: searched for “out of memory”"),
        ("grep -A 3 memory /a/b.txt", "grep"),
        ("wc -l < /a/b.txt", "wc"),
        ("cp /a/b.txt /c", "mentioned"),
        ("make > /a/b.txt", "mentioned"),
        ("ls -la /a/b.txt", "mentioned"),
        ("cat /a/b.txt.bak", None),
        ("cat '/a/b.txt", None),
        ("python -c 'open(\"/a/b.txt\")'", None),
        (["bash", "-lc", "sed -n 1,5p /a/b.txt"], "sed: lines 1–5"),
        (["cat", "/a/b.txt"], "cat: all of it"),
    ],
)
def test_a_command_opens_what_it_reads_and_names_the_rest(command: str | list[str], opening: str | None) -> None:
    assert parsed("Bash", {"command": command}) == opening


@pytest.mark.parametrize(
    ("tool", "args", "opening"),
    [
        ("Read", {"file_path": "/a/b.txt", "offset": 501, "limit": 40}, "Read: lines 501–540"),
        ("Read", {"file_path": "/a/b.txt", "offset": 501}, "Read: from line 501 on"),
        ("Read", {"file_path": "/a/b.txt", "limit": 1}, "Read: line 1"),
        ("Read", {"file_path": "/a/b.txt"}, "Read"),
        ("Read", {"file_path": "/a/b.txt", "offset": -3, "limit": True}, "Read"),
        ("Read", {"file_path": "/a/b.txt.bak"}, None),
        ("Grep", {"path": "/a/b.txt", "pattern": "x" * 70}, f"Grep: searched for “{'x' * 60}…”"),
        ("mcp__files__read_text_file", {"path": "/a/b.txt", "tail": 4}, "read_text_file: the last 4 lines"),
        ("Edit", {"file_path": "/a/b.txt", "old_string": "a"}, "mentioned"),
        ("Task", {"prompt": "Look into /a/b.txt for the cause"}, "mentioned"),
        ("Read", b"no json", None),
    ],
)
def test_a_tool_opens_by_its_arguments(tool: str, args: Any, opening: str | None) -> None:
    assert parsed(tool, args) == opening


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
    ],
)
def test_only_a_whole_path_counts_as_a_mention(args: str, is_named: bool) -> None:  # noqa: FBT001
    assert (parsed("Other", args.encode(), "/a/b c.txt") is not None) is is_named


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    return create_run(project, "one")


def output_of(run: Run, path: str = PATH) -> Artifact:
    return field_artifact(create_call(run), "line\n" * 900, path=path)


def listed(page: Page, heading: str) -> list[str]:
    return [item for section in page.all_by_role("region", heading) for item in section.texts("li")]


def references_page(artifact: Artifact, begin: int = 0, *, calls_at_once: int) -> Page:
    """The page's list of references, with fewer calls searched than a page of its own does."""
    references = find_later_references(artifact, begin, calls_at_once=calls_at_once)
    return parse_page(render_to_string("artifacts/_references.html", {"references": references}))


OPENED, MENTIONED = "The model opened it later", "Mentioned later (not opened)"


def test_a_later_call_that_opened_it_is_distinguished_from_one_that_named_it(client: Client, run: Run) -> None:
    create_call(run, args={"command": f"cat {PATH}"})
    artifact = output_of(run)
    create_call(run, args={"command": "ls"})
    create_call(run, tool="Read", args={"file_path": PATH, "offset": 41, "limit": 60})
    create_call(run, args={"command": f"tail -n 5 {PATH}"})
    create_call(run, args={"command": f"cp {PATH} /tmp"})
    create_call(create_run(run.project, "two"), args={"file_path": PATH})
    page = open_page(client, artifact)
    assert listed(page, OPENED) == ["call 4 Read lines 41–100", "call 5 tail the last 5 lines"]
    assert listed(page, MENTIONED) == ["call 6 Bash"]
    assert page.by_role("link", "lines 41–100")["href"] == "?line=41-100#L41"


def test_a_subagent_that_opened_it_is_linked_with_its_run(client: Client, run: Run) -> None:
    early = create_run(run.project, "before", parent=run, title="Early one")
    create_call(early, tool="Read", args={"file_path": PATH}, started_at=START)
    artifact = output_of(run)
    child = create_run(run.project, "child", parent=run, title="Look for the cause")
    grandchild = create_run(run.project, "grandchild", parent=child, title="Look closer")
    create_call(child, args={"command": "ls"})
    create_call(child, tool="Read", args={"file_path": PATH, "offset": 7, "limit": 2})
    create_call(grandchild, args={"command": f"cat {PATH}"})
    assert listed(open_page(client, artifact), OPENED) == [
        "call 2 of the run “Look for the cause” Read lines 7–8",
        "call 1 of the run “Look closer” cat all of it",
    ]
    started_by_it = field_artifact(create_call(child, started_at=START), "x\n", path=PATH)
    create_call(run, args={"command": f"cat {PATH}"}, started_at=START + timedelta(days=1))
    assert "call 2 of the run “Title of one” cat all of it" in listed(open_page(client, started_by_it), OPENED)


def test_a_run_that_goes_on_from_a_copy_counts_as_well(client: Client, run: Run) -> None:
    artifact = output_of(run)
    resumed = create_run(run.project, "resumed", title="Gone on with")
    artifact.call.memberships.create(run=resumed, ordinal=1, inherited=True)
    create_call(resumed, tool="Read", args={"file_path": PATH})
    assert listed(open_page(client, artifact), OPENED) == ["call 2 of the run “Gone on with” Read"]


def test_calls_far_after_the_output_are_searched_on_request(run: Run) -> None:
    artifact = output_of(run)
    for number in range(1, 8):
        create_call(run, args={"command": f"head -n {number} {PATH}"})
    page = references_page(artifact, calls_at_once=3)
    assert len(listed(page, OPENED)) == 3
    assert page.by_role("link", "Search the calls after those")["href"] == "?later=3"
    page = references_page(artifact, 3, calls_at_once=3)
    assert [item.split()[-1] for item in listed(page, OPENED)] == ["1–4", "1–5", "1–6"]
    assert listed(references_page(artifact, 6, calls_at_once=3), OPENED) == ["call 8 head lines 1–7"]


@pytest.mark.postgresql
def test_the_address_names_how_many_later_calls_are_skipped(client: Client, run: Run) -> None:
    artifact = output_of(run)
    for number in (1, 2):
        create_call(run, args={"command": f"head -n {number} {PATH}"})
    page = open_page(client, artifact, "?later=1")
    assert listed(page, OPENED) == ["call 3 head lines 1–2"]
    assert "Searched: calls 2 and later after this one." in page.text


def test_omitted_mentions_are_reported(client: Client, run: Run) -> None:
    artifact = output_of(run)
    for _ in range(SHOWN + 1):
        create_call(run, args={"command": f"cat {PATH}"})
    assert "More calls than these mention it." in open_page(client, artifact).text
    create_run(run.project, "child", parent=run, call_count=501)
    assert "1 other run of this session has too many calls to be searched." in open_page(client, artifact).text


def test_a_path_that_json_escapes_is_found(client: Client, run: Run) -> None:
    path = 'C:\\logs\\"größe".txt'
    artifact = output_of(run, path)
    for args in ({"file_path": path}, {"path": [path]}):
        create_call(run, tool="Read", args=args)
    create_call(run, tool="Read", args=b'{"file_path": "C:\\\\logs\\\\\\"gr\\u00f6\\u00dfe\\".txt"}')
    page = open_page(client, artifact)
    assert len(listed(page, OPENED) + listed(page, MENTIONED)) == 3
