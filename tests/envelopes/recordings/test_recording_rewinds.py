"""Rewinds of Claude Code: which lines are a branch that left the conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import EventRecord
from tests.envelopes.session_lines import line, message, only, read, tool_result, tool_use


def prompt(uuid: str, parent: str | None, **fields: Any) -> bytes:
    return message("user", f"prompt {uuid}", uuid=uuid, parentUuid=parent, **fields)


def reply(uuid: str, parent: str, *blocks: Any, **fields: Any) -> bytes:
    return message("assistant", list(blocks) or "Done.", uuid=uuid, parentUuid=parent, **fields)


START = [prompt("u1", None), reply("a1", "u1")]
RESUMED = line("assistant", uuid="s1", parentUuid="a1", message={"model": "<synthetic>", "content": "No response."})


@pytest.mark.parametrize(
    ("lines", "rewinds"),
    [
        ([*START, prompt("u2", "a1"), reply("a2", "u2")], []),
        ([*START, prompt("u2", "a1"), reply("a2", "u2"), prompt("u3", "a1")], [([3, 5], None)]),
        ([*START, prompt("u2", "a1"), prompt("u2", "a1")], []),
        ([prompt("u1", None), prompt("u2", None)], []),
        ([*START, prompt("u2", "a1"), RESUMED, prompt("u3", "s1")], [([3, 4], None)]),
        (
            [
                *START,
                reply("a2", "a1", tool_use()),
                message("user", [tool_result()], uuid="r1", parentUuid="a2"),
                message("user", [tool_result("toolu_2")], uuid="r2", parentUuid="a2"),
                prompt("u2", "a2"),
            ],
            [],
        ),
        ([*START, prompt("u2", "a1", isSidechain=True), prompt("u3", "a1", isSidechain=True)], []),
        (
            [*START, prompt("u2", "a1"), reply("a2", "u2"), prompt("u3", "a2"), prompt("u4", "a2"), prompt("u5", "a1")],
            [([5, 6], None), ([3, 7], None)],
        ),
        # A session that is resumed at the end of the branch that was left.
        (
            [*START, prompt("u2", "a1"), reply("a2", "u2"), prompt("u3", "a1"), reply("a3", "u3"), prompt("u4", "a2")],
            [([3, 5], None), ([5, 7], [3, 5])],
        ),
        # Of a branch of one line only that line is an end; the message before it is not.
        ([*START, prompt("u2", "a1"), prompt("u3", "a1"), prompt("u4", "u1")], [([3, 4], None)]),
    ],
)
def test_a_second_prompt_below_a_message_leaves_the_branch_of_the_first(
    lines: list[bytes], rewinds: list[tuple[list[int], list[int] | None]]
) -> None:
    events = [event for event in only(EventRecord, read(b"".join(lines))) if event.kind == "rewind"]
    payloads = [json.loads(event.payload) for event in events]
    assert [(payload["left"], payload["returned"]) for payload in payloads] == rewinds
