"""Decoded JSON of others as the types of this package."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Converted = TypeVar("Converted")


def convert_json(document: object, type_: type[Converted], *, strict: bool = True) -> Converted:
    """Raises msgspec.ValidationError, also for half of a character in a name or a word, which msgspec cannot compare.

    convert_json({"kind": "x"}, ToolError)
    """
    try:
        return msgspec.convert(document, type_, strict=strict)
    except UnicodeEncodeError:
        raise msgspec.ValidationError("half of a character in a name or a word") from None
