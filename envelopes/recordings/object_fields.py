"""The fields of a JSON object that readers take one by one, with remarks on those that have no possible value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from envelopes.recordings.base import RemarkKind, RemarkRecord
from envelopes.recordings.json_lines import changed_time, remark, storable, valid_timestamp
from envelopes.text.untrusted_json import (
    Untrusted,
    array_slices,
    join_object,
    parse_checked,
    parse_json,
    read_object,
)

Value = TypeVar("Value")
SOURCE = re.compile(rb'\s*\{\s*(?:"v":1,"type":"[a-z]+",)?"source":"([a-z0-9-]+)"')  # where `export_run` writes it


class ObjectFields:
    """The fields of one object. Reading a field removes it; `rest` returns those that were not read.

    Where a method takes several names, the first field that is present and has the type is read. `path` is that of
    the object in its line; the remarks on an object within it are those of the whole.
    """

    def __init__(self, line: int, raw: bytes, path: str = "$", within: ObjectFields | None = None) -> None:
        self.line = line
        self.path = path
        self.document = raw.strip()
        self.is_exported = SOURCE.match(raw) is not None  # of another agent's run: what is derived is no evidence
        self._fields, repeated = read_object(raw)
        self._refused: list[tuple[RemarkKind, str, bytes, str]] = within._refused if within else []
        for name, value in repeated:
            self._refused.append(("value", f"{path}.{name}", value, "the last value of this key is read"))

    def slice(self, *names: str) -> bytes | None:
        """The field's own bytes; a null counts as absent."""
        for name in names:
            if self._fields.get(name, b"null") != b"null":
                return self._fields.pop(name)
        return None

    def value(self, name: str) -> bytes | None:
        """The field's own bytes, also those of a null."""
        return self._fields.pop(name, None)

    def text(self, *names: str) -> str | None:
        """A string, as a text column can store it."""
        for name in names:
            raw = self._fields.get(name, b"null")
            if raw.startswith(b'"'):
                del self._fields[name]
                return storable(str(parse_checked(raw)))  # a string is not deep
            if raw != b"null":
                self._refuse("value", name, "left out: not a text")
        return None

    def required_text(self, *names: str) -> str:
        text = self.text(*names)
        if not text:
            name = next((name for name in names if name in self._fields), names[0])
            raise Untrusted(f"no {' or '.join(names)}, or not a string", f"$.{name}")
        return text

    def time(self, *names: str) -> str | None:
        for name in names:
            raw = self._fields.get(name, b"null")
            if raw == b"null":
                continue
            text = parse_checked(raw) if raw.startswith(b'"') else parse_json(raw)
            became = changed_time(text) if isinstance(text, str) else "left out: no text"
            if became:
                self._refuse("timestamp", name, became.replace("left out", "kept as a field without meaning"))
            if isinstance(text, str) and valid_timestamp(text):
                del self._fields[name]
                return text
        return None

    def choice(self, name: str, table: dict[str, Value], default: Value) -> Value:
        """The value that `table` has for the string; a string that is not in the table stays in `rest`."""
        raw = self._fields.get(name, b"null")
        if raw == b"null":
            return default
        for word, value in table.items():
            if raw == b'"' + word.encode() + b'"':
                del self._fields[name]
                return value
        if raw != f'"{default}"'.encode():
            self._refuse("value", name, f"not a known value: read as {default}")
        return default

    def has(self, name: str) -> bool:
        return name in self._fields

    def integer(self, name: str, minimum: int, maximum: int = 2**53 - 1) -> int | None:
        raw = self._fields.get(name, b"null")
        if raw == b"null":
            return None
        value = parse_json(raw)
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
            del self._fields[name]
            return value
        if value is not None:
            self._refuse("duration" if name == "durationMs" else "value", name, "left out: not a possible number")
        return None

    def flag(self, name: str) -> bool | None:
        """A boolean, which stays in `rest`."""
        raw = self._fields.get(name, b"null")
        if raw not in (b"true", b"false", b"null"):
            self._refuse("value", name, "left out: neither true nor false")
        return {b"true": True, b"false": False}.get(raw)

    def _refuse(self, kind: RemarkKind, name: str, became: str) -> None:
        self._refused.append((kind, f"{self.path}.{name}", self._fields[name], became))

    def object_in(self, name: str) -> ObjectFields | None:
        """The object in a field; None without one."""
        raw = self.slice(name)
        if raw is None or raw.startswith(b"{"):
            return None if raw is None else ObjectFields(self.line, raw, f"{self.path}.{name}", self)
        self._refused.append(("value", f"{self.path}.{name}", raw, "left out: no object"))
        return None

    def objects_in(self, name: str) -> Iterator[ObjectFields]:
        """The objects in a field that is a list."""
        raw = self.slice(name)
        if raw is not None and not raw.startswith(b"["):
            self._refused.append(("value", f"{self.path}.{name}", raw, "left out: no list"))
            return
        for index, element in enumerate(array_slices(raw) if raw else ()):
            path = f"{self.path}.{name}[{index}]"
            if element.startswith(b"{"):
                yield ObjectFields(self.line, element, path, self)
            else:
                self._refused.append(("value", path, element, "left out: no object"))

    def leave_out(self, reason: str) -> None:
        self._refused.append(("value", self.path, self.document, f"left out: {reason}"))

    @property
    def has_remarks(self) -> bool:
        return bool(self._refused)

    def remarks(self, run: str, call: str | None, owner: str | None = None) -> Iterator[RemarkRecord]:
        """Yields a remark for each field that was read in another way than it is written."""
        for kind, path, raw, became in self._refused:
            yield remark(kind, path, raw, became, line=self.line, run=run, call=call, owner=owner)

    def rest(self) -> bytes | None:
        return join_object(self._fields) if self._fields else None
