"""The commands of mini-swe-agent, and where their receipts come from.

Release 2 records `{raw_output, returncode, exception_info?, exception_type?}`, release 1 the receipt alone. A command
that was stopped at its time limit has a `returncode` of -1 and the sentence of Python in `exception_info`. Receipts:

    <returncode>0</returncode> / <output> / the output / </output>
    the same with <output_head>, <elided_chars> and <output_tail>, where the output is long
    {"returncode": 0, "output": "…"}, with `output_head`, `output_tail` and `elided_chars` where it is long: `mini.yaml`
"""

from __future__ import annotations

import re
from bisect import bisect_left
from json import JSONDecodeError, JSONDecoder

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.json_spans import place_in_json
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span, match_once, match_prefix
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import CommandResult, explain_exit, recorded_outcome
from envelopes.schema.result import CompleteOutput, ToolError

RETURNCODE = re.compile(r"<returncode>(?P<code>-?\d{1,10})</returncode>\s*")
OUTPUT = re.compile(r"<output>\n?(?P<output>.*?)\n?</output>\s*\Z", re.DOTALL)
HEAD = re.compile(r"<output_head>\n?(?P<part>.*?)\n?</output_head>", re.DOTALL)
ELIDED = re.compile(r"<elided_chars>\s*(?P<count>\d{1,12}) characters elided")
TAIL = re.compile(r"<output_tail>\n?(?P<part>.*?)\n?</output_tail>", re.DOTALL)
HEAD_OPENING, HEAD_CLOSING = re.compile(r"<output_head>\n?"), re.compile(r"\n?</output_head>")
TAIL_OPENING, LAST_CLOSING = re.compile(r"<output_tail>\n?"), re.compile(r"\n?</output_tail>\s*\Z")
JSON_CODE = re.compile(r'\s*\{\s*"returncode":\s*(?P<code>-?\d{1,10}|null),\s*(?="output)')
JSON_MEMBERS = {  # in their order
    name: re.compile(rf'[\s,]*"{name}":\s*(?=")') for name in ("output", "output_head", "output_tail")
}
NO_STATUS = -1  # recorded where the client stopped waiting for the command, or could not run it
NOT_EXECUTED = "action was not executed"  # recorded for each command from the one on that ended the turn
TIMED_OUT = re.compile(
    r"An error occurred while executing the command: .* (?P<end>timed out after [\d.]+ seconds)\Z", re.S
)
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # a command that prints it was executed, and ended the run
_DECODER = JSONDecoder()


def _read_command(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    command = RecordedObject(evidence.args).text("command") or ""
    code = recorded.integer("returncode")
    if recorded.has_any(("raw_output", "returncode")):
        output = recorded.text("raw_output") or ""
        if not output and recorded.text("exception_info") == NOT_EXECUTED:
            return _read_skipped(evidence, command)
        if code == NO_STATUS and (late := TIMED_OUT.fullmatch(recorded.text("exception_info") or "")):
            return _read_timeout(evidence, output, late["end"])
        result = CommandResult(
            exit_status=code,
            combined=output,
            interpretation=None if code is None else explain_exit(command, code, output),
        )
        links = {"/raw_output": "/result/combined_output_preview"} if output else {}
        links |= {} if code is None else {"/returncode": "/result/exit_status"}
        outputs = (OutputField("/raw_output"),) if output.strip() else ()
        return reading(evidence, result, recorded_outcome(result), links=links, outputs=outputs)
    receipt = evidence.receipt_text or ""
    head = RETURNCODE.match(receipt)
    if head is None or evidence.result is not None:
        return read_failure(evidence) or read_text(evidence)
    whole = OUTPUT.search(receipt, head.end())
    parts = [part["part"] for pattern in (HEAD, TAIL) if (part := pattern.search(receipt, head.end()))]
    output = whole["output"] if whole else "\n".join(parts)
    code = int(head["code"])
    result = CommandResult(
        exit_status=code,
        combined=output,
        interpretation=explain_exit(command, code, output),
        cut_by_source=bool(parts) and not whole,
    )
    elided = ELIDED.search(receipt, head.end()) if parts and not whole else None
    cuts = (SourceCut(pointer="", unit="characters", count=int(elided["count"])),) if elided else ()
    summary = recorded_outcome(result)
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_timeout(evidence: Evidence, output: str, end: str) -> Reading:
    message = f"the command {end}"
    details = {"output": output} if output else None
    error = ToolError(kind="command_timed_out", message=message, details=details, retryable=True)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=message, error=error)
    links = {"/exception_info": "/error/message"} | ({"/raw_output": "/error/details/output"} if output else {})
    outputs = (OutputField("/raw_output"),) if output.strip() else ()
    return Reading(build=lambda: complete, fidelity="structured", links=links, outputs=outputs)


def _read_skipped(evidence: Evidence, command: str) -> Reading:
    if SUBMIT in command:
        return reading(evidence, CommandResult(), NOT_EXECUTED, links={})
    error = ToolError(kind="skipped", message=NOT_EXECUTED, retryable=False)
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=NOT_EXECUTED, error=error)
    return Reading(build=lambda: complete, fidelity="structured", links={"/exception_info": "/error/message"})


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    recorded = RecordedObject(evidence.result)
    output, code = recorded.text("raw_output") or "", recorded.integer("returncode")
    if not recorded.has_any(("raw_output", "returncode")):
        return align_failure(evidence, text)
    if head := JSON_CODE.match(text):
        spans = [Span(*head.span("code"), "/returncode")] if head["code"] == str(code) else []
        return [*spans, *_align_json(text, head.end(), output)]
    spans = []
    head = RETURNCODE.match(text)
    if head and code == int(head["code"]):
        spans.append(Span(*head.span("code"), "/returncode"))
    start = head.end() if head else 0
    if core := output.strip():
        offset = output.find(core)
        whole = OUTPUT.search(text, start)
        if whole and whole["output"].strip() == core:
            at = text.index(core, whole.start("output"))
            return [*spans, Span(at, at + len(core), "/raw_output", offset, offset + len(core))]
        if match := match_once(text, core, "/raw_output", start=start):
            return [*spans, Span(match.start, match.end, "/raw_output", offset, offset + len(core))]
    return [*spans, *_align_ends(text, start, output)]


def _align_ends(text: str, start: int, output: str) -> list[Span]:
    """Links the beginning and the end of a long output, which may have such tags itself."""
    first, last = HEAD_OPENING.search(text, start), LAST_CLOSING.search(text)
    if first is None or last is None:
        return []
    begin = first.end()
    common = match_prefix(text, begin, output, "")
    most = common.end if common else begin
    openings = list(TAIL_OPENING.finditer(text, begin))
    starts = [opening.start() for opening in openings]
    behind = text[: last.start()][::-1]
    # By the length of the output, which may be without its last line breaks.
    tails = {len(whole): match_prefix(behind, 0, whole[::-1], "") for whole in (output, output.rstrip("\n"))}
    for mark in reversed(list(HEAD_CLOSING.finditer(text, begin))):
        number = bisect_left(starts, mark.end())
        if mark.start() > most or number == len(openings):
            continue
        tail = openings[number]
        shown = max(0, last.start() - tail.end())
        for length, ending in tails.items():
            if shown <= (ending.end if ending else 0):
                head = Span(begin, mark.start(), "/raw_output", 0, mark.start() - begin)
                return [head, Span(tail.end(), tail.end() + shown, "/raw_output", length - shown, length)]
    return []


def _align_json(text: str, at: int, output: str) -> list[Span]:
    """Links the strings in the JSON that `mini.yaml` writes: the output, or its beginning and its end."""
    spans: list[Span] = []
    for name, pattern in JSON_MEMBERS.items():
        member = pattern.match(text, at)
        if member is None:
            continue
        try:
            shown, at = _DECODER.raw_decode(text, member.end())
        except JSONDecodeError:
            return []
        offset = len(output) - len(shown) if name == "output_tail" else 0
        if offset < 0 or shown != (output if name == "output" else output[offset : offset + len(shown)]):
            return []
        whole = Span(0, len(shown), "/raw_output", offset, offset + len(shown))
        spans += place_in_json(text, member.end() + 1, [whole])
    return spans


MAPPINGS = (ToolMapping(agent="mini-swe-agent", tools=("bash",), version=7, read=_read_command, align=_align_command),)
