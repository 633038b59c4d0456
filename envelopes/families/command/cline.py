"""Cline's commands.

run_commands      [{query, result, error?, success}]: `result` has the output behind `[Command exited with code 3]`,
                  both streams, and `[stderr]` between them; `error` the exit code, or why nothing ran
execute_command   a sentence about the end, `Output:` and both streams as one text, in the receipt alone
"""

from __future__ import annotations

import re

from envelopes.alignment.cline_receipts import (
    AGENT,
    align_sent,
    pointer_of,
    read_answer,
    read_entries,
    read_failed_entries,
)
from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import (
    BatchItem,
    BatchResult,
    CommandResult,
    SavedOutput,
    batch_outcome,
    explain_exit,
    recorded_outcome,
)
from envelopes.schema.result import CompleteOutput, ToolError

EXITED = re.compile(r"\[Command exited with code (?P<status>-?\d{1,10})\]\n?")
FAILURE = re.compile(r"Command exited with code (?P<status>-?\d{1,10})")
ELIDED = re.compile(r"\n\[\.\.\. output truncated: \d{1,12} chars total\. [^\n\]]*\]\n")
ENDED = re.compile(
    r"Command (?:executed successfully|failed) ?(?:\(exit code (?P<done>-?\d{1,10})\)|with exit code "
    r"(?P<status>-?\d{1,10}))?\.(?:\nOutput:\n?)?"
)
EARLIER = re.compile(r"Command executed\.(?:\nOutput:\n?)?")
TIMED_OUT = re.compile(r"Command (?:execution )?timed out after [\d.]+ seconds[^\n]*")
SAVED = re.compile(r"\n?Full output saved to: (?P<path>[^\n]+)\Z")
OMITTED = re.compile(r"^\.\.\. \((?P<count>\d{1,12}) lines written to [^\n]+\) \.\.\.$", re.MULTILINE)

HALVES, LEAST_HALF = "\n... (output truncated) ...\n", 50  # lines of a half, by the least limit that can be set


def _read_entry(entry: RecordedObject, index: int) -> tuple[CommandResult, tuple[SourceCut, ...]]:
    text, failure = entry.text("result") or "", FAILURE.fullmatch(entry.text("error") or "")
    head = EXITED.match(text) if failure else None
    output = text[head.end() :] if head else text
    status = int(failure["status"]) if failure else 0 if entry.flag("success") else None
    mark = ELIDED.search(text)
    cuts: tuple[SourceCut, ...] = ()
    if mark:
        at = text.count("\n", 0, mark.start()) + 1
        cuts = (SourceCut(pointer=f"/{index}/result", unit="output", start=at - 1, end=at + 2, lines=2),)
    result = CommandResult(
        exit_status=status,
        combined=output,
        interpretation=None if status is None else explain_exit(entry.text("query") or "", status, output),
        cut_by_source=mark is not None,
    )
    return result, cuts


def _read_commands(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence) or read_failed_entries(evidence):
        return failure
    entries = read_entries(evidence)
    if not entries:
        return read_text(evidence)
    results = [_read_entry(entry, index) for index, entry in enumerate(entries)]
    outputs = tuple(OutputField(pointer_of(evidence, index, "result")) for index in range(len(entries)))
    cuts = tuple(cut for _, own in results for cut in own)
    if len(results) == 1:
        result = results[0][0]
        links = {"/0/result": "/result/combined_output_preview", "/0/error": "/result/exit_status"}
        return reading(evidence, result, recorded_outcome(result), links=links, outputs=outputs, source_cuts=cuts)
    items = tuple(
        BatchItem(
            cmd=entry.text("query") or "",
            status="failed" if entry.flag("success") is False else "completed",
            result=result,
            error_message=None if result.exit_status is not None else entry.text("error"),
        )
        for entry, (result, _) in zip(entries, results, strict=True)
    )
    batch = BatchResult(items=items)
    links = {f"/{index}/query": f"/result/items/{index}/cmd" for index in range(len(items))}
    links |= {f"/{i}/result": f"/result/items/{i}/result/combined_output_preview" for i in range(len(items))}
    return reading(evidence, batch, batch_outcome(batch), links=links, outputs=outputs, source_cuts=cuts)


def _read_command(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    text = answer.receipt_text or ""
    if timeout := TIMED_OUT.match(text):
        return _read_timeout(evidence, timeout[0].strip(), text[timeout.end() :])
    end = ENDED.match(text) or EARLIER.match(text)
    if end is None:
        return read_text(answer)
    found = end.groupdict()
    status = found.get("status") or found.get("done")
    saved = SAVED.search(text, max(end.end(), len(text) - 5_000))
    output = text[end.end() : saved.start()] if saved else text[end.end() :]
    omitted = OMITTED.search(output) if saved else None
    count = int(omitted["count"]) if omitted else None
    is_cut = saved is not None or _has_equal_halves(output)
    cuts = (SourceCut(pointer="", unit="lines" if count else "output", count=count, lines=count or 1),)
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=int(status) if status else None,
        combined=output,
        interpretation=explain_exit(command, int(status), output) if status else None,
        saved_output=SavedOutput(path=saved["path"]) if saved else None,
        cut_by_source=is_cut,
    )
    return reading(
        evidence,
        result,
        recorded_outcome(result),
        links={},
        fidelity="parsed_from_receipt",
        source_cuts=cuts if is_cut else (),
    )


def _has_equal_halves(output: str) -> bool:
    """True for an output of which earlier releases left out the middle: as many lines are on both sides of a mark.

    A last line without text counts too, and is not there any more.
    """
    head, mark, tail = output.partition(HALVES)
    count = head.count("\n") + 1
    return bool(mark) and count >= LEAST_HALF and count - tail.count("\n") in (1, 2)


def _read_timeout(evidence: Evidence, message: str, output: str) -> Reading:
    """A command that went on in the background, of which nothing more is told."""
    details = {"output": output.strip()} if output.strip() else None
    error = ToolError(kind="command_timed_out", message=message, details=details, retryable=True)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=message, error=error)
    return Reading(build=lambda: complete, fidelity="parsed_from_receipt")


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("run_commands",), version=2, read=_read_commands, align=align_sent),
    ToolMapping(agent=AGENT, tools=("execute_command",), version=2, read=_read_command, align=align_sent),
)
