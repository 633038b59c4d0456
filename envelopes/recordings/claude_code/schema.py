"""The fields of a line that are read. What may be large is `msgspec.Raw`: its own bytes, undecoded.

A field of the wrong type counts as absent; it never refuses the line that it stands in. A NUL or a
lone surrogate in a name is written as its escape: names become text columns, which refuse both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from envelopes.text.untrusted_json import Untrusted, members, tame, visible

NOTHING = msgspec.Raw()
Shape = TypeVar("Shape", bound=msgspec.Struct)


class Entry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A line of a session file."""

    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    version: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    level: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    message: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING
    data: msgspec.Raw = NOTHING
    attachment: msgspec.Raw = NOTHING
    tool_use_result: msgspec.Raw = NOTHING
    mcp_meta: msgspec.Raw = NOTHING
    tool_denial_kind: msgspec.Raw = NOTHING
    forked_from: msgspec.Raw = NOTHING
    replacements: msgspec.Raw = NOTHING
    compact_metadata: msgspec.Raw = NOTHING
    microcompact_metadata: msgspec.Raw = NOTHING


class Message(msgspec.Struct, frozen=True, gc=False):
    """`message` of a line, as the API has it."""

    id: str | None = None
    model: str | None = None
    content: msgspec.Raw = NOTHING


class Block(msgspec.Struct, frozen=True, gc=False):
    """One element of `message.content`."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


def has_nul(raw: bytes) -> bool:
    """JSON holds a NUL only as this escape. Looked for once a slice: asking each name costs five times as much."""
    return b"\\u0000" in raw


def reader(shape: type[Shape]) -> Callable[[bytes | msgspec.Raw], Shape]:
    """A function that reads `shape` and raises Untrusted for what is no JSON object."""
    decode = msgspec.json.Decoder(shape).decode
    fields = msgspec.structs.fields(shape)

    def read(raw: bytes | msgspec.Raw) -> Shape:
        slice_ = bytes(raw)
        if has_nul(slice_):
            return careful(slice_)
        try:
            return decode(slice_)
        except (ValueError, RecursionError):  # msgspec's errors, and invalid UTF-8 in a name
            return careful(slice_)

    def careful(slice_: bytes) -> Shape:
        found = members(slice_)
        return shape(**{field.name: _value(field, found) for field in fields})

    return read


def storable(name: str) -> str:
    """`name` as a text column can hold it."""
    return visible(name).replace("\0", "\\u0000")


def opening(raw: msgspec.Raw) -> bytes:
    """The first byte of a JSON value, which tells its type; empty for nothing."""
    return bytes(memoryview(raw)[:1])


def _value(field: msgspec.structs.FieldInfo, found: dict[str, bytes]) -> Any:
    slice_ = found.get(field.encode_name)
    if slice_ is None:
        return field.default
    if field.type is msgspec.Raw:
        return msgspec.Raw(slice_)
    try:
        value = tame(slice_)
        return msgspec.convert(storable(value) if isinstance(value, str) else value, field.type)
    except (msgspec.ValidationError, Untrusted):
        return field.default
