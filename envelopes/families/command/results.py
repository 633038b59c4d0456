"""The results of commands and of sequential batches of them, and their bounded forms.

Canonical `result` of a command, by disposition (RFC "Command Tool Canonical Example"):

    completed         exit_status (null: none was recorded), stdout_preview, stderr_preview, truncated
    promoted_to_task  task_handle {task_id, kind, status}, initial_output_preview, initial_output_truncated
    already_running   the same, for a look at a command that runs in the background; or, where a second
                      start was refused, task_handle, command, command_digest, workdir, shell, summary,
                      instructions, as far as they are known

An empty stream has a null preview (RFC-123). `<stream>_truncated` and `<stream>_artifact` (an index
into `artifacts`) are there only for a preview that was cut (E-6). `<stream>_layout` is json for a
document on one line that was laid out before it was cut, and `<stream>_bytes` the size of output that is no text. A
source that kept
both streams as one text gives `combined_output_preview` beside two nulls. `cut_by_source` is true for output that its
source had shortened before, so that no artifact has all of it. `command_diagnostics` is
there where the command's text is known; it holds a preview of it without secrets, never the text. In it are the
tokens of output that the caller was granted, `effective_max_output_tokens`, and the characters of the previews within
them, `output_char_budget`; a batch has both beside its counts.

Of a batch:

    item_count, completed_count, failed_count, rejected_count, skipped_count, stop_on_error
    items  [{index (from 1), cmd, cmd_digest, status, result?, error_kind?, error_message?, duration_ms?}]

An item's `result` is nested as ExecCommand has it; artifact indices in it point into the envelope's
one list. The items share one budget, evenly over the streams that are not empty; an item that names
`max_output_tokens` has these for itself.
"""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from envelopes.schema.result import TaskHandle
from envelopes.text.preview import FileText
from envelopes.text.terminal import ESCAPES

Output: TypeAlias = str | FileText
Disposition: TypeAlias = Literal["completed", "promoted_to_task", "already_running"]
ItemStatus: TypeAlias = Literal["completed", "failed", "rejected", "skipped"]

CHARACTERS_PER_TOKEN = 4
DEFAULT_OUTPUT_TOKENS = 8_000
MOST_OUTPUT_TOKENS = 64_000
SEARCHED_CHARACTERS = 2_000  # of each output, for the line that stands for it in a list
IMAGE_PREVIEW_CHARACTERS = 80  # an image comes as a data URL; more of it is of no use to anybody
NOTE_CHARACTERS = 1_000
SOFT_THRESHOLD = 4_000  # characters; a longer command is better kept in a file and run from there
COMMAND_TASK = "command_task"
MOST_ITEMS = 12
MESSAGE_CHARACTERS = 400
SKIPPED = "skipped_after_previous_error"
OUTPUTS = ("stdout", "stderr", "initial_output", "combined_output")
STATUSES: tuple[ItemStatus, ...] = ("completed", "failed", "rejected", "skipped")
_SEPARATORS = frozenset({"|", "||", "|&", "&", "&&", ";", "(", ")"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep"})
_GIT_DIFFS = frozenset({"diff", "diff-files", "diff-index", "diff-tree"})
_GIT_EXITS = frozenset({"--quiet", "--exit-code", "--no-index"})
_ANSWERS = {"diff": "Files differ", "cmp": "Files differ", "test": "Condition is false", "[": "Condition is false"}


class SavedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The file in which the agent kept the whole output; `size` in bytes, as the agent counts."""

    path: str
    size: int | None = None


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """An output is its text, or what `capture` makes of bytes and files. `combined`: the source kept no streams apart.

    `cut_by_source`: the texts are already shortened by the agent, and say so themselves.
    `waited_ms` is how long the call waited for a command that became a task. `cmd` is the command as it was given; with
    it comes `max_output_tokens`, which bounds the previews.
    """

    disposition: Disposition = "completed"
    exit_status: int | None = None
    stdout: Output = ""
    stderr: Output = ""
    combined: Output = ""
    interrupted: bool = False
    interpretation: str | None = None
    is_image: bool = False
    task: TaskHandle | None = None
    saved_output: SavedOutput | None = None
    cut_by_source: bool = False
    cmd: str | None = None
    max_output_tokens: int | None = None
    waited_ms: int | None = None

    @property
    def granted_tokens(self) -> int | None:
        """The most tokens of output that the caller asked for; None where nothing is promised, or for an image."""
        return None if self.cmd is None or self.is_image else output_tokens(self.max_output_tokens)

    @property
    def output_characters(self) -> int | None:
        """The same in characters, for a policy that promises nothing: four for a token."""
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


def recorded_outcome(result: CommandResult) -> str:
    """The summary of a recorded command: what it printed; of one that failed, its status before that.

    Lists show this line of each call. With the status alone all calls of a run would read alike.
    """
    if result.exit_status is None or result.disposition != "completed" or result.interrupted:
        return command_outcome(result)
    printed = summarize_output(result)
    if result.exit_status == 0:
        return printed or "no output"
    return f"exit {result.exit_status}: {printed}" if printed else result.interpretation or command_outcome(result)


def summarize_output(result: CommandResult) -> str:
    """The first line of the output that has a letter or a digit, else the first that is not blank; "" without any.

    JSON begins with a bracket and many reports with a rule, by which nobody would recognise a command. Sequences that
    colour a terminal are left out.
    """
    if result.is_image:
        return "an image"
    texts = (text.start if isinstance(text, FileText) else text for text in output_texts(result).values())
    beginnings = (ESCAPES.sub("", text[:SEARCHED_CHARACTERS]) for text in texts)
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
    if len(last) < len(words):
        return None
    return "Files differ" if program == "git" and _asks_for_difference(last[1:]) else _ANSWERS.get(program)


def _asks_for_difference(words: list[str]) -> bool:
    """Checks whether the words behind `git` compare files by an exit status of 1: `git diff` has it by an option."""
    place = next((place for place, word in enumerate(words) if word in _GIT_DIFFS), len(words))
    options = words[place + 1 :]
    options = options[: options.index("--")] if "--" in options else options
    is_command = all(word.startswith("-") or before in ("-C", "-c") for before, word in pairwise(["", *words[:place]]))
    return is_command and not _GIT_EXITS.isdisjoint(options)


def batch_outcome(result: BatchResult) -> str:
    """The summary of a batch: how many commands completed, and how many ended in another way."""
    counts = [f", {result.count(status)} {status}" for status in STATUSES[1:] if result.count(status)]
    return f"batch completed {result.count('completed')}/{len(result.items)} commands" + "".join(counts)


def count_characters(text: Output) -> int:
    return text.characters if isinstance(text, FileText) else len(text)


def output_texts(result: CommandResult) -> dict[str, Output]:
    """The output texts that are not empty, by the stem of their canonical names."""
    first = "stdout" if result.disposition == "completed" else "initial_output"
    texts = {first: result.stdout, "stderr": result.stderr, "combined_output": result.combined}
    return {name: text for name, text in texts.items() if count_characters(text)}
