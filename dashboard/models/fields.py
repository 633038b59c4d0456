"""Columns that take less of the disk than Django's own: compressed bytes, ids and hashes as bytes.

Also the base of models of which a page loads many rows.

Half of what a store has beside the recorded bytes were ids: Django writes a UUID as 32 characters into SQLite, into
its row and again into every index.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

import pyzstd
from django.db import models
from django.db.models.base import ModelState

if TYPE_CHECKING:
    BinaryField = models.BinaryField[Any, Any]
    UUIDField = models.UUIDField[Any, Any]
else:
    BinaryField = models.BinaryField
    UUIDField = models.UUIDField

WIDEST_WINDOW = 27  # as a power of two: 128 MiB, more than which readers of zstd refuse
KNOWN_BYTES = 131_072  # at each end of the bytes that others are compressed beside
ZSTD_LEVEL = 3  # level 6 stores a fourteenth less and takes three times as long


class LoadedRow(models.Model):
    """A model whose stored rows are made without `__init__`, which sets field by field and sends signals.

    A list has 50 rows of 48 columns: loading them takes a third less time. Columns that were not selected are missing
    in the instance, which is how Django defers them. A model with an `__init__` of its own or a receiver of `post_init`
    must not be one.
    """

    class Meta:
        abstract = True

    @classmethod
    def from_db(cls, db: str | None, field_names: Collection[str], values: Collection[Any], **state: Any) -> Self:
        """`state` is what later versions of Django remember of the query of a row."""
        row = cls.__new__(cls)
        row._state = ModelState()
        vars(row._state).update(adding=False, db=db, **state)
        vars(row).update(zip(field_names, values, strict=True))
        return row


class Compressed(bytes):
    """The value of a ZstdField that another process has compressed."""


class ZstdField(BinaryField):
    """Bytes that the database stores compressed."""

    def get_prep_value(self, value: Any) -> Any:
        if value is None:  # of most observations: their bytes are in a frame
            return None
        return bytes(value) if isinstance(value, Compressed) else compress(super().get_prep_value(value))

    def from_db_value(self, value: Any, expression: object, connection: object) -> bytes | None:
        return None if value is None else pyzstd.decompress(value)


def compress(data: bytes) -> bytes:
    return bytes(pyzstd.compress(data, ZSTD_LEVEL))


def compress_beside(data: bytes, known: bytes) -> bytes:
    """Compresses what largely repeats `known`, without which it cannot be read: 7 KB of an envelope take 0.1 KB."""
    return bytes(pyzstd.compress(data, ZSTD_LEVEL, _prefix(known)))


def decompress_beside(packed: bytes, known: bytes) -> bytes:
    return bytes(pyzstd.decompress(packed, _prefix(known)))


def compress_difference(data: bytes, known: bytes) -> bytes:
    """Compresses what repeats all of `known` but a few places: of 5 MB with a new end 3 KB, in 12 ms."""
    window = (len(data) + len(known)).bit_length()
    options: dict[int, int] = {
        pyzstd.CParameter.compressionLevel: ZSTD_LEVEL,
        pyzstd.CParameter.windowLog: min(max(window, pyzstd.CParameter.windowLog.bounds()[0]), WIDEST_WINDOW),
        pyzstd.CParameter.enableLongDistanceMatching: 1,
    }
    return bytes(pyzstd.compress(data, options, _dictionary(known)))


def decompress_difference(packed: bytes, known: bytes) -> bytes:
    return bytes(pyzstd.decompress(packed, _dictionary(known)))


def _prefix(known: bytes) -> Any:
    ends = known[:KNOWN_BYTES] + known[KNOWN_BYTES:][-KNOWN_BYTES:]
    return _dictionary(ends.ljust(8))  # it refuses fewer than 8 bytes


def _dictionary(known: bytes) -> Any:
    return pyzstd.ZstdDict(known, is_raw=True).as_prefix


class HashField(BinaryField):
    """A hash, hexadecimal in Python and bytes in the database."""

    def get_prep_value(self, value: Any) -> Any:
        return bytes.fromhex(value) if isinstance(value, str) else value

    def from_db_value(self, value: Any, expression: object, connection: object) -> str | None:
        return None if value is None else bytes(value).hex()


class CompactUUIDField(UUIDField):
    """A UUID as 16 bytes where the database has no type for it. They sort as their characters do."""

    def get_internal_type(self) -> str:
        return "CompactUUIDField"  # Django's own converters of SQLite expect characters

    def db_type(self, connection: Any) -> str:
        return "uuid" if connection.features.has_native_uuid_field else "blob"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: object = None) -> Any:
        key = self.to_python(value)
        return key if key is None or connection.features.has_native_uuid_field else key.bytes

    def from_db_value(self, value: Any, expression: object, connection: object) -> UUID | None:
        return None if value is None else read_stored_id(value)


class StoredID(models.Func):
    """A column of ids as its database has them, which `read_stored_id` converts one by one.

    To convert a thousand takes longer than their query, and a page shows 25.
    """

    template = "%(expressions)s"
    output_field = models.BinaryField()


def read_stored_id(value: bytes | UUID) -> UUID:
    return UUID(bytes=value) if isinstance(value, bytes) else value


class UUIDDigits(models.Func):
    """The 32 hexadecimal digits of a column: in SQL, because 100,000 UUID objects take longer than their query."""

    template = "REPLACE(CAST(%(expressions)s AS text), '-', '')"
    output_field = models.CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="LOWER(HEX(%(expressions)s))", **context)


class HourText(models.Func):
    """The hour of a time in UTC, or the day with `characters=10`, as text: `2026-01-20 14`.

    Django's own truncation calls Python for each row on SQLite: half a second for 100,000 calls.
    """

    output_field = models.CharField()

    def __init__(self, expression: str, *, characters: int = 13) -> None:
        super().__init__(expression, template=f"substr(%(expressions)s, 1, {characters})")
        self.form = "YYYY-MM-DD HH24" if characters > 10 else "YYYY-MM-DD"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"to_char(%(expressions)s AT TIME ZONE 'UTC', '{self.form}')"
        return self.as_sql(compiler, connection, template=template, **context)
