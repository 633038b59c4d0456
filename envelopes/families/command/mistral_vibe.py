"""Mistral Vibe's bash: `command: … / stdout: … / stderr: … / returncode: 0`, and of a failure `Return code: 3`."""

from __future__ import annotations

import re

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.vibe_receipts import AGENT, find_failure, read_fields, read_parsed, take_apart, vibe_mapping
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import CommandResult, explain_exit, recorded_outcome
from envelopes.schema.result import CompleteOutput, ToolError

MOST_BYTES = 16_000  # of each stream, unless the user set another limit; the client cuts without a mark
FAILED = re.compile(
    r"bash failed: Command failed: .*?\nReturn code: (?P<status>-?\d{1,10})"
    r"(?:\nStderr: (?P<stderr>.*?))?(?:\s*\nStdout: (?P<stdout>.*))?",
    re.DOTALL,
)


def _read_command(evidence: Evidence, receipt: str) -> Reading | None:
    if recorded := read_fields(receipt):
        return _read_json(evidence, recorded)
    fields = take_apart(receipt, "command", "stdout", "stderr", "returncode")
    if fields is None or not re.fullmatch(r"-?\d{1,10}", fields["returncode"]):
        return None
    return _read_ended(evidence, int(fields["returncode"]), fields["stdout"], fields["stderr"])


def _read_ended(evidence: Evidence, status: int, stdout: str, stderr: str, *, is_cut: bool | None = None) -> Reading:
    command = RecordedObject(evidence.args).text("command") or ""
    if is_cut is None:
        is_cut = any(len(stream.encode("utf-8", "replace")) >= MOST_BYTES for stream in (stdout, stderr))
    result = CommandResult(
        exit_status=status,
        stdout=stdout,
        stderr=stderr,
        interpretation=explain_exit(command, status, stdout),
        cut_by_source=is_cut,
    )
    line = stdout.count("\n") + 1
    cut = SourceCut(pointer="", unit="output", start=line, end=line, lines=1)
    return read_parsed(evidence, result, recorded_outcome(result), (cut,) if is_cut else ())


def _read_json(evidence: Evidence, recorded: RecordedObject) -> Reading | None:
    status = recorded.integer("returncode")
    if status is None:
        return None
    stdout, stderr = recorded.text("stdout") or "", recorded.text("stderr") or ""
    if recorded.flag("timed_out"):
        error = ToolError(
            kind="command_timed_out", message="the command timed out", details={"output": stdout}, retryable=True
        )
        stopped = CompleteOutput(
            tool_name=evidence.tool, status="error", summary_text="the command timed out", error=error
        )
        return Reading(build=lambda: stopped, fidelity="parsed_from_receipt")
    return _read_ended(evidence, status, stdout, stderr, is_cut=bool(recorded.flag("was_truncated")))


def _read_any(evidence: Evidence) -> Reading:
    failed = FAILED.fullmatch(find_failure(evidence.receipt_text or "") or "")
    if failed is None:
        return _OTHER.read(evidence)
    return _read_ended(evidence, int(failed["status"]), failed["stdout"] or "", failed["stderr"] or "")


_OTHER = vibe_mapping(("bash",), _read_command, read_text)
MAPPINGS = (ToolMapping(agent=AGENT, tools=("bash",), version=2, read=_read_any, align=_OTHER.align),)
