"""Writes calls as CSV, JSON lines or Parquet: their metadata, both halves, and the segments of each receipt.

    export_calls(query.calls_in(project), "jsonl", masks=masks)          bytes in pieces, for a download or a file

A row is the same in each form. Payloads are the recorded bytes as text: `arguments`, `result` and `receipt_json` are
JSON as it was recorded, `canonical` is the stored envelope, `receipt` the exact text that the model got. `segments` has
the stretches of that text and the places that they come from, in characters; a list of structures in Parquet and
JSON, a JSON text in CSV. With `masks` each text is masked by itself; masks are as long as what they cover, so that the
segments fit the masked text too. A call that is not counted yet is counted for its row; nothing is stored.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from django.conf import settings

from dashboard.audit import escape_cell
from dashboard.evidence.call_evidence import CallEvidence, iterate_evidence
from dashboard.ingest.compute_derived import count_calls
from dashboard.models import Call
from dashboard.models.runs import CallQuerySet
from dashboard.text.masks import Masks
from envelopes.text.untrusted_json import visible

if TYPE_CHECKING:
    import pyarrow

Row: TypeAlias = dict[str, Any]
Segment: TypeAlias = dict[str, Any]


class CannotExport(ValueError):
    """The sentence is for the operator."""


class ExportColumn(NamedTuple):
    """`kind` is text, integer, flag, time or segments; `value` reads a call, or its evidence where it `is_payload`."""

    name: str
    kind: str
    value: Callable[[Any], Any]
    is_payload: bool = False


def _metadata(kind: str, *names: str) -> Iterator[ExportColumn]:
    for name in names:
        yield ExportColumn(name, kind, lambda call, name=name: getattr(call, name))  # type: ignore[misc]


COLUMNS = (
    ExportColumn("call", "text", lambda call: str(call.pk)),
    ExportColumn("call_id", "text", lambda call: call.external_id),
    ExportColumn("run", "text", lambda call: str(call.run_id)),
    ExportColumn("run_id", "text", lambda call: call.run.external_id),
    ExportColumn("run_title", "text", lambda call: call.run.title),
    *(
        ExportColumn(name, "text", lambda call, name=name: getattr(call.run, name))  # type: ignore[misc]
        for name in ("agent", "model", "branch")
    ),
    *_metadata("text", "tool", "family", "outcome"),
    *_metadata("integer", "exit_status"),
    *_metadata("text", "error_kind", "summary", "risk", "reason"),
    *_metadata("integer", "attempt"),
    *_metadata("time", "started_at", "ended_at"),
    *_metadata("integer", "duration_ms", "tool_ms"),
    *_metadata("text", "result_fidelity", "receipt_fidelity", "author"),
    *_metadata("flag", "is_cut"),
    *_metadata("integer", "output_lines", "seen_lines", "unseen_lines"),
    *_metadata("integer", "receipt_characters", "tokens"),
    *_metadata("text", "token_certainty"),
    ExportColumn("arguments", "text", lambda evidence: _decode(evidence.bytes_of("args")), is_payload=True),
    ExportColumn("result", "text", lambda evidence: _decode(evidence.result), is_payload=True),
    # The envelope of a call without an answer would claim a success.
    ExportColumn(
        "canonical",
        "text",
        lambda evidence: _decode(evidence.canonical) if evidence.is_answered else None,
        is_payload=True,
    ),
    # True where our own projection shortened the envelope: `result` has more.
    ExportColumn(
        "canonical_is_shortened",
        "flag",
        lambda evidence: evidence.is_bounded if evidence.is_answered else None,
        is_payload=True,
    ),
    ExportColumn("receipt_json", "text", lambda evidence: _decode(evidence.content), is_payload=True),
    ExportColumn(
        "receipt",
        "text",
        lambda evidence: evidence.halves.receipt.text if evidence.halves.receipt else None,
        is_payload=True,
    ),
    ExportColumn("segments", "segments", lambda evidence: list(_list_segments(evidence)), is_payload=True),
)
COLUMN_BY_NAME = {column.name: column for column in COLUMNS}
SEGMENT_FIELDS = {
    "start": "integer",
    "end": "integer",
    "role": "text",
    "document": "text",
    "pointer": "text",
    "source_start": "integer",
    "source_end": "integer",
}


def choose_export_columns(names: Sequence[str]) -> tuple[ExportColumn, ...]:
    """The columns in the given order, all of them without a name. Raises CannotExport."""
    if unknown := [name for name in names if name not in COLUMN_BY_NAME]:
        raise CannotExport(f"There is no column {unknown[0]!r}; there are {', '.join(COLUMN_BY_NAME)}.")
    return tuple(COLUMN_BY_NAME[name] for name in dict.fromkeys(names)) or COLUMNS


def export_calls(
    calls: CallQuerySet, form: str, columns: Sequence[ExportColumn] = COLUMNS, masks: Masks | None = None
) -> Iterator[bytes]:
    """The file in pieces, newest calls first. Raises CannotExport at once, DamagedEvidence while it is read."""
    if form == "parquet":
        load_pyarrow()
    rows = iterate_rows(calls, columns, masks)
    return FORMS[form].write(rows, columns)


def iterate_rows(calls: CallQuerySet, columns: Sequence[ExportColumn], masks: Masks | None) -> Iterator[Row]:
    """The calls that there are now: 16 bytes of each in memory, and a few with their payloads."""
    keys = b"".join(key.bytes for key in calls.newest_first().values_list("pk", flat=True).iterator(chunk_size=2_000))
    has_payloads = any(column.is_payload for column in columns)
    for start in range(0, len(keys), settings.EXPORTED_AT_ONCE * 16):
        portion = keys[start : start + settings.EXPORTED_AT_ONCE * 16]
        ids = [UUID(bytes=portion[offset : offset + 16]) for offset in range(0, len(portion), 16)]
        for call, evidence in _load_pairs(ids, has_payloads=has_payloads):
            if masks is not None:
                masks.renew()
            yield {
                column.name: _clean(column.value(evidence if column.is_payload else call), masks) for column in columns
            }


def _load_pairs(ids: Sequence[UUID], *, has_payloads: bool) -> Iterator[tuple[Call, CallEvidence | None]]:
    if has_payloads:
        for evidence in iterate_evidence(ids):
            count_calls([evidence.call])
            yield evidence.call, evidence
        return
    stored = Call.objects.with_run_and_source().in_bulk(ids)
    count_calls(stored.values())
    yield from ((stored[key], None) for key in ids if key in stored)


def _decode(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _list_segments(evidence: CallEvidence) -> Iterator[Segment]:
    receipt, start = evidence.halves.receipt, 0
    for segment in receipt.segments if receipt else ():
        end, source = start + len(visible(segment.text)), segment.source
        yield {
            "start": start,
            "end": end,
            "role": segment.role,
            "document": source.document if source else None,
            "pointer": source.pointer if source else None,
            "source_start": source.start if source else None,
            "source_end": source.end if source else None,
        }
        start = end


def _clean(value: Any, masks: Masks | None) -> Any:
    """Texts masked, and as every encoding can carry them: a lone surrogate is written as its escape."""
    if isinstance(value, str):
        return visible(masks.mask(value) if masks else value)
    if isinstance(value, list):
        pointers = {segment["pointer"] for segment in value}
        cleaned = {pointer: _clean(pointer, masks) for pointer in pointers}
        return [{**segment, "pointer": cleaned[segment["pointer"]]} for segment in value]
    return value


def write_json_lines(rows: Iterable[Row], _columns: Sequence[ExportColumn]) -> Iterator[bytes]:
    for row in rows:
        yield msgspec.json.encode(row) + b"\n"


def write_csv(rows: Iterable[Row], columns: Sequence[ExportColumn]) -> Iterator[bytes]:
    """A text that a spreadsheet would compute begins with an apostrophe; nothing is an empty cell."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([column.name for column in columns])
    for row in rows:
        writer.writerow([_cell(value) for value in row.values()])
        yield file.getvalue().encode()
        file.seek(0)
        file.truncate()
    yield file.getvalue().encode()


def _cell(value: Any) -> Any:
    match value:
        case str():
            return escape_cell(value)
        case bool():
            return "true" if value else "false"
        case list():
            return msgspec.json.encode(value).decode()
        case datetime():
            return msgspec.to_builtins(value)
        case _:
            return value


def write_parquet(rows: Iterable[Row], columns: Sequence[ExportColumn]) -> Iterator[bytes]:
    """A row group of at most ROW_GROUP_CALLS calls at a time."""
    arrow = load_pyarrow()
    from pyarrow.parquet import ParquetWriter

    schema = build_schema(columns)
    sink = _Pieces()
    with ParquetWriter(arrow.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        for group in _group_rows(rows):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
            yield sink.take()
    yield sink.take()


class _Pieces(io.RawIOBase):
    """A file whose bytes are taken out as they come."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _group_rows(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    characters = 0
    for row in rows:
        group.append(row)
        characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(group) >= settings.ROW_GROUP_CALLS or characters >= settings.ROW_GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def build_schema(columns: Sequence[ExportColumn]) -> pyarrow.Schema:
    arrow = load_pyarrow()
    types = {
        "text": arrow.string(),
        "integer": arrow.int64(),
        "flag": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
    }
    types["segments"] = arrow.list_(arrow.struct([(name, types[kind]) for name, kind in SEGMENT_FIELDS.items()]))
    return arrow.schema([(column.name, types[column.kind]) for column in columns])


def load_pyarrow() -> Any:
    """The library, which is an extra. Raises CannotExport."""
    try:
        import pyarrow
    except ImportError:
        raise CannotExport("Parquet files need the extra: pip install 'counterfoil[parquet]'.") from None
    return pyarrow


class ExportForm(NamedTuple):
    title: str
    content_type: str
    write: Callable[[Iterable[Row], Sequence[ExportColumn]], Iterator[bytes]]


FORMS: Mapping[str, ExportForm] = {
    "csv": ExportForm("CSV", "text/csv; charset=utf-8", write_csv),
    "jsonl": ExportForm("JSON lines", "application/x-ndjson", write_json_lines),
    "parquet": ExportForm("Parquet", "application/vnd.apache.parquet", write_parquet),
}
