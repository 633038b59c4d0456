"""Codex's exec_command, shell, write_stdin and the like, of every release, and where their receipts come from.

The recorded result is `exec_command_end` or the item `CommandExecution`, where a release keeps one:

    {command, cwd, process_id, status, exit_code, stdout, stderr, aggregated_output, …}

`aggregated_output` has no more than 10,000 bytes: `…5549 chars truncated…` replaces the middle, and the separate
streams are then empty. Since 0.171 it has no more than 64 KiB, around `... command output truncated for persistence
...`, and there are no separate streams. Receipts, by release:

    Chunk ID: a21e41 / Wall time: 1.0037 seconds / Process exited with code 0, or running with session ID 48230 /
    Original token count: 12 / Output: / the output
    Exit code: 0 / Wall time: 0.1 seconds / Total output lines: 900 / Output: / the output
    {"output": "…", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}

A cut output has `…N tokens truncated…` in its middle. `Total output lines: N` is in its header or begins the output,
since 0.171 behind `Warning: truncated output (original token count: N)`; a single line that was cut has no such count.
The output of a command that was stopped at its time limit begins with `command timed out after N milliseconds`.

A command that outlives its window runs on as a session: the outputs of the polls behind it are further receipts of the
command, each with a header of its own. All of them together are compared with the record of the whole where they are
equal to it.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import pairwise

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.json_spans import place_in_json
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ResultFidelity, ToolMapping
from envelopes.alignment.source_cuts import TOKENS_HEAD, SourceCut, find_marks, find_source_cuts, find_token_cuts
from envelopes.alignment.spans import ComposedPiece, ComposedText, Span
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import COMMAND_TASK, CommandResult, Disposition, explain_exit, recorded_outcome
from envelopes.schema.result import CompleteOutput, JsonValue, TaskHandle, ToolError
from envelopes.text.untrusted_json import Untrusted, parse_json

AGENT = "codex"
POLL = "write_stdin"
TOOLS = (
    *("exec_command", "shell", "container.exec", "local_shell", "shell_command", "unified_exec", POLL),
    "command_execution",  # of `codex exec --json`, whatever the model called
)
OUTPUTS = ("aggregated_output", "stdout", "stderr")
HEADER = re.compile(
    r"(?:(?:Command: [^\n]*|Chunk ID: [^\n]*|Wall time: [\d.]+ seconds|Exit code: (?P<exit>-?\d{1,10})"
    r"|Process exited with code (?P<exit_code>-?\d{1,10})|Process running with session ID (?P<process_id>\d{1,12})"
    r"|Original token count: \d+|Total output lines: (?P<total>\d{1,12}))\n)+Output:\n"
)
SHELL = re.compile(r"\S*/(?:ba|z)?sh -l?c (?=['\"])")  # before the command in the events of `codex exec --json`
LEGACY = re.compile(r'\{"output":(?:\s*")?')
LEGACY_EXIT = re.compile(r'"exit_code":(?P<exit_code>-?\d{1,10})[,}]')
TIMED_OUT = re.compile(r"command timed out after \d{1,12} milliseconds(?:\n|\Z)")
ABORTED = re.compile(r"(?:Wall time: [\d.]+ seconds\n)?(?P<message>aborted by user)\b")
NO_STATUS = -1  # of a command that was stopped
TIMEOUT_STATUS = 124  # which Codex gives a command that it stopped
RECEIPT_CUT = re.compile(
    r"…(?P<count>\d{1,12}) (?P<unit>tokens|chars|characters|lines) truncated…"
    r"|\n\[\.\.\. (?:omitted (?P<lines>\d{1,12}) of (?P<of>\d{1,12}) lines|output truncated to fit \d{1,12} bytes)"
    r" \.\.\.\]\n\n"
)
LOOSE_LINES = 3  # the ends of a cut may break lines off, and the last may have no end
LEAST_PART = 24  # characters: a shorter part of an output may be another one with the same words


class _ShownOutput(msgspec.Struct, frozen=True):
    """The header of a receipt, as far as it has one, and the output behind it, from character `start`.

    `is_json`: the output is a string of the JSON that the receipt is, so its places are those in the decoded string.
    """

    header: re.Match[str] | None
    output: str
    start: int
    exit_status: int | None
    session: str | None
    is_json: bool = False

    @property
    def total(self) -> int | None:
        """The lines of the complete output, which a receipt states that lacks some of it."""
        stated = TOKENS_HEAD.match(self.output) or (None if self.session else self.header)
        return int(stated["total"]) if stated and stated["total"] else None

    @property
    def beginnings(self) -> list[int]:
        """The places at which the command's own output may begin: behind the count of its lines, and behind a timeout.

        A command may print the sentence about the timeout itself.
        """
        head = TOKENS_HEAD.match(self.output)
        start = head.end() if head else 0
        sentence = TIMED_OUT.match(self.output, start)
        return [start, sentence.end()] if sentence else [start]

    @property
    def has_timed_out(self) -> bool:
        return self.exit_status in (None, TIMEOUT_STATUS) and len(self.beginnings) > 1


def _read_command(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    if recorded.has_any(OUTPUTS) or recorded.integer("exit_code") is not None:
        return _read_recorded(evidence, recorded)
    return read_failure(evidence) or _read_receipt(evidence)


def _read_recorded(evidence: Evidence, recorded: RecordedObject) -> Reading:
    status = recorded.integer("exit_code")
    is_refused = recorded.text("status") == "declined" or (status is None and evidence.is_error)
    if is_refused and (failure := read_failure(evidence)):
        return failure
    streams = {name: recorded.text(name) or "" for name in ("stdout", "stderr")}
    combined = "" if any(streams.values()) else recorded.text("aggregated_output") or ""
    pointers = {"/aggregated_output": combined} if combined else {f"/{name}": text for name, text in streams.items()}
    cuts = tuple(cut for pointer, text in pointers.items() for cut in find_source_cuts(text, pointer, "middle"))
    receipt = evidence.receipt_text or ""
    shown = _shown_output(receipt)
    if len(cuts) == 1 and len(pointers) == 1:
        cuts = (_with_total(cuts[0], combined, shown),)
    result = CommandResult(
        exit_status=status,
        combined=combined,
        interpretation=None if status is None else explain_exit(_command(evidence), status, combined),
        cut_by_source=bool(cuts),
        stdout=streams["stdout"],
        stderr=streams["stderr"],
    )
    links = {pointer: f"/result/{_canonical(pointer)}" for pointer, text in pointers.items() if text}
    links |= {} if status is None else {"/exit_code": "/result/exit_status"}
    headers = _headers(receipt, shown.header) if shown.header else []
    is_partly_shown = (
        len(headers) > 1 and shown.output and not any(_are_whole(receipt, text) for text in pointers.values() if text)
    )
    if shown.session or is_partly_shown or (cuts and _has_whole_output(recorded, shown)):
        fidelity: ResultFidelity = "bounded" if cuts else "structured"
        read = reading(evidence, result, recorded_outcome(result), links=links, fidelity=fidelity)
        sent = _receipt_cuts(receipt)
        return msgspec.structs.replace(read, source_cuts=sent, is_cut_unknown=not sent)
    # What is before the output of a poll was in the receipts before it.
    outputs = tuple(
        OutputField(pointer, start=_find_output(text, shown, 0, is_poll=True) or 0 if _is_poll(evidence) else 0)
        for pointer, text in pointers.items()
        if text.strip()
    )
    # The receipt of a poll begins behind what the ones before it had.
    printed = {"stdout": "", "stderr": "", "combined": shown.output} if evidence.tool == POLL and shown.header else {}
    summary = recorded_outcome(msgspec.structs.replace(result, **printed))
    read = reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)
    if status == NO_STATUS and (aborted := ABORTED.match(receipt)):
        return _as_error(evidence, read, "cancelled", aborted["message"], {"exit_status": status})
    is_printed = any(TIMED_OUT.match(text) for text in (combined, *streams.values()))
    has_timed_out = shown.has_timed_out and status in (None, TIMEOUT_STATUS) and not is_printed
    return _as_timeout(evidence, read, shown) if has_timed_out else read


def _as_timeout(evidence: Evidence, read: Reading, shown: _ShownOutput) -> Reading:
    """The reading of a command that Codex stopped at its time limit."""
    start = shown.beginnings[-1]
    message = shown.output[shown.beginnings[0] : start].strip()
    status = {} if shown.exit_status is None else {"exit_status": shown.exit_status}
    return _as_error(evidence, read, "command_timed_out", message, {**status, "output": shown.output[start:]})


def _as_error(evidence: Evidence, read: Reading, kind: str, message: str, details: dict[str, JsonValue]) -> Reading:
    """The reading as an error, whose details have the output that was recorded."""
    result = read.complete.result
    if read.links and isinstance(result, CommandResult):
        details = {**details, "output": f"{result.stdout}{result.stderr}{result.combined}"}
    error = ToolError(kind=kind, message=message, details=details, retryable=True)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=message, error=error)
    links = dict.fromkeys(read.links, "/error/details")
    return msgspec.structs.replace(read, build=lambda: complete, links=links)


def _with_total(cut: SourceCut, recorded: str, shown: _ShownOutput) -> SourceCut:
    """The same cut with its number of lines, where the receipt states that of the complete output."""
    left = recorded.count("\n") + (not recorded.endswith("\n")) - (cut.end - cut.start)
    missing = 0 if shown.total is None else shown.total - shown.has_timed_out - left
    return msgspec.structs.replace(cut, unit="lines", count=missing, lines=missing) if missing > 0 else cut


def _is_poll(evidence: Evidence) -> bool:
    return evidence.tool == POLL or evidence.is_further


def _has_whole_output(recorded: RecordedObject, shown: _ShownOutput) -> bool:
    """Checks that a receipt has the output from beginning to end, of which the record has no middle."""
    parts = _composed_outputs(recorded)[-1]
    if len(parts) == 1:
        return False
    head, tail = parts[0].text, parts[-1].text
    is_long = len(shown.output) >= len(head) + len(tail) and shown.total is None
    has_head = any(shown.output.startswith(head, start) for start in shown.beginnings)
    return is_long and has_head and shown.output.endswith(tail)


def _canonical(pointer: str) -> str:
    return {"/aggregated_output": "combined_output"}.get(pointer, pointer[1:]) + "_preview"


def _command(evidence: Evidence) -> str:
    args = RecordedObject(evidence.args)
    words = args.strings("command")
    command = args.text("cmd") or args.text("command") or (words[-1] if words else "")
    if SHELL.match(command):
        with suppress(ValueError):  # an open quotation mark
            return shlex.split(command)[-1]
    return command


def _read_receipt(evidence: Evidence) -> Reading:
    """Reads what the receipt says of the end, where no result was recorded."""
    if evidence.receipt_text is None or evidence.result is not None:
        return read_text(evidence)
    shown = _shown_output(evidence.receipt_text)
    if shown.session:
        task = TaskHandle(kind=COMMAND_TASK, task_id=shown.session)
        disposition: Disposition = "already_running" if evidence.tool == POLL else "promoted_to_task"
        result = CommandResult(disposition=disposition, task=task, stdout=shown.output)
    else:
        explained = (
            None if shown.exit_status is None else explain_exit(_command(evidence), shown.exit_status, shown.output)
        )
        result = CommandResult(
            exit_status=shown.exit_status,
            combined=shown.output,
            interpretation=explained,
            cut_by_source=RECEIPT_CUT.search(shown.output) is not None,
        )
    cuts = find_source_cuts(evidence.receipt_text, "", "middle") + _receipt_cuts(evidence.receipt_text)
    # The count of its lines is no line of the output.
    printed = "" if shown.session else shown.output[shown.beginnings[0] :]
    summary = recorded_outcome(msgspec.structs.replace(result, combined=printed))
    read = reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)
    return _as_timeout(evidence, read, shown) if shown.has_timed_out and not shown.session else read


def _shown_output(receipt: str) -> _ShownOutput:
    """The output of a receipt, or of several one behind the other, of which the last one tells the end."""
    if header := HEADER.match(receipt):
        headers = _headers(receipt, header)
        ends = [*(following.start() for following in headers[1:]), len(receipt)]
        output = "".join(receipt[one.end() : end] for one, end in zip(headers, ends, strict=True))
        code = headers[-1]["exit_code"] or headers[-1]["exit"]
        return _ShownOutput(header, output, header.end(), int(code) if code else None, headers[-1]["process_id"])
    if LEGACY.match(receipt):
        try:
            document = RecordedObject(parse_json(receipt.encode("utf-8", "surrogatepass")))
        except Untrusted:
            return _ShownOutput(None, receipt, 0, None, None)
        status = document.member("metadata").integer("exit_code")
        return _ShownOutput(None, document.text("output") or "", 0, status, None, is_json=True)
    return _ShownOutput(None, receipt, 0, None, None)


def _receipt_cuts(receipt: str) -> tuple[SourceCut, ...]:
    """The cuts that the outputs in a receipt, or in several one behind the other, state themselves."""
    first = HEADER.match(receipt)
    if first is None or (first["total"] and not first["process_id"]):
        return _stated_cuts(_shown_output(receipt))
    headers = _headers(receipt, first)
    ends = [*(following.start() for following in headers[1:]), len(receipt)]
    outputs = [receipt[header.end() : end] for header, end in zip(headers, ends, strict=True)]
    return tuple(cut for output in outputs for cut in find_token_cuts(output))


def _stated_cuts(shown: _ShownOutput) -> tuple[SourceCut, ...]:
    """A mark needs no long texts on both sides if the receipt, or the mark, has the number of lines."""
    mark = _find_mark(shown.output)
    mark = mark if mark and (shown.total is not None or _counts_lines(mark, shown.output)) else None
    if mark and mark["lines"] not in (None, "0"):
        return (SourceCut(pointer="", unit="lines", count=int(mark["lines"])),)
    if mark and mark["unit"] == "tokens":
        return (SourceCut(pointer="", unit="tokens", count=int(mark["count"])),)
    if mark and not mark["unit"]:
        return (SourceCut(pointer="", unit="output"),)
    return find_token_cuts(shown.output)


def _counts_lines(mark: re.Match[str], output: str) -> bool:
    """True where a mark of early releases states about as many lines as are shown beside those that it replaces."""
    shown = output.count("\n", 0, mark.start()) + output.count("\n", mark.end())
    return bool(mark["lines"]) and abs(int(mark["of"]) - int(mark["lines"]) - shown) <= LOOSE_LINES


def _find_mark(output: str) -> re.Match[str] | None:
    """The mark of Codex, which is between halves of about the same size. The output may print such marks itself."""
    marks = RECEIPT_CUT.finditer(output)
    return min(marks, key=lambda mark: abs(mark.start() + mark.end() - len(output)), default=None)


def _headers(receipt: str, first: re.Match[str]) -> list[re.Match[str]]:
    """The headers of receipts one behind the other: those behind a receipt whose command runs on."""
    return list(HEADER.finditer(receipt)) if first["process_id"] else [first]


def _are_whole(receipt: str, text: str) -> bool:
    """True where several receipts, no two of which are equal, have all of the recorded output together."""
    first = HEADER.match(receipt)
    headers = _headers(receipt, first) if first else []
    starts = [*(header.start() for header in headers), len(receipt)]
    receipts = {receipt[start:end] for start, end in pairwise(starts)}
    return len(headers) > 1 and len(receipts) == len(headers) and _shown_output(receipt).output == text


def _place_in_whole(evidence: Evidence, text: str, output: str) -> int | None:
    """The place in the whole output where that of one of several receipts begins; None where that is not certain."""
    receipt = evidence.receipt_text or ""
    if receipt == text or not _are_whole(receipt, output):
        return None
    start = receipt.find(text)
    return len(_shown_output(receipt[:start]).output) if start > 0 else 0


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    recorded = RecordedObject(evidence.result)
    if not recorded.has_any(OUTPUTS):
        return align_failure(evidence, text)
    shown = _shown_output(text)
    spans = _align_status(text, recorded) if shown.is_json else _align_header(shown.header, recorded)
    for composed in _composed_outputs(recorded):
        place = _place_in_whole(evidence, text, composed[0].text) if len(composed) == 1 else None
        if place is not None and shown.output:
            return [*spans, *composed[0].spans(shown.start, place, place + len(shown.output))]
        is_behind = not (evidence.receipt_text or "").startswith(text)
        if matched := _align_output(composed, shown, is_poll=_is_poll(evidence) or is_behind):
            opening = LEGACY.match(text) if shown.is_json else None
            return [*spans, *(place_in_json(text, opening.end(), matched) if opening else matched)]
    return spans or align_failure(evidence, text)


def _align_header(header: re.Match[str] | None, recorded: RecordedObject) -> list[Span]:
    spans = []
    if header is None:
        return []
    for group in ("exit", "exit_code"):
        if header[group] and recorded.integer("exit_code") == int(header[group]):
            spans.append(Span(*header.span(group), "/exit_code"))
    process = recorded.text("process_id")
    if process and header["process_id"] == process:
        spans.append(Span(*header.span("process_id"), "/process_id", 0, len(process)))
    return spans


def _align_status(text: str, recorded: RecordedObject) -> list[Span]:
    """Links the exit code in the `metadata` of a receipt that is JSON."""
    code = LEGACY_EXIT.search(text, text.rfind('"metadata"'))
    is_recorded = code is not None and recorded.integer("exit_code") == int(code["exit_code"])
    return [Span(*code.span("exit_code"), "/exit_code")] if code and is_recorded else []


def _composed_outputs(recorded: RecordedObject) -> list[list[ComposedText]]:
    """The forms that a receipt may show, each as its parts around what the record left out."""
    aggregated = recorded.text("aggregated_output") or ""
    stdout, stderr = recorded.text("stdout") or "", recorded.text("stderr") or ""
    forms = []
    if stdout or stderr:
        forms.append([ComposedText([ComposedPiece("/stdout", stdout), ComposedPiece("/stderr", stderr)])])
    cut = next((mark for mark, _ in find_marks(aggregated, "middle")), None)
    parts = [(aggregated[: cut.start()], 0), (aggregated[cut.end() :], cut.end())] if cut else [(aggregated, 0)]
    forms.append([ComposedText([ComposedPiece("/aggregated_output", part, start)]) for part, start in parts])
    return forms


def _align_output(parts: list[ComposedText], shown: _ShownOutput, *, is_poll: bool) -> list[Span]:
    """Links the output of a receipt, each side of which may lack its middle, by its beginning and its end."""
    candidates = (_align_from(parts, shown, start, is_poll=is_poll) for start in shown.beginnings)
    return next(filter(None, candidates), [])


def _align_from(parts: list[ComposedText], shown: _ShownOutput, start: int, *, is_poll: bool) -> list[Span]:
    """Links the output of a receipt that begins at character `start` of what is shown."""
    head, tail, output, at = parts[0], parts[-1], shown.output, shown.start + start
    cut = _find_mark(output)
    if cut and shown.total is not None:
        first = _common_head(output[start : cut.start()], head, at)
        return [*first, *_common_tail(output, cut.end(), tail, shown.start)] if first else []
    if len(parts) == 1:
        place = _find_output(head.text, shown, start, is_poll=is_poll)
        if place is not None:
            return head.spans(at, place, place + len(output) - start)
    is_long = len(output) - start >= len(head.text) + len(tail.text)
    if len(parts) > 1 and is_long and output.startswith(head.text, start) and output.endswith(tail.text):
        behind = shown.start + len(output) - len(tail.text)
        return [*head.spans(at, 0, len(head.text)), *tail.spans(behind, 0, len(tail.text))]
    # The lines are not counted where a single one was cut: both sides of the mark have to be there.
    first = _common_head(output[start : cut.start()], head, at) if cut else []
    last = _common_tail(output, cut.end(), tail, shown.start) if cut else []
    if cut and first and last and (len(parts) > 1 or len(output) - start - len(cut[0]) < len(head.text)):
        return [*first, *last]
    is_end = len(parts) > 1 and is_poll and shown.exit_status is not None
    return _common_tail(output, start, tail, shown.start) if is_end else []


def _find_output(text: str, shown: _ShownOutput, start: int, *, is_poll: bool) -> int | None:
    """The position of the shown output, from its character `start`, in the whole of it.

    A poll shows what came since the one before: the last one the end, any other a part that must occur once.
    """
    output = shown.output[start:]
    if not output:
        return None
    if is_poll and shown.exit_status is not None and text.endswith(output):
        return len(text) - len(output)
    if not is_poll and text.startswith(output):
        return 0
    return text.find(output) if len(output) >= LEAST_PART and text.count(output) == 1 else None


def _common_head(shown: str, part: ComposedText, at: int) -> list[Span]:
    length = min(len(shown), len(part.text))
    return part.spans(at, 0, length) if length and shown[:length] == part.text[:length] else []


def _common_tail(output: str, start: int, part: ComposedText, offset: int) -> list[Span]:
    length = min(len(output) - start, len(part.text))
    if not length or output[len(output) - length :] != part.text[len(part.text) - length :]:
        return []
    return part.spans(offset + len(output) - length, len(part.text) - length, len(part.text))


MAPPINGS = (ToolMapping(agent=AGENT, tools=TOOLS, version=9, read=_read_command, align=_align_command),)
