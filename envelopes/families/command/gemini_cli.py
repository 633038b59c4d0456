"""Gemini CLI's run_shell_command: no result is recorded, and its receipt names each thing that is known of the end.

    Command: ls -l / Directory: (root) / Output: … / Error: (none) / Exit Code: 0 / Signal: 0 /
    Background PIDs: (none) / Process Group PGID: 26593

Later releases leave out the lines that have nothing to say, and save an output that is too long to a file.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import Span, match_at
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import (
    COMMAND_TASK,
    CommandResult,
    SavedOutput,
    explain_exit,
    recorded_outcome,
)
from envelopes.schema.result import TaskHandle

HEAD = re.compile(r"(?:Command: )?(?:.*?\nDirectory: [^\n]*\n)?(?:Output|Stdout): ", re.DOTALL)
STDERR = re.compile(r"\nStderr: (?P<stderr>.*)\Z", re.DOTALL)
TAIL = re.compile(
    r"(?:\nError: (?P<error>[^\n]*))?(?:\nExit Code: (?P<exit>\(none\)|-?\d{1,10}))?(?:\nSignal: [^\n]*)?"
    r"(?:\nBackground PIDs: [^\n]*)?(?:\nProcess Group PGID: [^\n]*)?\s*\Z"
)
BACKGROUND = re.compile(r"Command (?:is running in|moved to) background \(PID: (?P<id>\d{1,10})\)")
TAIL_CHARACTERS = 4_000
NOTHING = ("(empty)", "(none)")
COMMAND = "Command: "


def _read_command(evidence: Evidence) -> Reading:
    receipt = evidence.receipt_text or ""
    preview = find_output_preview(receipt)
    shown = receipt[preview.start : preview.end] if preview else receipt
    head = HEAD.match(shown)
    if background := BACKGROUND.match(receipt):
        task = TaskHandle(kind=COMMAND_TASK, task_id=background["id"])
        result = CommandResult(disposition="promoted_to_task", task=task)
        return reading(evidence, result, recorded_outcome(result), links={}, fidelity="parsed_from_receipt")
    if evidence.result is not None or head is None:
        return read_failure(evidence) or read_text(evidence)
    from_tail = max(head.end(), len(shown) - TAIL_CHARACTERS)
    tail = next((match for match in TAIL.finditer(shown, from_tail) if match.end() == len(shown)), None)
    output = shown[head.end() : tail.start() if tail else len(shown)]
    stderr = STDERR.search(output)
    stdout = output[: stderr.start()] if stderr else output
    status = tail["exit"] if tail else None
    code = int(status) if status and status not in NOTHING else None
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=code,
        combined="" if stdout in NOTHING else stdout,
        stderr="" if stderr is None or stderr["stderr"] in NOTHING else stderr["stderr"],
        interpretation=None if code is None else explain_exit(command, code, stdout),
        saved_output=SavedOutput(path=preview.path) if preview else None,
        cut_by_source=preview is not None,
    )
    return reading(evidence, result, recorded_outcome(result), links={}, fidelity="parsed_from_receipt")


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the command that the receipt repeats."""
    command = RecordedObject(evidence.args).text("command") or ""
    span = match_at(text, len(COMMAND), command, "/command") if text.startswith(COMMAND) else None
    if span is None or not text.startswith("\nDirectory: ", span.end):
        return align_failure(evidence, text)
    return [Span(span.start, span.end, "/command", 0, len(command), "args")]


MAPPINGS = (
    ToolMapping(agent="gemini-cli", tools=("run_shell_command",), version=5, read=_read_command, align=_align_command),
)
