"""What a command produced, whole, and its bounded projection (RFC "Command Tool Canonical Example").

Canonical `result`, by disposition:

    completed         exit_status (null: none was recorded), stdout_preview, stderr_preview, truncated
    promoted_to_task  task_handle {task_id, kind, status}, initial_output_preview, initial_output_truncated
    already_running   the same, for a look at a command that runs in the background; or, where a second
                      start was refused, task_handle, command, command_digest, workdir, shell, summary,
                      instructions, as far as they are known

A stream that was empty has a null preview. `<stream>_truncated` and `<stream>_artifact` (an index
into `artifacts`) are there only for a preview that was cut (spec/model.md E-6). A source that kept
both streams as one text gives `combined_output_preview` beside two nulls. `command_diagnostics` is
there where the command's text is known; it holds a preview of it without secrets, never the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.base import Projector, ResultMembers
from envelopes.families.command.output_tokens import CHARACTERS_PER_TOKEN, output_tokens
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import TaskHandle, to_members
from envelopes.text.command_preview import preview_command

Disposition: TypeAlias = Literal["completed", "promoted_to_task", "already_running"]

IMAGE_PREVIEW_CHARACTERS = 80  # an image comes as a data URL; more of it tells nobody anything
NOTE_CHARACTERS = 1_000
SOFT_THRESHOLD = 4_000  # characters; a longer command is better kept in a file and run from there
COMMAND_TASK = "command_task"


class SavedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent says that it kept the whole output; `size` in bytes, as the agent counts."""

    path: str
    size: int | None = None


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """`combined` holds the output where the source kept no separate streams.

    `cut_by_source`: the texts are already shortened by the agent, and say so themselves.
    `cmd` is the command as it was given; with it comes `max_output_tokens`, which bounds the previews.
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
    cmd: str | None = None
    max_output_tokens: int | None = None

    @property
    def output_characters(self) -> int | None:
        """The most that the caller wants to see of the output; None where nobody said."""
        return None if self.cmd is None else output_tokens(self.max_output_tokens) * CHARACTERS_PER_TOKEN


class RunningCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The same command runs already, so none was started (duplicate_policy reuse_running)."""

    task: TaskHandle
    cmd: str | None = None
    workdir: str | None = None
    shell: str | None = None
    summary: str | None = None
    instructions: str | None = None


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


def project_command(result: CommandResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return command_members(result, projector, shares(wanted(result), policy.preview), policy)


def project_running(result: RunningCommand, projector: Projector, _policy: ProjectionPolicy) -> ResultMembers:
    members: ResultMembers = {"disposition": "already_running", "task_handle": to_members(result.task)}
    if result.cmd is not None:
        text = preview_command(result.cmd)
        members |= {"command": text.preview, "command_digest": text.digest}
    for name in ("workdir", "shell", "summary", "instructions"):
        if note := getattr(result, name):
            members |= projector.text(name, note, NOTE_CHARACTERS, role=name)
    return members


def command_members(
    result: CommandResult,
    projector: Projector,
    limits: Sequence[int],
    policy: ProjectionPolicy,
    *,
    at: str = "",
    role: str = "",
) -> ResultMembers:
    """One command's members. `limits` go with `output_fields`.

    `at` is where they stand below `/result/`; `role` comes before the names of its artifacts.
    """
    cut = False
    streams: dict[str, Any] = {}
    for (name, text), limit in zip(output_fields(result).items(), limits, strict=True):
        shown, artifact = projector.preview(f"{at}{name}_preview", text, limit, role=f"{role}{name}")
        streams[f"{name}_preview"] = shown
        if artifact is not None:
            cut = True
            streams |= {f"{name}_truncated": True, f"{name}_artifact": artifact}
    outcome = _completed(result, streams, cut=cut) if result.disposition == "completed" else _task(result, streams)
    return outcome | _notes(result) | _diagnostics(result, policy)


def wanted(result: CommandResult) -> list[int]:
    """How many characters of each output text are asked for, before the family's budget."""
    lengths = [_showable(result, text) for text in output_fields(result).values()]
    return lengths if result.output_characters is None else shares(lengths, result.output_characters)


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


def _showable(result: CommandResult, text: str) -> int:
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
        "task_handle": to_members(result.task),
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
        "task_handle": to_members(result.task),
    }
    return {name: value for name, value in notes.items() if value is not None}


def _diagnostics(result: CommandResult, policy: ProjectionPolicy) -> dict[str, Any]:
    if result.cmd is None or result.output_characters is None:
        return {}
    text = preview_command(result.cmd)
    return {
        "command_diagnostics": {
            "cmd_preview": text.preview,
            "cmd_digest": text.digest,
            "cmd_char_count": len(result.cmd),
            "cmd_estimated_tokens": -(-len(result.cmd) // CHARACTERS_PER_TOKEN),
            "contains_heredoc": text.contains_heredoc,
            "contains_inline_script": text.contains_inline_script,
            "exceeds_soft_threshold": len(result.cmd) > SOFT_THRESHOLD,
            "effective_max_output_tokens": output_tokens(result.max_output_tokens),
            "output_char_budget": min(result.output_characters, policy.preview),
        }
    }
