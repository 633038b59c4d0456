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


def client_line(uuid: str, parent: str, kind: str = "progress", **fields: Any) -> bytes:
    about = {"progress": {"data": {"type": "hook_progress"}}, "system": {"subtype": "turn_duration"}}
    return line(kind, uuid=uuid, parentUuid=parent, **about.get(kind, {}), **fields)


def attached(uuid: str, parent: str) -> bytes:
    return client_line(uuid, parent, "attachment", attachment={"type": "todo_reminder"})


FIRST = [client_line("h1", "a1"), prompt("u2", "h1"), reply("a2", "u2")]


@pytest.mark.parametrize(
    ("lines", "rewinds"),
    [
        ([*START, *FIRST, client_line("h2", "a1"), prompt("u3", "h2")], [([3, 6], None)]),
        ([*START, *FIRST, prompt("u3", "a1")], [([3, 6], None)]),
        ([*START, prompt("u2", "a1"), client_line("h2", "a1"), prompt("u3", "h2")], [([3, 4], None)]),
        (
            [
                *START,
                client_line("t1", "a1", "system"),
                *[attached("h1", "t1"), attached("h2", "h1"), prompt("u2", "h2"), reply("a2", "u2")],
                *[attached("h3", "t1"), attached("h4", "h3"), prompt("u3", "h4"), reply("a3", "u3")],
                *[client_line("t2", "a2", "system"), attached("h5", "t2"), prompt("u4", "h5")],
            ],
            [([4, 8], None), ([8, 13], [4, 8])],
        ),
        # The first line is the notice at the end of the turn, which belongs to no prompt.
        ([*START, client_line("t1", "a1", "system"), prompt("u2", "t1"), prompt("u3", "a1")], [([4, 5], None)]),
        ([*START, *FIRST, client_line("h2", "a2"), prompt("u3", "h2")], []),
        ([*START, *FIRST, client_line("h2", "a1"), prompt("u3", "h2", isMeta=True)], []),
        ([*START, prompt("m1", "a1", isMeta=True), client_line("h2", "a1"), prompt("u3", "h2")], []),
        ([*START, *FIRST, client_line("h2", "a1", isSidechain=True), prompt("u3", "h2", isSidechain=True)], []),
        (
            [
                *START,
                reply("a2", "a1", tool_use(), tool_use("toolu_2")),
                *[client_line("h1", "a2"), client_line("h2", "h1")],
                message("user", [tool_result()], uuid="r1", parentUuid="h2"),
                message("user", [tool_result("toolu_2")], uuid="r2", parentUuid="a2"),
                *[client_line("h3", "r2"), prompt("u2", "h3")],
            ],
            [],
        ),
    ],
)
def test_lines_of_the_client_before_a_prompt_do_not_hide_a_rewind(
    lines: list[bytes], rewinds: list[tuple[list[int], list[int] | None]]
) -> None:
    events = [event for event in only(EventRecord, read(b"".join(lines))) if event.kind == "rewind"]
    payloads = [json.loads(event.payload) for event in events]
    assert [(payload["left"], payload["returned"]) for payload in payloads] == rewinds
