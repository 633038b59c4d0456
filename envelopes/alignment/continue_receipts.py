"""The mappings of the Continue CLI's tools, of which the receipt is all that is recorded.

Of a long output of a command the beginning is left out, of a page the end:

    (previous 2001 lines truncated)          (previous 10000 characters truncated)
    (previous output truncated: 20 lines and 400 characters removed)
    (400 characters truncated)               behind the beginning of a page
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut

AGENT = "continue-cli"
_BEGINNING = re.compile(
    r"\A\(previous (?:(?P<count>\d{1,12}) (?P<unit>lines|characters) truncated"
    r"|output truncated: \d{1,12} lines and \d{1,12} characters removed)\)\n\n"
)
_END = re.compile(r"\n\n\((?P<count>\d{1,12}) characters(?: of [^\n()]*)? truncated\)\Z")


def read_parsed(evidence: Evidence, result: msgspec.Struct, summary: str, *cuts: SourceCut) -> Reading:
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def find_beginning_cut(receipt: str) -> tuple[SourceCut, ...]:
    """The cut at the beginning of a command's output."""
    mark = _BEGINNING.match(receipt)
    if mark is None:
        return ()
    if mark["unit"] is None:
        return (SourceCut(pointer="", unit="output", end=1, lines=1),)
    count = int(mark["count"])
    if mark["unit"] == "characters":
        return (SourceCut(pointer="", unit="characters", count=count, end=1, lines=1),)
    return (SourceCut(pointer="", unit="lines", count=count, end=1, lines=count),)


def find_end_cut(receipt: str) -> tuple[SourceCut, ...]:
    """The cut at the end of a page."""
    mark = _END.search(receipt)
    if mark is None:
        return ()
    at = receipt.count("\n", 0, mark.start()) + 1
    return (SourceCut(pointer="", unit="characters", count=int(mark["count"]), start=at, end=at, lines=1),)


def continue_mapping(tool: str, read: Callable[[Evidence, str], Reading | None]) -> ToolMapping:
    """A mapping whose reading gets receipts that are no failures; None is for one that it does not understand."""

    def read_any(evidence: Evidence) -> Reading:
        if failure := read_failure(evidence):
            return failure
        understood = None if evidence.receipt_text is None else read(evidence, evidence.receipt_text)
        return understood or read_untyped(evidence)

    return ToolMapping(agent=AGENT, tools=(tool,), version=1, read=read_any, align=lambda _evidence, _text: [])
