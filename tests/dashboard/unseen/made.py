"""What the recordings are made of: lines of a session, of a stream, and the blocks in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.dashboard.sessions import SESSION, answers, asks, encoded, user

OTHER = "0f5f6d8e-0000-4000-8000-0000000000aa"
AT = "2026-03-01T09:00:05.000Z"


@dataclass(frozen=True)
class Recorded:
    """Files by path, and of each the numbers of the lines that cannot be read."""

    files: Mapping[str, bytes]
    refused: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def lines(*found: Any, end: bytes = b"\n") -> bytes:
    return b"".join(encoded(one) + end for one in found)


def session(*found: Any, name: str = f"{SESSION}.jsonl", refused: tuple[int, ...] = ()) -> Recorded:
    return Recorded({name: lines(*found)}, {name: refused} if refused else {})


def plain(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "sessionId": SESSION, "timestamp": AT, **fields}


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


def many(kind: str, *blocks: Any, **fields: Any) -> dict[str, Any]:
    return plain(
        kind, uuid=f"m-{len(blocks)}", message={"id": "msg_9", "role": kind, "content": list(blocks)}, **fields
    )


def use(call: Any, tool: Any = "Bash", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": args}


def told(call: Any, content: Any = "a\nb", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **fields}


def stream(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": SESSION, "uuid": f"s-{kind}", **fields}


def streamed(line: dict[str, Any], parent: str | None = None, session_id: str = SESSION) -> dict[str, Any]:
    kept = {"tool_use_result": line["toolUseResult"]} if "toolUseResult" in line else {}
    named = {"type": line["type"], "uuid": line["uuid"], "session_id": session_id, "message": line["message"]}
    return {**named, "parent_tool_use_id": parent, **kept}


AGENT = "a1b2c3d"
SIDE = {"isSidechain": True, "agentId": AGENT}
SPAWN = asks("toolu_spawn", "Task", {"description": "look", "prompt": "look", "subagent_type": "Explore"})
SPAWNED = answers(
    "toolu_spawn",
    [{"type": "text", "text": "found"}],
    {"status": "completed", "prompt": "look", "agentId": AGENT, "content": [{"type": "text", "text": "found"}]},
)
CHILD = [
    {**user("look", uuid="c1"), **SIDE},
    {**asks("toolu_c1"), **SIDE},
    {**without(answers("toolu_c1"), "toolUseResult"), **SIDE},
]
