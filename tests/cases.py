"""Tables of cases: one test over all rows, and tables of which the default run takes a few cases."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., None]
FAILURES = (Exception, BaseExceptionGroup, pytest.fail.Exception, pytest.skip.Exception)


def extended_except(cases: Iterable[Any], *brief: Any) -> list[Any]:
    """The cases of a table; those that are not `brief` are left to the extended run."""
    every = list(cases)
    assert not (unknown := [case for case in brief if case not in every]), f"the table has no {unknown}"
    return [case if case in brief else _extended(case) for case in every]


def _extended(case: Any) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.extended], id=case.id)
    return pytest.param(case, marks=pytest.mark.extended)


def each(names: str | tuple[str, ...], table: Iterable[Any]) -> Callable[[Test], Test]:
    """Works like `pytest.mark.parametrize`, but all rows are one test, and a row that fails is a subtest of pytest.

    Every row is tried, and each failure names its row. Fixtures are those of the one test, so this is for functions
    that leave nothing behind. `parametrize` stays where a row takes long or is selected by name.

    A row that passes opens no subtest. Measured with 2,000 empty rows on pytest 9.2: a test for each row costs 2.2 ms
    a row (7 to 11 with `-n 2`), a subtest for each row 0.8 ms (2.3 with `-n 2`, where each report goes to the
    controller), this decorator nothing that can be measured. The suite has 5,600 rows: subtests for all of them
    would add 5 seconds to a run in one process and as much to a run in two.
    """
    columns = (names,) if isinstance(names, str) else names
    rows = [dict(zip(columns, (row,) if isinstance(names, str) else row, strict=True)) for row in table]

    def over_all(test: Test) -> Test:
        signature = inspect.signature(test)
        stacked = "subtests" in signature.parameters  # on a test that has a table already

        @wraps(test)
        def try_all(subtests: pytest.Subtests, outer_row: dict[str, Any] | None = None, **fixtures: Any) -> None:
            assert rows, "no row is tried"
            for row in [(outer_row or {}) | row for row in rows]:
                if stacked:
                    test(subtests, row, **fixtures)
                    continue
                try:
                    test(**row, **fixtures)
                except FAILURES as error:
                    with subtests.test(**row):
                        raise error

        parameters = [inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)] if not stacked else []
        parameters += [parameter for name, parameter in signature.parameters.items() if name not in columns]
        try_all.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return try_all

    return over_all
