"""What a call changed, as observed and not as intended (CALL-045 to CALL-050, CALL-056).

A list that is None was not observed; an empty one was, and nothing of that sort happened.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

EntryKind: TypeAlias = Literal["file", "folder"]


class Created(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: EntryKind


class Modified(msgspec.Struct, frozen=True, kw_only=True):
    """Only a file has content to modify."""

    path: str
    kind: Literal["file"]
    before_etag: str | None = None
    after_etag: str | None = None


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: EntryKind
    trashed: bool | None = None


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    from_path: str
    to_path: str


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    side_effects_observed: tuple[str, ...] | None = None
    created: tuple[Created, ...] | None = None
    modified: tuple[Modified, ...] | None = None
    deleted: tuple[Deleted, ...] | None = None
    renamed: tuple[Renamed, ...] | None = None
