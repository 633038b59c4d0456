"""Texts that Claude Code added: attachments, in which words the model got them, and messages that no person wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import SYSTEM_PROMPT, TOOL_DEFINITIONS, EventRecord, MessageRecord
from tests.envelopes.session_lines import line, message, only, read, tool_result, tool_use

REMINDER = "<system-reminder>\nAlso in ci/last.log.\n</system-reminder>"
RENDERED = {"rendered": [{"content": REMINDER}], "renderedRole": "system"}


def attached(kind: Any, *, rendered: Any = None, role: str | None = None, **fields: Any) -> bytes:
    about = {} if rendered is None else {"rendered": rendered}
    return line("attachment", attachment={"type": kind, **fields}, **about, **({"renderedRole": role} if role else {}))


def sent(content: bytes) -> list[tuple[str, str | None, str, Any]]:
    messages = only(MessageRecord, read(content))
    return [(record.role, record.kind, record.delivery, json.loads(record.content)) for record in messages]


TAGGED = [{"type": "text", "text": "<system-reminder>\nWait.\n</system-reminder>"}, {"type": "image", "source": {}}]
PLAIN = [{"type": "text", "text": "Wait.\n"}, {"type": "image", "source": {}}]
RENDERS = attached("date", rendered=[{"content": "today"}], role="system")
BLOCKS = [{"type": "text", "text": "a"}, {"type": "image"}]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (attached("date", rendered=[{"content": "x"}], role="system"), ("system", "date", "sent", "x")),
        (attached("date", rendered=[{"content": TAGGED}], role="system"), ("system", "date", "sent", PLAIN)),
        (attached("date", rendered=[{"content": TAGGED}], role="user"), ("user", "date", "sent", TAGGED)),
        (attached("date", rendered=[{"content": "x"}]), ("user", "date", "sent", "x")),
        (attached("date", rendered=[{"content": BLOCKS}]), ("user", "date", "sent", BLOCKS)),
        (attached("date", rendered=[{"content": "x"}, {"content": ["y"]}]), ("user", "date", "sent", ["x", "y"])),
        (attached("hook_success", rendered=[{"content": "x"}]), ("user", "hook_success", "sent", "x")),
        (attached("skill_listing", content="- a"), ("user", "skill_listing", "reworded", "- a")),
        (
            attached("hook_additional_context", content=["a", "b"]),
            ("user", "hook_additional_context", "reworded", ["a", "b"]),
        ),
        (
            attached("hook_blocking_error", blockingError={"blockingError": "no", "command": "c"}),
            ("user", "hook_blocking_error", "reworded", "no"),
        ),
        (attached("nested_memory", content={"content": "m"}), ("user", "nested_memory", "reworded", "m")),
        (attached("nested_memory", content="m"), ("user", "nested_memory", "reworded", "m")),
        (attached("total_tokens_reminder", text="9 left"), ("user", "total_tokens_reminder", "reworded", "9 left")),
        (
            attached("hook_success", hookEvent="SessionStart", content="on main", stdout="{}"),
            ("user", "hook_success", "reworded", "on main"),
        ),
        (
            attached("invoked_skills", skills=[{"name": "a", "content": "A"}, {"content": "B"}]),
            ("user", "invoked_skills", "reworded", ["A", "B"]),
        ),
        (
            attached("file", content={"type": "text", "file": {"content": "f"}}),
            ("user", "file", "reworded", "f"),
        ),
    ],
)
def test_what_the_model_got_of_an_attachment_is_a_message_of_its_kind(raw: bytes, expected: tuple[Any, ...]) -> None:
    """In the recorded words where the client wrote them (`rendered`), else its text alone."""
    assert sent(raw) == [expected]
    assert only(EventRecord, read(raw)) == []


@pytest.mark.parametrize(
    "raw",
    [
        attached("hook_success", stdout="ok"),
        attached("hook_success", hookEvent="PostToolUse", content="on main"),
        attached("hook_success", hookEvent="SessionStart", content=""),
        attached("command_permissions", allowedTools=["Bash"]),
        attached("date_change", newDate="2026-11-20"),
        attached("date", rendered="x"),
        attached("date", rendered=[]),
        attached("date", rendered=[{"content": 7}]),
        attached("date", rendered=[7]),
        attached("file", content={"type": "image", "file": {"base64": "aGk="}}),
        attached("skill_listing", content=""),
        attached("prompt_snapshot"),
        attached("prompt_snapshot", systemPrompt="one text", tools=7),
    ],
)
def test_what_the_model_did_not_get_or_is_not_known_to_have_is_an_event(raw: bytes) -> None:
    assert sent(raw) == []
    [event] = only(EventRecord, read(raw))
    assert (event.kind, event.message, event.payload) == ("attachment", json.loads(raw)["attachment"]["type"], raw)


def test_a_client_that_writes_what_it_sent_did_not_send_what_a_hook_printed() -> None:
    hook = attached("hook_success", hookEvent="SessionStart", content="on main")
    assert [kind for _, kind, *_ in sent(RENDERS + hook)] == ["date"]


def test_an_added_text_that_names_its_call_is_an_event_of_it_too() -> None:
    raw = line("attachment", attachment={"type": "hook_additional_context", "toolUseID": "toolu_1"}, **RENDERED)
    assert sent(raw) == [("system", "hook_additional_context", "sent", "Also in ci/last.log.")]
    assert [event.call for event in only(EventRecord, read(raw))] == ["toolu_1"]


def test_the_system_prompt_and_the_tools_are_messages_where_they_change() -> None:
    prompt, tools = ["You are an agent.", "Work in /shop."], [{"name": "Bash", "input_schema": {}}]
    split = [prompt[0], "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__", prompt[1]]
    lines = [
        attached("prompt_snapshot", systemPrompt=split),
        attached("prompt_snapshot", systemPrompt=split, tools=tools, cliPrefix="p"),
        attached("prompt_snapshot", systemPrompt=split, tools=tools),
        attached("prompt_snapshot", systemPrompt=["Another."], tools=tools),
    ]
    state: dict[str, object] = {}
    parts = [only(MessageRecord, read(part, state=state)) for part in lines]
    assert [[(record.kind, json.loads(record.content)) for record in part] for part in parts] == [
        [(SYSTEM_PROMPT, prompt)],
        [(TOOL_DEFINITIONS, tools)],
        [],
        [(SYSTEM_PROMPT, ["Another."])],
    ]
    assert {record.role for part in parts for record in part} == {"system"}
    assert [kind for _, kind, *_ in sent(b"".join(lines))] == [SYSTEM_PROMPT, TOOL_DEFINITIONS, SYSTEM_PROMPT]


def queue(operation: str, content: Any = None) -> bytes:
    return line("queue-operation", uuid=None, operation=operation, **({} if content is None else {"content": content}))


STEP = message("assistant", [tool_use()], uuid="a1")
ANSWER = message("user", [tool_result()], uuid="r1", toolUseResult={"stdout": "done"})
QUEUED = attached("queued_command", rendered=[{"content": "You got: wait"}], role="user", prompt="wait")


@pytest.mark.parametrize(
    "lines",
    [
        [RENDERS, STEP, queue("enqueue", "wait"), ANSWER, queue("remove"), QUEUED],
        [RENDERS, STEP, queue("enqueue", "wait"), ANSWER, QUEUED, queue("remove")],
        [RENDERS, QUEUED],
        [QUEUED],
    ],
)
def test_a_queued_message_is_in_the_words_in_which_it_was_sent(lines: list[bytes]) -> None:
    state: dict[str, object] = {}
    parts = [record for part in lines for record in only(MessageRecord, read(part, state=state))]
    whole = only(MessageRecord, read(b"".join(lines)))
    for records in (parts, whole):
        queued = [(record.delivery, record.kind, json.loads(record.content)) for record in records if not record.kind]
        assert queued == [("sent", None, "You got: wait")]


def test_a_report_of_a_background_task_is_still_an_event_of_its_call() -> None:
    report = "<task-notification>\n<tool-use-id>toolu_9</tool-use-id>\n</task-notification>"
    raw = attached("queued_command", rendered=[{"content": f"Note: {report}"}], prompt=report)
    assert [(event.kind, event.call) for event in only(EventRecord, read(raw))] == [("task_notification", "toolu_9")]
    assert [content for *_, content in sent(raw)] == [f"Note: {report}"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, None),
        ({"isCompactSummary": True, "isVisibleInTranscriptOnly": True}, "compaction summary"),
        ({"isMeta": True}, "meta"),
        ({"isMeta": True, "origin": {"kind": "peer"}}, "peer"),
        ({"origin": {"kind": "task-notification"}}, "task-notification"),
        ({"origin": {"kind": "human"}}, None),
        ({"origin": {"kind": "human"}, "isMeta": True}, "meta"),
        ({"origin": "task-notification"}, None),
        ({"origin": {"kind": 7}}, None),
    ],
)
def test_a_message_that_no_person_wrote_has_a_kind(fields: dict[str, Any], kind: str | None) -> None:
    [written] = only(MessageRecord, read(message("user", "look", **fields)))
    assert (written.role, written.kind, written.delivery) == ("user", kind, "sent")
    [answer] = only(MessageRecord, read(message("assistant", "done", **fields)))
    assert answer.kind is None


REPORT = "<task-notification>\n<task-id>b7</task-id>\n</task-notification>"


@pytest.mark.parametrize(
    "raw",
    [
        message("user", REPORT),
        message("user", [{"type": "text", "text": REPORT}]),
        attached("queued_command", prompt=REPORT),
        attached("queued_command", prompt=REPORT, rendered=[{"content": f"Note: {REPORT}"}]),
        queue("enqueue", REPORT) + STEP + ANSWER + queue("remove"),
    ],
)
def test_a_report_of_a_background_task_is_no_message_of_a_person(raw: bytes) -> None:
    [written] = [record for record in only(MessageRecord, read(raw)) if "task-id" in record.content.decode()]
    assert (written.role, written.kind) == ("user", "task-notification")
