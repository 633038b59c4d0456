"""Reads the parameters of a page's address: integers, choices, flags and cursors.

    params = Params(request.GET)
    column = params.integer("column", default=1, least=1, most=9)
    order = params.choice("order", ("newest", "tokens"), default="newest")
    params.url(column=2)        # "?column=2&order=tokens": what was read, with the change, without defaults

A value that does not fit is replaced by the default, because an old link must still open; what did not fit
is listed in `params.problems`, for pages that show it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar, overload
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import BadRequest

from dashboard.text.text_markup import printable

LARGEST = 2**63 - 1  # what a database column holds
LONGEST_IN_A_PROBLEM = 60  # characters
_DIGITS = re.compile(r"-?[0-9]{1,19}")

Choice = TypeVar("Choice", bound=str)


class UnusableAddress(BadRequest):
    """The address of a fragment lacks a parameter that it cannot do without; the message is a sentence for people."""


def parse_integer(text: str | None, *, least: int = 0, most: int = LARGEST) -> int | None:
    """`text` as a decimal number between `least` and `most`; None for anything else.

    Only ASCII digits count: `str.isdigit` accepts `²`, which `int` refuses, and `int` accepts `1_000`.
    """
    if text is None or not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if least <= number <= most else None


class Params:
    """The parameters of one address. Each reader remembers its parameter and default, for `url`."""

    def __init__(self, query: Mapping[str, str], path: str = "") -> None:
        self.path = path
        self.problems: list[str] = []
        self._query = query
        self._values: dict[str, str] = {}
        self._defaults: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._query

    def text(self, name: str, *, default: str = "", longest: int = 2_000, strip: bool = True) -> str:
        """The value cut at `longest` characters, without white space around it unless `strip` is false."""
        value = self._query.get(name, default)
        value = (value.strip() if strip else value)[:longest]
        return self._remember(name, value, default)

    @overload
    def integer(self, name: str, *, default: int, least: int = ..., most: int = ...) -> int: ...

    @overload
    def integer(self, name: str, *, default: None, least: int = ..., most: int = ...) -> int | None: ...

    def integer(self, name: str, *, default: int | None, least: int = 0, most: int = LARGEST) -> int | None:
        """A whole number between `least` and `most`, else `default`."""
        given = self._query.get(name, "").strip()
        number = parse_integer(given, least=least, most=most)
        if number is None and given:
            self._report(name, given, f"a whole number from {least:,} to {most:,}")
        value = default if number is None else number
        self._remember(name, "" if value is None else str(value), "" if default is None else str(default))
        return value

    def required_integer(self, name: str, *, most: int = LARGEST) -> int:
        """A whole number. Raises UnusableAddress: a default would answer another question than the one asked."""
        number = self.integer(name, default=None, most=most)
        if number is None:
            raise UnusableAddress(f"This part of a page needs {name}=, a whole number from 0 to {most:,}.")
        return number

    def choice(self, name: str, choices: Collection[Choice], *, default: Choice) -> Choice:
        """One of `choices`, else `default`."""
        given = self._query.get(name, "")
        value = next((choice for choice in choices if choice == given), None)
        if value is None and given:
            self._report(name, given, "one of " + ", ".join(choice for choice in choices if choice))
        self._remember(name, value or default, default)
        return value or default

    def flag(self, name: str) -> bool:
        """True for a parameter that is present and neither empty nor 0."""
        value = self._query.get(name, "") not in ("", "0")
        self._remember(name, "1" if value else "", "")
        return value

    def cursor(self, name: str, parts: int, *, separator: str = "-") -> tuple[int, ...] | None:
        """`parts` whole numbers joined by `separator`, as `12-500`; None where the parameter is anything else."""
        given = self._query.get(name, "")
        numbers = [parse_integer(part) for part in given.split(separator)] if given else []
        cursor = tuple(number for number in numbers if number is not None)
        is_complete = len(numbers) == len(cursor) == parts
        if given and not is_complete:
            self._report(name, given, f"a cursor of {parts} numbers")
        self._remember(name, given if is_complete else "", "")
        return cursor if is_complete else None

    def uuid(self, name: str) -> UUID | None:
        """An id, None where the parameter is no UUID."""
        given = self._query.get(name, "").strip()
        try:
            value = UUID(given) if given else None
        except ValueError:
            self._report(name, given, "an id")
            value = None
        self._remember(name, "" if value is None else str(value), "")
        return value

    def uuids(self, name: str, values: Sequence[str]) -> tuple[UUID, ...]:
        """The ids of a parameter that is repeated, each once; other values are reported."""
        ids: dict[UUID, None] = {}
        for value in values:
            try:
                ids[UUID(value)] = None
            except ValueError:
                self._report(name, value, "an id")
        return tuple(ids)

    def url(self, **changes: object) -> str:
        """The address with every parameter that was read, and `changes`; defaults and None are left out."""
        values = self._values | {name: "" if value is None else str(value) for name, value in changes.items()}
        query = {name: value for name, value in values.items() if value and value != self._defaults.get(name, "")}
        return f"{self.path}?{urlencode(query)}"

    def _remember(self, name: str, value: str, default: str) -> str:
        self._values[name] = value
        self._defaults[name] = default
        return value

    def _report(self, name: str, given: str, expected: str) -> None:
        self.problems.append(f"{name}={printable(given[:LONGEST_IN_A_PROBLEM])} is not {expected}")
