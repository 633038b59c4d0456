"""Inserts or updates many rows in one statement.

Django's `bulk_create` spends most of an import on passing each value through its field. The rows here are our own, so
values are converted only where the database stores another form: an import takes 0.6 of the time (measured). For the
same reason `unsaved_row` builds an instance without Django's constructor (an eighth of an import).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models.base import ModelState

from dashboard.models.fields import CompactUUIDField, HashField, ZstdField, read_stored_id

IDS_PER_STATEMENT = 500  # in one IN (…)
ModelRow = TypeVar("ModelRow", bound=models.Model)


def unsaved_row(model: type[ModelRow], **values: Any) -> ModelRow:
    """A row that is not saved yet, as `model(...)` returns it. Columns go by their own names: `run_id`, not `run`.

    For models whose defaults are plain values. Sends no signal.
    """
    row = model.__new__(model)
    row.__dict__ = {**_defaults(model), **values, "_state": ModelState()}
    return row


def bulk_insert(model: type[models.Model], rows: Sequence[models.Model], *, ignore_known: bool = False) -> None:
    """Inserts rows whose primary keys are set, or that get one from the database. Not for many-to-many relations."""
    bulk_insert_values(model, [vars(row) for row in rows], ignore_known=ignore_known)


def bulk_insert_values(
    model: type[models.Model], rows: Sequence[dict[str, Any]], *, ignore_known: bool = False
) -> None:
    """Inserts rows from dictionaries with a value for every column: building an instance costs more than its insert."""
    if not rows:
        return
    values = _convert_columns(model, [field.attname for field in _fields(model)], rows)
    quote = connection.ops.quote_name
    table, names = quote(model._meta.db_table), [quote(field.column) for field in _fields(model)]
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"  # noqa: S608 - names of the model
    with connection.cursor() as cursor:
        cursor.executemany(statement + " ON CONFLICT DO NOTHING" * ignore_known, values)


def bulk_update(rows: Sequence[models.Model], fields: Sequence[str] | None = None) -> None:
    """Updates stored rows of one model: all their columns, or those of these fields."""
    if rows:
        columns = [column for column in rows[0]._meta.concrete_fields if fields is None or column.name in fields]
        names = dict.fromkeys(["id", *(column.attname for column in columns)])
        bulk_update_values(type(rows[0]), [{name: vars(row)[name] for name in names} for row in rows])


def bulk_update_values(model: type[models.Model], rows: Sequence[dict[str, Any]]) -> None:
    """Updates rows by `id` from dictionaries, all with the same columns."""
    if not rows:
        return
    names = [*(name for name in rows[0] if name != "id"), "id"]
    quote = connection.ops.quote_name
    column_by_name = {field.attname: field.column for field in _fields(model)}
    columns = ", ".join(f"{quote(column_by_name[name])} = %s" for name in names[:-1])
    statement = f"UPDATE {quote(model._meta.db_table)} SET {columns} WHERE {quote('id')} = %s"  # noqa: S608 - names of the model
    with connection.cursor() as cursor:
        cursor.executemany(statement, _convert_columns(model, names, rows))


def _convert_columns(
    model: type[models.Model], names: Sequence[str], rows: Sequence[dict[str, Any]]
) -> list[tuple[Any, ...]]:
    """The values of these columns as the database stores them, a tuple for each row."""
    convert = dict(zip((field.attname for field in _fields(model)), _converters(model, connection.vendor), strict=True))
    columns = zip(*map(itemgetter(*names), rows), strict=True)
    converted = [
        values if (change := convert.get(name)) is None else map(change, values)
        for name, values in zip(names, columns, strict=True)
    ]
    return list(zip(*converted, strict=True))


def count_stored(model: type[models.Model], name: str, keys: Collection[UUID]) -> dict[UUID, int]:
    """How many stored rows have each of these keys in the column of this name; without keys that no row has.

    Of a new batch that is mostly none. Django takes three to fifteen times as long to compose the question as SQLite to
    answer it.
    """
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)
    column = quote(next(field.column for field in _fields(model) if field.attname == name))
    values = [key.bytes for key in keys] if connection.vendor == "sqlite" else list(keys)
    counts: dict[UUID, int] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(values), IDS_PER_STATEMENT):
            portion = values[start : start + IDS_PER_STATEMENT]
            places = ", ".join(["%s"] * len(portion))
            counted = f"SELECT {column}, count(*) FROM {table} WHERE {column} IN ({places}) GROUP BY {column}"  # noqa: S608 - names of the model
            cursor.execute(counted, portion)
            counts |= {read_stored_id(key): count for key, count in cursor.fetchall()}
    return counts


def move_earlier(model: type[models.Model], rows: Sequence[dict[str, Any]]) -> None:
    """Moves stored rows of records that a program sent to the line and time of `rows`, where these are earlier."""
    earlier: dict[UUID, dict[str, Any]] = {}
    for row in rows:
        if row["id"] not in earlier or row["line"] < earlier[row["id"]]["line"]:
            earlier[row["id"]] = {name: row[name] for name in ("id", "line", "at")}
    stored = model._base_manager.filter(pk__in=list(earlier)).values_list("pk", "line") if earlier else ()
    bulk_update_values(model, [earlier[key] for key, line in stored if earlier[key]["line"] < line])


@cache
def _defaults(model: type[models.Model]) -> dict[str, Any]:
    return {field.attname: field.get_default() for field in model._meta.concrete_fields}


@cache
def _fields(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]


@cache
def _converters(model: type[models.Model], vendor: str) -> list[Callable[[Any], Any] | None]:
    """For each column how its values are converted for the database; None when they stay as they are."""
    types: dict[type[models.Field[Any, Any]], Callable[[Any], Any]] = {
        ZstdField: ZstdField().get_prep_value,
        HashField: bytes.fromhex,
    }
    if vendor == "sqlite":
        types |= {models.DateTimeField: _sqlite_time, CompactUUIDField: _sqlite_uuid}
    targets = [field.target_field if field.is_relation else field for field in _fields(model)]
    return [next((convert for kind, convert in types.items() if isinstance(target, kind)), None) for target in targets]


def _sqlite_uuid(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes


@lru_cache(maxsize=1_024)  # the stamp of a line goes into several rows
def _sqlite_time(value: datetime | None) -> str | None:
    """The text that Django's SQLite backend stores: UTC, without the zone."""
    if value is None:
        return None
    return str(value)[:-6] if value.tzinfo is UTC else str(value.astimezone(UTC).replace(tzinfo=None))
