"""References in a step's arguments, and the concrete arguments of one call (CALL section 4; OD-9 to OD-12).

    $steps.parse.items[0].path   the output of a step; as the whole string, so the value keeps its JSON type
    $vars.total                  a variable that a step captured
    {item.path} {index}          item and index of a foreach, under the names that the step gives them
    Copied {$steps.a.count}      a reference in a longer text; {{ and }} are braces of the text

A member may have the name that an envelope publishes for it: `stdout_preview` is the whole `stdout`, `task_handle` the
`task` of a command (`find_member`).

There are no expressions and no filters; `${…}` is refused. Keys of objects are not templates. Resolving reads
only the scope. Its result is hashed, logged and sent; the arguments are not resolved a second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envelopes.text.pointer import join

MAX_DEPTH = 32  # steps of a path, and levels of the arguments
_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_PATH = r"(?P<path>(?:\.[A-Za-z0-9_-]+|\[\d+\])*)"
_REFERENCE = re.compile(rf"(?:\$(?P<source>steps|vars)\.)?(?P<name>{_NAME}){_PATH}")
_PART = re.compile(r"\.(?P<member>[A-Za-z0-9_-]+)|\[(?P<index>\d+)\]")
_TOKEN = re.compile(r"\{\{|\}\}|\$\{|\{(?P<inside>[^{}]*)\}|[{}]")


class UnresolvedReference(ValueError):
    """A reference to something that does not exist. `pointer` locates it in the arguments.

    It refuses the call before dispatch, as VALIDATION_ERROR (CALL-078).
    """

    def __init__(self, reason: str, pointer: str) -> None:
        super().__init__(f"{pointer or '/'}: {reason}")
        self.reason, self.pointer = reason, pointer


class PlanReference(msgspec.Struct, frozen=True):
    """`source` is steps, vars or binding; `path` the members and indexes after the name."""

    source: str
    name: str
    path: tuple[str | int, ...]
    text: str


@dataclass(frozen=True)
class Scope:
    """The values that references name: outputs of steps (CALL-075), variables (CALL-076), a foreach (CALL-077)."""

    steps: Mapping[str, Any] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    bindings: Mapping[str, Any] = field(default_factory=dict)

    def values(self, source: str) -> Mapping[str, Any]:
        return {"steps": self.steps, "vars": self.vars}.get(source, self.bindings)


def resolve(value: Any, scope: Scope, pointer: str = "") -> Any:
    """Returns the value with every reference replaced; changes nothing. Raises UnresolvedReference."""
    match value:
        case str():
            whole, parts = _parse_text(value, pointer)
            if whole is not None:
                return _look_up(whole, scope, pointer)
            return "".join(part if isinstance(part, str) else _inline(part, scope, pointer) for part in parts)
        case dict():
            return {name: resolve(child, scope, _join_checked(pointer, name)) for name, child in value.items()}
        case list():
            return [resolve(child, scope, _join_checked(pointer, index)) for index, child in enumerate(value)]
    return value


def find_references(value: Any, pointer: str = "") -> Iterator[tuple[str, PlanReference]]:
    """Yields each reference with its pointer: a plan is checked and ordered by them before anything runs."""
    match value:
        case str():
            whole, parts = _parse_text(value, pointer)
            for part in [whole] if whole else parts:
                if isinstance(part, PlanReference):
                    yield pointer, part
        case dict():
            for name, child in value.items():
                yield from find_references(child, _join_checked(pointer, name))
        case list():
            for index, child in enumerate(value):
                yield from find_references(child, _join_checked(pointer, index))


def is_reference(text: str) -> bool:
    """The text is one reference and nothing else, so that its value keeps its type. Raises UnresolvedReference."""
    whole, _ = _parse_text(text, "")
    return whole is not None


def check_names(value: Any, known: Scope) -> None:
    """Raises UnresolvedReference for a step, variable or binding that does not exist in the plan (OD-11, static)."""
    for pointer, reference in find_references(value):
        if reference.name not in known.values(reference.source):
            raise UnresolvedReference(f"{reference.text}: there is no such {_NOUNS[reference.source]}", pointer)


_NOUNS = {"steps": "step", "vars": "variable", "binding": "name in a foreach"}


def _join_checked(pointer: str, key: str | int) -> str:
    if pointer.count("/") >= MAX_DEPTH:
        raise UnresolvedReference(f"deeper than {MAX_DEPTH} levels", pointer)
    return join(pointer, key)


def _parse_text(text: str, pointer: str) -> tuple[PlanReference | None, list[str | PlanReference]]:
    """Returns the reference that is the whole text, or its literals and references in order."""
    if re.match(r"\$(?:steps|vars)\b", text):
        return _parse_reference(text, pointer), []
    parts: list[str | PlanReference] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[end : token.start()])
        parts.append(_parse_token(token, pointer))
        end = token.end()
    parts = [part for part in (*parts, text[end:]) if part != ""]
    only = parts[0] if len(parts) == 1 else None
    return (only, []) if isinstance(only, PlanReference) else (None, parts)


def _parse_token(token: re.Match[str], pointer: str) -> str | PlanReference:
    match token[0]:
        case "{{" | "}}":
            return token[0][0]
        case "${":
            raise UnresolvedReference("write {…} for a reference in a text, without the dollar sign", pointer)
        case "{" | "}":
            raise UnresolvedReference("a brace by itself; write {{ or }} for a brace of the text", pointer)
    return _parse_reference(token["inside"], pointer)


def _parse_reference(text: str, pointer: str) -> PlanReference:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise UnresolvedReference(f"{text!r} is not a reference; in a longer text, write it in braces", pointer)
    path = tuple(
        part["member"] if part["index"] is None else int(part["index"]) for part in _PART.finditer(match["path"])
    )
    if len(path) > MAX_DEPTH:
        raise UnresolvedReference(f"{text}: more than {MAX_DEPTH} steps", pointer)
    return PlanReference(match["source"] or "binding", match["name"], path, text)


def _look_up(reference: PlanReference, scope: Scope, pointer: str) -> Any:
    """Follows members of objects and indexes of lists only; a path reaches no attribute of Python (OD-12)."""
    values = scope.values(reference.source)
    if reference.name not in values:
        raise UnresolvedReference(f"{reference.text}: there is no such {_NOUNS[reference.source]}", pointer)
    value = values[reference.name]
    for key in reference.path:
        match value, key:
            case dict(), str() if (member := find_member(value, key)) is not None:
                value = value[member]
            case list(), int() if key < len(value):
                value = value[key]
            case _:
                raise UnresolvedReference(f"{reference.text}: there is no {key!r}", pointer)
    return value


def find_member(members: Collection[str], name: str) -> str | None:
    """The member that a reference names: the one of that name, else the one that an envelope publishes as `name`.

    An envelope has previews of the outputs, a reference always gets the whole output (D-10).

    >>> find_member(("task", "stdout"), "initial_output_preview"), find_member(("task", "stdout"), "task_handle")
    ('stdout', 'task')
    """
    names = (name, *_PUBLISHED.get(name, ()), name.removesuffix("_preview"))
    return next((candidate for candidate in names if candidate in members), None)


# By the name in an envelope: the names that complete results have for it.
_PUBLISHED = {"task_handle": ("task",), "initial_output_preview": ("initial_output", "stdout")}


def _inline(reference: PlanReference, scope: Scope, pointer: str) -> str:
    value = _look_up(reference, scope, pointer)
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, dict | list):
        raise UnresolvedReference(f"{reference.text}: {_KINDS[type(value)]} cannot be part of a text", pointer)
    return json.dumps(value)


_KINDS: dict[type, str] = {type(None): "null", dict: "an object", list: "an array"}
