"""Which fields of the envelope reached the receipt, and which left no trace in it.

A field is a scalar of the half that is there (result or error), or the path of an artifact. Null,
false and empty values say nothing and are not counted. A field has reached the receipt when one of its
characters is traced there, or when its text stands there as a word: a renderer may word it, and of a
recorded receipt much stays untraced. How much of a long field was shown is the cut's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from envelopes.schema.receipt import Receipt, Source
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import join

BY_CHANCE = 3  # characters that stand anywhere: an untraced text of that length proves nothing
_STEP = re.compile(r"/\d+(?=/|$)")


def telling_fields(canonical: CanonicalResult) -> dict[str, str]:
    """The text of each field by its pointer, in the order of the envelope."""
    error = None if canonical.error is None else msgspec.structs.asdict(canonical.error)
    half = _scalars(canonical.result, "/result") if error is None else _scalars(error, "/error")
    paths = ((f"/artifacts/{index}/path", one.path) for index, one in enumerate(canonical.artifacts))
    return dict((*half, *((pointer, path) for pointer, path in paths if path)))


def dropped_fields(
    fields: Mapping[str, str], receipt: Receipt, pointer_of: Callable[[Source], str | None] | None = None
) -> tuple[str, ...]:
    """The pointers of `fields` that the receipt lost. `pointer_of` says where in the envelope a source is."""
    sources = [one.source for one in receipt.segments if one.source is not None]
    traced = set(map(pointer_of or _canonical, sources))
    untraced = [pointer for pointer in fields if pointer not in traced]
    if not untraced:
        return ()
    text = receipt.text
    return tuple(pointer for pointer in untraced if not _stands(fields[pointer], text))


def field_names(pointers: Iterable[str]) -> tuple[str, ...]:
    """Each once, with `*` for the place in a list: /result/matches/*/line."""
    return tuple(dict.fromkeys(_STEP.sub("/*", pointer) for pointer in pointers))


def _canonical(source: Source) -> str | None:
    return source.pointer if source.document == "canonical" else None


def _stands(field: str, text: str) -> bool:
    if len(field) <= BY_CHANCE:
        return False
    at = text.find(field)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(field) : at + len(field) + 1]
        if not (before.isalnum() and field[0].isalnum()) and not (after.isalnum() and field[-1].isalnum()):
            return True
        at = text.find(field, at + 1)
    return False


def _scalars(value: JsonValue, pointer: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, child in value.items():
                yield from _scalars(child, join(pointer, key))
        case list():
            for index, child in enumerate(value):
                yield from _scalars(child, join(pointer, index))
        case None | False | "":
            return
        case _:
            yield pointer, scalar_text(value)
