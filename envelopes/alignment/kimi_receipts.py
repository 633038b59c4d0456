"""The values that Kimi CLI's tools return, and how its receipts have them.

    {is_error, output, message, display, extras}    recorded, `output` a text or a list of blocks
    <system>the message</system> | <system>ERROR: the message</system>    the first text of a receipt, if there is one
    the output                                                            the next text, or one for each block

Of a call without a record both are read from the receipt. A tool that was called again and again with the same
arguments has a reminder of that behind its output, in both halves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from envelopes.alignment.failures import align_failure, read_failure, tool_error
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span
from envelopes.schema.result import CompleteOutput, summarize

AGENT = "kimi-cli"
OUTPUT = "/output"
LINE_MARK = "[...truncated]"
CUT = "Output is truncated to fit in the message."
MOST_CHARACTERS = 50_000
SERVER_CUT = "\n\n[Output truncated: exceeded "  # the last block of a server's answer that was too long
_HEAD = re.compile(r"<system>(?P<error>ERROR: )?(?P<message>.*?)</system>", re.DOTALL)
_CRASH = "\nThis is an unexpected error and the tool is probably not working."
_REMINDER = re.compile(
    r"\n\n<system-reminder>\n(?:You (?:are repeating the exact same tool call|have repeatedly called the same tool"
    r"|are stuck in a dead end)|The same tool call has been repeated)[^<]*\n</system-reminder>\Z"
)


class ToolReturn(msgspec.Struct, frozen=True, kw_only=True):
    """The value that a tool returned. `output` is without a reminder of the client."""

    output: str
    message: str
    is_error: bool
    is_recorded: bool

    @property
    def is_cut(self) -> bool:
        return self.message.endswith(CUT)


def read_return(evidence: Evidence) -> ToolReturn:
    recorded = RecordedObject(evidence.result)
    message = recorded.text("message")
    if message is not None:
        texts = [block.text("text") or "" for block in recorded.items("output")]
        output = recorded.text("output")
        return ToolReturn(
            output=drop_reminder("".join(texts) if output is None else output),
            message=message,
            is_error=bool(recorded.flag("is_error") or evidence.is_error),
            is_recorded=True,
        )
    receipt = evidence.receipt_text or ""
    head = _HEAD.match(receipt)
    return ToolReturn(
        output=drop_reminder(receipt[head.end() :] if head else receipt),
        message=head["message"].removesuffix(_CRASH) if head else "",
        is_error=bool(head and head["error"]),
        is_recorded=False,
    )


def drop_reminder(output: str) -> str:
    reminder = _REMINDER.search(output, max(0, len(output) - 5_000))
    return output[: reminder.start()] if reminder else output


def read_failed(evidence: Evidence, returned: ToolReturn) -> Reading | None:
    """The reading of a call that failed: its message, and what it printed until then. None for a success."""
    if evidence.skip:
        return read_failure(evidence)
    if not returned.is_error:
        return None
    error = tool_error(AGENT, returned.message)
    if returned.output:
        error = msgspec.structs.replace(error, details={**(error.details or {}), "output": returned.output})
    complete = CompleteOutput(
        tool_name=evidence.tool,
        status="error",
        summary_text=summarize(returned.message.partition("\n")[0]) or "the call failed",
        error=error,
    )
    if not returned.is_recorded:
        return Reading(build=lambda: complete, fidelity="parsed_from_receipt")
    links = {"/message": "/error/message"} | ({OUTPUT: "/error/details/output"} if returned.output else {})
    outputs = (OutputField(OUTPUT),) if isinstance(RecordedObject(evidence.result).get("output"), str) else ()
    return Reading(
        build=lambda: complete,
        fidelity="structured",
        links=links,
        outputs=outputs if returned.output else (),
        source_cuts=find_cuts(returned),
    )


def read_output(
    evidence: Evidence,
    returned: ToolReturn,
    result: msgspec.Struct,
    summary: str,
    *,
    links: Mapping[str, str],
    source_cuts: tuple[SourceCut, ...] | None = None,
    first_line: int = 1,
    total_lines: int | None = None,
) -> Reading:
    """The reading of a success. Without a record, its parts are those of the receipt."""
    has_output = returned.is_recorded and bool(returned.output)
    return reading(
        evidence,
        result,
        summary,
        links=links if returned.is_recorded else {},
        outputs=(OutputField(OUTPUT, first_line=first_line, total_lines=total_lines),) if has_output else (),
        fidelity="structured" if returned.is_recorded else "parsed_from_receipt",
        source_cuts=find_cuts(returned) if source_cuts is None else source_cuts,
    )


def find_cuts(returned: ToolReturn) -> tuple[SourceCut, ...]:
    """The ends of lines beyond 2,000 characters, and what came behind 50,000 characters."""
    if not returned.is_cut:
        return ()
    pointer = OUTPUT if returned.is_recorded else ""
    lines = returned.output.removesuffix("\n").split("\n")
    is_full = len(returned.output) >= MOST_CHARACTERS
    ends = sum(line.endswith(LINE_MARK) for line in (lines[:-1] if is_full else lines))
    cuts = [SourceCut(pointer=pointer, unit="line ends", count=ends)] if ends else []
    if is_full:
        cuts.append(SourceCut(pointer=pointer, unit="output", start=len(lines) - 1, end=len(lines), lines=1))
    return tuple(cuts)


def align_return(evidence: Evidence, text: str) -> list[Span]:
    """Links a text of the receipt to the message in its tags, or to the output, whole or one of its blocks."""
    recorded = RecordedObject(evidence.result)
    message, output = recorded.text("message"), recorded.text("output")
    if message is None:
        return align_failure(evidence, text)
    if output and text == output:
        return [Span(0, len(text), OUTPUT, 0, len(text))]
    blocks = [block.text("text") for block in recorded.items("output")]
    if text and blocks.count(text) == 1:
        return [Span(0, len(text), f"{OUTPUT}/{blocks.index(text)}/text", 0, len(text))]
    head = _HEAD.fullmatch(text)
    if head and message and head["message"] in (message, message + _CRASH):
        start = head.start("message")
        return [Span(start, start + len(message), "/message", 0, len(message))]
    return []
