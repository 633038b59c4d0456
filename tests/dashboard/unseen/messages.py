"""What stands in the lines: results, contents and blocks of every kind, and what other releases write beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.dashboard.sessions import SESSION, answers, asks, user
from tests.dashboard.unseen.made import AGENT, Recorded, lines, many, plain, session, told, use, without

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SAVED = f"/home/x/.claude/projects/p/{SESSION}/tool-results/toolu_1.txt"
RESULTS: dict[str, Any] = {
    "a string": "Error: no",
    "an empty string": "",
    "a list": [{"type": "text", "text": "x"}],
    "an empty list": [],
    "an empty object": {},
    "a number": 7,
    "a float": 1.0,
    "true": True,
    "an unknown object": {"weird": {"deep": [1, None, "x"]}},
}
CONTENTS: dict[str, Any] = {
    "an empty string": "",
    "an empty list": [],
    "null": None,
    "two texts": [{"type": "text", "text": "a"}, {"type": "text", "text": "b\n"}],
    "a text and an image": [{"type": "text", "text": "a"}, IMAGE],
    "an image alone": [IMAGE],
    "an image by address": [{"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}],
    "a document": [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}
    ],
    "a tool reference": [{"type": "tool_reference", "tool_name": "mcp__a__b"}],
    "an unknown part": [{"type": "hologram", "data": [1, 2]}],
    "strings in the list": ["a", "b"],
    "an object": {"type": "text", "text": "a"},
    "a number": 12,
}


def _each(values: Mapping[str, Any], answer: Callable[[str, Any], dict[str, Any]]) -> Recorded:
    found: list[Any] = []
    for at, value in enumerate(values.values()):
        found += [asks(f"toolu_{at}"), answer(f"toolu_{at}", value)]
    return session(*found)


RECORDINGS: dict[str, Recorded] = {
    "each kind of structured result": _each(RESULTS, lambda call, value: answers(call, "a", value)),
    "each kind of content": _each(CONTENTS, lambda call, value: answers(call, value)),
    "a null result": session(asks("toolu_1"), {**answers("toolu_1"), "toolUseResult": None}),
    "no structured result": session(asks("toolu_1"), without(answers("toolu_1"), "toolUseResult")),
    "a tool result without content": session(
        asks("toolu_1"), many("user", {"type": "tool_result", "tool_use_id": "toolu_1"}, toolUseResult={"stdout": "x"})
    ),
    "an old release": session(
        {"type": "summary", "summary": "Earlier work", "leafUuid": "elsewhere"},
        {**user("hi", uuid="u1"), "version": "1.0.35", "userType": "external", "parentUuid": None},
        {**asks("toolu_1", "MultiEdit", {"file_path": "/a", "edits": []}), "costUSD": 0.1, "durationMs": 12},
        {
            **answers("toolu_1", "Applied 0 edits"),
            "toolUseResult": {"filePath": "/a", "edits": [], "originalFileContents": "x"},
        },
        asks("toolu_2", "LS", {"path": "/"}),
        answers("toolu_2", "- /\n  - a", "- /\n  - a\n"),
        asks("toolu_3", "exit_plan_mode", {"plan": "p"}),
        answers("toolu_3", "The user doesn't want to proceed with this tool use.", "Error: rejected", is_error=True),
    ),
    "a new release": session(
        plain("permission-mode", permissionMode="default"),
        plain("queue-operation", operation="enqueue", content="go on"),
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}},
        {"type": "file-history-delta", "messageId": "m", "snapshotMessageId": "m", "trackingPath": "/a"},
        plain("attachment", uuid="at0", attachment={"type": "queued_command", "prompt": "and test it"}),
        plain("attachment", uuid="at1", attachment={"type": "deferred_tools_delta", "addedNames": ["X"]}),
        {**user("hi", uuid="u1"), "promptId": "p", "permissionMode": "default", "entrypoint": "cli", "slug": "a-b"},
        asks("toolu_1", "Agent", {"description": "d", "prompt": "look", "subagent_type": "Explore"}),
        {
            **answers(
                "toolu_1",
                [{"type": "text", "text": "ok"}],
                {"isAsync": True, "status": "async_launched", "agentId": AGENT},
            ),
            "sourceToolAssistantUUID": "a-toolu_1",
            "toolDenialKind": None,
        },
        asks("toolu_2", "mcp__x__y", {}),
        {
            **answers("toolu_2", "1", [{"type": "text", "text": "1"}]),
            "mcpMeta": {"structuredContent": {"n": 1}, "_meta": {}},
        },
        plain("system", subtype="turn_duration", durationMs=5, uuid="sy1", isMeta=False),
        plain("system", subtype="stop_hook_summary", hookCount=1, uuid="sy2"),
        plain("system", subtype="local_command", content="<command-name>/cost</command-name>", uuid="sy3"),
        plain("last-prompt", lastPrompt="hi"),
        plain("custom-title", customTitle="Named by hand"),
        plain("agent-name", agentName="x"),
        plain("pr-link", prNumber=3, prUrl="https://example.org"),
        plain("worktree-state", worktree=None),
        plain("not-invented-yet", anything=[1, {"a": 2}]),
    ),
    "messages that the program wrote": session(
        {**user("Caveat: The messages below", uuid="u0"), "isMeta": True},
        user("<command-name>/clear</command-name>", uuid="u1"),
        asks("toolu_1"),
        {**answers("toolu_1"), "isMeta": True},
        {
            **plain(
                "assistant",
                uuid="e1",
                message={"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529"}]},
            ),
            "isApiErrorMessage": True,
        },
        {
            **user("This session is being continued", uuid="u2"),
            "isCompactSummary": True,
            "isVisibleInTranscriptOnly": True,
        },
    ),
    "compaction in every form": session(
        asks("toolu_1"),
        answers("toolu_1", "long" * 100),
        plain(
            "system",
            subtype="microcompact_boundary",
            uuid="b1",
            content="Context microcompacted",
            microcompactMetadata={
                "trigger": "auto",
                "compactedToolIds": ["toolu_1", 7, None],
                "clearedAttachmentUUIDs": [],
            },
        ),
        asks("toolu_2"),
        answers("toolu_2"),
        plain(
            "content-replacement",
            replacements=[
                {"kind": "tool-result", "toolUseId": "toolu_2", "replacement": "<persisted-output>x"},
                {"kind": "tool-result"},
                3,
            ],
        ),
        plain(
            "system",
            subtype="compact_boundary",
            uuid="b2",
            content="Conversation compacted",
            compactMetadata={"trigger": "manual", "preTokens": 3},
        ),
        plain("system", subtype="microcompact_boundary", uuid="b3", microcompactMetadata=None),
        plain("content-replacement", agentId=AGENT, replacements=[]),
    ),
    "blocks of every kind": session(
        many(
            "assistant",
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "now"},
            use("toolu_1"),
            use("toolu_2", "Read", file_path="/a"),
        ),
        many(
            "assistant",
            {"type": "redacted_thinking", "data": "x"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        ),
        many(
            "user",
            told("toolu_1"),
            {"type": "text", "text": "[Request interrupted by user]"},
            toolUseResult="Error: interrupted",
        ),
        many("user", told("toolu_2", is_error=True), IMAGE),
    ),
    "several results in a line": session(
        many("assistant", use("toolu_1"), use("toolu_2"), use("toolu_3")),
        many(
            "user",
            told("toolu_1"),
            told("toolu_2", [{"type": "text", "text": "x"}]),
            told("toolu_3", is_error=True),
            toolUseResult=[1, 2, 3],
        ),
    ),
    "answers before their calls": session(answers("toolu_2"), answers("toolu_1"), asks("toolu_1"), asks("toolu_2")),
    "an answer without a call": session(asks("toolu_1"), answers("toolu_lost"), answers("toolu_1")),
    "the same lines twice": session(*[asks("toolu_1"), answers("toolu_1")] * 2),
    "one id asked twice with other arguments": session(
        asks("toolu_1"), asks("toolu_1", args={"command": "pwd"}), answers("toolu_1")
    ),
    "one call answered twice": session(
        asks("toolu_1"), answers("toolu_1"), answers("toolu_1", "other", {"stdout": "other"})
    ),
    "unanswered calls": session(asks("toolu_1"), asks("toolu_2"), answers("toolu_2"), asks("toolu_3")),
    "ids of other providers": session(
        *[
            one
            for call in ("call_0", "toolu_bdrk_01", "tooluse_x-1", "functions.Bash:0", "1", "é", "a b/c?d#e")
            for one in (asks(call), answers(call))
        ]
    ),
    "outputs that were persisted": Recorded(
        {
            f"{SESSION}.jsonl": lines(
                asks("toolu_1"),
                answers(
                    "toolu_1",
                    f"<persisted-output>\nOutput too large (25.8KB). Full output saved to: {SAVED}\n\nPreview:\nline\n",
                    {
                        "stdout": "line\n" * 6000,
                        "stderr": "",
                        "persistedOutputPath": SAVED,
                        "persistedOutputSize": 30_000,
                    },
                ),
                asks("toolu_2"),
                answers(
                    "toolu_2",
                    "<persisted-output>\nOutput too large. Full output saved to: /gone.txt\n\nPreview:\n" + "x" * 9000,
                ),
            ),
            f"{SESSION}/tool-results/toolu_1.txt": b"line\n" * 6000,
        }
    ),
}
