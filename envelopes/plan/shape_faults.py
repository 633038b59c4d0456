"""All faults in the shape of a JSON document that a person wrote: unknown and missing members, wrong types and values.

    find_shape_faults   compares a document with the type that it should have
    name_unknown        the words for an unknown name, with the nearest known one
    Malformed           raised for a document with faults; it has all of them

msgspec stops at the first fault and words it for programmers. A field `extra` of a struct, which collects unknown
members, is no name that a document may use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec

from envelopes.text.untrusted_json import Untrusted, dump_json

Path: TypeAlias = tuple[str | int, ...]
Rename: TypeAlias = Callable[[str], str]
_NOUNS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}
SHOWN_CHARACTERS = 60  # of a wrong value
MOST_FAULTS = 50


class ShapeFault(NamedTuple):
    """`path` leads to the value that is wrong, or to the object that lacks a member."""

    path: Path
    message: str


class Malformed(Untrusted):
    """A document with faults, each a sentence with its place."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


def name_unknown(name: str, known: Iterable[str]) -> str:
    """The name and the nearest known one, or all of them.

    >>> name_unknown("denyPaths", ["enabled", "denyPatterns"])
    'denyPaths; nearest: denyPatterns'
    """
    names = list(known)
    nearest = get_close_matches(name, names, n=1)
    return f"{name}; nearest: {nearest[0]}" if nearest else f"{name}; known: {', '.join(names) or 'none'}"


def find_shape_faults(value: Any, type_: Any, path: Path = (), *, rename: Rename = str) -> Iterator[ShapeFault]:
    """The faults of a decoded JSON document. `rename` makes the names of the document from those of the structs.

    >>> from envelopes.schema.call import Limits
    >>> [fault.message for fault in find_shape_faults({"max_step": 1, "max_run_ms": "5"}, Limits)]
    ['there is no member max_step; nearest: max_steps', 'must be a whole number, not a text']
    """
    plain, constraints, is_nullable = _unpack(type_)
    if is_nullable and value is None:
        return
    value = list(value) if isinstance(value, tuple) else value
    origin = get_origin(plain) or plain
    is_struct = isinstance(origin, type) and issubclass(origin, msgspec.Struct)
    kind = dict if is_struct else list if origin is tuple else origin
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(plain):
            yield ShapeFault(path, f"{_show(value)} is none of: {', '.join(map(str, get_args(plain)))}")
    elif kind in _NOUNS and type(value) is not kind:
        given = str(value) if type(value) is float else _NOUNS.get(type(value), type(value).__name__)
        yield ShapeFault(path, f"must be {_NOUNS[kind]}, not {given}")
    elif is_struct:
        yield from _find_member_faults(value, origin, path, rename)
    else:
        for index, item in enumerate(value if kind is list else ()):
            yield from find_shape_faults(item, get_args(plain)[0], (*path, index), rename=rename)
        yield from _find_limit_faults(value, constraints, path)


def _find_member_faults(members: Mapping[str, Any], struct: Any, path: Path, rename: Rename) -> Iterator[ShapeFault]:
    fields = {rename(field.encode_name): field for field in msgspec.structs.fields(struct) if field.name != "extra"}
    for name in members:
        if name not in fields:
            yield ShapeFault(path, f"there is no member {name_unknown(name, fields)}")
    for name, field in fields.items():
        if name in members:
            yield from find_shape_faults(members[name], field.type, (*path, name), rename=rename)
        elif field.required:
            yield ShapeFault(path, f"the member {name} is missing")


def _find_limit_faults(value: Any, constraints: Iterable[msgspec.Meta], path: Path) -> Iterator[ShapeFault]:
    """One fault at most: a description words the pattern that a text has to have."""
    for meta in constraints:
        try:
            msgspec.convert(value, Annotated[type(value), meta])
        except (msgspec.ValidationError, UnicodeEncodeError):  # half of a character fits no pattern
            if meta.ge is not None or meta.le is not None:
                message = f"{value} is not between {meta.ge} and {meta.le}"
                message = f"{value} is less than {meta.ge}, the least" if meta.le is None else message
            elif isinstance(value, list):
                too_many = meta.max_length is not None and len(value) > meta.max_length
                message = f"has {len(value)} entries, {meta.max_length} are allowed"
                message = message if too_many else "must have at least one entry"
            elif not value.strip():
                message = "must not be blank"
            else:
                message = f"{_show(value)} is not {meta.description or 'of the right form'}"
            yield ShapeFault(path, message)
            return


def _unpack(type_: Any) -> tuple[Any, list[msgspec.Meta], bool]:
    """The type itself, its constraints, and whether null may stand for it."""
    constraints: list[msgspec.Meta] = []
    is_nullable = False
    while (origin := get_origin(type_)) in (Annotated, Union, UnionType):
        arguments = get_args(type_)
        if origin is Annotated:
            constraints += arguments[1:]
            type_ = arguments[0]
        else:
            is_nullable = is_nullable or NoneType in arguments
            others = [argument for argument in arguments if argument is not NoneType]
            type_ = others[0] if len(others) == 1 else Any
    return type_, constraints, is_nullable


def _show(value: Any) -> str:
    text = dump_json(value).decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
