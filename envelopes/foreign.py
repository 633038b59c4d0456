"""What a foreign agent recorded about one call, and how a family takes it in.

    Evidence     the surfaces of one recorded call, already tamed JSON
    Reading      the typed complete output, and which recorded field became which canonical one
    ForeignTool  one row of a family's `(agent, tool)` mapping, with its own version

A source's own error flag is evidence and is kept; the reading decides what the envelope says
(a non-zero exit is a verdict inside a success, design.md section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from envelopes.alignment import Span
from envelopes.result import CompleteOutput, JsonValue

ResultFidelity: TypeAlias = Literal["structured", "bounded", "stringified", "parsed_from_receipt", "absent"]
ReceiptFidelity: TypeAlias = Literal["exact", "recorded", "reconstructed", "inflated", "masked", "absent"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """`has_result` tells a recorded null from nothing recorded. `receipt_text` joins the text parts."""

    agent: str
    tool: str
    args: JsonValue
    result: JsonValue = None
    has_result: bool = False
    receipt_text: str | None = None
    is_error: bool | None = None


class OutputField(msgspec.Struct, frozen=True):
    """A recorded string whose lines the model is meant to read, for the drawing of the cut.

    `first_line` and `total_lines` place it inside something larger (a Read of lines 200 to 400 of
    a file of 1,432): both count lines, `first_line` from 1. The first `start` characters are the
    source's own prefix (`Error: `) and no part of the output.
    """

    pointer: str
    first_line: int = 1
    total_lines: int | None = None
    start: int = 0


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """`links` maps pointers into the recorded result to pointers into the canonical envelope.

    A link covers what lies below it: `/filenames` -> `/result/filenames` also ties `/filenames/3`.
    """

    complete: CompleteOutput
    fidelity: ResultFidelity
    links: dict[str, str] = {}
    outputs: tuple[OutputField, ...] = ()


class ForeignTool(msgspec.Struct, frozen=True, kw_only=True):
    """`tools` are the agent's own names. Raise `version` whenever `read` says something new."""

    agent: str
    tools: tuple[str, ...]
    version: int
    read: Callable[[Evidence], Reading]
    align: Callable[[Evidence, str], list[Span]]
