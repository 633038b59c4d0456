"""The results of Kimi Code's tools, and the receipts that the client computes from them.

    {output, isError?, note?, durationMs?}          recorded; `output` is a text or a list of parts
    Wall time: 0.017 seconds                        before it, of some tools, in releases that record `durationMs`
    <system>ERROR: Tool execution failed.</system>  before the output of a failure
    <system>Tool output is empty.</system>          in place of an empty one
    the note                                        behind it, a line or a part of its own

A long output is recorded as its beginning and its end (`[preview: chars [0, 4096)]`, `[elided: chars [4096, 9000)]`),
in releases before 0.43 as its beginning alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from envelopes.alignment.failures import align_failure, read_failure, tool_error
from envelopes.alignment.kimi_receipts import SERVER_CUT, ToolReturn, drop_reminder
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span
from envelopes.schema.result import CompleteOutput, JsonValue, summarize
from envelopes.text.untrusted_json import dump_json

AGENT = "kimi-code"
OUTPUT, NOTE = "/output", "/note"
TIMED = ("Agent", "AgentSwarm", "Bash", "FetchURL", "Glob", "Grep", "WebSearch")  # and the tools of MCP servers
SERVER = "mcp__"
FAILED = "<system>ERROR: Tool execution failed.</system>"
EMPTY = "<system>Tool output is empty.</system>"
FAILED_EMPTY = "<system>ERROR: Tool execution failed. Tool output is empty.</system>"
NOTHING = "Tool output is empty."
SAVED = re.compile(
    r"Tool output exceeded \d+ characters; the full output was saved to a file\.\n(?:[a-z_]+: [^\n]*\n)+"
    r"\n\[preview: chars \[0, \d+\)\]\n"
)
ELIDED = re.compile(r"\n\n\[elided: chars \[(?P<start>\d{1,12}), (?P<end>\d{1,12})\)\]\n\n\[preview: [^\n]+\]\n")
BROKEN_OFF = "[...truncated]\nCommand executed successfully. Output is truncated to fit in the message."
STOPPED = re.compile(r"(?:\A|\n)(?P<sentence>Interrupted by user|Command killed by timeout \([^\n]*\))\Z")
_HEADER = re.compile(r"Wall time: \d+\.\d{3} seconds\n?")


def render_receipt(tool: str, result: JsonValue) -> bytes | None:
    """The content that is computed from a result, as JSON: a text, or a list of parts. None without an output."""
    recorded = RecordedObject(result)
    output, note, duration = recorded.get("output"), recorded.text("note"), recorded.number("durationMs")
    if not isinstance(output, str | list):
        return None
    parts = _render_output(output, is_error=bool(recorded.flag("isError")))
    if duration is not None and (tool in TIMED or tool.startswith(SERVER)):
        header = f"Wall time: {duration / 1000:.3f} seconds"
        if parts and _text(parts[0]) is not None:
            parts[0] = _part(f"{header}\n{_text(parts[0])}")
        else:
            parts.insert(0, _part(header))
    if note and len(parts) == 1 and _text(parts[0]) is not None:
        parts[0] = _part(f"{_text(parts[0])}\n{note}")
    elif note:
        parts.append(_part(note))
    sent = [part for part in parts if _text(part) is None or (_text(part) or "").strip()]
    return dump_json(_text(sent[0]) if len(sent) == 1 and _text(sent[0]) is not None else sent)


def _render_output(output: str | list[JsonValue], *, is_error: bool) -> list[JsonValue]:
    text = output if isinstance(output, str) else _text(output[0]) if len(output) == 1 else None
    if text is not None and is_error:
        return [_part(f"{FAILED}\n{text}" if text else FAILED_EMPTY)]
    if text is not None:
        return [_part(EMPTY if text.strip() in ("", NOTHING) else text)]
    parts = list(output)
    if all(part is not None and not (_text(part) or "").strip() and _text(part) is not None for part in parts):
        return [_part(FAILED_EMPTY if is_error else EMPTY)]
    return [_part(FAILED), *parts] if is_error else parts


def _part(text: str) -> JsonValue:
    return {"type": "text", "text": text}


def _text(part: JsonValue) -> str | None:
    """The text of a part that is one."""
    block = RecordedObject(part)
    return block.text("text") if block.text("type") == "text" else None


def read_answer(evidence: Evidence) -> ToolReturn | None:
    """Reads the value that the tool returned, with its note without tags as the message; None without a record."""
    recorded = RecordedObject(evidence.result)
    output = recorded.get("output")
    if not isinstance(output, str | list):
        return None
    texts = [output] if isinstance(output, str) else [_text(part) or "" for part in output]
    return ToolReturn(
        output=drop_reminder("".join(texts)),
        message=(recorded.text("note") or "").removeprefix("<system>").removesuffix("</system>"),
        is_error=bool(recorded.flag("isError") or evidence.is_error),
        is_recorded=True,
    )


def read_failed_answer(evidence: Evidence, answer: ToolReturn) -> Reading:
    """A failure, whose output is the sentence about it; before that of a stopped command is what it printed."""
    stopped = STOPPED.search(answer.output)
    sentence = answer.output[stopped.start("sentence") :] if stopped else answer.output
    error = tool_error(AGENT, sentence)
    if stopped and stopped.start():
        printed = answer.output[: stopped.start()]
        error = msgspec.structs.replace(error, details={**(error.details or {}), "output": printed})
    complete = CompleteOutput(
        tool_name=evidence.tool,
        status="error",
        summary_text=summarize(sentence.partition("\n")[0]) or "the call failed",
        error=error,
    )
    is_whole = isinstance(RecordedObject(evidence.result).get("output"), str) and not stopped
    return Reading(build=lambda: complete, fidelity="structured", links={OUTPUT: "/error/message"} if is_whole else {})


def read_success(
    evidence: Evidence,
    answer: ToolReturn,
    result: msgspec.Struct,
    summary: str,
    *,
    links: Mapping[str, str],
    source_cuts: tuple[SourceCut, ...] | None = None,
    first_line: int = 1,
    total_lines: int | None = None,
) -> Reading:
    """The reading of a success; without cuts of its own those of a long output."""
    is_text = isinstance(RecordedObject(evidence.result).get("output"), str)
    saved = SAVED.match(answer.output)
    field = OutputField(OUTPUT, first_line=first_line, total_lines=total_lines, start=saved.end() if saved else 0)
    return reading(
        evidence,
        result,
        summary,
        links=links,
        outputs=(field,) if is_text and answer.output.strip() else (),
        source_cuts=find_cuts(answer) if source_cuts is None else source_cuts,
    )


def shown_output(answer: ToolReturn) -> str:
    """The output without the lines that stand before a long one."""
    saved = SAVED.match(answer.output)
    return answer.output[saved.end() :] if saved else answer.output


def find_cuts(answer: ToolReturn) -> tuple[SourceCut, ...]:
    """The middle of a long output, or its end."""
    text = answer.output
    mark = ELIDED.search(text) if SAVED.match(text) else None
    at = mark.start() + 2 if mark else text.find(BROKEN_OFF)
    if mark is None and at < 0:
        at = text.find(SERVER_CUT)
    if at < 0:
        return ()
    line = text.count("\n", 0, at)
    return (SourceCut(pointer=OUTPUT, unit="output", start=line, end=line + 1, lines=1),)


def typed(
    read: Callable[[Evidence, ToolReturn], Reading], other: Callable[[Evidence], Reading] = read_untyped
) -> Callable[[Evidence], Reading]:
    """A reading that has failures read before, and calls without a result by `other`."""

    def read_any(evidence: Evidence) -> Reading:
        answer = read_answer(evidence)
        if answer is None or evidence.skip:
            return read_failure(evidence) or other(evidence)
        return read_failed_answer(evidence, answer) if answer.is_error else read(evidence, answer)

    return read_any


def tool_mapping(tools: tuple[str, ...], read: Callable[[Evidence, ToolReturn], Reading]) -> ToolMapping:
    return ToolMapping(agent=AGENT, tools=tools, version=1, read=typed(read), align=align_answer)


def align_answer(evidence: Evidence, text: str) -> list[Span]:
    """Links the output, or the texts of its parts, behind what the client puts before it, and the note."""
    recorded = RecordedObject(evidence.result)
    output, note = recorded.get("output"), recorded.text("note")
    if not isinstance(output, str | list):
        return align_failure(evidence, text)
    if isinstance(output, str):
        texts = {OUTPUT: output}
    else:
        texts = {f"{OUTPUT}/{number}/text": _text(part) or "" for number, part in enumerate(output)}
    header = _HEADER.match(text)
    at = header.end() if header else 0
    at += len(FAILED) + 1 if text.startswith(f"{FAILED}\n", at) else 0
    spans = list[Span]()
    for pointer, value in texts.items():
        if value and (text[at:] == value or (pointer == OUTPUT and text.startswith(value, at))):
            spans.append(Span(at, at + len(value), pointer, 0, len(value)))
            break
    if note and text.endswith(note):
        spans.append(Span(len(text) - len(note), len(text), NOTE, 0, len(note)))
    return spans
