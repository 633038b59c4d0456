"""A long call of every kind of tool that Claude Code has: what it printed is `size` characters of what it recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.dashboard.sessions import answers, asks

LongCall = tuple[str, dict[str, Any], Any, Any]  # tool, args, receipt, result
SESSION = "0f5f6d8e-0000-4000-8000-000000000002"
SIZES = {"200 KB": 200_000, "1 MB": 1_000_000}


SNIPPET = (
    "The file /srv/a.py has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
)


def lines_of(size: int) -> str:
    line = 'INFO 2026-03-01 09:00:00 worker=%d path="/srv/app/module.py" done\n'
    return "".join(line % number for number in range(size // 60 + 1))[:size]


def code_of(size: int) -> str:
    """Lines as short as those of a program: a link each."""
    line = "    value_%d = compute(value, %d)\n"
    return "".join(line % (number, number) for number in range(size // 30 + 1))[:size]


def _numbered(text: str) -> str:
    return "\n".join(f"{number:6}→{line}" for number, line in enumerate(text.split("\n"), 1))


def _names(size: int) -> list[str]:
    return [f"/srv/app/package_{number % 97}/module_{number}.py" for number in range(size // 36)]


def _command(size: int) -> LongCall:
    text = lines_of(size)
    return "Bash", {"command": "cat log"}, text, {"stdout": text, "stderr": "", "interrupted": False}


def _read(size: int) -> LongCall:
    text = code_of(size)
    lines = text.count("\n") + 1
    file = {"filePath": "/srv/a.py", "content": text, "numLines": lines, "startLine": 1, "totalLines": lines}
    return "Read", {"file_path": "/srv/a.py"}, _numbered(text), {"type": "text", "file": file}


def _grep_content(size: int) -> LongCall:
    text = "".join(f"/srv/app/module.py:{number}:    return value_{number}\n" for number in range(size // 47))
    kept = {"mode": "content", "numFiles": 0, "filenames": [], "content": text, "numLines": text.count("\n")}
    return "Grep", {"pattern": "return", "output_mode": "content"}, text, kept


def _grep_files(size: int) -> LongCall:
    names = _names(size)
    kept = {"mode": "files_with_matches", "filenames": names, "numFiles": len(names)}
    return "Grep", {"pattern": "x"}, "\n".join([f"Found {len(names)} files", *names]), kept


def _glob(size: int) -> LongCall:
    names = _names(size)
    kept = {"filenames": names, "durationMs": 12, "numFiles": len(names), "truncated": False}
    return "Glob", {"pattern": "**/*.py"}, "\n".join(names), kept


def _write(size: int) -> LongCall:
    """Older releases print the file that they wrote."""
    text = code_of(size)
    kept = {"type": "update", "filePath": "/srv/a.py", "content": text, "structuredPatch": []}
    return "Write", {"file_path": "/srv/a.py", "content": text}, SNIPPET + _numbered(text), kept


def _edit(size: int) -> LongCall:
    """A snippet as long as the file: no release prints so much, yet nothing keeps another from it."""
    text = code_of(size)
    old, new = "value_7 = compute(value, 7)", "value_7 = compute(value, 8)"
    after = text.replace(old, new, 1)
    hunk = {"oldStart": 1, "newStart": 1, "oldLines": 9, "newLines": 9}
    lines = text.split("\n")
    patch = [*(" " + one for one in lines[:7]), "-" + lines[7], "+    " + new, " " + lines[8]]
    kept = {
        "filePath": "/srv/a.py",
        "oldString": old,
        "newString": new,
        "originalFile": text,
        "structuredPatch": [{**hunk, "lines": patch}],
        "replaceAll": False,
    }
    return "Edit", {"file_path": "/srv/a.py", "old_string": old, "new_string": new}, SNIPPET + _numbered(after), kept


def _fetch(size: int) -> LongCall:
    text = lines_of(size)
    kept = {"bytes": size, "code": 200, "codeText": "OK", "durationMs": 90, "result": text, "url": "https://a.example/"}
    return "WebFetch", {"url": "https://a.example/", "prompt": "all"}, text, kept


def _items(size: int) -> list[dict[str, Any]]:
    return [{"id": number, "title": f"Item {number}", "done": False} for number in range(size // 48)]


def _external_text(size: int) -> LongCall:
    text = json.dumps({"items": _items(size)}, separators=(",", ":"))
    return "mcp__board__list", {}, [{"type": "text", "text": text}], [{"type": "text", "text": text}]


def _external_value(size: int) -> LongCall:
    value = {"items": _items(size)}
    text = json.dumps(value, indent=2)
    return "mcp__board__items", {}, [{"type": "text", "text": text}], {"content": [], "structuredContent": value}


def _todos(size: int) -> LongCall:
    said = "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress"
    todos = [
        {"content": f"Look into report {number}", "status": "pending", "activeForm": f"Looking into {number}"}
        for number in range(size // 86)
    ]
    return "TodoWrite", {"todos": todos}, said, {"oldTodos": [], "newTodos": todos}


def _tasks(size: int) -> LongCall:
    tasks = [
        {"id": str(number), "subject": f"Look into report {number} and mend it", "status": "pending", "blockedBy": []}
        for number in range(1, size // 55)
    ]
    said = "\n".join(f"#{one['id']} [{one['status']}] {one['subject']}" for one in tasks)
    return "TaskList", {}, said, {"tasks": tasks}


LONG: dict[str, Callable[[int], LongCall]] = {
    "Bash": _command,
    "Read": _read,
    "Grep content": _grep_content,
    "Grep files": _grep_files,
    "Glob": _glob,
    "Write": _write,
    "Edit": _edit,
    "WebFetch": _fetch,
    "MCP text": _external_text,
    "MCP value": _external_value,
    "TodoWrite": _todos,
    "TaskList": _tasks,
}


def long_id(kind: str, size: str) -> str:
    return f"toolu_long_{kind}_{size}".replace(" ", "")


def long_session() -> list[dict[str, Any] | bytes]:
    """Every kind in every size, one after the other."""
    lines: list[dict[str, Any] | bytes] = []
    for number, (kind, size) in enumerate((kind, size) for kind in LONG for size in SIZES):
        tool, args, receipt, result = LONG[kind](SIZES[size])
        name, step = long_id(kind, size), f"msg_{number}"
        lines.append(asks(name, tool, args, step=step, session=SESSION))
        lines.append(answers(name, receipt, result, session=SESSION))
    return lines
