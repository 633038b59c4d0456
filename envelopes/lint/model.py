"""What lint speaks in: a pair of halves, the rules that look at it, and what they find.

Pair      both halves of one call, and what is known of their cuts and artifacts
Rule      a name, a severity, and what looks for one thing; a family lists its own in `Family.lint`
Sighting  one place where a rule is broken
Finding   the same under the rule's name: what a page shows
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
    """A text or a list of which no more than `cut.shown` reached the receipt."""

    pointer: str
    cut: Cut
    document: Document = "canonical"


class LintInput(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`is_recorded`: the receipt was written by a foreign agent about `complete`, its own record, and aligned.

    `is_whole` is False for a receipt that goes on behind what is here: a rule about what is missing stays silent.
    `has_artifact` says of a virtual path whether its content is there; None when nobody can say.
    """

    canonical: CanonicalResult
    receipt: Receipt
    is_recorded: bool = False
    is_whole: bool = True
    complete: JsonValue = None
    cuts: tuple[Shortened, ...] = ()
    has_artifact: Callable[[str], bool] | None = None

    def beside(self, receipt: Receipt) -> LintInput:
        """Another receipt for the same result: what was found out about the result is not asked again."""
        other = msgspec.structs.replace(self, receipt=receipt, is_whole=True)
        vars(other).update(scalars=self.scalars, strings=self.strings)
        return other

    @cached_property
    def placed(self) -> tuple[tuple[int, Segment], ...]:
        """Each segment behind the character at which it begins, laid out once for the rules that ask."""
        segments = self.receipt.segments
        starts = accumulate([len(segment.text) for segment in segments], initial=0)
        return tuple(zip(starts, segments, strict=False))

    @cached_property
    def own_words(self) -> tuple[Segment, ...]:
        """The renderer's words and its markers; in a recorded receipt, what was not traced."""
        return tuple([one for one in self.receipt.segments if is_own(one)])

    @cached_property
    def has_marker(self) -> bool:
        return "marker" in [one.role for one in self.own_words]

    @cached_property
    def scalars(self) -> tuple[tuple[str, JsonValue], ...]:
        """Of the canonical result, by pointer."""
        return tuple(scalars_of(self.canonical.result, "/result"))

    @cached_property
    def strings(self) -> tuple[tuple[str, str], ...]:
        """Texts by pointer: of the source's own record where the receipt was recorded, else of the result."""
        scalars = scalars_of(self.complete, "") if self.is_recorded else self.scalars
        return tuple([(pointer, one) for pointer, one in scalars if isinstance(one, str)])


def is_own(segment: Segment) -> bool:
    return segment.source is None or segment.role == "marker"


def scalars_of(value: JsonValue, pointer: str) -> list[tuple[str, JsonValue]]:
    """The scalars at and below `value`."""
    found: list[tuple[str, JsonValue]] = []
    _gather(value, pointer, found)
    return found


def _gather(value: JsonValue, pointer: str, found: list[tuple[str, JsonValue]]) -> None:
    """Into one list: a generator within each of the generators above it takes three times as long."""
    if isinstance(value, dict):
        for key, child in value.items():
            _gather(child, join(pointer, key), found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _gather(child, f"{pointer}/{index}", found)
    else:
        found.append((pointer, value))


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """`span`: characters [start, end) of the receipt's text; None when it is about what is not there."""

    sentence: str
    pointer: str = ""
    document: Document = "canonical"
    span: tuple[int, int] | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`finds` yields nothing for a pair that is in order, and never raises.

    `needs_all`: it says that something is nowhere, which nobody can say of the beginning of a receipt.
    """

    name: str
    severity: Severity
    finds: Callable[[LintInput], Iterable[Sighting]]
    needs_all: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    severity: Severity
    sentence: str
    pointer: str
    document: Document
    span: tuple[int, int] | None
