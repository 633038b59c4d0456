"""Claude Code's Bash, PowerShell and BashOutput, as recorded from 2.0 to 2.1, and where their receipts come from.

A command that ends with zero leaves `{stdout, stderr, interrupted, isImage, …}` and no exit code;
one that does not leaves the string `Error: Exit code N` and both streams as one text. `BashOutput`
leaves `{shellId, status, exitCode, stdout, stderr, …}`. Their receipts:

    Bash        stdout without leading blank lines, a newline, stderr; trimmed as JavaScript trims;
                or one of the two alone, where nothing else is written
    too long    `<persisted-output>` with a preview of the head, or `... [40 lines truncated] ...`
                between head and tail
    Exit code   the recorded string without its `Error: `
    BashOutput  one tag a field

What the runtime adds (the background sentence, reminders) is linked only where it holds a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from envelopes.alignment.failures import (
    FailureText,
    align_failure,
    error_prefix_length,
    find_failure_text,
    read_failure,
)
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, FieldSlice, OutputField, Reading, ToolMapping, bounded_fidelity
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.alignment.spans import ComposedPiece, ComposedText, Span, match_once, match_prefix, whole_cut
from envelopes.families.command.results import (
    COMMAND_TASK,
    CommandResult,
    SavedOutput,
    command_outcome,
    explain_exit,
    recorded_outcome,
)
from envelopes.schema.result import CompleteOutput, JsonValue, TaskHandle, ToolError
from envelopes.text.outline import outline_text

AGENT = "claude-code"
STREAMS = ("stdout", "stderr")
EXIT_CODE = re.compile(r"Exit code (-?[0-9]{1,10})(?:\n|$)")
_UNIT = r"(?:ms|[dhms])\b"
TIMED_OUT = re.compile(rf"Command timed out after \d[\d.]*(?:{_UNIT})?(?: \d[\d.]*{_UNIT})*[ \n]?")
INLINE_CUT = re.compile(r"\n\n\.\.\. \[(\d+) (lines|characters) truncated\] \.\.\.(?:\n\n|\Z)")
STOPPED = 143  # the exit status that the agent writes of a command at its time limit
BACKGROUND = re.compile(r"Command [\w ()-]{0,80}background[\w ]{0,80} with ID: (?P<id>[\w-]+)")
JS_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
LEADING_BLANK_LINES = re.compile(rf"(?:[{JS_SPACE}]*\n)+")
LEADING_SPACE = re.compile(rf"[{JS_SPACE}]+")
BACKGROUND_TAGS = (("status", "/status"), ("exit_code", "/exitCode"), ("stdout", "/stdout"), ("stderr", "/stderr"))


def _read_command(evidence: Evidence) -> Reading:
    """Reads Bash and PowerShell."""
    recorded = RecordedObject(evidence.result)
    if recorded.has_any(STREAMS):
        return _read_streams(evidence, recorded)
    failure = find_failure_text(evidence)
    exited = EXIT_CODE.match(failure.text) if failure and not evidence.skip else None
    if failure and exited:
        return _read_exit(evidence, failure, exited)
    return read_failure(evidence) or read_text(evidence)


def _read_background(evidence: Evidence) -> Reading:
    """Reads BashOutput: a look at a command that was sent to the background."""
    recorded = RecordedObject(evidence.result)
    if not recorded.has_any(STREAMS):
        return read_failure(evidence) or read_text(evidence)
    status = recorded.text("status") or "unknown"
    cuts = _find_stream_cuts(recorded)
    result = CommandResult(
        disposition="already_running" if status == "running" else "completed",
        exit_status=recorded.integer("exitCode"),
        stdout=recorded.text("stdout") or "",
        stderr=recorded.text("stderr") or "",
        task=TaskHandle(kind=COMMAND_TASK, task_id=recorded.text("shellId") or "", status=status),
        cut_by_source=bool(cuts),
    )
    links = {
        **_link_streams(result),
        **({} if result.exit_status is None else {"/exitCode": "/result/exit_status"}),
        **({"/shellId": "/result/task_handle/task_id"} if recorded.text("shellId") else {}),
        **({"/status": "/result/task_handle/status"} if recorded.text("status") else {}),
    }
    outputs = _output_fields(recorded)
    summary = "command was killed" if status == "killed" else command_outcome(result)
    return reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)


def _read_streams(evidence: Evidence, recorded: RecordedObject) -> Reading:
    """An interrupted command is cancelled or timed out, whatever the agent's flag; its output is in `details`."""
    task = recorded.text("backgroundTaskId")
    saved = recorded.text("persistedOutputPath")
    saved_size = recorded.integer("persistedOutputSize") if saved else None
    cuts = _find_stream_cuts(recorded)
    result = CommandResult(
        disposition="promoted_to_task" if task else "completed",
        stdout=recorded.text("stdout") or "",
        stderr=recorded.text("stderr") or "",
        interrupted=bool(recorded.flag("interrupted")),
        interpretation=recorded.text("returnCodeInterpretation") or None,
        is_image=bool(recorded.flag("isImage")),
        task=TaskHandle(kind=COMMAND_TASK, task_id=task) if task else None,
        saved_output=SavedOutput(path=saved, size=saved_size) if saved else None,
        cut_by_source=bool(cuts),
    )
    if result.interrupted and not task:
        return _read_interrupted(evidence, result, cuts)
    # Only what was recorded has a place in the canonical result.
    links = _link_streams(result) | {
        pointer: f"/result/{field}"
        for pointer, field, is_recorded in (
            ("/interrupted", "interrupted", result.interrupted),
            ("/isImage", "image", result.is_image),
            ("/returnCodeInterpretation", "interpretation", result.interpretation),
            ("/backgroundTaskId", "task_handle/task_id", task),
            ("/persistedOutputPath", "saved_output/path", saved),
            ("/persistedOutputSize", "saved_output/size", saved_size is not None),
        )
        if is_recorded
    }
    outputs = () if result.is_image else _output_fields(recorded)
    return reading(evidence, result, command_outcome(result), links=links, outputs=outputs, source_cuts=cuts)


def _read_interrupted(evidence: Evidence, result: CommandResult, cuts: tuple[SourceCut, ...]) -> Reading:
    streams = {name: text for name in STREAMS if (text := getattr(result, name))}
    has_timed_out = any(TIMED_OUT.match(text.removeprefix("<error>")) for text in streams.values())
    kind = "command_timed_out" if has_timed_out else "cancelled"
    message = "command timed out" if has_timed_out else "command was interrupted before it finished"
    error = ToolError(kind=kind, message=message, details=streams or None, retryable=True)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=message, error=error)
    links = {f"/{name}": "/error/details" for name in streams} | {"/interrupted": "/error/kind"}
    outputs = tuple(OutputField(f"/{name}") for name in streams)
    fidelity = bounded_fidelity("structured", cuts)
    return Reading(build=lambda: complete, fidelity=fidelity, links=links, outputs=outputs, source_cuts=cuts)


def _read_exit(evidence: Evidence, failure: FailureText, exited: re.Match[str]) -> Reading:
    """A non-zero exit is a verdict of the command's domain inside a success (D-8).

    A command that the agent stopped at its time limit has no verdict: it is an error. The agent writes the status of a
    signal for it, so that the same sentence behind another status is an output of the command.
    """
    output = failure.text[exited.end() :]
    timed_out = TIMED_OUT.match(output) if int(exited[1]) == STOPPED else None
    stopped = read_failure(evidence) if timed_out else None
    if timed_out and stopped:
        printed = output[timed_out.end() :]
        start = (failure.offset or 0) + len(failure.text) - len(printed)
        outputs = (OutputField("", start=start),) if failure.offset is not None and printed.strip() else ()
        complete = msgspec.structs.replace(stopped.complete, summary_text=timed_out[0].strip())
        return msgspec.structs.replace(stopped, outputs=outputs, build=lambda: complete)
    cuts = _find_failure_cuts(evidence, failure)
    command = RecordedObject(evidence.args).text("command") or ""
    result = CommandResult(
        exit_status=int(exited[1]),
        combined=output,
        interpretation=explain_exit(command, int(exited[1]), output),
        cut_by_source=bool(cuts),
    )
    summary = recorded_outcome(result)
    if failure.offset is None or not output:
        links = {} if failure.offset is None else {"": "/result/exit_status"}
        return reading(evidence, result, summary, links=links, fidelity=failure.fidelity, source_cuts=cuts)
    line = FieldSlice("", failure.offset, failure.offset + exited.end(), "/result/exit_status")
    outputs = (OutputField("", start=line.end),) if output.strip() else ()
    links = {"": "/result/combined_output_preview"}
    read = reading(evidence, result, summary, links=links, outputs=outputs, fidelity=failure.fidelity, source_cuts=cuts)
    return msgspec.structs.replace(read, slices=(line,))


def read_text(evidence: Evidence) -> Reading:
    """Reads a string that is no failure, JSON of an unknown shape, or the receipt's text alone."""
    cuts = find_source_cuts(evidence.result, "", "stream") if isinstance(evidence.result, str) else ()
    if isinstance(evidence.result, str):
        result = CommandResult(combined=evidence.result, cut_by_source=bool(cuts))
        links = {"": "/result/combined_output_preview"} if evidence.result else {}
        outputs, summary = (OutputField(""),), command_outcome(result)
        return reading(
            evidence, result, summary, links=links, outputs=outputs, fidelity="stringified", source_cuts=cuts
        )
    if evidence.result is not None:
        result = CommandResult(combined=outline_text(evidence.result))
        return reading(evidence, result, command_outcome(result), links={})
    if evidence.receipt_text is None:
        return reading(evidence, CommandResult(), "no result was recorded", links={}, fidelity="absent")
    receipt = evidence.receipt_text
    if background := BACKGROUND.match(receipt):
        task = TaskHandle(kind=COMMAND_TASK, task_id=background["id"])
        result = CommandResult(disposition="promoted_to_task", task=task)
    elif preview := find_output_preview(receipt):
        saved, text = SavedOutput(path=preview.path), receipt[preview.start : preview.end]
        result = CommandResult(combined=text, saved_output=saved, cut_by_source=True)
    else:
        cuts = find_source_cuts(receipt, "", "stream")
        result = CommandResult(combined=receipt, cut_by_source=bool(cuts))
    return reading(
        evidence, result, command_outcome(result), links={}, fidelity="parsed_from_receipt", source_cuts=cuts
    )


def _link_streams(result: CommandResult) -> dict[str, str]:
    first = "stdout" if result.disposition == "completed" else "initial_output"
    fields = (("/stdout", first, result.stdout), ("/stderr", "stderr", result.stderr))
    return {pointer: f"/result/{name}_preview" for pointer, name, text in fields if text}


def _output_fields(recorded: RecordedObject) -> tuple[OutputField, ...]:
    return tuple(OutputField(f"/{name}") for name in STREAMS if (recorded.text(name) or "").strip())


def _find_stream_cuts(recorded: RecordedObject) -> tuple[SourceCut, ...]:
    """Later releases keep 30,000 characters of stdout and name the file with the rest."""
    streams = {f"/{name}": recorded.text(name) or "" for name in STREAMS}
    cuts = [cut for pointer, text in streams.items() for cut in find_source_cuts(text, pointer, "stream")]
    size = recorded.integer("persistedOutputSize")
    if size is not None and size > sum(len(text.encode("utf-8", "replace")) for text in streams.values()):
        end = whole_cut(streams["/stdout"]).total
        cuts.append(SourceCut(pointer="/stdout", unit="output", start=end, end=end, lines=1))
    return tuple(cuts)


def _find_failure_cuts(evidence: Evidence, failure: FailureText) -> tuple[SourceCut, ...]:
    """The cut counts the lines of the recorded string, which begins with `Error: `, or else those of the sentence."""
    text = evidence.result if isinstance(evidence.result, str) and failure.offset is not None else failure.text
    return find_source_cuts(text, "", "stream", start=failure.offset or 0)


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    composed, streams = _compose(evidence.result)
    spans = _align_output(composed, text) if composed.text else []
    if not spans and isinstance(evidence.result, dict):
        # Some runtimes leave a stream out: a receipt that is the other one, to the character, comes from there.
        alone = next((stream for stream in streams if stream.text == text), None)
        spans = ComposedText([alone]).spans(0, 0, len(text)) if alone else []
    end = max((span.end for span in spans), default=0)
    return [*spans, *_align_sentences(evidence.result, text, end)] or align_failure(evidence, text)


def _align_background(evidence: Evidence, text: str) -> list[Span]:
    """Links `<status>…</status>`, an empty line, `<exit_code>…</exit_code>` and so on, in this order."""
    if not isinstance(evidence.result, dict):
        return align_failure(evidence, text)
    spans: list[Span] = []
    at = 0
    for tag, pointer in BACKGROUND_TAGS:
        if span := _align_tag(text, at, tag, pointer, evidence.result.get(pointer[1:])):
            spans.append(span)
            at = text.index(f"</{tag}>", span.end) + len(f"</{tag}>\n\n")
    return spans


def _compose(result: JsonValue) -> tuple[ComposedText, list[ComposedPiece]]:
    """The text that the agent wrote before it shortened anything, and the trimmed streams that it is made of."""
    if isinstance(result, str):
        offset = error_prefix_length(result)
        exited = EXIT_CODE.match(result, offset)
        output = exited.end() if exited else offset
        line = [ComposedPiece("", result[offset:output], offset)] if output > offset else []
        return ComposedText([*line, ComposedPiece("", result[output:], output)]), []
    streams = list(_trimmed_streams(RecordedObject(result)))
    breaks = [ComposedPiece(None, "\n")] if len(streams) > 1 else []
    return ComposedText([*streams[:1], *breaks, *streams[1:]]), streams


def _trimmed_streams(recorded: RecordedObject) -> Iterator[ComposedPiece]:
    for name in STREAMS:
        text, pointer = recorded.text(name) or "", f"/{name}"
        start, end = _trim(pointer, text)
        if start < end:
            yield ComposedPiece(pointer, text[start:end], start)


def _trim(pointer: str, text: str) -> tuple[int, int]:
    leading = (LEADING_BLANK_LINES if pointer == "/stdout" else LEADING_SPACE).match(text)
    return leading.end() if leading else 0, len(text.rstrip(JS_SPACE))


def _align_output(composed: ComposedText, text: str) -> list[Span]:
    """Links the whole text, or the head in a preview, or head and tail around a cut; else nothing."""
    length = len(composed.text)
    if text.startswith(composed.text) and text[length : length + 1] in ("", "\n"):
        return composed.spans(0, 0, length)
    if preview := find_output_preview(text):
        shown = text[preview.start : preview.end]
        is_head = shown and composed.text.startswith(shown)
        return composed.spans(preview.start, 0, len(shown)) if is_head else []
    # Before the marker the receipt must be the beginning of the output, behind it its end.
    cuts = list(INLINE_CUT.finditer(text))
    head = _common_length(text, composed.text) if cuts else 0
    tail = _common_length(text[::-1], composed.text[::-1]) if cuts else 0
    for cut in cuts:
        behind = len(text) - cut.end()
        if cut.start() <= head and behind <= tail and cut.start() + behind <= length:
            return [*composed.spans(0, 0, cut.start()), *composed.spans(cut.end(), length - behind, length)]
    return []


def _common_length(text: str, value: str) -> int:
    common = match_prefix(text, 0, value, "")
    return common.end if common else 0


def _align_sentences(result: JsonValue, text: str, start: int) -> list[Span]:
    """Links the task's id, from `start`, and the saved file's path in the sentences that the runtime adds."""
    spans = []
    sentences = (("backgroundTaskId", "ID: {}", start), ("persistedOutputPath", "saved to: {}\n", 0))
    for name, sentence, at in sentences:
        value = RecordedObject(result).text(name)
        if value and (span := match_once(text, sentence.format(value), f"/{name}", start=at)):
            begin = span.start + sentence.index("{")
            spans.append(Span(begin, begin + len(value), f"/{name}", 0, len(value)))
    return spans


def _align_tag(text: str, at: int, tag: str, pointer: str, value: JsonValue) -> Span | None:
    if value is None or isinstance(value, list | dict):
        return None
    start, end = _trim("/stderr", value) if isinstance(value, str) else (0, 0)
    printed = value[start:end] if isinstance(value, str) else str(value)
    for opening, closing in ((f"<{tag}>", f"</{tag}>"), (f"<{tag}>\n", f"\n</{tag}>")):
        if printed and text.startswith(opening + printed + closing, at):
            begin = at + len(opening)
            return Span(begin, begin + len(printed), pointer, start, end)
    return None


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("Bash", "PowerShell"), version=7, read=_read_command, align=_align_command),
    ToolMapping(agent=AGENT, tools=("BashOutput",), version=4, read=_read_background, align=_align_background),
)
