"""The data of a page as JSON, for people whose client asks the page's address for `application/json`.

    page_data(context)    what a view hands to its template, as plain values

Dataclasses, named tuples and structs become objects with their fields and properties, rows of the store the columns in
COLUMNS, or what the reading API answers for them. Text is masked by the rules of the project, and a long one is cut.
Markup, recorded bytes and whole receipts have no such form: they are left out. `omitted` names each place where
something was left out or cut, so that no part passes for the whole; the reading API has exact texts in windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any, ClassVar
from urllib.parse import unquote
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.utils.functional import Promise
from django.utils.safestring import SafeString

from dashboard.api.reading import (
    cut_window,
    describe_artifact,
    describe_call,
    describe_experiment,
    describe_run,
)
from dashboard.evidence.call_evidence import CallEvidence
from dashboard.experiments.summary import Summary
from dashboard.filters.language import Query
from dashboard.models import (
    AccessToken,
    Artifact,
    AuditEntry,
    Call,
    Comparison,
    ComparisonColumn,
    FollowedPath,
    Note,
    Project,
    ProjectRule,
    RecallReport,
    Run,
    SavedView,
    Source,
    TemplateVariant,
)
from dashboard.runs.replay import Replay
from dashboard.search.documents import SearchText
from dashboard.text.diff import Difference
from dashboard.text.masks import mask_text
from dashboard.text.params import Params
from envelopes.families.base import Family
from envelopes.schema.receipt import Receipt, Variant
from envelopes.schema.result import CanonicalResult

MOST_CHARACTERS = 20_000  # of one text
MOST_LEVELS = 12
DESCRIPTIONS: Mapping[type[Model], Callable[[Any], object]] = {
    Run: lambda run: describe_run(run, run.count_waiting()),
    Call: describe_call,
    Artifact: describe_artifact,
    Comparison: describe_experiment,
}
# Of other rows only these columns: hashes of tokens and passwords, summaries and payloads are in none.
COLUMNS: Mapping[type[Model], tuple[str, ...]] = {
    AccessToken: ("pk", "name", "scope", "key", "created_by", "created_at", "used_at", "revoked_at"),
    AuditEntry: ("at", "person", "client", "action", "subject"),
    ComparisonColumn: ("ordinal", "name", "family", "variant", "version", "policy"),
    FollowedPath: ("pk", "path", "format", "imported_at", "problem"),
    Note: ("pk", "text", "created_at", "changed_at", "half", "start", "end", "quote"),
    Project: ("slug", "name"),
    ProjectRule: ("name", "keys", "is_off"),
    RecallReport: ("pk", "query", "family", "variants", "state", "problem", "total", "done", "created_at"),
    SavedView: ("pk", "name", "over", "query", "sort"),
    Source: ("pk", "path", "format", "accepted", "rejected", "blank", "is_partial"),
    TemplateVariant: ("family", "name", "version", "title", "source", "characters", "note", "created_at"),
    User: ("username",),
}
OMITTED, SEPARATOR = object(), "\n"


def page_data(context: Mapping[str, Any]) -> dict[str, Any]:
    encoder = _PageEncoder()
    data = {name: encoder.encode(value, name, 0) for name, value in context.items()}
    shown = msgspec.to_builtins({name: value for name, value in data.items() if value is not OMITTED}, str_keys=True)
    # Once more all together: a secret of several lines may be in as many rows.
    masked = mask_text(SEPARATOR.join(_strings(shown)))
    return {**_with_strings(shown, _split(shown, masked)), "omitted": sorted(encoder.omitted)}


def _strings(value: Any) -> Iterator[str]:
    """Those of a document in their order, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _strings(entry)


def _split(value: Any, masked: str) -> Iterator[str]:
    """The same strings in the masked text, which is as long as they are."""
    start = 0
    for text in _strings(value):
        yield masked[start : start + len(text)]
        start += len(text) + len(SEPARATOR)


def _with_strings(value: Any, strings: Iterator[str]) -> Any:
    if isinstance(value, str):
        return next(strings)
    if isinstance(value, dict):
        return {key: _with_strings(entry, strings) for key, entry in value.items()}
    return [_with_strings(entry, strings) for entry in value] if isinstance(value, list) else value


class _PageEncoder:
    """`omitted` has the places of what was left out; an item of a list has `[]` for its number."""

    def __init__(self) -> None:
        self.omitted: set[str] = set()

    def encode(self, value: Any, place: str, level: int) -> Any:
        """OMITTED for what has no plain form."""
        if isinstance(value, (FunctionType, MethodType, Params)):  # no data: how a page draws, and what it was asked
            return OMITTED
        for types, method in self._METHODS:
            if isinstance(value, types):
                return method(self, value, place, level)
        members = _members(value) if level < MOST_LEVELS else None
        return self._omit(value, place, level) if members is None else self._map(dict(members), place, level)

    def _keep(self, value: Any, _place: str, _level: int) -> Any:
        return value

    def _omit(self, _value: Any, place: str, _level: int) -> Any:
        self.omitted.add(place)
        return OMITTED

    def _text(self, value: Any, place: str, level: int) -> Any:
        plain = unquote(str(value))
        if plain != str(value) and mask_text(plain) != plain:  # an address with a secret
            return self._omit(value, place, level)
        window = cut_window(str(value), 0, MOST_CHARACTERS)
        if window.next is not None:
            self.omitted.add(f"{place}, {window.total - window.end:,} characters")
        return window.text

    def _name(self, value: Variant | Family, _place: str, _level: int) -> str:
        return value.id if isinstance(value, Variant) else value.name

    def _row(self, value: Model, place: str, level: int) -> Any:
        describe = DESCRIPTIONS.get(type(value))
        if describe is not None:
            return describe(value)
        columns = COLUMNS.get(type(value))
        if columns is None:
            return self._omit(value, place, level)
        return self._map({name: getattr(value, name) for name in columns}, place, level)

    def _map(self, value: Mapping[Any, Any], place: str, level: int) -> dict[str, Any]:
        members = {str(key): self.encode(entry, f"{place}.{key}", level + 1) for key, entry in value.items()}
        return {key: entry for key, entry in members.items() if entry is not OMITTED}

    def _list(self, value: Iterable[Any], place: str, level: int) -> Any:
        members = _members(value)  # of a named tuple
        if members is not None:
            return self._map(dict(members), place, level)
        entries = [self.encode(entry, f"{place}[]", level + 1) for entry in value]
        return [entry for entry in entries if entry is not OMITTED]

    # The first that fits; SafeString is markup.
    _METHODS: ClassVar[tuple[tuple[Any, Callable[..., Any]], ...]] = (
        ((type(None), bool, int, float, datetime, UUID), _keep),
        ((SafeString, bytes, CallEvidence, Receipt, CanonicalResult, Replay, Summary, Difference, SearchText), _omit),
        ((str, Promise, Query), _text),
        ((Variant, Family), _name),
        (Model, _row),
        (Mapping, _map),
        ((list, tuple, set, frozenset, QuerySet), _list),
    )


def _members(value: Any) -> Iterator[tuple[str, Any]] | None:
    """Names and values of the public fields and properties; None for an object without declared fields."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        names = list(value._fields)
    elif isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    else:
        return None
    return _read_members(value, [*names, *_properties(type(value))])


def _read_members(value: Any, names: list[str]) -> Iterator[tuple[str, Any]]:
    for name in names:
        if name.startswith("_"):
            continue
        try:
            yield name, getattr(value, name)
        except (AttributeError, LookupError, TypeError, ValueError):
            continue  # a property without a value in this state of the page, for which a template shows nothing


def _properties(kind: type) -> list[str]:
    declared = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return [name for name, value in declared.items() if isinstance(value, _COMPUTED)]


_COMPUTED = (property, cached_property)
