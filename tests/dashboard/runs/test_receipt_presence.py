"""The sentence of the Call page on when a receipt came into the context, and whether it is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from tests.dashboard.imported_sessions import import_session
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import answers, asks, boundary, steps, weighs, write

pytestmark = pytest.mark.django_db


def presence(client: Client, run: Run, call: str) -> str:
    """What the Call page states of the receipt's place in the context."""
    found = run.members.get(call__external_id=call).call
    return parse_page(client.get(f"/calls/{found.pk}/?run={run.pk}")).select_one(".presence").text


@pytest.mark.usefixtures("alice")
def test_the_call_page_grades_when_a_receipt_came_into_the_context_and_whether_it_is_still_there(
    client: Client, project: Project, tmp_path: Path
) -> None:
    lines = steps(60_000, 138_395, 95_864, 96_000)
    run = import_session(project, tmp_path, *lines)
    assert presence(client, run, "toolu_01") == (
        "In the context from line 3 on, recorded as seen. At the end of the recording: uncertain from line 6 on "
        "42,531 tokens left the context before the step at line 6; nothing in the recording says why, nor what. "
        "This may be among them."
    )
    assert presence(client, run, "toolu_03") == (
        "In the context from line 7 on, recorded as seen. At the end of the recording: still there"
    )
    compacted = import_session(project, tmp_path, *lines, boundary("compact_boundary"), *steps(0, 0, 0, 0, 20_000)[9:])
    assert presence(client, compacted, "toolu_01").endswith(
        "At the end of the recording: no longer there Compacted away at line 10. "
        "Before that, at line 6, 42,531 tokens left it unexplained: perhaps this too."
    )
    assert presence(client, compacted, "toolu_03").endswith(
        "Compacted away at line 10. Until then it was in the context."
    )
    assert presence(client, compacted, "toolu_05").endswith("At the end of the recording: still there")


CLEAR = boundary("microcompact_boundary", microcompactMetadata={"compactedToolIds": ["toolu_01"]})
LATER = [weighs(asks("toolu_02", step="msg_2"), 51_000), CLEAR, answers("toolu_02")]


@pytest.mark.parametrize(
    ("following", "line", "end"),
    [
        pytest.param([CLEAR], 4, ", but no request of that time is recorded.", id="none"),
        pytest.param(LATER, 5, ".", id="one"),
    ],
)
@pytest.mark.usefixtures("alice")
def test_a_cleared_receipt_was_in_a_request_only_where_one_followed_it(
    client: Client, project: Project, tmp_path: Path, following: list[dict[str, Any]], line: int, end: str
) -> None:
    run = import_session(project, tmp_path, *steps(50_000), *following)
    cleared = f"Cleared from the context at line {line} (microcompact). Until then it was in the context{end}"
    assert presence(client, run, "toolu_01").endswith(f"no longer there {cleared}")


@pytest.mark.usefixtures("alice")
def test_the_usage_of_an_earlier_request_is_no_check_of_the_last_receipt(
    client: Client, project: Project, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path, *steps(50_000, 51_000))
    for call, check in (
        ("toolu_01", "the usage of its last request does not contradict it"),
        ("toolu_02", "no later request is recorded"),
    ):
        found = run.members.get(call__external_id=call).call
        badge = parse_page(client.get(f"/calls/{found.pk}/")).select_one(".presence .badge")
        assert badge["title"] == f"Nothing that is recorded removed it; {check}."


@pytest.mark.usefixtures("alice")
def test_an_answer_between_a_host_and_its_server_is_not_said_to_be_in_a_context(
    client: Client, project: Project, tmp_path: Path
) -> None:
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "nothing"}]}},
    ]
    import_paths(project, [write(tmp_path / "frames.jsonl", frames)])
    page = parse_page(client.get(f"/calls/{Call.objects.get(tool='look').pk}/"))
    assert "nothing" in page.text
    assert not page.has(".presence")
