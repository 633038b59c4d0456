"""One test over a table, where a test for each row would cost more than what it asks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], table: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, but all rows are one test: pytest spends 6 ms on a test, most rows less than one.

    Every row is tried; the failure holds an exception for each row that failed, which names it. Fixtures are those
    of the one test, so this is for functions that leave nothing behind. `parametrize` stays where a row takes long
    or is asked for by name.
    """
    rows = list(table)
    single = isinstance(names, str)

    def over_all(test: Test) -> Test:
        signature = inspect.signature(test)

        @wraps(test)
        def try_all(**fixtures: Any) -> None:
            assert rows, "no row is tried"
            failed = [
                error
                for row in rows
                if (error := _failure(test, {names: row} if single else dict(zip(names, row, strict=True)), fixtures))
            ]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(rows)} rows", failed)

        given = {names} if single else set(names)
        left = [one for name, one in signature.parameters.items() if name not in given]
        try_all.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return try_all

    return over_all


def _failure(test: Test, row: dict[str, Any], fixtures: dict[str, Any]) -> BaseException | None:
    try:
        test(**row, **fixtures)
    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:
        error.add_note("for " + ", ".join(f"{name} = {value!r:.200}" for name, value in row.items()))
        return error
    return None
