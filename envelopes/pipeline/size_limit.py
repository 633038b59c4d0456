"""The last bound of a canonical result, the same for every family (RFC-111): so many characters of JSON.

A family's own budgets keep its previews and lists short. What their sum still lets through, or an id as
long as a book, is shortened here: first the longest texts, each with its cut recorded and stated, by one
limit for all that is lowered until the envelope fits; when texts were not the reason, the result as a
whole. Either way all of it is kept first, and `result_artifact` (of an error: `error_artifact` in its
details) leads there, beside how many characters it has.

Never a cut through serialised JSON (RFC-066): what remains are the same fields with shorter texts.
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


def fits(canonical: CanonicalResult, characters: int) -> bool:
    """Whether the envelope has at most so many characters as JSON text."""
    try:
        # At once for nearly every call: bytes of UTF-8 are no fewer than characters.
        if len(msgspec.json.encode(canonical)) * SPACES <= characters:
            return True
    except (UnicodeEncodeError, OverflowError, ValueError):
        pass  # a lone surrogate or a huge integer: recordings hold both, and json takes them
    return json_characters(canonical) <= characters


def json_characters(canonical: CanonicalResult) -> int:
    return len(json.dumps(canonical.to_json(), ensure_ascii=False))


def elsewhere(characters: int, artifact: int = 0) -> dict[str, JsonValue]:
    """The members that lead to all of a result: how long it is, and the index of its artifact."""
    return {"result_characters": characters, "result_artifact": artifact}


_WAY = frozenset(elsewhere(0))


def is_elsewhere(canonical: CanonicalResult) -> bool:
    """Whether nothing is left of the result but where it is."""
    return bool(canonical.artifacts) and isinstance(canonical.result, dict) and set(canonical.result) == _WAY


class Shortening:
    """Texts of a result that pass `limit`, cut. `cuts` are those that it has, `sealed` the texts that must stay."""

    def __init__(self, limit: int, cuts: Mapping[str, Cut], sealed: Collection[str] = ()) -> None:
        self._limit, self._before, self._sealed = limit, cuts, sealed
        self.cuts: dict[str, Cut] = {}

    def of(self, value: JsonValue, pointer: str) -> JsonValue:
        cut = pointer.removesuffix("_omitted")  # of a field that went as a whole, nothing but its count is left
        if cut in self._before:
            self.cuts[cut] = self._before[cut]
        match value:
            case str() if len(value) > self._limit and pointer not in self._sealed:
                shown, self.cuts[pointer] = shorten(value, self._before.get(pointer), self._limit)
                return shown
            case dict():
                return {name: self.of(child, join(pointer, name)) for name, child in value.items()}
            case list():
                return [self.of(child, join(pointer, index)) for index, child in enumerate(value)]
        return value

    def of_error(self, error: ToolError) -> ToolError:
        """Kind and retryable are what a runtime decides by; they and the details' own bound stay (RFC-096)."""
        hint = error.recovery_hint
        message = self.of(error.message, "/error/message")
        return msgspec.structs.replace(
            error, message=message, recovery_hint=None if hint is None else self.of(hint, "/error/recovery_hint")
        )
