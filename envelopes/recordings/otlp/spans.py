"""Decodes OTLP trace requests, protobuf or JSON, into the same spans whichever it was.

JSON is read by hand: its ids are hexadecimal, where protobuf's own JSON reader expects base64 and gives another id
without an error; its 64-bit integers are strings.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.text.untrusted_json import Untrusted, dump_json, join_object, parse_json

EPOCH = datetime(1970, 1, 1)
LATEST = 7_000_000_000_000_000  # microseconds: the year 2191
MOST_DEPTH = 40  # of values within values
Attributes: TypeAlias = dict[str, Any]
ERROR_STATUS = 2


class SpanEvent(msgspec.Struct, frozen=True):
    name: str
    attributes: Attributes


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Ids are hexadecimal; `start` and `end` are microseconds since 1970; `scope` is the instrumentation's name."""

    trace: str
    span: str
    parent: str
    name: str
    start: int
    end: int
    status: int
    status_message: str
    attributes: Attributes
    events: tuple[SpanEvent, ...]
    resource: Attributes
    scope: str


class TraceLine(msgspec.Struct, frozen=True):
    """A line of ours, in one of our formats.

    `key` identifies its content, `at` is its time in microseconds where the key does not have it.
    """

    raw: bytes
    key: bytes
    at: int = 0
    format: str = "otlp"


class Unavailable(RuntimeError):
    """A package that reads a format is not installed; the message names the extra."""


def trace_line(members: dict[str, bytes], at: int = 0) -> TraceLine:
    """A line whose key is of all its members."""
    raw = join_object(members)
    return TraceLine(raw, hashlib.blake2b(raw, digest_size=16).digest(), at)


def earliest_lines(lines: Iterable[TraceLine]) -> list[TraceLine]:
    """Each of the lines once, at its earliest time: a request repeats the messages of the one before it."""
    earliest: dict[bytes, TraceLine] = {}
    for line in lines:
        known = earliest.get(line.key)
        earliest[line.key] = line if known is None or line.at < known.at else known
    return list(earliest.values())


def json_spans(document: Any) -> list[TraceSpan]:
    """The spans of an ExportTraceServiceRequest in JSON, of which an empty one has none. Raises Untrusted."""
    if not isinstance(document, dict) or (document and "resourceSpans" not in document):
        raise Untrusted("no resourceSpans: not an OTLP trace request")
    spans = []
    for resource in objects_in(document, "resourceSpans"):
        owner = json_attributes(_object(resource, "resource"))
        for scoped in objects_in(resource, "scopeSpans"):
            scope = scope_name(scoped)
            read = (span for span in objects_in(scoped, "spans") if not has_lost_attributes(span))
            spans += [_json_span(span, owner, scope) for span in read]
    return spans


def has_lost_attributes(span: dict[str, Any]) -> bool:
    """True for a span in JSON that has attributes of which none can be read: what it is a span of is not known."""
    pairs = span.get("attributes")
    if pairs is None or pairs == []:
        return False
    return all(is_odd_value(pair.get("value")) or not isinstance(pair.get("key"), str) for pair in objects_of(pairs))


def is_odd_value(value: object) -> bool:
    """True for what is no AnyValue in JSON, or has a content that is not of its kind. An empty one is null."""
    return value not in (None, {}) and json_value(value) is None


def scope_name(scoped: dict[str, Any]) -> str:
    """The instrumentation of the spans or log records of one scope in JSON."""
    return _text(_object(scoped, "scope"), "name")


def _json_span(span: dict[str, Any], resource: Attributes, scope: str) -> TraceSpan:
    status = _object(span, "status")
    events = [SpanEvent(_text(event, "name"), json_attributes(event)) for event in objects_in(span, "events")]
    return TraceSpan(
        trace=_text(span, "traceId").lower(),
        span=_text(span, "spanId").lower(),
        parent=_text(span, "parentSpanId").lower(),
        name=_text(span, "name"),
        start=nanoseconds(span.get("startTimeUnixNano")) // 1_000,
        end=nanoseconds(span.get("endTimeUnixNano")) // 1_000,
        status=_status_code(status.get("code")),
        status_message=_text(status, "message"),
        attributes=json_attributes(span),
        events=tuple(events),
        resource=resource,
        scope=scope,
    )


def objects_in(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return objects_of(owner.get(name))


def objects_of(values: Any) -> list[dict[str, Any]]:
    """The objects of a list; nothing of another value."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def parsed_text(value: Any) -> Any:
    """The value of a text of JSON, None for another text or one that the exporter cut; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode("utf-8", "surrogatepass"))
    except Untrusted:
        return None


def as_text(value: Any) -> str | None:
    """The inverse of `parsed_text`: a text as it is, another value as JSON; None for None."""
    return value if isinstance(value, str) or value is None else dump_json(value).decode()


def _object(owner: dict[str, Any], name: str) -> dict[str, Any]:
    value = owner.get(name)
    return value if isinstance(value, dict) else {}


def _text(owner: dict[str, Any], name: str) -> str:
    value = owner.get(name)
    return value if isinstance(value, str) else ""


def nanoseconds(value: object) -> int:
    digits = str(value) if isinstance(value, (int, str)) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else 0


def _status_code(value: object) -> int:
    return ERROR_STATUS if value in (ERROR_STATUS, "STATUS_CODE_ERROR") else 0


def json_attributes(owner: dict[str, Any]) -> Attributes:
    pairs = objects_in(owner, "attributes")
    return {_text(pair, "key"): json_value(pair.get("value"), 0) for pair in pairs}


def json_value(value: object, depth: int = 0) -> Any:
    """A value of AnyValue; None for one that has no known kind."""
    if not isinstance(value, dict) or depth > MOST_DEPTH:
        return None
    for kind, content in value.items():
        match kind, content:
            case ("stringValue", str()) | ("boolValue", bool()):
                return content
            case ("intValue", int() | str()):
                return _integer(content)
            case ("doubleValue", int() | float()):
                return float(content)
            case ("bytesValue", str()):
                return content
            case ("arrayValue", dict()):
                return [json_value(item, depth + 1) for item in objects_in(content, "values")]
            case ("kvlistValue", dict()):
                pairs = objects_in(content, "values")
                return {_text(pair, "key"): json_value(pair.get("value"), depth + 1) for pair in pairs}
    return None


def _integer(value: int | str) -> int | None:
    digits = str(value)
    is_number = digits.lstrip("-").isascii() and digits.lstrip("-").isdigit() and len(digits) <= 20
    return int(digits) if is_number else None


class RequestType:
    """The message type of a request, of which what is damaged is refused as other foreign bytes are."""

    def __init__(self, message: Any, refused: type[Exception]) -> None:
        self._message, self._refused = message, refused

    def FromString(self, body: bytes) -> Any:
        """Raises Untrusted."""
        try:
            return self._message.FromString(body)
        except self._refused as error:
            raise Untrusted(f"not an OTLP request: {error}") from None


def request_type(signal: Literal["trace", "logs"]) -> RequestType:
    """Raises Unavailable without the package."""
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise Unavailable("Protobuf needs the extra otlp: pip install 'counterfoil[otlp]'. JSON works.") from None
    return RequestType(ExportTraceServiceRequest if signal == "trace" else ExportLogsServiceRequest, DecodeError)


def decode_protobuf(body: bytes) -> list[TraceSpan]:
    """The spans of an ExportTraceServiceRequest in protobuf. Raises Untrusted, and Unavailable without its package."""
    request = request_type("trace").FromString(body)
    return [
        _protobuf_span(span, protobuf_attributes(resource.resource.attributes), scoped.scope.name)
        for resource in request.resource_spans
        for scoped in resource.scope_spans
        for span in scoped.spans
    ]


def sniff_protobuf(head: bytes, _path: object) -> bool:
    """Follows an ExportTraceServiceRequest to its first span, which begins with ids of 16 and of 8 bytes.

    Nothing else begins so: the lengths of three messages have to fit into each other on the way.
    """
    span = _first_field(head, 1)  # of the request: a ResourceSpans
    for wanted in (2, 2):  # of that: a ScopeSpans, and of that: a Span
        span = _first_field(span, wanted)
    return span[:2] == b"\n\x10" and span[18:20] == b"\x12\x08" and len(span) > 28


def _first_field(message: bytes, wanted: int) -> bytes:
    """The content of the first field with this number, as far as it is there; empty without one.

    The fields before it have to be of known length, as those of a request are.
    """
    at = 0
    while at < len(message):
        number, kind = message[at] >> 3, message[at] & 7
        if kind != 2 or not 1 <= number <= 3:
            return b""
        length, at = _varint(message, at + 1)
        if number == wanted:
            return message[at : at + length] if length else b""
        at += length
    return b""


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of up to five bytes, and where it ends; a length that fits nowhere where it is none."""
    value = 0
    for place in range(5):
        byte = message[at + place] if at + place < len(message) else 0x80
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    return 2**35, len(message)


def _protobuf_span(span: Any, resource: Attributes, scope: str) -> TraceSpan:
    return TraceSpan(
        trace=span.trace_id.hex(),
        span=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        start=span.start_time_unix_nano // 1_000,
        end=span.end_time_unix_nano // 1_000,
        status=ERROR_STATUS if span.status.code == ERROR_STATUS else 0,
        status_message=span.status.message,
        attributes=protobuf_attributes(span.attributes),
        events=tuple(SpanEvent(event.name, protobuf_attributes(event.attributes)) for event in span.events),
        resource=resource,
        scope=scope,
    )


def protobuf_attributes(pairs: Any) -> Attributes:
    return {pair.key: protobuf_value(pair.value, 0) for pair in pairs}


def protobuf_value(value: Any, depth: int = 0) -> Any:
    """A value of AnyValue, as `json_value` reads it."""
    kind = value.WhichOneof("value")
    if kind is None or depth > MOST_DEPTH:
        return None
    if kind == "array_value":
        return [protobuf_value(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: protobuf_value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind)


@lru_cache(maxsize=1_024)  # a span's own times are those of several records
def iso_time(at: int) -> str | None:
    """The time of microseconds since 1970; None for what is no time."""
    if not 0 < at < LATEST:
        return None
    return (EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds") + "Z"


def encode_protobuf_answer(rejected: int, sentence: str, signal: Literal["trace", "logs"] = "trace") -> bytes:
    """An ExportTraceServiceResponse, or that of logs; empty where nothing was rejected."""
    if not rejected:
        return b""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    answer: Any = ExportTraceServiceResponse() if signal == "trace" else ExportLogsServiceResponse()
    setattr(answer.partial_success, "rejected_spans" if signal == "trace" else "rejected_log_records", rejected)
    answer.partial_success.error_message = sentence
    return bytes(answer.SerializeToString())
