"""Decoded JSON of others as the types of this package, what is wrong with it in words, and JSON Schema of the types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from inspect import cleandoc
from typing import Any, TypeVar

import msgspec

Converted = TypeVar("Converted")

_LENGTH = re.compile(r"Expected `array` of length (?P<sign><=|>=) (?P<limit>\d+)")
_BOUND = re.compile(r"Expected `(?:int|float)` (?P<sign><=|>=) (?P<limit>-?\d+)")
_ENUM = re.compile(r"Invalid enum value (?P<value>.+)")
_TYPE = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<given>[^`]+)`")
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
MISSING, UNKNOWN = "missing field ", "unknown field "  # the words of the RFC's example
_MEMBER = re.compile(r"(?P<fault>missing|unknown) field `(?P<name>.+)`", re.DOTALL)
_STEP = re.compile(r"(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")


def convert_json(document: object, type_: type[Converted], *, strict: bool = True) -> Converted:
    """Raises msgspec.ValidationError, also for half of a character in a name or a word, which msgspec cannot compare.

    convert_json({"kind": "x"}, ToolError)
    """
    try:
        return msgspec.convert(document, type_, strict=strict)
    except UnicodeEncodeError:
        raise msgspec.ValidationError("half of a character in a name or a word") from None


def struct_schemas(types: Iterable[Any], definitions: str = "#/$defs/") -> tuple[list[Any], dict[str, Any]]:
    """JSON Schema of each type, and the structs within them by name, which the schemas refer to below `definitions`.

    Descriptions are docstrings without the indentation of their source, which Python up to 3.12 keeps.
    """
    schemas, structs = msgspec.json.schema_components(types, ref_template=definitions + "{name}")
    for struct in structs.values():
        if "description" in struct:
            struct["description"] = cleandoc(struct["description"])
    return list(schemas), structs


def word_fault(field: str, reason: str, arguments: Any, schema: dict[str, Any]) -> str:
    """The reason as a sentence about `field`, a path as msgspec writes it; `reason` itself for any other form."""
    if match := _LENGTH.fullmatch(reason):
        noun = _schema_at(field, schema).get("title", "entries")  # of a list, its title says what is in it
        if match["sign"] == ">=":
            return f"`{field}` has too few {noun}, the least is {match['limit']}"
        given = _value_at(arguments, field)
        count = f"{len(given)} {noun}" if isinstance(given, list) else f"too many {noun}"
        return f"`{field}` has {count}, the most is {match['limit']}; send the rest in a second call"
    if match := _BOUND.fullmatch(reason):
        return f"`{field}` must be {'at most' if match['sign'] == '<=' else 'at least'} {match['limit']}"
    if match := _ENUM.fullmatch(reason):
        allowed = _allowed(field, schema)
        return f"`{field}` {match['value']} is none of: {', '.join(allowed)}" if allowed else reason
    if match := _TYPE.fullmatch(reason):
        expected = " or ".join(_TYPES.get(name.strip(), name.strip()) for name in match["expected"].split("|"))
        return f"`{field}` must be {expected}, not {_TYPES.get(match['given'], match['given'])}"
    return reason


def word_members(reason: str, place: str = "") -> str:
    """The reason in words where it is about a member that is missing or unknown; `place` is the object that lacks it.

    >>> word_members("missing field `state`", "todo_list[0]")
    '`todo_list[0].state` is missing'
    """
    if (match := _MEMBER.fullmatch(reason)) is None:
        return reason
    name = f"{place}.{match['name']}" if place else match["name"]
    return f"`{name}` is {match['fault']}"


def _value_at(arguments: Any, path: str) -> Any:
    value = arguments
    for step in _STEP.finditer(path):
        if step["name"] is not None and isinstance(value, dict):
            value = value.get(step["name"])
        elif step["index"] not in (None, "...") and isinstance(value, list) and int(step["index"]) < len(value):
            value = value[int(step["index"])]
        else:
            return None
    return value


def _allowed(path: str, schema: dict[str, Any]) -> list[str]:
    """The values of an enumeration in the schema; empty where it has none at this path."""
    return [str(value) for value in _schema_at(path, schema).get("enum", ()) if value is not None]


def _schema_at(path: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the member at this path, behind its reference and its null; empty where it has none."""
    place: Any = schema
    for step in _STEP.finditer(path):
        place = (
            place.get("properties", {}).get(step["name"], {}) if step["name"] is not None else place.get("items", {})
        )
        for choice in place.get("anyOf", ()):
            place = choice if choice.get("type") != "null" else place
        if "$ref" in place:
            place = schema.get("$defs", {}).get(place["$ref"].rpartition("/")[2], {})
    return place  # type: ignore[no-any-return]
