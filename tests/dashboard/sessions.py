"""Claude Code session lines for tests: plain functions, every value visible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SESSION = "0f5f6d8e-0000-4000-8000-000000000001"
FORK = "0f5f6d8e-0000-4000-8000-000000000002"


def user(text: str, *, uuid: str, at: str = "2026-03-01T09:00:00.000Z", session: str = SESSION) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {
        "type": "user",
        "uuid": uuid,
        "sessionId": session,
        "timestamp": at,
        "version": "2.1.20",
        "message": message,
    }


def asks(
    call: str,
    tool: str = "Bash",
    args: dict[str, Any] | None = None,
    *,
    at: str = "2026-03-01T09:00:01.000Z",
    step: str = "msg_1",
    session: str = SESSION,
) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call, "name": tool, "input": args if args is not None else {"command": "ls"}}
    message = {"id": step, "role": "assistant", "model": "claude-x", "content": [block]}
    return {
        "type": "assistant",
        "uuid": f"a-{call}",
        "sessionId": session,
        "timestamp": at,
        "version": "2.1.20",
        "message": message,
    }


def answers(
    call: str,
    receipt: Any = "a\nb",
    result: Any = None,
    *,
    at: str = "2026-03-01T09:00:03.500Z",
    is_error: bool = False,
    session: str = SESSION,
) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": receipt, "is_error": is_error}
    kept = {"stdout": "a\nb", "stderr": "", "interrupted": False, "isImage": False} if result is None else result
    return {
        "type": "user",
        "uuid": f"r-{call}",
        "sessionId": session,
        "timestamp": at,
        "version": "2.1.20",
        "message": {"role": "user", "content": [block]},
        "toolUseResult": kept,
    }


def write(path: Path, lines: list[dict[str, Any] | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encoded(line) + b"\n" for line in lines))
    return path


def encoded(line: dict[str, Any] | bytes) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()


def short_session(session: str = SESSION) -> list[dict[str, Any] | bytes]:
    """Two answered calls of one step and one that nothing answered."""
    return [
        user("list the files", uuid="u1", session=session),
        asks("toolu_01", session=session),
        asks("toolu_02", "Read", {"file_path": "/a.py"}, session=session),
        answers("toolu_01", session=session),
        answers(
            "toolu_02",
            "     1→x = 1\n     2→y = 2",
            {
                "type": "text",
                "file": {
                    "filePath": "/a.py",
                    "content": "x = 1\ny = 2",
                    "numLines": 2,
                    "startLine": 1,
                    "totalLines": 2,
                },
            },
            session=session,
        ),
        asks("toolu_03", at="2026-03-01T09:00:09.000Z", step="msg_2", session=session),
    ]


def weighs(line: dict[str, Any], tokens: int, output: int = 1, **fields: Any) -> dict[str, Any]:
    """The line as the answer to a request of so many tokens."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": tokens - 3, "output_tokens": output}
    return {**line, "message": {**line["message"], "usage": usage, **fields}}


def steps(*tokens: int) -> list[dict[str, Any]]:
    """A session that makes one call a step; requests of so many tokens, at the lines 2, 4, 6 …"""
    lines = [user("list the files", uuid="u1")]
    for number, count in enumerate(tokens, 1):
        call = f"toolu_{number:02}"
        lines += [weighs(asks(call, step=f"msg_{number}"), count), answers(call)]
    return lines


def boundary(subtype: str, **fields: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, "sessionId": SESSION, "uuid": subtype, **fields}


def write_cut_fork(folder: Path) -> list[Path]:
    """SESSION, and FORK: there a preview takes the place of its first receipt, and tokens leave the context later."""
    lines = short_session()
    text = "<persisted-output>\nOutput too large (9KB). Full output saved to: /x\n\nPreview (first 2KB):\na\n..."
    part = {"kind": "tool-result", "toolUseId": "toolu_01", "replacement": text}
    steps = [asks(f"toolu_1{number}", session=FORK, step=f"msg_1{number}") for number in (1, 2)]
    for step, tokens in zip(steps, (90_000, 9_000), strict=True):
        step["message"]["usage"] = {"input_tokens": tokens}
    copied = [{**line, "sessionId": FORK, "forkedFrom": {"sessionId": SESSION}} for line in map(dict, lines)]
    replaced = {"type": "content-replacement", "sessionId": FORK, "replacements": [part]}
    contents = {SESSION: lines, FORK: [*copied, replaced, *steps]}
    return [write(folder / f"{name}.jsonl", [*content]) for name, content in contents.items()]
