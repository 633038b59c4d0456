"""References in a step's arguments, and the concrete arguments of one call (CALL section 4; OD-9 to OD-12).

    $steps.parse.items[0].path   what a step returned, as a whole string: the value keeps its JSON type
    $vars.total                  what a step captured
    {item.path} {index}          the round of a foreach, under the names that its step gives them
    Copied {$steps.a.count}      in a longer text, in braces; {{ and }} are braces of the text

One grammar, no expressions, no filters; `${…}` is refused. Keys of objects are never templated. Resolving reads
the scope and nothing else, and its result is what is hashed, logged and sent: the arguments are not resolved again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envelopes.text.pointer import join

DEEPEST = 32  # steps of a path, and levels of the arguments
_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_PATH = r"(?P<path>(?:\.[A-Za-z0-9_-]+|\[\d+\])*)"
_REFERENCE = re.compile(rf"(?:\$(?P<source>steps|vars)\.)?(?P<name>{_NAME}){_PATH}")
_PART = re.compile(r"\.(?P<member>[A-Za-z0-9_-]+)|\[(?P<index>\d+)\]")
_TOKEN = re.compile(r"\{\{|\}\}|\$\{|\{(?P<inside>[^{}]*)\}|[{}]")


class UnresolvedReference(ValueError):
    """`pointer` is where in the arguments it stands. Fatal before dispatch (CALL-078): VALIDATION_ERROR."""

    def __init__(self, reason: str, pointer: str) -> None:
        super().__init__(f"{pointer or '/'}: {reason}")
        self.reason, self.pointer = reason, pointer


class Reference(msgspec.Struct, frozen=True):
    """`source` is steps, vars or binding; `path` the members and indexes after the name."""

    source: str
    name: str
    path: tuple[str | int, ...]
    text: str


@dataclass(frozen=True)
class Scope:
    """What can be named: data of completed steps (CALL-075), variables (CALL-076), names of a foreach (CALL-077)."""

    steps: Mapping[str, Any] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    bindings: Mapping[str, Any] = field(default_factory=dict)

    def of(self, source: str) -> Mapping[str, Any]:
        return {"steps": self.steps, "vars": self.vars}.get(source, self.bindings)


def resolve(value: Any, scope: Scope, pointer: str = "") -> Any:
    """The value with every reference replaced. Pure. Raises UnresolvedReference for what is not there."""
    match value:
        case str():
            return _resolved(value, scope, pointer)
        case dict():
            return {name: resolve(child, scope, _deeper(pointer, name)) for name, child in value.items()}
        case list():
            return [resolve(child, scope, _deeper(pointer, index)) for index, child in enumerate(value)]
    return value


def references(value: Any, pointer: str = "") -> Iterator[tuple[str, Reference]]:
    """Each reference with where it stands: what a plan is checked by, and ordered by, before anything runs."""
    match value:
        case str():
            found, parts = _parts(value, pointer)
            yield from ((pointer, one) for one in ([found] if found else parts) if isinstance(one, Reference))
        case dict():
            for name, child in value.items():
                yield from references(child, _deeper(pointer, name))
        case list():
            for index, child in enumerate(value):
                yield from references(child, _deeper(pointer, index))


def check_names(value: Any, known: Scope) -> None:
    """Raises UnresolvedReference for a step, a variable or a binding that nothing will ever give (OD-11, static)."""
    for pointer, one in references(value):
        if one.name not in known.of(one.source):
            raise UnresolvedReference(f"{one.text}: there is no such {_WORDS[one.source]}", pointer)


_WORDS = {"steps": "step", "vars": "variable", "binding": "name in a foreach"}


def _deeper(pointer: str, key: str | int) -> str:
    if pointer.count("/") >= DEEPEST:
        raise UnresolvedReference(f"deeper than {DEEPEST} levels", pointer)
    return join(pointer, key)


def _resolved(text: str, scope: Scope, pointer: str) -> Any:
    whole, parts = _parts(text, pointer)
    if whole is not None:
        return _value(whole, scope, pointer)
    return "".join(part if isinstance(part, str) else _inline(part, scope, pointer) for part in parts)


def _parts(text: str, pointer: str) -> tuple[Reference | None, list[str | Reference]]:
    """The one reference that the text is, or its literals and references in order."""
    if re.match(r"\$(?:steps|vars)\b", text):
        return _reference(text, pointer), []
    parts: list[str | Reference] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[end : token.start()])
        parts.append(_part(token, pointer))
        end = token.end()
    kept = [part for part in (*parts, text[end:]) if part != ""]
    only = kept[0] if len(kept) == 1 else None
    return (only, []) if isinstance(only, Reference) else (None, kept)


def _part(token: re.Match[str], pointer: str) -> str | Reference:
    match token[0]:
        case "{{" | "}}":
            return token[0][0]
        case "${":
            raise UnresolvedReference("write {…} for a reference in a text, without the dollar sign", pointer)
        case "{" | "}":
            raise UnresolvedReference("a brace by itself; write {{ or }} for a brace of the text", pointer)
    return _reference(token["inside"], pointer)


def _reference(text: str, pointer: str) -> Reference:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise UnresolvedReference(f"{text!r} is no reference; in a longer text it stands in braces", pointer)
    path = tuple(
        part["member"] if part["index"] is None else int(part["index"]) for part in _PART.finditer(found["path"])
    )
    if len(path) > DEEPEST:
        raise UnresolvedReference(f"{text}: more than {DEEPEST} steps", pointer)
    return Reference(found["source"] or "binding", found["name"], path, text)


def _value(one: Reference, scope: Scope, pointer: str) -> Any:
    """Members of objects and indexes of lists alone: JSON has no attributes to reach (OD-12)."""
    given = scope.of(one.source)
    if one.name not in given:
        raise UnresolvedReference(f"{one.text}: there is no such {_WORDS[one.source]}", pointer)
    value = given[one.name]
    for key in one.path:
        match value, key:
            case dict(), str() if key in value:
                value = value[key]
            case list(), int() if key < len(value):
                value = value[key]
            case _:
                raise UnresolvedReference(f"{one.text}: there is no {key!r}", pointer)
    return value


def _inline(one: Reference, scope: Scope, pointer: str) -> str:
    value = _value(one, scope, pointer)
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, dict | list):
        raise UnresolvedReference(f"{one.text}: {_KINDS[type(value)]} has no form in a text", pointer)
    return json.dumps(value)


_KINDS: dict[type, str] = {type(None): "null", dict: "an object", list: "an array"}
