"""What a command produced, whole, and its bounded projection (RFC "Command Tool Canonical Example").

Canonical `result`, by disposition:

    completed         exit_status (null: none was recorded), stdout_preview, stderr_preview, truncated
    promoted_to_task  task_handle {task_id, kind, status}, initial_output_preview, initial_output_truncated
    already_running   the same, for a look at a command that runs in the background

A stream that was empty has a null preview. `<stream>_truncated` and `<stream>_artifact` (an index
into `artifacts`) are there only for a preview that was cut (spec/model.md E-6). A source that kept
both streams as one text gives `combined_output_preview` beside two nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.artifact import ArtifactSink
from envelopes.budget import ProjectionPolicy
from envelopes.families.base import Projected, Projector

Disposition: TypeAlias = Literal["completed", "promoted_to_task", "already_running"]

IMAGE_PREVIEW_CHARACTERS = 80  # an image comes as a data URL; more of it tells nobody anything


class TaskHandle(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    kind: str = "command_task"
    status: str = "running"


class SavedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent says that it kept the whole output; `size` in bytes, as the agent counts."""

    path: str
    size: int | None = None


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """`combined` holds the output where the source kept no separate streams.

    `cut_by_source`: the texts are already shortened by the agent, and say so themselves.
    """

    disposition: Disposition = "completed"
    exit_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    combined: str = ""
    interrupted: bool = False
    interpretation: str | None = None
    is_image: bool = False
    task: TaskHandle | None = None
    saved_output: SavedOutput | None = None
    cut_by_source: bool = False


def outcome(result: CommandResult) -> str:
    """The summary of a command's end, as the RFC words it."""
    match result:
        case CommandResult(disposition="promoted_to_task"):
            return "command promoted to managed task"
        case CommandResult(disposition="already_running"):
            return "command is still running"
        case CommandResult(interrupted=True):
            return "command was interrupted before it finished"
        case CommandResult(exit_status=int(code)):
            return f"command exited with status {code}"
        case CommandResult(interpretation=str(meaning)):
            return f"command finished: {meaning}"
    return "command finished; no exit code was recorded"


def project_command(result: msgspec.Struct, policy: ProjectionPolicy, sink: ArtifactSink) -> Projected:
    assert isinstance(result, CommandResult)
    projector = Projector(sink)
    texts = output_fields(result)
    limits = shares([_wanted(result, text) for text in texts.values()], policy.preview)
    cut = False
    streams: dict[str, Any] = {}
    for (name, text), limit in zip(texts.items(), limits, strict=True):
        shown, artifact = projector.preview(f"{name}_preview", text, limit, role=name)
        streams[f"{name}_preview"] = shown
        if artifact is not None:
            cut = True
            streams |= {f"{name}_truncated": True, f"{name}_artifact": artifact}
    outcome = _completed(result, streams, cut=cut) if result.disposition == "completed" else _task(result, streams)
    return projector.done(outcome | _notes(result))


def output_fields(result: CommandResult) -> dict[str, str]:
    """The output texts that are not empty, by the stem of their canonical names."""
    first = "stdout" if result.disposition == "completed" else "initial_output"
    texts = {first: result.stdout, "stderr": result.stderr, "combined_output": result.combined}
    return {name: text for name, text in texts.items() if text}


def shares(lengths: Sequence[int], budget: int) -> list[int]:
    """Even parts of `budget`; what a short text leaves goes to the longer ones."""
    given = [0] * len(lengths)
    left = budget
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rank, index in enumerate(by_length):
        given[index] = min(lengths[index], left // (len(lengths) - rank))
        left -= given[index]
    return given


def _wanted(result: CommandResult, text: str) -> int:
    return min(len(text), IMAGE_PREVIEW_CHARACTERS) if result.is_image else len(text)


def _completed(result: CommandResult, streams: dict[str, Any], *, cut: bool) -> dict[str, Any]:
    return {
        "disposition": "completed",
        "exit_status": result.exit_status,
        "stdout_preview": None,
        "stderr_preview": None,
        **streams,
        "truncated": cut or result.cut_by_source,
    }


def _task(result: CommandResult, streams: dict[str, Any]) -> dict[str, Any]:
    return {
        "disposition": result.disposition,
        "task_handle": msgspec.to_builtins(result.task),
        "initial_output_preview": None,
        "initial_output_truncated": result.cut_by_source,
        **streams,
    }


def _notes(result: CommandResult) -> dict[str, Any]:
    """What is said only where there is something to say."""
    notes = {
        "interrupted": result.interrupted or None,
        "interpretation": result.interpretation,
        "image": result.is_image or None,
        "saved_output": msgspec.to_builtins(result.saved_output),
        "task_handle": msgspec.to_builtins(result.task),
    }
    return {name: value for name, value in notes.items() if value is not None}
