"""Claude Code sessions: a compaction, and which messages it kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import EventRecord, MessageRecord
from tests.envelopes.session_lines import line, message, only, read


def test_compaction_is_an_event_of_the_run() -> None:
    records = read(line("system", subtype="compact_boundary", content="Conversation compacted"))
    assert [event.kind for event in only(EventRecord, records)] == ["compact_boundary"]
    assert not only(MessageRecord, records)


@pytest.mark.parametrize(
    ("metadata", "stayed"),
    [
        ({"preservedMessages": {"uuids": ["u1", "u2"]}, "preservedSegment": {"headUuid": "u1"}}, "2 messages"),
        ({"preservedMessages": {"uuids": ["u1"]}}, "1 message"),
        ({"preservedSegment": {"headUuid": "u1", "tailUuid": "u2"}}, "some messages"),
        ({"preservedMessages": {"uuids": []}, "preservedSegment": {"headUuid": "u1"}}, ""),
        ({"preservedMessages": {"uuids": 7}}, ""),
        ({"preTokens": 150_000}, ""),
        ([], ""),
    ],
)
def test_a_compaction_says_what_it_left_standing(metadata: Any, stayed: str) -> None:
    (event,) = only(EventRecord, read(line("system", subtype="compact_boundary", compactMetadata=metadata)))
    if stayed:
        assert event.message == f"the conversation was compacted, but for {stayed} that stayed"
    else:
        assert event.message == "the conversation was compacted"
    assert event.kind == ("partial_compact_boundary" if stayed else "compact_boundary")


@pytest.mark.parametrize(
    ("ids", "preserved", "kept"),
    [
        (["u1", "u2", "u3"], {"uuids": ["u3", "u2"]}, [2, 3]),
        (["u1", "u2", "u3"], {"uuids": ["u3"], "allUuids": ["u2", "u3"]}, [2, 3]),
        (["u1", "u2", "u3"], {"uuids": ["u3", "elsewhere"]}, None),
        (["u1", "u2", "u2"], {"uuids": ["u2"]}, None),  # which of the lines is not said
        (["u1", "u2", "u3"], {"uuids": ["u3", 7]}, None),
        (["u0", *[f"m{number}" for number in range(255)]], {"uuids": ["m0"]}, [2]),
        (["u0", *[f"m{number}" for number in range(255)]], {"uuids": ["u0"]}, None),  # too long ago
    ],
)
def test_a_compaction_names_the_lines_that_stayed(ids: list[str], preserved: Any, kept: list[int] | None) -> None:
    boundary = line(
        "system", uuid="boundary", subtype="compact_boundary", compactMetadata={"preservedMessages": preserved}
    )
    lines = [line("user", uuid=uuid, message={"role": "user", "content": "hello"}) for uuid in ids]
    [event] = only(EventRecord, read(b"".join([*lines, boundary])))
    assert event.kind == "partial_compact_boundary"
    assert json.loads(event.payload).get("kept") == kept


BOUNDARY = line("system", uuid="b", parentUuid=None, subtype="compact_boundary")
HOOK = line("progress", uuid="h", parentUuid="b", data={"type": "hook_progress"})
BEFORE = [message("user", "Go.", uuid="u1", parentUuid=None), message("assistant", "Done.", uuid="a1", parentUuid="u1")]
REPLY = message("assistant", "Go on.", uuid="a2", parentUuid="s")


def summary(uuid: str, parent: str | None) -> bytes:
    return message("user", "Earlier: …", uuid=uuid, parentUuid=parent, isCompactSummary=True)


@pytest.mark.parametrize(
    ("lines", "compactions"),
    [
        ([*BEFORE, BOUNDARY, summary("s", "b")], [3]),
        ([*BEFORE, BOUNDARY, HOOK, summary("s", "h"), summary("t", "s")], [3]),
        ([*BEFORE, summary("s", "b")], [2]),
        ([*BEFORE, BOUNDARY[:80] + b"\n", summary("s", "b")], [3]),
        ([*BEFORE, summary("s", None)], [2]),
        ([*BEFORE, BOUNDARY, summary("s", "b"), REPLY, summary("t", "c")], [3, 5]),
        ([*BEFORE, BOUNDARY, summary("s", "b"), REPLY, summary("s", "b")], [3]),  # the line once more
        ([summary("s", "b"), REPLY], []),  # nothing before it is recorded
    ],
)
def test_a_summary_without_a_boundary_before_it_is_a_compaction(lines: list[bytes], compactions: list[int]) -> None:
    events = only(EventRecord, read(b"".join(lines)))
    assert [event.line for event in events if event.kind in ("compact_boundary", "new_conversation")] == compactions


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "compact_boundary"),
        ({"summarizedTurnPromptUuids": ["u1"]}, "partial_compact_boundary"),
        ({"message": {"content": "… Recent messages are preserved verbatim."}}, "partial_compact_boundary"),
    ],
)
def test_a_summary_alone_does_not_claim_that_nothing_stayed(fields: dict[str, Any], kind: str) -> None:
    about = {"uuid": "s", "isCompactSummary": True, "message": {"content": "Earlier: …"}}
    [event] = only(EventRecord, read(b"".join([*BEFORE, line("user", **{**about, **fields})])))
    assert event.kind == kind
