"""Claude Code's Bash, PowerShell and BashOutput, as recorded from 2.0 to 2.1.

A command that ends with zero leaves `{stdout, stderr, interrupted, isImage, …}` and no exit code;
one that does not leaves the string `Error: Exit code N` and both streams as one text. `BashOutput`
leaves `{shellId, status, exitCode, stdout, stderr, …}`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from envelopes.alignment.failures import FailureText, find_failure_text, read_failure
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, FieldSlice, OutputField, Reading, ResultFidelity
from envelopes.families.command.results import COMMAND_TASK, CommandResult, SavedOutput, outcome
from envelopes.schema.follow_up_handles import TaskHandle
from envelopes.schema.result import CompleteOutput, JsonValue, ToolError, summarize
from envelopes.text.outline import outline_text

STREAM_MEMBERS = ("stdout", "stderr")
EXIT_CODE = re.compile(r"Exit code (-?[0-9]{1,10})(?:\n|$)")
SOURCE_CUT = re.compile(r"\n\n\.\.\. \[\d+ (?:lines|characters) truncated\] \.\.\.(?:\n|$)")
BACKGROUND = re.compile(r"Command [\w ()-]{0,80}background[\w ]{0,80} with ID: (?P<id>[\w-]+)")
PERSISTED = re.compile(
    r"<persisted-output>\nOutput too large \([^)]*\)\. Full output saved to: (?P<path>[^\n]+)\n\n"
    r"Preview \(first [^)]*\):\n(?P<preview>.*?)(?:\n\.\.\.)?\n</persisted-output>",
    re.DOTALL,
)


Fact: TypeAlias = tuple[str, str, JsonValue]  # recorded pointer, canonical member, what was read there


def read_command(evidence: Evidence) -> Reading:
    """Bash and PowerShell."""
    recorded = RecordedObject(evidence.result)
    if recorded.has_any(STREAM_MEMBERS):
        return _read_streams(evidence, recorded)
    failure = find_failure_text(evidence)
    exited = EXIT_CODE.match(failure.text) if failure else None
    if failure and exited:
        return _read_exit(evidence, failure, exited)
    return read_failure(evidence) or _read_text(evidence)


def read_background(evidence: Evidence) -> Reading:
    """BashOutput: a look at a command that was sent to the background."""
    recorded = RecordedObject(evidence.result)
    if not recorded.has_any(STREAM_MEMBERS):
        return read_failure(evidence) or _read_text(evidence)
    status = recorded.text("status") or "unknown"
    result = CommandResult(
        disposition="already_running" if status == "running" else "completed",
        exit_status=recorded.integer("exitCode"),
        stdout=recorded.text("stdout") or "",
        stderr=recorded.text("stderr") or "",
        task=TaskHandle(kind=COMMAND_TASK, task_id=recorded.text("shellId") or "", status=status),
        cut_by_source=_is_cut(recorded),
    )
    links = _links(
        *_stream_facts(result),
        ("/exitCode", "exit_status", result.exit_status),
        ("/shellId", "task_handle/task_id", recorded.text("shellId")),
        ("/status", "task_handle/status", recorded.text("status")),
    )
    return _reading(evidence, result, "structured", links, _output_fields(recorded))


def _read_streams(evidence: Evidence, recorded: RecordedObject) -> Reading:
    """An interruption is a failure where the agent flagged it as one; what ran until then is in `details`."""
    task = recorded.text("backgroundTaskId")
    saved = recorded.text("persistedOutputPath")
    result = CommandResult(
        disposition="promoted_to_task" if task else "completed",
        stdout=recorded.text("stdout") or "",
        stderr=recorded.text("stderr") or "",
        interrupted=bool(recorded.flag("interrupted")),
        interpretation=recorded.text("returnCodeInterpretation") or None,
        is_image=bool(recorded.flag("isImage")),
        task=TaskHandle(kind=COMMAND_TASK, task_id=task) if task else None,
        saved_output=SavedOutput(path=saved, size=recorded.integer("persistedOutputSize")) if saved else None,
        cut_by_source=_is_cut(recorded),
    )
    fidelity: ResultFidelity = "bounded" if result.cut_by_source else "structured"
    if result.interrupted and evidence.is_error:
        return _interrupted(evidence, result, fidelity)
    links = _links(
        *_stream_facts(result),
        ("/interrupted", "interrupted", result.interrupted),
        ("/isImage", "image", result.is_image),
        ("/returnCodeInterpretation", "interpretation", result.interpretation),
        ("/backgroundTaskId", "task_handle/task_id", task),
        ("/persistedOutputPath", "saved_output/path", saved),
        ("/persistedOutputSize", "saved_output/size", recorded.integer("persistedOutputSize") if saved else None),
    )
    return _reading(evidence, result, fidelity, links, () if result.is_image else _output_fields(recorded))


def _interrupted(evidence: Evidence, result: CommandResult, fidelity: ResultFidelity) -> Reading:
    said = "command was interrupted before it finished"
    streams = {name: text for name in ("stdout", "stderr") if (text := getattr(result, name))}
    error = ToolError(kind="cancelled", message=said, details=streams or None, retryable=True)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=said, error=error)
    links = {f"/{name}": "/error/details" for name in streams} | {"/interrupted": "/error/kind"}
    outputs = tuple(OutputField(f"/{name}") for name in streams)
    return Reading(build=lambda: complete, fidelity=fidelity, links=links, outputs=outputs)


def _read_exit(evidence: Evidence, failure: FailureText, exited: re.Match[str]) -> Reading:
    """A non-zero exit is a verdict of the command's domain inside a success (design.md section 1)."""
    output = failure.text[exited.end() :]
    result = CommandResult(
        exit_status=int(exited[1]), combined=output, cut_by_source=SOURCE_CUT.search(output) is not None
    )
    if failure.offset is None:
        return _reading(evidence, result, failure.fidelity)
    if not output:
        return _reading(evidence, result, failure.fidelity, {"": "/result/exit_status"})
    line = FieldSlice("", failure.offset, failure.offset + exited.end(), "/result/exit_status")
    found = _reading(
        evidence,
        result,
        failure.fidelity,
        {"": "/result/combined_output_preview"},
        (OutputField("", start=line.end),) if output.strip() else (),
    )
    return msgspec.structs.replace(found, slices=(line,))


def _read_text(evidence: Evidence) -> Reading:
    """A string that is no failure, JSON of an unknown shape, or the receipt's text alone."""
    links = {"": "/result/combined_output_preview"}
    if isinstance(evidence.result, str):
        links = links if evidence.result else {}
        return _reading(evidence, CommandResult(combined=evidence.result), "stringified", links, (OutputField(""),))
    if evidence.result is not None:
        return _reading(evidence, CommandResult(combined=outline_text(evidence.result)), "structured")
    if evidence.receipt_text is None:
        return _reading(evidence, CommandResult(), "absent")
    return _reading(evidence, _from_receipt(evidence.receipt_text), "parsed_from_receipt")


def _from_receipt(receipt: str) -> CommandResult:
    if background := BACKGROUND.match(receipt):
        return CommandResult(
            disposition="promoted_to_task", task=TaskHandle(kind=COMMAND_TASK, task_id=background["id"])
        )
    if persisted := PERSISTED.match(receipt):
        saved = SavedOutput(path=persisted["path"])
        return CommandResult(combined=persisted["preview"], saved_output=saved, cut_by_source=True)
    return CommandResult(combined=receipt, cut_by_source=SOURCE_CUT.search(receipt) is not None)


def _reading(
    evidence: Evidence,
    result: CommandResult,
    fidelity: ResultFidelity,
    links: dict[str, str] | None = None,
    outputs: tuple[OutputField, ...] = (),
) -> Reading:
    said = "no result was recorded" if fidelity == "absent" else outcome(result)
    complete = CompleteOutput(tool_name=evidence.tool, status="success", summary_text=summarize(said), result=result)
    return Reading(build=lambda: complete, fidelity=fidelity, links=links or {}, outputs=outputs)


def _stream_facts(result: CommandResult) -> tuple[Fact, Fact]:
    first = "stdout" if result.disposition == "completed" else "initial_output"
    return ("/stdout", f"{first}_preview", result.stdout), ("/stderr", "stderr_preview", result.stderr)


def _links(*facts: Fact) -> dict[str, str]:
    """Only of what was recorded: an empty or absent member has no place in the canonical result."""
    return {
        pointer: f"/result/{target}"
        for pointer, target, value in facts
        if value is not None and value is not False and value != ""
    }


def _output_fields(recorded: RecordedObject) -> tuple[OutputField, ...]:
    return tuple(OutputField(f"/{name}") for name in ("stdout", "stderr") if (recorded.text(name) or "").strip())


def _is_cut(recorded: RecordedObject) -> bool:
    """Later releases keep 30,000 characters of stdout and name the file with the rest."""
    streams = [recorded.text(name) or "" for name in ("stdout", "stderr")]
    size = recorded.integer("persistedOutputSize")
    if size is not None and size > sum(len(text.encode("utf-8", "replace")) for text in streams):
        return True
    return any(SOURCE_CUT.search(text) for text in streams)
