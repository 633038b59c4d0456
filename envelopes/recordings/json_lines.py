"""The JSON that readers of foreign logs read: lines that are objects, and the known fields of an object.

read_json_lines   the lines of a file that are JSON, and problems for the others
struct_reader     a function that reads the known fields of an object; large values stay bytes
remark            a record that a value was changed or left out
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    LineProblem,
    ReceiptRecord,
    Record,
    RemarkKind,
    RemarkRecord,
    SourceLine,
)
from envelopes.schema.timestamps import has_offset, parse_instant
from envelopes.text.untrusted_json import (
    Untrusted,
    check_json,
    object_slices,
    parse_json,
    repeated_members,
    split_objects,
)

_ORDINARY_TIME = re.compile(r"[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-5][0-9](?:\.[0-9]{1,6})?Z")
_NANOSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")
_REFUSED = re.compile("[\0\ud800-\udfff]|⟨(?=U\\+)")
_CODE_POINT = re.compile(rb"U\+(?:0000|D)")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOTHING = msgspec.Raw()
REMARK_BYTES = 200  # of a value as written
YEARS = range(1970, 2200)  # of time stamps
LEAST_MILLISECONDS = 10**11  # seconds since 1970 are fewer for the next three thousand years
LARGEST_COUNT = 2**53  # milliseconds, bytes or tokens
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=LARGEST_COUNT)]
Parsed = TypeVar("Parsed", bound=msgspec.Struct)


class ForeignObject(msgspec.Struct, frozen=True, gc=False):
    """The known fields of a foreign object.

    `changed` are members that were not read as they are written: name, value as written, and what became of it. No
    key of a log can set it, see `struct_reader`.
    """

    changed: tuple[tuple[str, bytes, str], ...] = msgspec.field(default=(), name="(changed)")


class ForeignEntry(ForeignObject, frozen=True, gc=False):
    """A line, or what a line reports of another one."""

    timestamp: str | None = None


def is_blank(raw: bytes) -> bool:
    return not raw or raw.isspace()


def storable(text: str) -> str:
    """Writes a NUL and lone surrogates as ⟨U+0000⟩, because text columns refuse both.

    No two texts become one: the bracket of a text that already has this form is written so too.
    """
    if text.isascii() and "\0" not in text:
        return text
    return _REFUSED.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text)


def valid_timestamp(text: str | None) -> str | None:
    """Returns `text` when it is a point in time (ISO 8601) of the years that a store keeps, else None."""
    instant = parse_instant(text) if text is not None else None
    return text if instant is not None and instant.year in YEARS else None


def epoch_time(seconds: float) -> str | None:
    """The ISO time of seconds, or of milliseconds, since 1970; None outside of the years that a store keeps."""
    if not 0 < seconds < 10**14:
        return None
    moment = datetime.fromtimestamp(seconds / 1000 if seconds > LEAST_MILLISECONDS else seconds, UTC)
    return moment.isoformat() if moment.year in YEARS else None


def read_json_lines(lines: Iterable[SourceLine], state: dict[str, object]) -> Iterator[SourceLine | LineProblem]:
    """Yields the lines that may be JSON, without blank lines and byte order mark, and problems for the others.

    A file that begins with one document spread over many lines is refused as a whole, with one problem.
    """
    lines = iter(lines)
    for line in lines:
        raw = line.raw.removeprefix(BYTE_ORDER_MARK) if line.offset == 0 else line.raw
        if is_blank(raw):
            continue
        if "one_document" not in state:
            state["one_document"] = _opens_document(raw)
        if state["one_document"]:
            yield LineProblem(
                line=line.number,
                path="$",
                reason="one JSON document over many lines; expected one object per line",
                raw=line.raw,
                lines=1 + sum(not is_blank(rest.raw) for rest in lines),
            )
            return
        try:
            check_json(raw)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        yield from _separate_objects(line, raw)


def _separate_objects(line: SourceLine, raw: bytes) -> Iterator[SourceLine | LineProblem]:
    """Yields the line, or each of the objects on it when a writer lost the line ends between them."""
    objects = split_objects(raw)
    if len(objects) == 1:
        yield SourceLine(line.number, line.offset, raw)
        return
    start = 0
    for content in objects:
        start = raw.index(content, start)
        yield SourceLine(line.number, line.offset + start, content)
        start += len(content)
    number = len(objects)
    reason = f"{number} JSON objects on one line, without a line end between them; each was read by itself"
    yield LineProblem(
        line=line.number, path="$", reason=reason, raw=line.raw, part=True, is_lossless=True, objects=number
    )


def _opens_document(raw: bytes) -> bool:
    """A lone bracket, or an array that does not end on its line. A cut object is a cut line of JSONL."""
    first = raw.strip()
    if not first.startswith(b"["):
        return first == b"{"
    try:
        parse_json(first)
    except Untrusted:
        return True
    return False


def may_be_refused(raw: bytes) -> bool:
    """Checks a JSON slice for a NUL, which JSON writes as this escape only, and for the form that `storable` gives.

    Searching a slice is cheaper than checking every decoded name. Both need an escape, or a character beyond ASCII. The
    zeros and the plus first, which Python finds sooner than an escape: 0.8 ns a byte instead of 1.3.
    """
    has_nul = b"0000" in raw and b"\\u0000" in raw
    has_form = b"+" in raw and _CODE_POINT.search(raw) is not None
    return has_nul or (has_form and not (raw.isascii() and b"\\u" not in raw))


def struct_reader(struct: type[Parsed], *, is_payload: bool = False) -> Callable[[bytes | msgspec.Raw], Parsed]:
    """Returns a function that parses a JSON object into `struct`. It raises Untrusted for any other JSON.

    A field that may be large is `msgspec.Raw`: its own bytes, not decoded. A field of the wrong type counts as
    absent and never refuses its line. Repeated keys of a call's payload are remarks on the call, and none here.
    """
    decode = msgspec.json.Decoder(struct).decode
    fields = [field for field in msgspec.structs.fields(struct) if field.name != "changed"]
    is_noted = issubclass(struct, ForeignObject)

    def read(raw: bytes | msgspec.Raw) -> Parsed:
        slice_ = bytes(raw)
        repeated = repeated_members(slice_) if is_noted and not is_payload else []
        if not repeated and not may_be_refused(slice_):
            with suppress(ValueError, RecursionError):  # msgspec's errors, and invalid UTF-8 in a name
                parsed = decode(slice_)
                if not (isinstance(parsed, ForeignObject) and parsed.changed):
                    return parsed
        changed = [(name, value, "the last value of this key is read") for name, value in repeated]
        values = _read_fields(slice_, fields, changed)
        return struct(**values, changed=tuple(changed)) if is_noted else struct(**values)

    return read


def _read_fields(
    raw: bytes, fields: Iterable[msgspec.structs.FieldInfo], changed: list[tuple[str, bytes, str]]
) -> dict[str, Any]:
    """The fields that have a possible value; `changed` gets those that have none or are written in another way."""
    slices, values = object_slices(raw), dict[str, Any]()
    for field in fields:
        if (value := slices.get(field.encode_name)) is None:
            continue
        try:
            values[field.name] = _convert(value, field.type)
        except (msgspec.ValidationError, Untrusted) as error:
            is_out_of_range = isinstance(error, msgspec.ValidationError) and ", got " not in str(error)
            reason = "not a possible number" if is_out_of_range else "wrong type"
            changed.append((field.encode_name, value, f"left out: {reason}"))
            continue
        if isinstance(values[field.name], str) and values[field.name] != parse_json(value):
            changed.append((field.encode_name, value, "shown with ⟨U+…⟩ for what no text column stores"))
    return values


def may_name(head: bytes, *words: bytes) -> bool:
    """False where no line has a name or a text that is one of these words. JSON may write them with escapes too."""
    return b"\\u" in head or any(b'"' + word + b'"' in head for word in words)


def parsed_lines(head: bytes, read: Callable[[bytes], Parsed]) -> Iterator[Parsed]:
    """Parses the lines at the beginning of a file, without those that are not JSON objects.

    By the brackets at first: an indented document has thousands of lines that are none.
    """
    for raw in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        line = raw.strip()
        if line.startswith(b"{") and line.endswith(b"}"):
            with suppress(Untrusted):
                yield read(raw)


def first_byte(raw: msgspec.Raw) -> bytes:
    """The first byte of a JSON value, which shows its type; empty where there is no value."""
    return bytes(memoryview(raw)[:1])


def _convert(raw: bytes, type_: Any) -> Any:
    """Raises msgspec.ValidationError and Untrusted."""
    if type_ is msgspec.Raw:
        return msgspec.Raw(raw)
    value = parse_json(raw)
    return msgspec.convert(storable(value) if isinstance(value, str) else value, type_)


def remark(
    kind: RemarkKind,
    path: str,
    was: bytes,
    became: str,
    *,
    line: int,
    run: str,
    call: str | None = None,
    owner: str | None = None,
) -> RemarkRecord:
    text = storable(was[:REMARK_BYTES].decode("utf-8", "replace"))
    return RemarkRecord(line=line, run=run, call=call, owner=owner, kind=kind, path=path, was=text, became=became)


def change_remarks(
    fields: ForeignObject, path: str, *, line: int, run: str, call: str | None = None
) -> Iterator[RemarkRecord]:
    """Yields a remark for each member that was not read as it is written; `path` is that of the object."""
    for name, raw, became in fields.changed:
        yield remark("value", f"{path}.{name}", raw, became, line=line, run=run, call=call)


def entry_remarks(
    entry: ForeignEntry, records: Iterable[Record | LineProblem], path: str = "$", *, line: int, run: str
) -> Iterator[RemarkRecord]:
    """Yields a remark for each changed member, and for a time stamp that names no certain point in time.

    `records` are those of the entry: where it asks or answers calls, the remark is on each of them.
    """
    calls = [record.call for record in records if isinstance(record, CallRecord | ReceiptRecord)]
    for call in dict.fromkeys(calls) or (None,):
        yield from change_remarks(entry, path, line=line, run=run, call=call)
        text = entry.timestamp
        if text is None or not (became := changed_time(text)):
            continue
        was = text.encode("utf-8", "surrogatepass")
        yield remark("timestamp", f"{path}.timestamp", was, became, line=line, run=run, call=call)


def changed_time(text: str) -> str:
    """Describes what a time stamp became; empty for one that is read as it is written."""
    instant = parse_instant(text)
    if instant is None:
        return "left out: no time"
    if instant.year not in YEARS:
        return f"left out: not of the years {YEARS[0]} to {YEARS[-1]}"
    if _ORDINARY_TIME.fullmatch(text):
        return ""
    changes = {
        "read as the first moment of the next minute: a leap second": ":60" in text,
        "taken as UTC: it has no offset": not (text.endswith("Z") or has_offset(text)),
        "cut to microseconds": _NANOSECONDS.search(text) is not None,
    }
    return "; ".join(change for change, holds in changes.items() if holds)
