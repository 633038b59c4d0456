"""Projects the sample outputs of a built-in tool, and renders each under every variant of its family.

Definitions and samples are part of the program, so each tool is computed once a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from envelopes.families.base import Family
from envelopes.families.registry import builtin, samples
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Receipt, SegmentSource
from envelopes.schema.result import JsonValue
from envelopes.schema.variant import Variant
from envelopes.storage.file_store import MemorySink
from envelopes.text.pointer import join
from envelopes.text.tokens import TokenCount, count_all
from envelopes.text.untrusted_json import dump_json
from envelopes.variants import variants_for

HALVES = ("/result/", "/error/")
SORTS = ("success", "error", "large", "empty", "odd")


@dataclass(frozen=True, kw_only=True)
class RenderedSample:
    """`is_cut`: the canonical result, or this variant, left text out.

    `shown` of `total` characters of the strings in the result (or the error) are in the receipt.
    """

    variant: Variant
    receipt: Receipt
    tokens: TokenCount
    is_cut: bool
    shown: int
    total: int

    @property
    def characters(self) -> int:
        return len(self.receipt.text)

    @property
    def window(self) -> ReceiptWindow:
        return receipt_window(self.receipt, Links({}), 0, FIRST_CHARS)


@dataclass(frozen=True, kw_only=True)
class FieldLoss:
    """A field of which the canonical result has only a part; `unit` is characters or lines."""

    pointer: str
    shown: int
    total: int
    unit: str


@dataclass(frozen=True, kw_only=True)
class ToolSample:
    """`half` is `result` or `error`: the one that the sample has."""

    sort: str
    half: str
    canonical: bytes
    losses: tuple[FieldLoss, ...]
    rendered: tuple[RenderedSample, ...]

    @property
    def window(self) -> TextChunk:
        return json_markup.head(json_markup.pretty(self.canonical), FIRST_CHARS, "data-pointer")


@cache
def render_samples(name: str) -> dict[str, ToolSample]:
    """By sort, success first. Raises KeyError for a name that no family defines."""
    family, _ = builtin(name)
    outputs = samples(name)
    order = sorted(outputs, key=lambda sort: SORTS.index(sort) if sort in SORTS else len(SORTS))
    return {
        sort: _render_sample(sort, project(outputs[sort], family, family.projection, MemorySink()), family)
        for sort in order
    }


def _render_sample(sort: str, projection: Projection, family: Family) -> ToolSample:
    canonical = projection.canonical
    variants = variants_for(family)
    receipts = [render(canonical, family, variant.policy, variant=variant) for variant in variants]
    counts = count_all([receipt.text for receipt in receipts])
    lengths = dict(_string_lengths(canonical.to_json(), ""))
    return ToolSample(
        sort=sort,
        half="result" if canonical.error is None else "error",
        canonical=dump_json(canonical.to_json()),
        losses=tuple(
            FieldLoss(pointer=field.pointer, shown=field.cut.shown_count, total=field.cut.total, unit=field.cut.unit)
            for field in projection.cuts
        ),
        rendered=tuple(
            RenderedSample(
                variant=variant,
                receipt=receipt,
                tokens=count,
                is_cut=bool(projection.cuts) or any(segment.role == "marker" for segment in receipt.segments),
                shown=_count_shown(receipt, lengths),
                total=sum(lengths.values()),
            )
            for variant, receipt, count in zip(variants, receipts, counts, strict=True)
        ),
    )


def _string_lengths(value: JsonValue, pointer: str) -> Iterator[tuple[str, int]]:
    """The characters of each string in the result or the error, by its pointer."""
    match value:
        case str() if pointer.startswith(HALVES):
            yield pointer, len(value)
        case dict():
            for key, child in value.items():
                yield from _string_lengths(child, join(pointer, key))
        case list():
            for index, child in enumerate(value):
                yield from _string_lengths(child, join(pointer, index))


def _count_shown(receipt: Receipt, lengths: dict[str, int]) -> int:
    """Characters of the strings that are in the receipt; a string that the renderer rewords counts as shown."""
    counts: Counter[str] = Counter()
    for segment in receipt.segments:
        match segment.source:
            case SegmentSource("canonical", pointer, int(start), int(end)) if pointer in lengths:
                counts[pointer] += end - start
            case SegmentSource("canonical", pointer) if pointer in lengths:
                counts[pointer] += lengths[pointer]
    return sum(min(count, lengths[pointer]) for pointer, count in counts.items())
