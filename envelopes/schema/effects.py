"""The effects of a call, as observed and not as intended (CALL-045 to CALL-050, CALL-056).

None stands for a kind of effect that was not observed; an empty list means that none happened.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

EntryKind: TypeAlias = Literal["file", "folder"]


class Created(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: EntryKind


class Modified(msgspec.Struct, frozen=True, kw_only=True):
    """A file with new content; a folder has none."""

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
