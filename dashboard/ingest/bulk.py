"""Inserts or updates many rows in one statement.

Django's `bulk_create` spends most of an import on passing each value through its field. The rows here are our own, so
values are converted only where the database stores another form: an import takes 0.6 of the time (measured). For the
same reason `unsaved_row` builds an instance without Django's constructor (an eighth of an import).

A column that has its default in all rows is a constant of the statement: of the 58 columns of a new call these are
two thirds, and each value that is passed to SQLite costs 0.2 to 0.5 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache, lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models.base import ModelState

from dashboard.models.fields import CompactUUIDField, HashField, ZstdField, read_stored_id

IDS_PER_STATEMENT = 500  # in one IN (…)
ModelRow = TypeVar("ModelRow", bound=models.Model)
Column: TypeAlias = tuple[Any, ...]  # the values of all rows


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
    columns = _columns_of(rows, [field.attname for field in _fields(model)])
    constants = _constants(model, connection.vendor)
    places = {name: constants[name][1] for name, column in columns.items() if _is_default(column, constants.get(name))}
    quote = connection.ops.quote_name
    table, names = quote(model._meta.db_table), [quote(field.column) for field in _fields(model)]
    values = ", ".join([places.get(name, "%s") for name in columns])
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - names of the model
    passed = {name: column for name, column in columns.items() if name not in places}
    with connection.cursor() as cursor:
        cursor.executemany(statement + " ON CONFLICT DO NOTHING" * ignore_known, _convert_columns(model, passed))


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
        cursor.executemany(statement, _convert_columns(model, _columns_of(rows, names)))


def _columns_of(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Column]:
    return dict(zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True))


def _is_default(column: Column, constant: tuple[Any, str] | None) -> bool:
    """True where all rows have the default of the column. The first value, mostly another one, decides at once."""
    if constant is None or column[0] is None is not constant[0]:
        return False
    return bool(column[0] == constant[0]) and column.count(constant[0]) == len(column)


def _convert_columns(model: type[models.Model], columns: Mapping[str, Column]) -> list[tuple[Any, ...]]:
    """The values of these columns as the database stores them, a tuple for each row."""
    converters = _converters(model, connection.vendor)
    return list(zip(*[_convert_column(converters.get(name), column) for name, column in columns.items()], strict=True))


def _convert_column(convert: Callable[[Column], Iterable[Any]] | None, column: Column) -> Iterable[Any]:
    """A value that all rows have, as the id of their run, is converted once."""
    if convert is None:
        return column
    if column[0] is column[-1] and column.count(column[0]) == len(column):
        return repeat(next(iter(convert(column[:1]))), len(column))
    return convert(column)


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
    """The default of each column. Members of an enumeration, which databases convert one by one, by their values."""
    defaults = {field.attname: field.get_default() for field in model._meta.concrete_fields}
    return {name: value.value if isinstance(value, Enum) else value for name, value in defaults.items()}


@cache
def _constants(model: type[models.Model], vendor: str) -> dict[str, tuple[Any, str]]:
    """The default of each column that has a simple one, with the expression for it in SQL."""
    truth = {True: "1", False: "0"} if vendor == "sqlite" else {True: "TRUE", False: "FALSE"}
    constants: dict[str, tuple[Any, str]] = {}
    for field in _fields(model):
        value = None if field.primary_key else _defaults(model)[field.attname]
        if isinstance(value, bool):
            constants[field.attname] = value, truth[value]
        elif isinstance(value, int) or (isinstance(value, str) and (not value or value.isalnum())):
            constants[field.attname] = value, f"'{value}'" if isinstance(value, str) else str(value)
        elif value is None and field.null:
            constants[field.attname] = value, "NULL"
    return constants


@cache
def _fields(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]


@cache
def _converters(model: type[models.Model], vendor: str) -> dict[str, Callable[[Column], Iterable[Any]]]:
    """How the values of a column are converted for the database, by its name; without those that stay as they are."""
    types: dict[type[models.Field[Any, Any]], Callable[[Column], Iterable[Any]]] = {
        ZstdField: _compressed,
        HashField: _hash_bytes,
    }
    if vendor == "sqlite":
        types |= {models.DateTimeField: _sqlite_times, CompactUUIDField: _sqlite_uuids}
    targets = {field.attname: field.target_field if field.is_relation else field for field in _fields(model)}
    return {
        name: convert
        for name, target in targets.items()
        if (convert := next((convert for kind, convert in types.items() if isinstance(target, kind)), None))
    }


def _compressed(values: Column) -> Iterable[Any]:
    return map(ZstdField().get_prep_value, values)


def _hash_bytes(values: Column) -> Iterable[bytes]:
    return map(bytes.fromhex, values)


def _sqlite_uuids(values: Column) -> list[bytes | None]:
    """Without a call for each: an id has its bytes as a property, which takes twice as long."""
    return [None if value is None else value.int.to_bytes(16, "big") for value in values]


def _sqlite_times(values: Column) -> Iterable[str | None]:
    return map(_sqlite_time, values)


@lru_cache(maxsize=1_024)  # the stamp of a line goes into several rows
def _sqlite_time(value: datetime | None) -> str | None:
    """The text that Django's SQLite backend stores: UTC, without the zone."""
    if value is None:
        return None
    return str(value)[:-6] if value.tzinfo is UTC else str(value.astimezone(UTC).replace(tzinfo=None))
