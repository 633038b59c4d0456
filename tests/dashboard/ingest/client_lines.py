"""Lines as Kimi CLI, Kimi Code and Mistral Vibe write them, of a session with three calls."""

from __future__ import annotations

import json
from typing import Any


def json_lines(*objects: Any) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in objects)


def kimi(name: str) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "_checkpoint", "id": 0}, {"role": "user", "content": f"Run {name}"}]
    for number in range(3):
        key = f"tool_{name * 20}{number}"
        function = {"name": "Shell", "arguments": json.dumps({"command": f"cat {number}.py"})}
        messages.append({"role": "assistant", "content": [], "tool_calls": [{"id": key, "function": function}]})
        messages.append({"role": "tool", "content": f"{name} {number}, with a text behind it", "tool_call_id": key})
    return json_lines(*messages)


def kimi_code(name: str) -> bytes:
    lines: list[dict[str, Any]] = [{"type": "metadata", "protocol_version": "1.5", "created_at": 1_767_261_600_000}]
    content = [{"type": "text", "text": f"Run {name}"}]
    lines.append({"type": "context.append_message", "message": {"role": "user", "content": content}})
    for number in range(3):
        key = f"call_{name}{number}"
        call = {"toolCallId": key, "name": "Bash", "args": {"command": f"cat {number}.py"}, "uuid": f"u{key}"}
        result = {"toolCallId": key, "result": {"output": f"{name} {number}, with a text behind it"}}
        # Without the marks of steps: an answer behind the end of its step is sent to no model.
        events: list[dict[str, Any]] = [{"type": "tool.call", **call}, {"type": "tool.result", **result}]
        lines += [{"type": "context.append_loop_event", "event": event} for event in events]
    return json_lines(*lines)


def vibe(name: str) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Run {name}", "injected": False, "message_id": "m"}]
    for number in range(3):
        key = f"call_{name}{number}"
        function = {"name": "bash", "arguments": json.dumps({"command": f"cat {number}.py"})}
        calls = [{"id": key, "function": function}]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls, "message_id": f"m{name}{number}"})
        messages.append({"role": "tool", "content": f"{name} {number}, with a text behind it", "tool_call_id": key})
    return json_lines(*messages)
