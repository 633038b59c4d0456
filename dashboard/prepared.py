"""Queries that are asked with every page: their SQL is compiled once a process and run with fresh values.

To compile a queryset costs more than to run it, the more so the wider the model. What stays Django's
is all that matters: the SQL, the binding of values and their conversion, for whichever database there is.

    @prepared
    def _titles() -> QuerySet[Any, Any]:
        return Run.objects.filter(project=given("project", Run, "project")).values_list("id", "title")

    _titles(project=1)     # [(UUID(…), "…"), …]

Arguments by position give the query another shape, each compiled and kept (the least used of a hundred
go); what comes from outside belongs into named ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Expression, Field, Model, QuerySet

SHAPES = 100
Row = Sequence[Any]
M = TypeVar("M", bound=Model)


class Given(Expression):
    """The place of a value in a prepared query."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", (self,)

    def adapted(self, values: dict[str, Any], connection: Any) -> Any:
        return self.output_field.get_db_prep_value(values[self.name], connection)


def given(name: str, model: type[Model], field: str) -> Given:
    """A value of the kind that `field` of `model` holds; of a relation, the key."""
    found: Any = model._meta.get_field(field)
    return Given(name, found.target_field if found.is_relation else found)


class _Compiled(NamedTuple):
    sql: str
    parameters: tuple[Any, ...]
    converters: tuple[tuple[int, Sequence[Callable[..., Any]], Any], ...]


def prepared(build: Callable[..., QuerySet[Any, Any]]) -> Callable[..., list[Row]]:
    @lru_cache(SHAPES)
    def compiled(_vendor: str, *shape: Any) -> _Compiled:
        compiler: Any = build(*shape).query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        columns = [column[0] for column in compiler.select[: compiler.col_count]]
        found = compiler.get_converters(columns).items()
        converters = tuple((place, tuple(steps), column) for place, (steps, column) in found)
        return _Compiled(sql, tuple(parameters), converters)

    def rows(*shape: Any, **values: Any) -> list[Row]:
        live = connections[DEFAULT_DB_ALIAS]  # django.db.connection looks it up again for every attribute
        query = compiled(live.vendor, *shape)
        bound = [one.adapted(values, live) if isinstance(one, Given) else one for one in query.parameters]
        with live.cursor() as cursor:
            cursor.execute(query.sql, bound)
            fetched: list[Row] = cursor.fetchall()
        return _converted(fetched, query.converters, live) if query.converters and fetched else fetched

    return rows


def _converted(
    rows: list[Row], converters: Sequence[tuple[int, Sequence[Callable[..., Any]], Any]], connection: Any
) -> list[Row]:
    columns: list[Row] = list(zip(*rows, strict=True))
    for place, steps, column in converters:
        values = columns[place]
        for step in steps:
            values = [step(value, column, connection) for value in values]
        columns[place] = values
    return list(zip(*columns, strict=True))


def names_of(model: type[Model], path: str = "") -> tuple[str, ...]:
    """All columns of `model` for `values_list`, as they are reached over the relation `path`."""
    return tuple(path + field.attname for field in model._meta.concrete_fields)


def instance(model: type[M], row: Row) -> M:
    """The object whose columns, as `names_of` names them, are `row`."""
    return model.from_db(DEFAULT_DB_ALIAS, _columns_of(model), row)


@lru_cache
def _columns_of(model: type[Model]) -> tuple[str, ...]:
    return names_of(model)
