"""Reads what programs send over HTTP, and passes it on as batches of lines.

A body is checked before anything of it is stored: its length, its compression, and the size that it unpacks to. What
cannot be read raises BodyRefused with the status of the answer.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from gunicorn.http.errors import ParseException

from dashboard.api.answers import BYTES, JSON, PROTOBUF, IntakeLimits, StoredArtifact
from dashboard.artifacts.stores import SHA256
from dashboard.artifacts.upload_folders import reserve_upload_folder
from dashboard.ingest.live import (
    KEY_CHARACTERS,
    MOST_LINES,
    BatchAnswer,
    LiveBatch,
    LiveLine,
    RecordNames,
    Rejected,
    receive,
    split_lines,
)
from dashboard.ingest.sent_content import WrongContent, store_sent_content
from dashboard.middleware import comes_in_chunks
from dashboard.models import Project
from dashboard.text.formatting import format_size
from dashboard.text.responses import sandboxed
from dashboard.tokens import TokenRequest
from envelopes.recordings import TraceLine, Unavailable, decode_logs, decode_traces, encode_protobuf_answer
from envelopes.text.untrusted_json import Untrusted, check_json, dump_json, join_object, object_slices

TRACE_TYPES = (PROTOBUF, JSON)
RECORD_TYPES = ("application/x-ndjson", "application/jsonl", "application/json")
CONTENT_TYPES = (BYTES,)
GZIP = 31  # zlib's number for a header of gzip
HOOK_TYPES = (JSON,)
PIECE = 1_048_576
INVALID_ARGUMENT = 3
STATUS_CODES = {401: 16, 403: 7, 429: 8, 503: 14, 507: 8}  # of google.rpc.Code, by the status of HTTP


class BodyRefused(ValueError):
    """The status and the sentence of the answer to a body that is not stored."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def read_body(request: HttpRequest, *, may_be_empty: bool = False) -> bytes:
    """The whole body, unpacked. Raises BodyRefused."""
    data = _read_chunks(request) if comes_in_chunks(request) else _read_declared(request)
    if request.headers.get("Content-Encoding", "identity") == "gzip":
        data = _unpack(data)
    if not may_be_empty and not data.strip():
        raise BodyRefused(400, "The body is empty.")
    return data


def _read_declared(request: HttpRequest) -> bytes:
    data = request.read()  # not `body`, whose limit is that of forms
    expected = int(request.META.get("CONTENT_LENGTH") or 0)
    if len(data) != expected:
        raise BodyRefused(400, f"The body ended after {len(data):,} of {expected:,} bytes.")
    return data


def _read_chunks(request: HttpRequest) -> bytes:
    """Django reads as many bytes as the request declares, of which it declares none here."""
    most: int = settings.INTAKE_BODY_LIMIT_BYTES
    try:
        data: bytes = request.META["wsgi.input"].read(most + 1)
    except (OSError, ParseException):
        raise BodyRefused(400, "The body ended early, was sent too slowly, or is not in chunks.") from None
    if len(data) > most:
        raise BodyRefused(413, f"The body has more than {format_size(most)}.")
    return data


def _unpack(data: bytes) -> bytes:
    most: int = settings.INTAKE_UNPACKED_BYTES
    unpacked = bytearray()
    while data:
        stream = zlib.decompressobj(GZIP)
        try:
            unpacked += stream.decompress(data, most + 1 - len(unpacked))
        except zlib.error:
            raise BodyRefused(400, "The body is not gzip, or is damaged.") from None
        if len(unpacked) > most:
            raise BodyRefused(413, f"The body unpacks to more than {format_size(most)}.")
        if not stream.eof:
            raise BodyRefused(400, "The compressed body ends early.")
        data = stream.unused_data  # another member
    return bytes(unpacked)


def receive_records(request: TokenRequest) -> tuple[BatchAnswer, int]:
    """The answer to a body of native records, and its status. Raises BodyRefused and KeyReused."""
    body = read_body(request)
    lines = split_lines(request.project, "native", body)
    return _receive(request, "native", lines, body)


def receive_traces(request: TokenRequest) -> tuple[bytes, str]:
    """The answer to a trace request, and its content type, which is that of the request. Raises BodyRefused.

    A span of which a line was refused counts as rejected (partial success of OTLP); the others are stored.
    """
    return _receive_otlp(request, decode_traces, "trace")


def receive_logs(request: TokenRequest) -> tuple[bytes, str]:
    """The same for a log request, of which tool results and messages of agents are stored. Raises BodyRefused."""
    return _receive_otlp(request, decode_logs, "logs")


def _receive_otlp(
    request: TokenRequest, decode: Callable[..., list[TraceLine]], signal: Literal["trace", "logs"]
) -> tuple[bytes, str]:
    is_json = request.content_type == JSON
    body = read_body(request, may_be_empty=request.content_type == PROTOBUF)  # which is an empty request
    decoded = _decode(decode, body, is_json=is_json)
    rejected: list[Rejected] = []
    for name in sorted({line.format for line in decoded}):
        name_of = RecordNames(request.project, name)
        lines = [
            LiveLine(line.raw + b"\n", name_of(line.key, line.raw), number, 0, line.at)
            for number, line in enumerate(decoded, start=1)
            if line.format == name
        ]
        rejected += _receive(request, name, lines, body)[0].rejected
    return _otlp_answer(rejected, signal, is_json=is_json)


def _decode(decode: Callable[..., list[TraceLine]], body: bytes, *, is_json: bool) -> list[TraceLine]:
    """The lines of a request of OTLP. Raises BodyRefused."""
    try:
        return decode(body, is_json=is_json)
    except Untrusted as refusal:
        raise BodyRefused(400, f"{refusal.path}: {refusal.reason}") from None
    except Unavailable as missing:
        raise BodyRefused(415, str(missing)) from None


def _otlp_answer(rejected: list[Rejected], signal: Literal["trace", "logs"], *, is_json: bool) -> tuple[bytes, str]:
    """Partial success, in the encoding of the request."""
    sentence = "; ".join(dict.fromkeys(f"{entry.path}: {entry.reason}" for entry in rejected))[:1_000]
    if not is_json:
        return encode_protobuf_answer(len(rejected), sentence, signal), PROTOBUF
    count = "rejectedSpans" if signal == "trace" else "rejectedLogRecords"
    partial = {count: str(len(rejected)), "errorMessage": sentence}
    return msgspec.json.encode({"partialSuccess": partial} if rejected else {}), JSON


def write_status(response: HttpResponse) -> None:
    """Writes a refusal in JSON as OTLP asks for it in protobuf: a google.rpc.Status, 1 is its code, 2 its message."""
    message = msgspec.json.decode(response.content)["error"].encode()
    code = STATUS_CODES.get(response.status_code, INVALID_ARGUMENT)
    response.content = b"\x08%c\x12%s%s" % (code, _varint(len(message)), message)
    response.headers["Content-Type"] = PROTOBUF


def _varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    parts = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(part | 0x80 for part in parts[:-1]), parts[-1]])


def receive_hook(request: TokenRequest) -> tuple[BatchAnswer, int]:
    """The answer to one event of a Claude Code hook. Raises BodyRefused.

    The event gets the time of its arrival, because it has none; the same event sent again is known by its own bytes.
    """
    body = read_body(request).strip()
    try:
        check_json(body)
        members = object_slices(body)
    except Untrusted as refusal:
        raise BodyRefused(400, f"{refusal.path}: {refusal.reason}") from None
    now = timezone.now()
    members["received_at"] = dump_json(now.isoformat(timespec="microseconds").replace("+00:00", "Z"))
    raw = join_object(members).replace(b"\n", b" ") + b"\n"  # between tokens: within a text a line end is escaped
    digest = RecordNames(request.project, "claude-code-hooks")(body, body)
    return _receive(request, "claude-code-hooks", [LiveLine(raw, digest, 1)], body)


def _receive(request: TokenRequest, format_name: str, lines: list[LiveLine], body: bytes) -> tuple[BatchAnswer, int]:
    if len(lines) > MOST_LINES:
        raise BodyRefused(413, f"A batch has at most {MOST_LINES:,} records; this one has {len(lines):,}.")
    batch = LiveBatch(
        format=format_name, sha256=hashlib.sha256(body).hexdigest(), lines=lines, key=_idempotency_key(request)
    )
    answer = receive(request.project, batch)
    is_refused = bool(answer.rejected) and not (answer.accepted or answer.already_known)
    return answer, 422 if is_refused else 200


def _idempotency_key(request: HttpRequest) -> str:
    key: str = request.headers.get("Idempotency-Key", "")
    if len(key) > KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        raise BodyRefused(400, f"An Idempotency-Key has at most {KEY_CHARACTERS} printable ASCII characters.")
    return key


def receive_content(request: TokenRequest, sha256: str) -> StoredArtifact:
    """Stores the body as the content with that hash. Raises BodyRefused and StoreFailed."""
    if not SHA256.fullmatch(sha256):
        raise BodyRefused(400, "The address ends with a SHA-256: 64 hexadecimal digits in lower case.")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise BodyRefused(415, "Send the content as it is, without a Content-Encoding.")
    expected = int(request.META.get("CONTENT_LENGTH") or 0)
    with reserve_upload_folder(expected) as folder, (folder / "content").open("xb+") as file:
        while piece := request.read(PIECE):
            file.write(piece)
        file.flush()
        if file.tell() != expected:
            raise BodyRefused(400, f"The body ended after {file.tell():,} of {expected:,} bytes.")
        file.seek(0)
        try:
            return StoredArtifact(sha256, store_sent_content(request.project, sha256, file))
        except WrongContent as wrong:
            raise BodyRefused(422, str(wrong)) from None


def limits(project: Project) -> IntakeLimits:
    return IntakeLimits(
        project=project.slug,
        body_bytes=settings.INTAKE_BODY_LIMIT_BYTES,
        unpacked_bytes=settings.INTAKE_UNPACKED_BYTES,
        records_of_a_batch=MOST_LINES,
        artifact_bytes=settings.UPLOAD_LIMIT_BYTES,
        requests_a_minute=settings.TOKEN_REQUESTS_A_MINUTE,
        record_versions=[1],
        content_encodings=["identity", "gzip"],
    )


def json_response(value: Any, status: int = 200) -> HttpResponse:
    return sandboxed(HttpResponse(msgspec.json.encode(value), content_type="application/json", status=status))
