"""Finds the parts of a canonical value that compaction may drop, by their shape and name alone.

A handle leads back to something: an id, a reference, an address. It is recognized by the last word of its member's
name (`task_id`, `sourceRef`, `plan_artifact`), in one table for all families, so that no tool has a rule of its own:

    id, ref, handle, artifact   anywhere, in the singular and in the plural
    path, url, uri              outside lists, because a listing can be made again; anywhere below an artifact's name

Only something short is a handle: a whole number, or a string of at most 200 characters.

The names in an object of objects are handles as well, `{"task_7": {…}, "task_8": {…}}`: each has a digit, or there are
more than 20 of them. Such an object is treated as a list of rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TypeGuard

import msgspec

from envelopes.schema.result import SUMMARY_CHARACTERS, JsonValue
from envelopes.text.pointer import join

IDENTITY = frozenset({"id", "ids", "ref", "refs", "handle", "handles", "artifact", "artifacts"})
LOCATION = frozenset({"path", "url", "uri"})
SHORT = 80  # characters of a string that is never dropped; no mark is longer
FEW_ROWS = 20
LEAST_MEMBER = 6  # characters of `,"a":1`, the least that each object loses
ROWS_MARK = 20  # characters of `,"…_reduced":1000` without the name
CONTAINERS = (dict, list)
DIGIT = re.compile(r"\d")
REDUCED = "_reduced"  # the end of the name of the member that counts reduced rows
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-. ]")


class DroppableText(msgspec.Struct, frozen=True):
    """A string that may be dropped: longer than any mark, and not a handle."""

    pointer: str
    name: str
    length: int


class DroppableMembers(msgspec.Struct, frozen=True):
    """A list or an object without a handle. `size` counts the characters of its JSON without its texts."""

    pointer: str
    size: int


class DroppableRows(msgspec.Struct, frozen=True):
    """A list of `length` objects that hold handles and more than handles, or an object of rows by their ids."""

    pointer: str
    length: int


class DroppableParts(msgspec.Struct, frozen=True):
    """The droppable parts of a value. `members` and `rows` are the outermost ones, none of them within another.

    `size` counts the characters of the value's JSON with each text replaced by its mark, `loose` the objects at or
    below the value that hold more than handles.
    """

    has_handle: bool
    size: int
    texts: tuple[DroppableText, ...] = ()
    members: tuple[DroppableMembers, ...] = ()
    rows: tuple[DroppableRows, ...] = ()
    loose: int = 0


class _Position(msgspec.Struct, frozen=True):
    """The position of a value: its name, which its items have as well, and whether it is within a list.

    `is_handles`: its name is that of a handle. `size` counts the characters of `"name":` and a comma.
    """

    name: str
    is_row: bool
    is_handles: bool
    has_rows: bool
    size: int

    def below(self, key: str | int) -> _Position:
        name, is_row = (key, self.is_row) if isinstance(key, str) else (self.name, self.has_rows)
        return _cached_position(name, is_row=is_row) if len(name) <= SHORT else _position(name, is_row=is_row)


def json_characters(value: object) -> int:
    """Characters of the value's JSON without white space."""
    if type(value) is str:
        return len(encode_basestring(value))
    if value is None or value is True or value is False:
        return 5 if value is False else 4
    return len(str(value)) if type(value) is int else len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _position(name: str, *, is_row: bool) -> _Position:
    word = WORD_START.split(name)[-1].lower()
    is_handles = word in IDENTITY or (word in LOCATION and not is_row)
    return _Position(name, is_row, is_handles, not word.startswith("artifact"), json_characters(name) + 2)


_cached_position = lru_cache(_position)  # the members of a thousand rows have few names
_ROOT = _position("", is_row=False)


def text_mark(length: int) -> str:
    return f"[{length} characters dropped by compaction]"


def _is_handle(value: JsonValue, position: _Position) -> bool:
    """True by the name. Of a string of more than 200 characters, which is dropped, the mark stays as a handle."""
    return position.is_handles and value != "" and isinstance(value, str | int) and not isinstance(value, bool)


def find_droppable(value: JsonValue, pointer: str, position: _Position = _ROOT) -> DroppableParts:
    """The droppable parts of a canonical value at `pointer`."""
    if isinstance(value, dict):
        return _container(value.items(), pointer, position, is_map=_is_map(value))
    if isinstance(value, list):
        return _container(enumerate(value), pointer, position, is_map=False)
    is_named, size, may_drop = _scalar(value, position)
    texts = (DroppableText(pointer, position.name, len(value)),) if may_drop and isinstance(value, str) else ()
    return DroppableParts(is_named, size, texts)


def _scalar(value: JsonValue, position: _Position) -> tuple[bool, int, bool]:
    """For a scalar or an empty container: is it a handle, its characters or those of its mark, may it be dropped."""
    if isinstance(value, CONTAINERS):
        return False, 2, False
    is_named = _is_handle(value, position)
    if isinstance(value, str) and len(value) > (SUMMARY_CHARACTERS if is_named else SHORT):
        return is_named, len(text_mark(len(value))) + 2, True
    return is_named, json_characters(value), False


def _is_map(value: JsonValue) -> TypeGuard[dict[str, JsonValue]]:
    """True for an object of objects whose names are ids. A count that compaction put beside one is no row."""
    if not isinstance(value, dict):
        return False
    if not all(isinstance(child, dict) or name.endswith(REDUCED) for name, child in value.items()):
        return False
    names = [name for name in value if not name.endswith(REDUCED)]
    return len(names) > FEW_ROWS or (bool(names) and all(DIGIT.search(name) for name in names))


def is_long(value: JsonValue, parts: DroppableParts, marks: int) -> bool:
    """True for rows that lose more than the `marks`, the characters that state their number. A short list stays."""
    if not isinstance(value, list) and not _is_map(value):
        return False
    return parts.has_handle and len(value) > FEW_ROWS and parts.loose * LEAST_MEMBER > marks


def _container(
    children: Iterable[tuple[str | int, JsonValue]], pointer: str, position: _Position, *, is_map: bool
) -> DroppableParts:
    texts: list[DroppableText] = []
    members: list[DroppableMembers] = []
    rows: list[DroppableRows] = []
    size, loose = 2, 0
    has_handle, is_loose = is_map, False
    for key, child in children:
        below = position.below(key)
        if isinstance(child, CONTAINERS) and child:
            parts = find_droppable(child, join(pointer, key), below)
            is_named, length = parts.has_handle, parts.size
            loose += parts.loose
            texts += parts.texts
            members += parts.members if is_map else _members(key, child, parts, pointer)
            rows += _rows(key, child, parts, pointer)
        else:  # most are scalars or empty: DroppableParts of each would be half of the time
            is_named, length, may_drop = _scalar(child, below)
            if may_drop and isinstance(child, str):
                texts.append(DroppableText(join(pointer, key), below.name, len(child)))
        has_handle = has_handle or is_named
        is_loose = is_loose or (isinstance(key, str) and not is_named and not is_map)
        size += length + (below.size if isinstance(key, str) else 1)
    return DroppableParts(has_handle, size, tuple(texts), tuple(members), tuple(rows), is_loose + loose)


def _members(key: str | int, child: JsonValue, parts: DroppableParts, pointer: str) -> Iterable[DroppableMembers]:
    """An object in a list is dropped with the whole list or stays, so that the list's rows stay alike."""
    if parts.has_handle or isinstance(key, int) and isinstance(child, dict):
        return parts.members
    is_large = parts.size > SHORT + _key_size(key)
    return (DroppableMembers(join(pointer, key), parts.size),) if is_large else ()


def _rows(key: str | int, child: JsonValue, parts: DroppableParts, pointer: str) -> Iterable[DroppableRows]:
    """A short list keeps its objects, which are the outcomes of a batch."""
    if parts.has_handle and isinstance(key, str) and (isinstance(child, list) or _is_map(child)):
        is_droppable = is_long(child, parts, _key_size(key) + ROWS_MARK)
        return (DroppableRows(join(pointer, key), len(child)),) if is_droppable else ()
    return parts.rows


def _key_size(key: str | int) -> int:
    return 1 if isinstance(key, int) else _position(key, is_row=False).size


def handles_only(value: JsonValue, name: str) -> JsonValue:
    """The list of that name, or the object of rows, with its objects reduced to their handles; other items stay."""
    return _handles_only(value, _position(name, is_row=False))


def _has_handle(value: JsonValue, position: _Position) -> bool:
    """True for a handle at or below the value."""
    match value:
        case str() | int():
            return _is_handle(value, position)
        case dict():
            return _is_map(value) or any(_has_handle(child, position.below(key)) for key, child in value.items())
        case list():
            return any(_has_handle(child, position.below(0)) for child in value)
        case _:
            return False


def _handles_only(value: JsonValue, position: _Position) -> JsonValue:
    match value:
        case dict() if _is_map(value):
            return {key: _handles_only(child, position.below(key)) for key, child in value.items()}
        case dict():
            return {
                key: _handles_only(child, below) if isinstance(child, CONTAINERS) else child
                for key, child in value.items()
                if _has_handle(child, below := position.below(key))
            }
        case list():
            return [_handles_only(child, position.below(0)) for child in value]
        case _:
            return value
