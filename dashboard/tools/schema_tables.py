"""A result struct as a table: its fields in words, read from the JSON Schema that msgspec makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

Schema = dict[str, Any]
ANY = "any JSON"


@dataclass(frozen=True, kw_only=True)
class ShapeField:
    name: str
    kind: str
    nested: str  # the shape that the field holds, "" when it is a plain value
    default: str  # as JSON; "" when the field is required
    is_required: bool
    note: str


@dataclass(frozen=True, kw_only=True)
class Shape:
    """`is_result`: the tool yields it; the others are parts of one that it yields."""

    name: str
    note: str  # Markdown
    fields: tuple[ShapeField, ...]
    is_result: bool


def shapes(results: Iterable[type[msgspec.Struct]]) -> tuple[Shape, ...]:
    """What the tool yields first, then what these hold."""
    own, components = msgspec.json.schema_components(list(results))
    named = [_target(one) for one in own]
    order = [*named, *(name for name in components if name not in named)]
    return tuple(_shape(name, components[name], is_result=name in named) for name in order)


def _shape(name: str, schema: Schema, *, is_result: bool) -> Shape:
    required = frozenset(schema.get("required", ()))
    found = schema.get("properties", {})
    return Shape(
        name=name,
        note=" ".join(schema.get("description", "").split()),
        fields=tuple(_field(key, one, is_required=key in required) for key, one in found.items()),
        is_result=is_result,
    )


def _field(name: str, schema: Schema, *, is_required: bool) -> ShapeField:
    return ShapeField(
        name=name,
        kind=kind_of(schema),
        nested=_nested(schema),
        default="" if is_required or "default" not in schema else json.dumps(schema["default"], ensure_ascii=False),
        is_required=is_required,
        note=schema.get("description", ""),
    )


def kind_of(schema: Schema) -> str:
    """`text`, `integer or null`, `list of Hit`, `"a" or "b"`."""
    match schema:
        case {"$ref": str()}:
            return _target(schema)
        case {"anyOf": list(choices)}:
            return " or ".join(dict.fromkeys(map(kind_of, choices)))
        case {"enum": list(values)}:
            return " or ".join(map(json.dumps, values))
        case {"const": value}:
            return json.dumps(value)
        case {"type": "array"}:
            return f"list of {kind_of(schema.get('items') or {})}"
        case {"type": "string"}:
            return "text"
        case {"type": str(name)}:
            return name
    return ANY


def _nested(schema: Schema) -> str:
    match schema:
        case {"$ref": str()}:
            return _target(schema)
        case {"anyOf": list(choices)}:
            return next((name for one in choices if (name := _nested(one))), "")
        case {"items": dict(items)}:
            return _nested(items)
    return ""


def _target(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
