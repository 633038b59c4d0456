"""Compactions and rollbacks of Codex: what they left of the conversation; and records of what no call started."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import CallRecord, EventRecord, MessageRecord, ResultRecord, RunRecord
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


def test_a_compaction_without_its_history_keeps_the_newest_messages_of_people_and_no_receipt() -> None:
    """Codex keeps 20,000 tokens of them, as it estimates."""
    texts = ("first", "second " * 11_420, "<environment_context></environment_context>")
    prompts = [said("user", text) for text in texts]
    sample = rollout(
        *(("response_item", prompt) for prompt in prompts),
        ("response_item", {"type": "function_call_output", "call_id": "c", "output": "a"}),
        ("compacted", {"message": "so far"}),
    )
    event = only(EventRecord, sample.records)[-1]
    assert (event.kind, json.loads(event.payload)) == ("partial_compact_boundary", {"kept": [2]})


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


@pytest.mark.parametrize(
    ("texts", "start"),
    [
        (["<div> is rendered twice, fix it"], 2),
        (["<environment_context> is too long, why?"], 2),
        (["# AGENTS.md is out of date"], 2),
        (["<image name=[Image #1]>", "</image>", "what is this?"], 2),
        (["<environment_context>\n  <cwd>/srv</cwd>\n</environment_context>\n"], 1),
        (["<user_instructions>be brief</user_instructions>"], 1),
        (["# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>"], 1),
        (["<turn_aborted>\nthe person stopped it\n</turn_aborted>"], 1),
        (["<user_shell_command>\n<command>ls</command>\n</user_shell_command>"], 1),
        (['<skill source="compact_backfill">\n<name>x</name>\n</skill>'], 1),
        (["<subagent_notification>{}</subagent_notification>"], 1),
        (['<codex_internal_context source="goal">\ngo on\n</codex_internal_context>'], 1),
        (["<external_editor>a.py</external_editor>"], 1),
        (["look", "<environment_context>x</environment_context>"], 1),
    ],
)
def test_what_a_person_wrote_begins_a_turn_and_what_the_client_adds_begins_none(texts: list[str], start: int) -> None:
    """A rollback of one turn removes the lines from `start`: the first line is a prompt, the second that message."""
    message = item("message", role="user", content=[{"type": "input_text", "text": text} for text in texts])
    rollback = ("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    events = only(EventRecord, rollout(("response_item", said("user", "go")), message, rollback).records)
    assert [json.loads(event.payload)["left"] for event in events] == [[start, 3]]


def command_end(call: str, session: str, output: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    record = {"call_id": call, "process_id": session, "exit_code": 0, "aggregated_output": output}
    return "event_msg", {"type": "exec_command_end", **record, **fields}


@pytest.mark.parametrize(
    ("record", "nested"),
    [
        (command_end("u1", "7", "hello\n"), "outer"),
        (command_end("u1", "7", "hello\n", source="user_shell"), None),
        (
            ("event_msg", {"type": "mcp_tool_call_end", "call_id": "exec-77", "result": {"Ok": {"content": []}}}),
            "outer",
        ),
        (("event_msg", {"type": "patch_apply_end", "call_id": "exec-78", "success": False}), "outer"),
    ],
)
def test_a_record_of_what_no_call_started_is_an_event(record: tuple[str, dict[str, Any]], nested: str | None) -> None:
    """It is one of the open call of code mode, unless the person ran a command."""
    program = item("custom_tool_call", name="exec", input="1", call_id="outer")
    for lines, call in (([record], None), ([program, record], nested)):
        sample = rollout(*lines)
        assert not sample.results
        assert [(event.kind, event.call) for event in only(EventRecord, sample.records)] == [(record[1]["type"], call)]


def test_a_record_of_a_call_that_the_provider_named_is_its_result_wherever_the_call_is() -> None:
    assert list(rollout(command_end("call_Y2p6KmqwoTtpi6atpDPuxC5M", "7", "a\n")).results)


def test_a_session_id_that_is_used_again_has_the_record_of_the_new_command() -> None:
    """An input that reports its end is answered by that record, and by none of the command before."""
    lines: list[tuple[str, dict[str, Any]]] = []
    for name in ("one", "two"):
        sent = json.dumps({"session_id": 7, "chars": "y\n"})
        lines += [
            item("function_call", name="exec_command", arguments="{}", call_id=name),
            item("function_call_output", call_id=name, output="Process running with session ID 7\nOutput:\n"),
            item("function_call", name="write_stdin", arguments=sent, call_id=f"into {name}"),
            item("function_call_output", call_id=f"into {name}", output="Process exited with code 0\nOutput:\n"),
            command_end(name, "7", f"{name}\n"),
        ]
    results = only(ResultRecord, rollout(*lines).records)
    assert [(result.call, json.loads(result.result or b"")["aggregated_output"]) for result in results] == [
        ("one", "one\n"),
        ("into one", "one\n"),
        ("two", "two\n"),
        ("into two", "two\n"),
    ]


@pytest.mark.parametrize("kind", ["world_state", "token_usage_record"])
def test_states_of_the_program_are_neither_events_nor_unknown(kind: str) -> None:
    sample = rollout(("session_meta", {"id": "t1"}), (kind, {"thread_id": "t1", "usage": {"input_tokens": 12}}))
    assert {type(record) for record in sample.records} == {RunRecord}


def test_calls_of_one_turn_are_of_one_answer_only_until_an_output_or_a_prompt_follows() -> None:
    """A recording names the turn of the person, in which the model may answer many times."""
    sample = rollout(
        ("turn_context", {"turn_id": "t", "model": "gpt-5"}),
        item("message", role="user", content=[{"type": "input_text", "text": "look"}]),
        item("message", role="assistant", id="m1", content=[{"type": "output_text", "text": "I look."}]),
        *(item("function_call", name="shell", call_id=call, arguments="{}") for call in ("a", "b")),
        *(item("function_call_output", call_id=call, output="x") for call in ("a", "b")),
        item("function_call", name="shell", call_id="c", arguments="{}"),
        item("function_call_output", call_id="c", output="x"),
        ("turn_context", {"turn_id": "u", "model": "gpt-5"}),
        item("function_call", name="shell", call_id="d", arguments="{}"),
    )
    steps = {call.call: call.step for call in only(CallRecord, sample.records)}
    assert steps == {
        "a": "t/m1",
        "b": "t/m1",
        "c": "t/c",
        "d": "u/d",
    }
    assert [message.step for message in only(MessageRecord, sample.records)] == [None, "t/m1"]
