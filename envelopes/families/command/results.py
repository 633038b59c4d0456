"""The results of commands and of sequential batches of them, and their bounded forms.

Canonical `result` of a command, by disposition (RFC "Command Tool Canonical Example"):

    completed         exit_status (null: none was recorded), stdout_preview, stderr_preview, truncated
    promoted_to_task  task_handle {task_id, kind, status}, initial_output_preview, initial_output_truncated
    already_running   the same, for a look at a command that runs in the background; or, where a second
                      start was refused, task_handle, command, command_digest, workdir, shell, summary,
                      instructions, as far as they are known

An empty stream has a null preview (RFC-123). `<stream>_truncated` and `<stream>_artifact` (an index
into `artifacts`) are there only for a preview that was cut (spec/model.md E-6). A source that kept
both streams as one text gives `combined_output_preview` beside two nulls. `command_diagnostics` is
there where the command's text is known; it holds a preview of it without secrets, never the text.

Of a batch (spec/tools.md, ExecCommandBatch):

    item_count, completed_count, failed_count, rejected_count, skipped_count, stop_on_error
    items  [{index (from 1), cmd, cmd_digest, status, result?, error_kind?, error_message?, duration_ms?}]

An item's `result` is nested as ExecCommand has it; artifact indices in it point into the envelope's
one list. All previews of a batch share one budget, evenly over the streams that are not empty.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import TaskHandle, to_members
from envelopes.text.preview import preview_command

Disposition: TypeAlias = Literal["completed", "promoted_to_task", "already_running"]
ItemStatus: TypeAlias = Literal["completed", "failed", "rejected", "skipped"]

CHARACTERS_PER_TOKEN = 4
DEFAULT_OUTPUT_TOKENS = 8_000  # spec/tools.md B.1
MOST_OUTPUT_TOKENS = 64_000
SEARCHED_CHARACTERS = 2_000  # of each output, for the line that stands for it in a list
IMAGE_PREVIEW_CHARACTERS = 80  # an image comes as a data URL; more of it is of no use to anybody
NOTE_CHARACTERS = 1_000
SOFT_THRESHOLD = 4_000  # characters; a longer command is better kept in a file and run from there
COMMAND_TASK = "command_task"
MOST_ITEMS = 12
MESSAGE_CHARACTERS = 400
SKIPPED = "skipped_after_previous_error"
STATUSES: tuple[ItemStatus, ...] = ("completed", "failed", "rejected", "skipped")
_SEPARATORS = frozenset({"|", "||", "|&", "&", "&&", ";", "(", ")"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep"})
_ANSWERS = {"diff": "Files differ", "cmp": "Files differ", "test": "Condition is false", "[": "Condition is false"}
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")


class SavedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The file in which the agent kept the whole output; `size` in bytes, as the agent counts."""

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
        """The most characters of output that the caller asked for; None where the command is not known."""
        return None if self.cmd is None else output_tokens(self.max_output_tokens) * CHARACTERS_PER_TOKEN


class RunningCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The same command runs already, so none was started (duplicate_policy reuse_running)."""

    task: TaskHandle
    cmd: str | None = None
    workdir: str | None = None
    shell: str | None = None
    summary: str | None = None
    instructions: str | None = None


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a batch. A non-zero exit is failed; a command over its window was killed and failed.

    `duration_ms` is wall time. Rejected: refused before it ran; skipped: an earlier one did not complete.
    """

    cmd: str
    status: ItemStatus
    result: CommandResult | None = None
    error_kind: str | None = None
    error_message: str | None = None
    duration_ms: int | None = None


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[BatchItem, ...]
    stop_on_error: bool = False

    def count(self, status: ItemStatus) -> int:
        return sum(item.status == status for item in self.items)


def output_tokens(requested: int | None) -> int:
    """The tokens of output that a caller gets: 0 and None mean the default, 64,000 is the most."""
    return min(requested, MOST_OUTPUT_TOKENS) if requested and requested > 0 else DEFAULT_OUTPUT_TOKENS


def command_outcome(result: CommandResult) -> str:
    """The summary of a command's end, as the RFC words it; without an exit code, what the command printed.

    Thousands of recorded commands have no exit code: a sentence about that would be the same for all of them.
    """
    match result:
        case CommandResult(disposition="promoted_to_task"):
            return "command promoted to managed task"
        case CommandResult(disposition="already_running"):
            return "command is still running"
        case CommandResult(interrupted=True):
            return "command was interrupted before it finished"
        case CommandResult(exit_status=int(code)):
            return f"command exited with status {code}"
    return summarize_output(result) or result.interpretation or "no output"


def summarize_output(result: CommandResult) -> str:
    """The first line of the output that has a letter or a digit, else the first that is not blank; "" without any.

    JSON begins with a bracket and many reports with a rule, by which nobody would recognise a command. Sequences that
    colour a terminal are left out.
    """
    if result.is_image:
        return "an image"
    beginnings = (_ESCAPES.sub("", text[:SEARCHED_CHARACTERS]) for text in _output_texts(result).values())
    lines = [line.strip() for text in beginnings for line in text.splitlines()]
    with_words = (line for line in lines if any(char.isalnum() for char in line))
    return next(with_words, next(filter(None, lines), ""))


def explain_exit(command: str, status: int, output: str) -> str | None:
    """Explains an exit status of 1 that is an answer and no failure; None where that is not certain.

    The status is that of the last program. A search that found nothing prints nothing, so whatever ran before it did
    not fail; the other programs count only where they are the whole command.
    """
    if status != 1 or "\n" in command.strip():
        return None
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return None
    last: list[str] = []
    for word in words:
        last = [] if word in _SEPARATORS else [*last, word]
    program = last[0].rpartition("/")[2] if last else ""
    if program in _SEARCHES or last[:2] == ["git", "grep"]:
        return None if output.strip() else "No matches found"
    return _ANSWERS.get(program) if len(last) == len(words) else None


def batch_outcome(result: BatchResult) -> str:
    """The summary of a batch: how many commands completed, and how many ended in another way."""
    counts = [f", {result.count(status)} {status}" for status in STATUSES[1:] if result.count(status)]
    return f"batch completed {result.count('completed')}/{len(result.items)} commands" + "".join(counts)


def _project_command(result: CommandResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return _command_members(result, projector, split_budget(_requested_lengths(result), policy.preview), policy)


def _project_running(result: RunningCommand, projector: Projector, _policy: ProjectionPolicy) -> ResultMembers:
    members: ResultMembers = {"disposition": "already_running", "task_handle": to_members(result.task)}
    if result.cmd is not None:
        text = preview_command(result.cmd)
        members |= {"command": text.preview, "command_digest": text.digest}
    for name in ("workdir", "shell", "summary", "instructions"):
        members |= projector.text(name, getattr(result, name) or None, NOTE_CHARACTERS, role=name)
    return members


def _project_batch(result: BatchResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    items_shown = result.items[:MOST_ITEMS]
    requested = [_requested_lengths(item.result) if item.result else [] for item in items_shown]
    limits = iter(split_budget([length for lengths in requested for length in lengths], policy.preview))
    items: list[Any] = [
        _project_item(number, item, [next(limits) for _ in lengths], projector, policy)
        for number, (item, lengths) in enumerate(zip(items_shown, requested, strict=True), start=1)
    ]
    counts = {f"{status}_count": result.count(status) for status in STATUSES}
    members: ResultMembers = {"item_count": len(result.items), **counts, "stop_on_error": result.stop_on_error}
    members["items"] = items
    if omitted := len(result.items) - len(items_shown):
        projector.rows("items", [item.status for item in result.items], MOST_ITEMS)
        members["items_omitted"] = omitted
    return members


def _project_item(
    number: int, item: BatchItem, limits: list[int], projector: Projector, policy: ProjectionPolicy
) -> ResultMembers:
    field, role = f"items/{number - 1}", f"command-{number}-"
    text, result = preview_command(item.cmd), None
    if item.result is not None:
        result = _command_members(item.result, projector, limits, policy, at=f"{field}/result/", role=role)
    return without_nulls(
        {
            "index": number,
            "cmd": text.preview,
            "cmd_digest": text.digest,
            "status": item.status,
            "result": result,
            "error_kind": item.error_kind,
            "error_message": projector.one_line(f"{field}/error_message", item.error_message, MESSAGE_CHARACTERS),
            "duration_ms": item.duration_ms,
        }
    )


def _command_members(
    result: CommandResult,
    projector: Projector,
    limits: Sequence[int],
    policy: ProjectionPolicy,
    *,
    at: str = "",
    role: str = "",
) -> ResultMembers:
    """One command's members. `limits` are the budgets of its output texts.

    `at` is their place below `/result/`; `role` comes before the names of its artifacts.
    """
    is_completed = result.disposition == "completed"
    outcome: ResultMembers
    if is_completed:
        outcome = {"exit_status": result.exit_status, "stdout_preview": None, "stderr_preview": None}
    else:
        outcome = {"task_handle": to_members(result.task), "initial_output_preview": None}
        outcome["initial_output_truncated"] = result.cut_by_source
    cut = False
    for (name, text), limit in zip(_output_texts(result).items(), limits, strict=True):
        preview, artifact = projector.preview(f"{at}{name}_preview", text, limit, role=f"{role}{name}")
        outcome[f"{name}_preview"] = preview
        if artifact is not None:
            cut = True
            outcome |= {f"{name}_truncated": True, f"{name}_artifact": artifact}
    if is_completed:
        outcome["truncated"] = cut or result.cut_by_source
    notes = {
        "interrupted": result.interrupted or None,
        "interpretation": result.interpretation,
        "image": result.is_image or None,
        "saved_output": msgspec.to_builtins(result.saved_output),
        "task_handle": to_members(result.task),
    }
    return {"disposition": result.disposition, **outcome, **without_nulls(notes), **_diagnose(result, policy)}


def _requested_lengths(result: CommandResult) -> list[int]:
    """How many characters the caller asked for of each output text, before the family's budget."""
    lengths = [
        min(len(text), IMAGE_PREVIEW_CHARACTERS) if result.is_image else len(text)
        for text in _output_texts(result).values()
    ]
    return lengths if result.output_characters is None else split_budget(lengths, result.output_characters)


def _output_texts(result: CommandResult) -> dict[str, str]:
    """The output texts that are not empty, by the stem of their canonical names."""
    first = "stdout" if result.disposition == "completed" else "initial_output"
    texts = {first: result.stdout, "stderr": result.stderr, "combined_output": result.combined}
    return {name: text for name, text in texts.items() if text}


def split_budget(lengths: Sequence[int], budget: int) -> list[int]:
    """Even parts of `budget`; what a short text leaves goes to the longer ones."""
    parts = [0] * len(lengths)
    rest = budget
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rank, index in enumerate(by_length):
        parts[index] = min(lengths[index], rest // (len(lengths) - rank))
        rest -= parts[index]
    return parts


def _diagnose(result: CommandResult, policy: ProjectionPolicy) -> ResultMembers:
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


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    CommandResult: _project_command,
    RunningCommand: _project_running,
    BatchResult: _project_batch,
}
