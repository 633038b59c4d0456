"""The upper limit of a canonical result, the same for every family (RFC-111): so many characters of JSON.

A family's own budgets keep its previews and lists short. Where their sum is still too large, or an id is as
long as a book, the result is shortened here: first the longest texts, each with its cut recorded and stated,
by one limit for all of them that is lowered until the envelope fits; when texts were not the reason, the
result becomes a stub. Either way the whole is written first, and `result_artifact` (of an error:
`error_artifact` in its details) is the index of its artifact, beside how many characters it has.

Serialised JSON is never cut (RFC-066): what remains are the same fields with shorter texts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import msgspec

from envelopes.schema.result import CanonicalResult, JsonValue, ToolError
from envelopes.text.pointer import join
from envelopes.text.preview import Cut, shorten

LIMITS = (8_000, 4_000, 2_000, 1_000, 500, 250, 120, 60, 30)  # characters of a text, tried in this order
SPACES = 2  # json.dumps writes a blank after each comma and colon: never as many as there are other characters
STUB_MEMBERS = frozenset({"result_characters", "result_artifact"})


def fits(canonical: CanonicalResult, characters: int) -> bool:
    """True for an envelope whose JSON text has at most so many characters."""
    try:
        # Enough for nearly every call: UTF-8 has at least as many bytes as characters.
        if len(msgspec.json.encode(canonical)) * SPACES <= characters:
            return True
    except (UnicodeEncodeError, OverflowError, ValueError):
        pass  # a lone surrogate or a huge integer: recordings hold both, and json takes them
    return count_characters(canonical) <= characters


def count_characters(canonical: CanonicalResult) -> int:
    return len(json.dumps(canonical.to_json(), ensure_ascii=False))


def stub(characters: int, artifact: int = 0) -> dict[str, JsonValue]:
    """The members that replace a result: how many characters it has, and the index of its artifact."""
    return {"result_characters": characters, "result_artifact": artifact}


def is_stub(canonical: CanonicalResult) -> bool:
    """True when nothing remains of the result but the members of `stub`."""
    return bool(canonical.artifacts) and isinstance(canonical.result, dict) and set(canonical.result) == STUB_MEMBERS


class Shortener:
    """Cuts the texts of a result that pass `limit`; `cuts` are then those of the shorter result.

    `before` are the cuts that the result has already, `sealed` the texts that must stay whole.
    """

    def __init__(self, limit: int, before: Mapping[str, Cut], sealed: Collection[str] = ()) -> None:
        self._limit, self._before, self._sealed = limit, before, sealed
        self.cuts: dict[str, Cut] = {}

    def apply(self, value: JsonValue, pointer: str) -> JsonValue:
        field = pointer.removesuffix("_omitted")  # of a field that was left out as a whole, only its count remains
        if field in self._before:
            self.cuts[field] = self._before[field]
        match value:
            case str() if len(value) > self._limit and pointer not in self._sealed:
                shorter, self.cuts[pointer] = shorten(value, self._before.get(pointer), self._limit)
                return shorter
            case dict():
                return {name: self.apply(child, join(pointer, name)) for name, child in value.items()}
            case list():
                return [self.apply(child, join(pointer, index)) for index, child in enumerate(value)]
        return value

    def apply_to_error(self, error: ToolError) -> ToolError:
        """Shortens message and hint. A runtime decides by `kind` and `retryable`; `details` have their own limit."""
        hint = error.recovery_hint
        return msgspec.structs.replace(
            error,
            message=self.apply(error.message, "/error/message"),
            recovery_hint=None if hint is None else self.apply(hint, "/error/recovery_hint"),
        )
