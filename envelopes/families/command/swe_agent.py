"""The commands of SWE-agent and mini-swe-agent, and where their receipts come from.

SWE-agent runs its tools (`open`, `edit`, `find_file` …) as commands in one shell. The recorded result is the raw
observation, one text without an exit code. Its receipt is that text in a template, which names the open file and the
folder behind it; a long one ends in `<response clipped>`.

mini-swe-agent records `{raw_output, returncode, exception_info?}`. Receipts:

    <returncode>0</returncode> / <output> / the output / </output>
    the same with <output_head>, <elided_chars> and <output_tail>, where the output is long
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.spans import Span, match_once
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import CommandResult, command_outcome, explain_exit

SHELL_TOOLS = (
    *("bash", "open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "find_file", "search_dir"),
    *("search_file", "filemap", "submit", "exit_forfeit"),
)
CLIPPED = re.compile(r"(?:…|\.\.\.)?<response clipped>")
RETURNCODE = re.compile(r"<returncode>(?P<code>-?\d{1,10})</returncode>\s*")
OUTPUT = re.compile(r"<output>\n?(?P<output>.*?)\n?</output>\s*\Z", re.DOTALL)
HEAD = re.compile(r"<output_head>\n?(?P<part>.*?)\n?</output_head>", re.DOTALL)
TAIL = re.compile(r"<output_tail>\n?(?P<part>.*?)\n?</output_tail>", re.DOTALL)
LEAST_OUTPUT = 3  # characters: a shorter one occurs in a template by chance


def _read_observation(evidence: Evidence) -> Reading:
    return read_failure(evidence) or read_text(evidence)


def _align_observation(evidence: Evidence, text: str) -> list[Span]:
    """Links the observation where the receipt has it whole, or its beginning up to the mark of a clip."""
    observation = evidence.result
    if not isinstance(observation, str) or not observation.strip():
        return align_failure(evidence, text)
    start = len(observation) - len(observation.lstrip())
    core = observation.strip()
    at = 0 if text.lstrip().startswith(core) and len(core) < LEAST_OUTPUT else text.find(core)
    if at >= 0 and (len(core) >= LEAST_OUTPUT or text.lstrip().startswith(core)):
        at = text.find(core)
        is_certain = text.find(core, at + 1) < 0 or not text[:at].strip()
        return [Span(at, at + len(core), "", start, start + len(core))] if is_certain else []
    clipped = CLIPPED.search(text)
    if clipped is None:
        return []
    shown = text[: clipped.start()]
    first = observation[: len(shown)]
    return [Span(0, len(shown), "", 0, len(shown))] if shown and shown == first else []


def _read_mini(evidence: Evidence) -> Reading:
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
        return reading(evidence, result, command_outcome(result), links=links, outputs=outputs)
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
    return reading(evidence, result, command_outcome(result), links={}, fidelity="parsed_from_receipt")


def _align_mini(evidence: Evidence, text: str) -> list[Span]:
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


MAPPINGS = (
    ToolMapping(agent="swe-agent", tools=SHELL_TOOLS, version=1, read=_read_observation, align=_align_observation),
    ToolMapping(agent="mini-swe-agent", tools=("bash",), version=1, read=_read_mini, align=_align_mini),
)
