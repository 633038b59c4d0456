"""The commands of mini-swe-agent, and where their receipts come from.

Release 2 records `{raw_output, returncode, exception_info?}`, release 1 the receipt alone. Receipts:

    <returncode>0</returncode> / <output> / the output / </output>
    the same with <output_head>, <elided_chars> and <output_tail>, where the output is long
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span, match_once
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import CommandResult, explain_exit, recorded_outcome

RETURNCODE = re.compile(r"<returncode>(?P<code>-?\d{1,10})</returncode>\s*")
OUTPUT = re.compile(r"<output>\n?(?P<output>.*?)\n?</output>\s*\Z", re.DOTALL)
HEAD = re.compile(r"<output_head>\n?(?P<part>.*?)\n?</output_head>", re.DOTALL)
ELIDED = re.compile(r"<elided_chars>\s*(?P<count>\d{1,12}) characters elided")
TAIL = re.compile(r"<output_tail>\n?(?P<part>.*?)\n?</output_tail>", re.DOTALL)


def _read_command(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    command = RecordedObject(evidence.args).text("command") or ""
    code = recorded.integer("returncode")
    if recorded.has_any(("raw_output", "returncode")):
        output = recorded.text("raw_output") or ""
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


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    recorded = RecordedObject(evidence.result)
    output, code = recorded.text("raw_output") or "", recorded.integer("returncode")
    if not recorded.has_any(("raw_output", "returncode")):
        return align_failure(evidence, text)
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
    first, last = HEAD.search(text, start), TAIL.search(text, start)
    if first and last and output.startswith(first["part"]) and output.rstrip("\n").endswith(last["part"]):
        end = len(output.rstrip("\n"))
        spans.append(Span(*first.span("part"), "/raw_output", 0, len(first["part"])))
        spans.append(Span(*last.span("part"), "/raw_output", end - len(last["part"]), end))
    return spans


MAPPINGS = (ToolMapping(agent="mini-swe-agent", tools=("bash",), version=4, read=_read_command, align=_align_command),)
