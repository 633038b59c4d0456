"""Which parts of a canonical value may go when it is compacted, decided by shape and name alone.

A handle is what leads back to something: an id, a reference, an address. It is known by the last
word of its member's name (`task_id`, `sourceRef`, `plan_artifact`), in one table for every family,
so no tool has a rule of its own:

    id, ref, handle, artifact   anywhere, in the singular and in the plural
    path, url, uri              outside lists, for a listing can be made again; below an artifact's name anywhere

Only what is compact is a handle: a whole number, or a string of at most 200 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from json.encoder import encode_basestring

import msgspec

from envelopes.schema.result import SUMMARY_CHARACTERS, JsonValue
from envelopes.text.pointer import join

IDENTITY = frozenset({"id", "ids", "ref", "refs", "handle", "handles", "artifact", "artifacts"})
LOCATION = frozenset({"path", "url", "uri"})
SHORT = 80  # characters of a string that is never dropped; no mark is longer
FEW_ROWS = 20
LEAST_MEMBER = 6  # characters of `,"a":1`, and of what each object loses at least
ROWS_MARK = 20  # characters of `,"…_reduced":1000` without the name
CONTAINERS = (dict, list)
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-. ]")


class DroppableText(msgspec.Struct, frozen=True):
    """A string that may go: longer than any mark, and no handle."""

    pointer: str
    name: str
    length: int


class DroppableMembers(msgspec.Struct, frozen=True):
    """A list or an object without a handle. `size` counts the characters of its JSON without its texts."""

    pointer: str
    size: int


class DroppableRows(msgspec.Struct, frozen=True):
    """A list of `length` with handles in its objects, which hold more than handles."""

    pointer: str
    length: int


class DroppableParts(msgspec.Struct, frozen=True):
    """`members` and `rows` are the outermost below the surveyed value, none of them within another."""

    has_handle: bool
    size: int
    texts: tuple[DroppableText, ...] = ()
    members: tuple[DroppableMembers, ...] = ()
    rows: tuple[DroppableRows, ...] = ()
    loose: int = 0
    """Objects at or below the surveyed value that hold more than handles."""


class _Place(msgspec.Struct, frozen=True):
    """Where a value stands: what it is called, which its items are as well, and whether that is within a list.

    `is_handles`: by its name it holds a handle. `size` counts the characters of `"name":` and a comma.
    """

    name: str
    is_row: bool
    is_handles: bool
    has_rows: bool
    size: int

    def below(self, key: str | int) -> _Place:
        name, is_row = (key, self.is_row) if isinstance(key, str) else (self.name, self.has_rows)
        return _known_place(name, is_row=is_row) if len(name) <= SHORT else _place(name, is_row=is_row)


def _place(name: str, *, is_row: bool) -> _Place:
    word = WORD_START.split(name)[-1].lower()
    is_handles = word in IDENTITY or (word in LOCATION and not is_row)
    return _Place(name, is_row, is_handles, not word.startswith("artifact"), json_characters(name) + 2)


_known_place = lru_cache(_place)  # the members of a thousand rows have few names


def find_droppable(value: JsonValue, pointer: str) -> DroppableParts:
    return _survey(value, pointer, _place("", is_row=False))


def text_mark(length: int) -> str:
    return f"[{length} characters dropped by compaction]"


def _is_handle(value: JsonValue, place: _Place) -> bool:
    """By its name. A string of more than 200 characters is none, but its place stays where it went."""
    return place.is_handles and value != "" and isinstance(value, str | int) and not isinstance(value, bool)


def json_characters(value: object) -> int:
    if type(value) is str:
        return len(encode_basestring(value))
    if value is None or value is True or value is False:
        return 5 if value is False else 4
    return len(str(value)) if type(value) is int else len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _survey(value: JsonValue, pointer: str, place: _Place) -> DroppableParts:
    if isinstance(value, dict):
        return _container(value.items(), pointer, place)
    if isinstance(value, list):
        return _container(enumerate(value), pointer, place)
    is_named, size, may_go = _scalar(value, place)
    texts = (DroppableText(pointer, place.name, len(value)),) if may_go and isinstance(value, str) else ()
    return DroppableParts(is_named, size, texts)


def _scalar(value: JsonValue, place: _Place) -> tuple[bool, int, bool]:
    """Whether it is a handle, the characters of its JSON or of its mark, and whether it may go; also of `[]`."""
    if isinstance(value, CONTAINERS):
        return False, 2, False
    is_named = _is_handle(value, place)
    if isinstance(value, str) and len(value) > (SUMMARY_CHARACTERS if is_named else SHORT):
        return is_named, len(text_mark(len(value))) + 2, True
    return is_named, json_characters(value), False


def _container(children: Iterable[tuple[str | int, JsonValue]], pointer: str, place: _Place) -> DroppableParts:
    texts: list[DroppableText] = []
    members: list[DroppableMembers] = []
    rows: list[DroppableRows] = []
    size, loose = 2, 0
    has_handle = is_loose = False
    for key, child in children:
        below = place.below(key)
        if isinstance(child, CONTAINERS) and child:
            found = _survey(child, join(pointer, key), below)
            is_named, length = found.has_handle, found.size
            loose += found.loose
            texts += found.texts
            members += _members(key, child, found, pointer)
            rows += _rows(key, child, found, pointer)
        else:  # most are scalars or empty: a Survey of each would be half of the time
            is_named, length, may_go = _scalar(child, below)
            if may_go and isinstance(child, str):
                texts.append(DroppableText(join(pointer, key), below.name, len(child)))
        has_handle = has_handle or is_named
        is_loose = is_loose or (isinstance(key, str) and not is_named)
        size += length + (below.size if isinstance(key, str) else 1)
    return DroppableParts(has_handle, size, tuple(texts), tuple(members), tuple(rows), is_loose + loose)


def _members(key: str | int, child: JsonValue, found: DroppableParts, pointer: str) -> Iterable[DroppableMembers]:
    """An object in a list goes with the whole list or stays, so that the list's rows stay alike."""
    if found.has_handle or isinstance(key, int) and isinstance(child, dict):
        return found.members
    is_large = found.size > SHORT + _key_size(key)
    return (DroppableMembers(join(pointer, key), found.size),) if is_large else ()


def _rows(key: str | int, child: JsonValue, found: DroppableParts, pointer: str) -> Iterable[DroppableRows]:
    """A short list keeps its objects: the outcomes of a batch are worth more than the room."""
    if found.has_handle and isinstance(child, list) and isinstance(key, str):
        is_long = len(child) > FEW_ROWS and found.loose * LEAST_MEMBER > _key_size(key) + ROWS_MARK
        return (DroppableRows(join(pointer, key), len(child)),) if is_long else ()
    return found.rows


def _key_size(key: str | int) -> int:
    return 1 if isinstance(key, int) else _place(key, is_row=False).size


def handles_only(value: JsonValue, name: str) -> JsonValue:
    """The list of that name with its objects reduced to their handles; other items stay."""
    return _handles_only(value, _place(name, is_row=False))


def _has_handle(value: JsonValue, place: _Place) -> bool:
    """At or below the value."""
    match value:
        case str() | int():
            return _is_handle(value, place)
        case dict():
            return any(_has_handle(child, place.below(key)) for key, child in value.items())
        case list():
            return any(_has_handle(child, place.below(0)) for child in value)
        case _:
            return False


def _handles_only(value: JsonValue, place: _Place) -> JsonValue:
    match value:
        case dict():
            return {
                key: _handles_only(child, below) if isinstance(child, CONTAINERS) else child
                for key, child in value.items()
                if _has_handle(child, below := place.below(key))
            }
        case list():
            return [_handles_only(child, place.below(0)) for child in value]
        case _:
            return value
