"""Outputs that show the family: galleries draw them, contract tests run over them."""

from __future__ import annotations

from envelopes.families.file.results import FileChange, FileRead, Hunk, Image
from envelopes.schema.result import CompleteOutput, ToolError

_HUNK = Hunk(
    old_start=11,
    old_lines=3,
    new_start=11,
    new_lines=4,
    lines=(" def head(text):", "-    return text[:10]", "+    lines = text.split()", "+    return lines[:10]", " "),
)


def _sample(tool: str, summary: str, result: FileRead | FileChange) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text=summary, result=result)


SAMPLES: tuple[CompleteOutput, ...] = (
    _sample(
        "Read",
        "read 3 lines of src/app.py",
        FileRead(path="src/app.py", content="import sys\n\nprint(sys.argv)", start_line=1, line_count=3, total_lines=3),
    ),
    _sample(
        "Read",
        "read 1200 lines of notes.txt",
        FileRead(
            path="notes.txt",
            content="\n".join(f"note {number}" for number in range(201, 1401)),
            start_line=201,
            line_count=1200,
            total_lines=1432,
        ),
    ),
    _sample("Read", "read an empty file", FileRead(path="empty.txt", start_line=1, line_count=0, total_lines=0)),
    _sample(
        "Read",
        "read an image",
        FileRead(path="page.png", kind="image", image=Image(media_type="image/png", size=48213, width=640, height=480)),
    ),
    _sample("Edit", "updated src/preview.py", FileChange(path="src/preview.py", hunks=(_HUNK,), user_modified=False)),
    _sample(
        "Write", "created docs/plan.md", FileChange(path="docs/plan.md", action="add", content="# Plan\n\nOne step.\n")
    ),
    CompleteOutput(
        tool_name="Edit",
        status="error",
        summary_text="File has not been read yet. Read it first before writing to it.",
        error=ToolError(
            kind="tool_execution_failed",
            message="File has not been read yet. Read it first before writing to it.",
            recovery_hint="Read it first before writing to it.",
            retryable=False,
        ),
    ),
)
