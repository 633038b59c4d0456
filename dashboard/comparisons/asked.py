"""What calls were given, in a line each: a list of a hundred commands that all "finished" tells none from another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from dashboard.models import Observation
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, tame

CHARACTERS = 160
LARGEST = 20_000  # bytes: of larger ones the result's sentence has to do


def asked_of(keys: Sequence[UUID]) -> dict[UUID, str]:
    """By call; of those whose arguments are large, or not there, nothing."""
    given = Observation.objects.filter(call__in=keys, surface="args", selected=True, size__lte=LARGEST)
    return {key: _line(bytes(data)) for key, data in given.values_list("call_id", "data")}


def _line(data: bytes) -> str:
    """The first argument: the command, the path, the pattern. Cut with a sign where there is more of it."""
    try:
        value = tame(data)
    except Untrusted:
        return ""
    text = " ".join(_first(value).split())
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 1] + "…"


def _first(value: JsonValue) -> str:
    first = next(iter(value.values()), "") if isinstance(value, dict) else value
    if isinstance(first, str):
        return first
    return "" if first is None else json.dumps(first)
