"""Log events of OTLP: results of tools that Claude Code and Codex report, and messages of other agents.

1. `claude_code.tool_result` names the session (`session.id`), the call (`tool_use_id`) and the tool, without content.
2. `codex.tool_result` names the conversation (`conversation.id`) and the call (`call_id`), with its arguments and the
   beginning of its output, which is neither half: it stays in the event.
3. The call is that of the agent's own recording, which it joins.
4. GenAI conventions up to 1.36 have each message as an event (`gen_ai.tool.message` and the like) with a body, later
   ones all messages of a request in one (`gen_ai.client.inference.operation.details`). Both have the parts that the
   span of a model has, and become the same lines. Their run is the conversation, else the trace that they belong to.
5. Other events are left out.
6. A file of log requests has one format, by the first of its events that are known: that of an agent, or of messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    Record,
    ResultRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, read_json_lines
from envelopes.recordings.otlp import FORMATS
from envelopes.recordings.otlp import read as read_spans
from envelopes.recordings.otlp.claude_code_spans import SCOPE, SPANS, attribute_text, span_records
from envelopes.recordings.otlp.conventions import MESSAGE_EVENTS, OPERATION, run_name
from envelopes.recordings.otlp.frameworks import as_genai
from envelopes.recordings.otlp.span_lines import decode_traces, find_answer, is_internal, part_lines, span_parts
from envelopes.recordings.otlp.spans import (
    Attributes,
    SpanEvent,
    TraceLine,
    TraceSpan,
    earliest_lines,
    iso_time,
    json_attributes,
    json_value,
    nanoseconds,
    objects_in,
    parsed_text,
    protobuf_attributes,
    protobuf_value,
    request_type,
    scope_name,
)
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices, parse_json

EVENTS = {"claude_code.tool_result": "claude-code", "codex.tool_result": "codex"}
RUN = {"claude-code": "session.id", "codex": "conversation.id"}
CALL = {"claude-code": ("tool_use_id", "gen_ai.tool.call.id"), "codex": ("call_id",)}
SUFFIX = "-otel"
POLL = "write_stdin"
# The lines that Codex writes before the output, which may quote such a status.
_FAILED = re.compile(r"(?:(?:Command|Chunk ID|Wall time): [^\n]*\n)*(?:Process exited with code|Exit code:) -?[1-9]")
MESSAGES = "otlp"  # the format of lines of messages


class LogRecord(msgspec.Struct, frozen=True):
    """`at` are microseconds since 1970, `trace` is the trace to which the record belongs, empty for none.

    `scope` is the instrumentation's name.
    """

    name: str
    at: int
    trace: str
    attributes: Attributes
    body: Any
    scope: str


def decode_logs(body: bytes, *, is_json: bool) -> list[TraceLine]:
    """The tool results and messages in a log request. Raises Untrusted, and Unavailable (spans.py)."""
    records = list(_json_logs(body) if is_json else _protobuf_logs(body))
    lines = [line for record in records for line in _result_lines(record)]
    return [*lines, *earliest_lines(line for record in records for line in _message_lines(record))]


def _result_lines(record: LogRecord) -> Iterator[TraceLine]:
    event = f"claude_code.{record.name}" if record.name == "tool_result" else record.name
    if (agent := EVENTS.get(event)) is not None:
        attributes = dict(sorted(record.attributes.items()))
        raw = dump_json({"otel_event": event, "at": record.at, "attributes": attributes})
        yield TraceLine(raw, hashlib.blake2b(raw, digest_size=16).digest(), 0, f"{agent}{SUFFIX}")


def _message_lines(record: LogRecord) -> Iterator[TraceLine]:
    if record.name not in MESSAGE_EVENTS and record.name != OPERATION:
        return iter(())
    body = parsed_text(record.body)  # Semantic Kernel has the message as a text of JSON
    fields = body if isinstance(body, dict) else {}
    span = TraceSpan(
        trace=record.trace,
        span="",
        parent="",
        name=record.name,
        start=record.at,
        end=record.at,
        status=0,
        status_message="",
        attributes=record.attributes,
        events=(SpanEvent(record.name, record.attributes | fields),),
        resource={},
        scope=record.scope,
    )
    named = None if is_internal(span) else as_genai(span)
    if named is None:
        return iter(())
    parts = span_parts(named)
    return part_lines(run_name(named), parts, named.start, find_answer(named, parts), {})


def _json_logs(body: bytes) -> Iterator[LogRecord]:
    document = parse_json(body)
    if not isinstance(document, dict) or (document and "resourceLogs" not in document):
        raise Untrusted("no resourceLogs: not an OTLP log request")
    for resource in objects_in(document, "resourceLogs"):
        for scoped in objects_in(resource, "scopeLogs"):
            for record in objects_in(scoped, "logRecords"):
                attributes, content = json_attributes(record), json_value(record.get("body"))
                name = _event_name(record.get("eventName"), attributes, content)
                at = nanoseconds(record.get("timeUnixNano")) or nanoseconds(record.get("observedTimeUnixNano"))
                trace = str(record.get("traceId") or "").lower()
                yield LogRecord(name, at // 1_000, trace, attributes, content, scope_name(scoped))


def _event_name(own: object, attributes: Attributes, body: Any) -> str:
    """Codex has the place in its source as the event's own name, others have the name as the text of their body."""
    stated = attributes.get("event.name")
    return str(stated) if stated in EVENTS else str(own or stated or (body if isinstance(body, str) else ""))


def _protobuf_logs(body: bytes) -> Iterator[LogRecord]:
    request = request_type("logs").FromString(body)
    for resource in request.resource_logs:
        for scoped in resource.scope_logs:
            for record in scoped.log_records:
                attributes = protobuf_attributes(record.attributes)
                content = protobuf_value(record.body)
                name = _event_name(record.event_name, attributes, content)
                at = (record.time_unix_nano or record.observed_time_unix_nano) // 1_000
                yield LogRecord(name, at, record.trace_id.hex(), attributes, content, scoped.scope.name)


DECODERS = {"resourceLogs": decode_logs, "resourceSpans": decode_traces}  # by the member of a request


def log_format(recorded: Format) -> Format:
    """The format of such events of an agent: its ids and names are those of its own recordings."""
    name = f"{recorded.agent}{SUFFIX}"
    return msgspec.structs.replace(
        recorded,
        name=name,
        title=f"{recorded.title}, events of OpenTelemetry",
        mark="lines with an otel_event, or log requests in JSON with such events",
        version=3,  # of `read` here
        sniff=partial(sniff, agent=recorded.agent),
        read=partial(read, name=name),
        recorded_as=recorded.name,  # the run is the same one
        name_mark=lambda _head, _path: b"",
    )


def sniff(head: bytes, _path: SourcePath, agent: str) -> bool:
    event = next(event for event, of_agent in EVENTS.items() if of_agent == agent)
    prefix = event.partition(".")[0].encode()
    if agent == "claude-code" and _is_request(head, b'"resourceSpans"') and SCOPE.encode() in head:
        return True
    return head.startswith(b'{"otel_event":"%b.' % prefix) or (_is_request(head) and b'"%b.' % prefix in head)


def sniff_messages(head: bytes, _path: SourcePath) -> bool:
    return _is_request(head) and b'"gen_ai.' in head


def _is_request(head: bytes, name: bytes = b'"resourceLogs"') -> bool:
    """True for requests of one line each, as the collector's file exporter writes them."""
    beginning = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    return beginning.startswith(b'{"') and name in beginning[:200]


def read(
    lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object], name: str
) -> Iterator[Record | LineProblem]:
    """Reads lines of ours, and log requests, of which a file belongs to one format: the one with this name."""
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            if not object_slices(line.raw).keys().isdisjoint(DECODERS):
                yield from list(_request_records(line.raw, line.number, path, name))
            else:
                yield from list(_records(line.raw, line.number))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)


def _request_records(raw: bytes, number: int, path: SourcePath, name: str) -> Iterator[Record | LineProblem]:
    """Raises Untrusted."""
    kind = next(kind for kind in DECODERS if kind in object_slices(raw))
    lines = DECODERS[kind](raw, is_json=True)
    for line in lines:
        if line.format == name:
            of_line = [SourceLine(number, 0, line.raw)]
            yield from read_spans(of_line, path, {}) if name == MESSAGES else _records(line.raw, number)
    if others := {line.format for line in lines} - {name}:
        reason = f"events of {', '.join(sorted(others))} are left out: this file is read as {name}"
        yield LineProblem(line=number, path=f"$.{kind}", reason=reason, raw=raw, part=True)


def _records(raw: bytes, line: int) -> Iterator[Record]:
    """Raises Untrusted."""
    members = object_slices(raw)
    event, at, attributes = (parse_json(members.get(name, b"null")) for name in ("otel_event", "at", "attributes"))
    if not isinstance(event, str) or not isinstance(at, int) or not isinstance(attributes, dict):
        raise Untrusted("not an event with a time and attributes", "$.otel_event")
    if event in SPANS:
        yield from span_records(event, at, attributes, members, line)
        return
    agent = EVENTS.get(event)
    if agent is None:
        raise Untrusted("not a tool result of an agent that is known", "$.otel_event")
    run = attribute_text(attributes, RUN[agent])
    call = next(filter(None, (attribute_text(attributes, name) for name in CALL[agent])), "")
    if not run:
        raise Untrusted(f"no {RUN[agent]}", "$.attributes")
    place: dict[str, Any] = {"line": line, "run": run, "position": max(0, at), "at": iso_time(at)}
    tool, payload = _tool_name(attributes), members["attributes"]
    yield EventRecord(kind=event, message=tool, call=call or None, payload=payload, **place)
    args = _json(attribute_text(attributes, "arguments"))
    if not call or (tool == POLL and args.startswith(b"{") and object_slices(args).get("chars", b'""') == b'""'):
        return  # a poll is a further receipt of the command that it waits for
    if tool and args:
        yield CallRecord(call=call, tool=tool, args=args, origin="progress", **place)
    success = {"true": True, "false": False}.get(str(attributes.get("success")).lower())
    duration = _duration(attributes.get("duration_ms"))
    is_error = None if success is None else not success or _has_failed(attribute_text(attributes, "output"))
    yield ResultRecord(call=call, result=None, fidelity="absent", is_error=is_error, duration_ms=duration, **place)


def _tool_name(attributes: Attributes) -> str:
    """The name that Codex's rollouts have: a server of MCP is a namespace, that of other tools is no part of it."""
    name, space = attribute_text(attributes, "tool_name"), attribute_text(attributes, "tool_namespace")
    return f"{space.removesuffix('__')}__{name}" if name and space.startswith("mcp__") else name


def _has_failed(output: str) -> bool:
    """True for a command of Codex that ended with another status than zero, which is a success of the tool to it."""
    return _FAILED.match(output) is not None


def _json(text: str) -> bytes:
    """The arguments as JSON; a text that is none is a string; empty for an empty text."""
    if not text:
        return b""
    raw = text.encode("utf-8", "surrogatepass")
    try:
        parse_json(raw)
    except Untrusted:
        return dump_json(text)
    return raw


def _duration(value: object) -> int | None:
    digits = str(value)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


MESSAGE_FORMAT = msgspec.structs.replace(
    FORMATS[0],
    name="otlp-logs",
    title="OpenTelemetry log events (OTLP)",
    mark="log requests in JSON, with resourceLogs and events of gen_ai",
    version=3,  # of `read` here
    sniff=sniff_messages,
    read=partial(read, name=MESSAGES),
    recorded_as=MESSAGES,
)
