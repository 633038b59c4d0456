"""The input of lint rules, the rules, and what they report.

LintInput  both halves of one call, and what is known of their cuts and artifacts
Rule       a name, a severity, and a function that looks for one fault; a family lists its own in `Family.lint`
Sighting   one place where a rule is broken
Finding    a sighting with the name and the severity of its rule
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

from envelopes.schema.receipt import Document, Receipt, Segment
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.pointer import join
from envelopes.text.preview import Cut

Severity: TypeAlias = Literal["error", "warning", "note"]


class Shortened(msgspec.Struct, frozen=True):
    """A text or a list of which at most `cut.shown` is in the receipt."""

    pointer: str
    cut: Cut
    document: Document = "canonical"


class LintInput(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Both halves of one call.

    `is_recorded`: a foreign agent wrote the receipt about `complete`, its own record, and it was aligned.
    `is_whole` is False when only the beginning of the receipt is here, so that nothing can be called missing.
    `has_artifact` tells for a virtual path whether its content is stored; None when that is not known.
    """

    canonical: CanonicalResult
    receipt: Receipt
    is_recorded: bool = False
    is_whole: bool = True
    complete: JsonValue = None
    cuts: tuple[Shortened, ...] = ()
    has_artifact: Callable[[str], bool] | None = None

    def with_receipt(self, receipt: Receipt) -> LintInput:
        """The same result with another receipt. What is cached about the result is not computed again."""
        other = msgspec.structs.replace(self, receipt=receipt, is_whole=True)
        vars(other).update(scalars=self.scalars, strings=self.strings)
        return other

    @cached_property
    def segment_starts(self) -> tuple[tuple[int, Segment], ...]:
        """Each segment, after the character at which it begins."""
        segments = self.receipt.segments
        starts = accumulate([len(segment.text) for segment in segments], initial=0)
        return tuple(zip(starts, segments, strict=False))

    @cached_property
    def own_segments(self) -> tuple[Segment, ...]:
        """Segments that the renderer wrote itself, markers included; in a recorded receipt, those without a source."""
        return tuple([segment for segment in self.receipt.segments if is_own(segment)])

    @cached_property
    def has_marker(self) -> bool:
        return "marker" in [segment.role for segment in self.own_segments]

    @cached_property
    def scalars(self) -> tuple[tuple[str, JsonValue], ...]:
        """The scalars of the canonical result, by pointer."""
        scalars: list[tuple[str, JsonValue]] = []
        _collect_scalars(self.canonical.result, "/result", scalars)
        return tuple(scalars)

    @cached_property
    def strings(self) -> tuple[tuple[str, str], ...]:
        """The strings by pointer: of the source's own record where the receipt was recorded, else of the result."""
        if not self.is_recorded:
            return tuple([(pointer, value) for pointer, value in self.scalars if isinstance(value, str)])
        scalars: list[tuple[str, JsonValue]] = []
        _collect_scalars(self.complete, "", scalars)
        return tuple([(pointer, value) for pointer, value in scalars if isinstance(value, str)])


def is_own(segment: Segment) -> bool:
    return segment.source is None or segment.role == "marker"


def _collect_scalars(value: JsonValue, pointer: str, scalars: list[tuple[str, JsonValue]]) -> None:
    """Appends to one list: nested generators take three times as long."""
    if isinstance(value, dict):
        for key, child in value.items():
            _collect_scalars(child, join(pointer, key), scalars)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _collect_scalars(child, f"{pointer}/{index}", scalars)
    else:
        scalars.append((pointer, value))


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """`span`: characters [start, end) of the receipt's text; None when something is missing from it."""

    sentence: str
    pointer: str = ""
    document: Document = "canonical"
    span: tuple[int, int] | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`find` yields nothing when all is in order, and never raises.

    `needs_all`: the rule reports that something is missing, which cannot be known from the beginning of a receipt.
    """

    name: str
    severity: Severity
    find: Callable[[LintInput], Iterable[Sighting]]
    needs_all: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    severity: Severity
    sentence: str
    pointer: str
    document: Document
    span: tuple[int, int] | None
