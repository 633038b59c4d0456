"""What a request to the model weighed, and where a conversation began anew, in Claude Code's files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import EventRecord, SourcePath, UsageRecord
from envelopes.recordings.claude_code import STREAM
from tests.envelopes.session_lines import OLD, line, only, read, source, tool_use

USAGE = {"input_tokens": 8, "cache_read_input_tokens": 13_163, "cache_creation_input_tokens": 125_224}


def reply(request: str = "msg_1", usage: Any = None) -> bytes:
    message = {"id": request, "role": "assistant", "model": "claude-x", "content": [tool_use()]}
    return line("assistant", message={**message, "usage": usage or {**USAGE, "output_tokens": 1}})


def usages(*lines: bytes) -> list[UsageRecord]:
    return only(UsageRecord, read(b"".join(lines)))


def test_a_request_has_the_usage_of_its_message_byte_for_byte() -> None:
    raw = reply()
    [usage] = usages(raw)
    assert (usage.line, usage.run, usage.request, usage.origin) == (1, OLD, "msg_1", "message")
    assert (usage.context_tokens, usage.output_tokens) == (138_395, 1)
    assert usage.usage in raw
    assert json.loads(usage.usage) == {**USAGE, "output_tokens": 1}


def test_a_usage_that_several_lines_repeat_is_read_once_and_again_when_it_changes() -> None:
    whole = {**USAGE, "output_tokens": 812}
    records = usages(reply(), reply(), reply(usage=whole), reply(usage=whole), reply("msg_2"))
    assert [(usage.line, usage.request, usage.output_tokens) for usage in records] == [
        (1, "msg_1", 1),
        (3, "msg_1", 812),
        (5, "msg_2", 1),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        line("assistant", message={"id": "m", "model": "<synthetic>", "content": "No.", "usage": USAGE}),
        reply(usage={"input_tokens": 0, "output_tokens": 0}),
        reply(usage="none"),
        reply(usage={"input_tokens": "8", "cache_read_input_tokens": -4}),
        line("user", message={"id": "m", "content": "Hello", "usage": USAGE}),
    ],
    ids=["written by the client", "no tokens", "no object", "no numbers", "not the model's"],
)
def test_what_is_no_request_has_no_usage(raw: bytes) -> None:
    assert usages(raw) == []


@pytest.mark.parametrize(
    ("management", "cleared"),
    [
        (
            {"applied_edits": [{"type": "clear_tool_uses", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}]},
            50_000,
        ),
        ({"applied_edits": [{"cleared_input_tokens": 50_000}, {"cleared_input_tokens": 2}, 3]}, 50_002),
        ({"applied_edits": [{"type": "clear_tool_uses"}]}, None),
    ],
)
def test_edits_that_the_provider_applied_are_read(management: dict[str, Any], cleared: int | None) -> None:
    message = {"id": "m", "model": "claude-x", "content": [], "usage": USAGE, "context_management": management}
    [usage] = usages(line("assistant", message=message))
    assert json.loads(usage.edits or b"") == management
    assert usage.cleared_tokens == cleared


@pytest.mark.parametrize("management", [None, {"applied_edits": []}, {"applied_edits": None}, "none"])
def test_no_edit_is_no_edit(management: Any) -> None:
    message = {"id": "m", "model": "claude-x", "content": [], "usage": USAGE, "context_management": management}
    [usage] = usages(line("assistant", message=message))
    assert (usage.edits, usage.cleared_tokens) == (None, None)


def one_pass(kind: str | None, read_tokens: int, created: int, output: int = 10) -> dict[str, Any]:
    counts = {"input_tokens": 2, "cache_read_input_tokens": read_tokens, "cache_creation_input_tokens": created}
    return {**({"type": kind} if kind else {}), **counts, "output_tokens": output}


FIRST, LAST = one_pass("message", 110_550, 1_441), one_pass("message", 111_991, 1_652)
ADVISOR, SUMMARY = one_pass("advisor_message", 0, 113_778), one_pass("compaction", 170_000, 10_000)
SUM = {"input_tokens": 4, "cache_read_input_tokens": 222_541, "cache_creation_input_tokens": 3_093}


@pytest.mark.parametrize(
    ("counts", "passes", "context", "cleared"),
    [
        (SUM, [FIRST, ADVISOR, LAST], 113_645, None),
        (SUM, [FIRST, {**LAST, "type": "fallback_message"}, ADVISOR], 113_645, None),
        (SUM, [one_pass(None, 110_550, 1_441), one_pass(None, 111_991, 1_652)], 113_645, None),
        (LAST, [LAST], 113_645, None),
        (LAST, [SUMMARY, LAST], 113_645, 180_002 - 113_645),
        (LAST, [LAST, one_pass("compaction", 100, 0)], 113_645, 0),
        (SUM, [], 225_638, None),
        (SUM, [ADVISOR], 225_638, None),
        (SUM, [7, "x", {"type": "message"}], 225_638, None),
        (SUM, {"0": FIRST}, 225_638, None),
    ],
)
def test_the_context_of_a_request_is_that_of_the_models_last_pass(
    counts: dict[str, Any], passes: Any, context: int, cleared: int | None
) -> None:
    """The counts are the sum of the passes, which the request costs; another model's pass is in none of them."""
    usage = {**counts, "output_tokens": 790, "iterations": passes}
    [record] = usages(reply(usage=usage))
    assert (record.context_tokens, record.cleared_tokens) == (context, cleared)
    assert json.loads(record.edits or b"null") == (passes if cleared is not None else None)
    assert record.context_tokens + record.repeated_tokens == sum(counts[name] for name in SUM)


def test_a_subagents_requests_are_a_chain_of_their_own() -> None:
    progress = {
        "type": "agent_progress",
        "agentId": "a1",
        "prompt": "Look.",
        "message": {"type": "assistant", "uuid": "p1", "message": {"id": "msg_9", "content": [], "usage": USAGE}},
    }
    sidechain = {"id": "msg_8", "role": "assistant", "content": "Yes.", "usage": USAGE}
    records = usages(
        reply(),
        line("progress", data=progress, parentToolUseID="toolu_1"),
        line("assistant", message=sidechain, isSidechain=True, agentId="a2"),
    )
    assert [(usage.run, usage.request, usage.origin) for usage in records] == [
        (OLD, "msg_1", "message"),
        (f"{OLD}/a1", "msg_9", "progress"),
        (f"{OLD}/a2", "msg_8", "message"),
    ]


def test_a_stream_has_the_same() -> None:
    message = {"id": "msg_1", "role": "assistant", "content": [], "usage": USAGE}
    lines = [{"type": "assistant", "session_id": OLD, "message": message, "uuid": str(number)} for number in (1, 2)]
    raw = b"".join(json.dumps(entry).encode() + b"\n" for entry in lines)
    [usage] = only(UsageRecord, STREAM.read(source(raw), SourcePath("stream.jsonl"), {}))
    assert (usage.run, usage.context_tokens) == (OLD, 138_395)


START = [
    line("user", uuid="u1", parentUuid=None, message={"content": "Hello"}),
    line("assistant", uuid="a1", parentUuid="u1", message={"id": "m", "content": "Hello."}),
]
HOOK = line("progress", uuid="h1", parentUuid=None, data={"type": "hook_progress", "hookName": "SessionStart:clear"})


def prompt(parent: str | None, uuid: str = "u2") -> bytes:
    return line("user", uuid=uuid, parentUuid=parent, message={"content": "Implement the plan"})


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        pytest.param([*START, HOOK, prompt("h1")], [(2, 3)], id="a clear with a hook"),
        pytest.param([*START, prompt(None)], [(2, 3)], id="a prompt that follows nothing"),
        pytest.param([*START, HOOK, prompt("a1")], [], id="the conversation goes on beside the hook"),
        pytest.param([*START, prompt("a1")], [], id="it goes on"),
        pytest.param(
            [*START, line("system", subtype="compact_boundary", uuid="c1", parentUuid=None), prompt("c1")],
            [],
            id="a compaction reports itself",
        ),
        pytest.param(
            [*START, line("user", uuid="s1", parentUuid=None, isSidechain=True, message={"content": "Look."})],
            [],
            id="a subagent begins",
        ),
        pytest.param([line("user", uuid="u1", message={"content": "Hello"}), prompt("u1")], [], id="no parents at all"),
    ],
)
def test_a_conversation_that_begins_anew_is_an_event_at_the_line_before(
    lines: list[bytes], events: list[tuple[int, int]]
) -> None:
    records = [event for event in only(EventRecord, read(b"".join(lines))) if event.kind == "new_conversation"]
    assert [(event.line, event.message) for event in records] == [
        (before, f"the conversation began anew at line {root}") for before, root in events
    ]
