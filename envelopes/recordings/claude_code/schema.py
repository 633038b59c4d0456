"""The fields of a line that are read. A field that may be large is `msgspec.Raw`: its own bytes, not decoded.

A field of the wrong type counts as absent and never refuses its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from envelopes.recordings.base import BYTE_ORDER_MARK, storable
from envelopes.text.untrusted_json import Untrusted, object_slices, parse_json

NOTHING = msgspec.Raw()
Parsed = TypeVar("Parsed", bound=msgspec.Struct)


class SessionEntry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
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


class ApiMessage(msgspec.Struct, frozen=True, gc=False):
    """`message` of a line, as the API has it."""

    id: str | None = None
    model: str | None = None
    content: msgspec.Raw = NOTHING


class ApiBlock(msgspec.Struct, frozen=True, gc=False):
    """One element of `message.content`."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


def has_nul(raw: bytes) -> bool:
    """Checks for a NUL in a JSON slice, which JSON writes as this escape only.

    One search a slice takes a fifth of the time of checking every decoded name.
    """
    return b"\\u0000" in raw


def struct_reader(struct: type[Parsed]) -> Callable[[bytes | msgspec.Raw], Parsed]:
    """Returns a function that parses a JSON object into `struct`. It raises Untrusted for any other JSON."""
    decode = msgspec.json.Decoder(struct).decode
    fields = msgspec.structs.fields(struct)

    def read(raw: bytes | msgspec.Raw) -> Parsed:
        slice_ = bytes(raw)
        if has_nul(slice_):
            return read_by_field(slice_)
        try:
            return decode(slice_)
        except (ValueError, RecursionError):  # msgspec's errors, and invalid UTF-8 in a name
            return read_by_field(slice_)

    def read_by_field(slice_: bytes) -> Parsed:
        slices = object_slices(slice_)
        return struct(**{field.name: _field_value(field, slices.get(field.encode_name)) for field in fields})

    return read


def parsed_lines(head: bytes, read: Callable[[bytes], Parsed]) -> Iterator[Parsed]:
    """Parses the lines at the beginning of a file, without those that are not JSON objects."""
    for raw in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        with suppress(Untrusted):
            yield read(raw)


def first_byte(raw: msgspec.Raw) -> bytes:
    """The first byte of a JSON value, which shows its type; empty where there is no value."""
    return bytes(memoryview(raw)[:1])


def _field_value(field: msgspec.structs.FieldInfo, slice_: bytes | None) -> Any:
    if slice_ is None:
        return field.default
    if field.type is msgspec.Raw:
        return msgspec.Raw(slice_)
    try:
        value = parse_json(slice_)
        return msgspec.convert(storable(value) if isinstance(value, str) else value, field.type)
    except (msgspec.ValidationError, Untrusted):
        return field.default
