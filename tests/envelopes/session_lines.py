"""Builds lines of a session file from visible values, and reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envelopes.recordings.base import LineProblem, Record, SourceLine, SourcePath
from envelopes.recordings.claude_code import SESSION

FIXTURES = Path(__file__).parent / "recordings"
OLD = "11111111-aaaa-4aaa-8aaa-111111111111"
NEW = "22222222-bbbb-4bbb-8bbb-222222222222"


def source(content: bytes, number: int = 1, offset: int = 0) -> list[SourceLine]:
    lines = []
    for raw in content.splitlines(keepends=True):
        lines.append(SourceLine(number, offset, raw))
        number, offset = number + 1, offset + len(raw)
    return lines


def read(
    content: bytes, path: str = f"{OLD}.jsonl", state: dict[str, object] | None = None
) -> list[Record | LineProblem]:
    return list(SESSION.read(source(content), SourcePath(path), {} if state is None else state))


def line(kind: str, **fields: Any) -> bytes:
    about = {"type": kind, "sessionId": OLD, "uuid": "u1", "timestamp": "2026-02-10T10:00:00.000Z"}
    return json.dumps({**about, **fields}).encode() + b"\n"


def message(kind: str, content: Any, **fields: Any) -> bytes:
    return line(kind, message={"id": "msg_1", "role": kind, "content": content}, **fields)


def tool_use(call: str = "toolu_1", tool: str = "Bash", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": args}


def tool_result(call: str = "toolu_1", content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **fields}


def only(kind: type[Any], records: Iterable[Record | LineProblem]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]
