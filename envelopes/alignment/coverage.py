"""Coverage: which fields of an envelope reach its receipt, and which are dropped.

A field is a scalar of the result or of the error, or the path of an artifact. Null, false and empty values
are not counted. A field reaches the receipt when a segment has it as its source, or when its text occurs
there as a word: a renderer may rephrase it, and much of a recorded receipt has no source. How much of a long
field is shown is not measured here but by its cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from envelopes.schema.receipt import Receipt, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import iterate_scalars

SHORT_FIELD = 3  # characters: texts this short occur by chance, so an occurrence proves nothing
_INDEX = re.compile(r"/\d+(?=/|$)")


def scalar_fields(canonical: CanonicalResult) -> dict[str, str]:
    """The text of each field by its pointer, in the order of the envelope."""
    if canonical.error is None:
        fields = dict(_scalars(canonical.result, "/result"))
    else:
        fields = dict(_scalars(msgspec.structs.asdict(canonical.error), "/error"))
    for index, artifact in enumerate(canonical.artifacts):
        if artifact.path:
            fields[f"/artifacts/{index}/path"] = artifact.path
    return fields


def dropped_fields(
    fields: Mapping[str, str], receipt: Receipt, to_canonical: Callable[[SegmentSource], str | None] | None = None
) -> tuple[str, ...]:
    """The pointers of `fields` that do not reach the receipt.

    `to_canonical` gives the pointer into the envelope for a source of a segment; without it, only sources in
    the envelope itself count.
    """
    sources = [segment.source for segment in receipt.segments if segment.source is not None]
    if to_canonical is None:
        linked = {source.pointer for source in sources if source.document == "canonical"}
    else:
        linked = {pointer for pointer in map(to_canonical, sources) if pointer is not None}
    unlinked = [pointer for pointer in fields if pointer not in linked]
    if not unlinked:
        return ()
    text = receipt.text
    return tuple(pointer for pointer in unlinked if not _contains_word(text, fields[pointer]))


def generalize_pointers(pointers: Iterable[str]) -> tuple[str, ...]:
    """Replaces list indexes with `*` (/result/matches/*/line) and removes duplicates."""
    return tuple(dict.fromkeys(_INDEX.sub("/*", pointer) for pointer in pointers))


def _contains_word(text: str, field: str) -> bool:
    if len(field) <= SHORT_FIELD:
        return False
    at = text.find(field)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(field) : at + len(field) + 1]
        if not (before.isalnum() and field[0].isalnum()) and not (after.isalnum() and field[-1].isalnum()):
            return True
        at = text.find(field, at + 1)
    return False


def _scalars(value: JsonValue, pointer: str) -> Iterator[tuple[str, str]]:
    for at, scalar in iterate_scalars(value, pointer):
        if scalar is not None and scalar is not False and scalar != "":
            yield at, scalar_text(scalar)
