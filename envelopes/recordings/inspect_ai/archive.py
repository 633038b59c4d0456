"""The `.eval` archives of Inspect: members that are read one at a time, within limits that are checked while reading.

Python's zipfile reads deflate alone; members with zstd (method 93) are found by their headers and unpacked by pyzstd.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import LineProblem, Record, RunRecord, SourceLine, SourcePath
from envelopes.recordings.documents import DocumentValue, JsonDocument, place_records, unpack_zstd
from envelopes.recordings.inspect_ai.log import eval_facts, sample_records
from envelopes.text.untrusted_json import Untrusted

MEMBER_BYTES = 64 * 1024 * 1024  # of one member, unpacked
TOTAL_BYTES = 512 * 1024 * 1024
MOST_MEMBERS = 20_000
_ZSTD = 93
_LOCAL_HEADER = 30  # bytes before the name
_BEGINNING = b"PK\x03\x04"
_HEADER, _START = "header.json", "_journal/start.json"
_MARKS = (_START.encode(), _HEADER.encode())


def sniff(head: bytes, path: SourcePath) -> bool:
    """An archive whose first members are those of an evaluation."""
    return head.startswith(_BEGINNING) and any(mark in head for mark in _MARKS)


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Iterator[Record | LineProblem]:
    document = JsonDocument(lines)
    if not document.raw:
        return
    first = document.lines[0]
    try:
        archive = zipfile.ZipFile(io.BytesIO(document.raw))
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise Untrusted(f"more than {MOST_MEMBERS:,} members")
        yield from _read_members(archive, document.raw, first.number)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:  # Untrusted is a ValueError
        reason = error.reason if isinstance(error, Untrusted) else f"not a whole archive ({error})"
        yield LineProblem(line=first.number, path="$", reason=reason, raw=b"", lines=max(1, len(document.lines)))


def _read_members(archive: zipfile.ZipFile, raw: bytes, line: int) -> Iterator[Record | LineProblem]:
    names = archive.namelist()
    header = next((name for name in (_HEADER, _START) if name in names), None)
    room = TOTAL_BYTES
    facts, head = None, None
    samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    records: list[Record | LineProblem] = []
    for name in [*([header] if header else []), *samples]:
        try:
            content = unpack(raw, archive.getinfo(name), min(MEMBER_BYTES, room))
            room -= len(content)
            value = JsonDocument([SourceLine(line, 0, content)]).parse()
            if not isinstance(value, DocumentValue):
                raise Untrusted(value.reason if value else "the member is empty")
            if name == header:
                facts, head = eval_facts(value), value
            else:
                sample = sample_records(value, facts or eval_facts(value))
                run = next((record.run for record in sample if isinstance(record, RunRecord)), "")
                records += [*sample, *(head.document.take_remarks(run) if head else ())]
        except Untrusted as refusal:
            reason = f"{name}: {refusal.reason}"
            records.append(LineProblem(line=line, path=refusal.path, reason=reason, raw=b"", part=True))
    parts = [
        msgspec.structs.replace(record, part=True) if isinstance(record, LineProblem) else record for record in records
    ]
    yield from place_records(parts, by_lines=False)


def unpack(raw: bytes, member: zipfile.ZipInfo, limit: int) -> bytes:
    """The bytes of a member. Raises Untrusted where they are more than `limit`, damaged, or packed in another way."""
    start = member.header_offset
    lengths = raw[start + 26 : start + _LOCAL_HEADER]
    if raw[start : start + 4] != _BEGINNING or len(lengths) < 4:
        raise Untrusted("its header is damaged")
    start += _LOCAL_HEADER + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    packed = raw[start : start + member.compress_size]
    match member.compress_type:
        case zipfile.ZIP_STORED:
            content = packed[: limit + 1]
        case zipfile.ZIP_DEFLATED:
            content = _inflate(packed, limit)
        case method if method == _ZSTD:
            content = unpack_zstd(packed, limit)
        case method:
            raise Untrusted(f"compressed by method {method}, which is not read")
    if len(content) > limit:
        raise Untrusted(f"longer than {limit:,} bytes when unpacked")
    if zlib.crc32(content) != member.CRC:
        raise Untrusted("its checksum does not fit: the archive is damaged")
    return content


def _inflate(packed: bytes, limit: int) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit + 1)
    except zlib.error as error:
        raise Untrusted(f"it cannot be unpacked ({error})") from None
