"""What a built-in tool's sample outputs become: the canonical envelope, and a receipt under every variant.

Definitions and samples are part of the program, so each tool is worked out once a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from envelopes.families.base import Family, FieldCut
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
class Rendered:
    """`is_cut`: text was left out, by the canonical result or by this variant, which then says so.

    `shown` of `total` characters of the strings in the result (or the error) stand in the receipt.
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
    """`unit` is characters or lines."""

    pointer: str
    shown: int
    total: int
    unit: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """`half`: the sample has a `result` or an `error`."""

    sort: str
    half: str
    canonical: bytes
    lost: tuple[FieldLoss, ...]
    rendered: tuple[Rendered, ...]

    @property
    def window(self) -> TextChunk:
        return json_markup.head(json_markup.pretty(self.canonical), FIRST_CHARS, "data-pointer")


@cache
def tool_samples(name: str) -> dict[str, Sample]:
    """By sort, success first. Raises KeyError for a name that no family defines."""
    family, _ = builtin(name)
    found = samples(name)
    order = [sort for sort in SORTS if sort in found] + [sort for sort in found if sort not in SORTS]
    return {
        sort: _sample(sort, project(found[sort], family, family.projection, MemorySink()), family) for sort in order
    }


def _sample(sort: str, projection: Projection, family: Family) -> Sample:
    canonical = projection.canonical
    found = variants_for(family)
    receipts = [render(canonical, family, one.policy, variant=one) for one in found]
    tokens = count_all([receipt.text for receipt in receipts])
    texts = dict(_texts(canonical.to_json(), ""))
    return Sample(
        sort=sort,
        half="result" if canonical.error is None else "error",
        canonical=dump_json(canonical.to_json()),
        lost=tuple(_loss(one) for one in projection.cuts),
        rendered=tuple(
            Rendered(
                variant=variant,
                receipt=receipt,
                tokens=count,
                is_cut=bool(projection.cuts) or any(one.role == "marker" for one in receipt.segments),
                shown=_shown(receipt, texts),
                total=sum(texts.values()),
            )
            for variant, receipt, count in zip(found, receipts, tokens, strict=True)
        ),
    )


def _loss(lost: FieldCut) -> FieldLoss:
    cut = lost.cut
    return FieldLoss(pointer=lost.pointer, shown=cut.shown_count, total=cut.total, unit=cut.unit)


def _texts(value: JsonValue, pointer: str) -> Iterator[tuple[str, int]]:
    """Each string of the result or the error, by its pointer, with its characters."""
    match value:
        case str() if pointer.startswith(HALVES):
            yield pointer, len(value)
        case dict():
            for key, child in value.items():
                yield from _texts(child, join(pointer, key))
        case list():
            for index, child in enumerate(value):
                yield from _texts(child, join(pointer, index))


def _shown(receipt: Receipt, texts: dict[str, int]) -> int:
    """A string that the renderer words in its own way counts as shown."""
    counts: Counter[str] = Counter()
    for segment in receipt.segments:
        match segment.source:
            case SegmentSource("canonical", pointer, int(start), int(end)) if pointer in texts:
                counts[pointer] += end - start
            case SegmentSource("canonical", pointer) if pointer in texts:
                counts[pointer] += texts[pointer]
    return sum(min(count, texts[pointer]) for pointer, count in counts.items())
