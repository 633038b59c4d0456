"""Compactions and rollbacks of Codex: what they left of the conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import EventRecord, MessageRecord, RunRecord
from tests.envelopes.recordings.test_recording_codex import item, rollout
from tests.envelopes.session_lines import only


def said(role: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}], **fields}


@pytest.mark.parametrize(
    ("compacted", "kind", "texts"),
    [
        ({"message": "so far: nothing"}, "partial_compact_boundary", ["so far: nothing"]),
        ({"message": ""}, "partial_compact_boundary", []),
        (
            {"message": "", "replacement_history": [said("user", "go"), said("user", "so far", id="m2")]},
            "compact_boundary",
            [[{"type": "input_text", "text": "go"}], [{"type": "input_text", "text": "so far"}]],
        ),
        (
            {"message": "twice", "replacement_history": [{"type": "compaction", "encrypted_content": "x"}, 7, {}]},
            "compact_boundary",
            [],
        ),
        ({"message": "kept", "replacement_history": None}, "partial_compact_boundary", ["kept"]),
    ],
)
def test_a_compaction_is_in_front_of_the_messages_that_it_left(
    compacted: dict[str, Any], kind: str, texts: list[Any]
) -> None:
    """Those of the recorded history; a release that has none also kept what people wrote."""
    sample = rollout(item("message", role="user", content=[]), ("compacted", compacted))
    [event] = only(EventRecord, sample.records)
    assert (event.kind, event.line, event.place) == (kind, 2, 1)
    after = [message for message in only(MessageRecord, sample.records) if message.line == 2]
    assert [json.loads(message.content) for message in after] == texts
    assert len({message.key for message in after}) == len(after)


def test_a_message_that_a_compaction_kept_stands_behind_it_too() -> None:
    """Since 0.171 it keeps its id, by which it would be the message that left the context."""
    prompt = said("user", "go", id="m1")
    sample = rollout(
        ("response_item", prompt), ("compacted", {"replacement_history": [prompt, said("user", "so far")]})
    )
    messages = [
        (message.line, message.key, json.loads(message.content)) for message in only(MessageRecord, sample.records)
    ]
    assert [(line, content[0]["text"]) for line, _, content in messages] == [(1, "go"), (2, "go"), (2, "so far")]
    assert len({key for _, key, _ in messages}) == len(messages)


def test_turns_that_were_rolled_back_left_the_conversation() -> None:
    """A turn begins with what a person wrote, at the lines 2, 4 and 6; the context that the client adds is none."""
    context = ("response_item", said("user", "<environment_context>here</environment_context>"))
    prompt, answer = ("response_item", said("user", "go")), ("response_item", said("assistant", "done"))
    lines = [context, prompt, answer, prompt, answer, prompt]
    rollbacks = [("event_msg", {"type": "thread_rolled_back", "num_turns": number}) for number in (1, 0, 5, 1)]
    sample = rollout(*lines, *rollbacks)
    events = only(EventRecord, sample.records)
    assert [(event.kind, event.line) for event in events] == [
        ("rewind", 7),
        ("thread_rolled_back", 8),
        ("rewind", 9),
        ("thread_rolled_back", 10),
    ]
    assert [json.loads(event.payload)["left"] for event in events if event.kind == "rewind"] == [[6, 7], [2, 9]]


@pytest.mark.parametrize("kind", ["world_state", "token_usage_record"])
def test_states_of_the_program_are_neither_events_nor_unknown(kind: str) -> None:
    sample = rollout(("session_meta", {"id": "t1"}), (kind, {"thread_id": "t1", "usage": {"input_tokens": 12}}))
    assert {type(record) for record in sample.records} == {RunRecord}
