"""A chat of the Gemini CLI whose client masked an output and compressed the history, on the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Artifact, Call, Project, Run
from tests.dashboard.page_text import parse_page
from tests.envelopes.recordings.test_recording_gemini_history import (
    COPY,
    MADE_UP,
    MASKED,
    SNAPSHOT,
    WORK,
    command,
    history,
    message,
    part,
)

pytestmark = pytest.mark.django_db


def weighs(tokens: int) -> dict[str, Any]:
    return {"tokens": {"input": tokens, "output": 10, "cached": 0, "total": tokens + 10}}


@pytest.fixture
def run(project: Project, tmp_path: Path) -> Run:
    """A masked output at line 8, a compression at line 10 that keeps the last message, a subagent."""
    session = "5d3c5a2e"
    agent = command("c2", "Subagent 'scout' finished.", name="invoke_agent", agentId="k3x9qa")
    lines = [
        {"sessionId": session, "projectHash": "p", "kind": "main"},
        *WORK,
        message("g2", "gemini", "Done.", toolCalls=[agent], **weighs(40_000)),
        history(*COPY, message("g2", "gemini", "Done.", toolCalls=[agent])),
        message("u4", "user", "and now?"),
        history(message("h8", "user", SNAPSHOT), message("h9", "gemini", MADE_UP), message("u4", "user", "and now?")),
        message("g3", "gemini", "Nothing.", **weighs(9_000)),
    ]
    child = [
        {"sessionId": "k3x9qa", "projectHash": "p", "kind": "subagent"},
        message("s1", "user", "look", timestamp="2026-10-05T08:00:11.000Z"),
    ]
    chats = tmp_path / "chats"
    (chats / session).mkdir(parents=True)
    for name, content in (("session-1.jsonl", lines), (f"{session}/k3x9qa.jsonl", child)):
        (chats / name).write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in content))
    import_paths(project, [chats])
    return Run.objects.get(project=project, parent=None)


def test_the_masked_output_is_a_receipt_of_its_own(operator_client: Client, run: Run) -> None:
    call = Call.objects.get(external_id="c1")
    receipts = call.receipts.order_by("seq").values_list("line", "superseded_line", "superseded_reason")
    assert list(receipts) == [
        (4, 8, "another text in a later request: masked by the client"),
        (8, 10, "compression"),
    ]
    assert (call.outcome, call.exit_status, call.is_cut, call.is_disagreeing) == ("failed", 2, False, False)
    assert Artifact.objects.get(call=call, observation=None).path.endswith("/b.txt")
    text = parse_page(operator_client.get(call.get_absolute_url())).text
    assert "Receipt 1: replaced later: masked by the client" in text
    assert "took the place of what the model got first, which was saved to a file" in text
    assert "In the context from line 8 on" in text
    assert "Cleared from the context at line 10 (compression)" in text


def test_lines_that_the_model_had_before_the_mask_are_seen(project: Project, tmp_path: Path) -> None:
    call = command("c1", "Output: zero\none\ntwo\nExit Code: 2", resultDisplay="zero\none\ntwo")
    asked = message("g1", "gemini", toolCalls=[call], **weighs(800))
    masked = message("h1", "user", content=[part("c1", MASKED)])
    answer = message("g2", "gemini", "Make failed.", **weighs(900))
    lines = [{"sessionId": "s", "projectHash": "p"}, message("u1", "user", "build it"), asked, answer, masked]
    (tmp_path / "session-3.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_paths(project, [tmp_path / "session-3.jsonl"])
    (stored,) = Call.objects.all()
    assert (stored.output_lines, stored.seen_lines) == (3, 3)


def test_the_compression_explains_why_the_context_shrank(operator_client: Client, run: Run) -> None:
    assert run.drop_count == 0
    text = parse_page(operator_client.get(f"/runs/{run.pk}/context")).text
    assert "the conversation was compacted, but for 1 message that stayed" in text
    assert "compaction summary" in text
    assert text.count("and now?") == 1


def test_the_subagent_is_below_its_call(run: Run) -> None:
    child = Run.objects.exclude(pk=run.pk).get()
    call = Call.objects.get(external_id="c2")
    assert (child.parent_id, call.child_run) == (run.pk, child.pk)


def test_of_a_document_the_text_before_the_mask_is_not_recorded(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    messages = [message("g1", "gemini", toolCalls=[command("c1", MASKED)])]
    chat = {"sessionId": "s", "projectHash": "p", "messages": messages}
    (tmp_path / "session-2.json").write_text(json.dumps(chat))
    import_paths(project, [tmp_path / "session-2.json"])
    text = parse_page(operator_client.get(Call.objects.get().get_absolute_url())).text
    assert "In the context since an unknown time after position 1, in place of a text that is not recorded" in text
