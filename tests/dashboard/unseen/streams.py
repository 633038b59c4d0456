"""The output of stream-json."""

from __future__ import annotations

from tests.dashboard.sessions import SESSION, answers, asks
from tests.dashboard.unseen.made import CHILD, OTHER, SPAWN, SPAWNED, Recorded, lines, stream, streamed, use, without

RECORDINGS: dict[str, Recorded] = {
    "a stream with pieces": Recorded(
        {
            "out.jsonl": lines(
                stream("system", subtype="init", model="m", cwd="/w", tools=["Bash"], claude_code_version="2.1.60"),
                stream(
                    "stream_event",
                    event={"type": "message_start", "message": {"id": "msg_1", "content": []}},
                    parent_tool_use_id=None,
                ),
                stream(
                    "stream_event", event={"type": "content_block_start", "index": 0, "content_block": use("toolu_1")}
                ),
                stream(
                    "stream_event",
                    event={
                        "type": "content_block_delta",
                        "index": 0,
                        "delta": {"type": "input_json_delta", "partial_json": '{"com'},
                    },
                ),
                streamed(asks("toolu_1")),
                stream("tool_progress", tool_use_id="toolu_1", tool_name="Bash", elapsed_time_seconds=3),
                streamed(answers("toolu_1")),
                stream("system", subtype="status", status="compacting"),
                stream("system", subtype="compact_boundary", compact_metadata={"trigger": "auto"}),
                stream("rate_limit_event", rate_limit_info={}),
                stream("tool_use_summary", summary="s", preceding_tool_use_ids=["toolu_1"]),
                stream("user", isReplay=True, message={"role": "user", "content": "again"}),
                stream(
                    "result",
                    subtype="success",
                    is_error=False,
                    duration_ms=5,
                    result="done",
                    usage={},
                    permission_denials=[{"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {}}],
                ),
            )
        }
    ),
    "a stream that failed": Recorded(
        {
            "out.jsonl": lines(
                stream("system", subtype="hook_started", hook_name="x"),
                stream("system", subtype="init", model="m"),
                streamed(asks("toolu_1")),
                stream("result", subtype="error_max_turns", is_error=True, errors=["no"]),
            )
        }
    ),
    "a stream with noise": Recorded(
        {
            "out.jsonl": lines(
                b"npm warn deprecated",
                stream("system", subtype="init", model="m"),
                streamed(asks("toolu_1")),
                b"(node:1) Warning",
                streamed(answers("toolu_1")),
                {"type": "control_response", "response": {}},
                {"type": "keep_alive"},
            )
        },
        {"out.jsonl": (1, 4)},
    ),
    "a stream with a subagent": Recorded(
        {
            "out.jsonl": lines(
                stream("system", subtype="init", model="m"),
                streamed(SPAWN),
                streamed(CHILD[0], "toolu_spawn"),
                streamed(CHILD[1], "toolu_spawn"),
                streamed(CHILD[2], "toolu_spawn"),
                streamed(SPAWNED),
            )
        }
    ),
    "two streams in one file": Recorded(
        {
            "out.jsonl": lines(
                *[
                    one
                    for name, call in ((SESSION, "call_0"), (OTHER, "call_0"))
                    for one in (
                        {**stream("system", subtype="init", model=name), "session_id": name},
                        streamed(asks(call), None, name),
                        streamed(answers(call, name), None, name),
                        {**stream("result", subtype="success"), "session_id": name},
                    )
                ]
            )
        }
    ),
    "a stream of older names": Recorded(
        {
            "out.jsonl": lines(
                stream("system", subtype="init", model="m"),
                without(streamed(asks("toolu_1")), "uuid", "parent_tool_use_id"),
                without(streamed(answers("toolu_1")), "uuid", "tool_use_result", "parent_tool_use_id"),
            )
        }
    ),
    "a stream that begins with a long line": Recorded(
        {
            "out.jsonl": lines(
                stream("system", subtype="init", model="m", tools=["x" * 100_000]),
                streamed(asks("toolu_1")),
                streamed(answers("toolu_1")),
            )
        }
    ),
}
