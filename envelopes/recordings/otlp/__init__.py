"""OpenTelemetry traces of agents (OTLP): live over HTTP, in files of one request a line, or one request a file.

A request becomes lines of our own: one for each span of a tool, a model or an agent, and one for each part of a
message. A model span repeats the whole history of its conversation, so a part is stored once, by its content, and its
place is the earliest span that has it. Protobuf and JSON give the same lines.

1. Both halves of a call are in different spans. The span of the tool has the structured result; the receipt is the
   response part with the same call id in the next model span. Until that arrives the receipt is absent. A part that is
   a value and no text is reconstructed: how it was spelled for the model is not recorded.
2. A run is a conversation, else a trace; a trace too where a framework names the conversation on some of its spans
   alone. A tool span without a call id is read as a call of its own, named by the span. The store gives its result to
   the one call of the run that fits (`dashboard.ingest.span_pairs`).
   An agent that a tool calls may have a conversation of its own. Its run is a child of the call in whose span it ran,
   where both spans are in one request. A handoff is an event: its call is the model's, to `transfer_to_…`.
3. The arguments, results and parts are JSON as the attributes have them, without line ends between tokens.
4. Spans of Google's ADK and of Strands Agents get the names of the conventions before anything else.
5. The system prompt and the definitions of tools are parts too. Spans of other things (HTTP, databases) are left out.
6. The step of a call is the model span whose answer has it; that of a tool does not name it.
7. Counts of input tokens contain the cached ones (GenAI conventions), which are counted apart here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, is_blank, read_json_lines, storable
from envelopes.recordings.otlp import conventions
from envelopes.recordings.otlp.claude_code_spans import SCOPE
from envelopes.recordings.otlp.conventions import first_value
from envelopes.recordings.otlp.odd_values import odd_records, read_odd_line
from envelopes.recordings.otlp.span_lines import span_lines
from envelopes.recordings.otlp.spans import (
    ERROR_STATUS,
    LATEST,
    TraceLine,
    Unavailable,
    decode_protobuf,
    iso_time,
    json_spans,
    sniff_protobuf,
)
from envelopes.recordings.places import name_position
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices, parse_checked, parse_json

Records: TypeAlias = Iterator[Record | LineProblem]
NAME = "otlp"
UNNAMED = "span "
AUTOGEN = "autogen-core"
UNKNOWN_SERVICE = "unknown_service"  # the name that SDKs give a program without one
KNOWN = frozenset(
    (
        *conventions.CONVERSATION,
        *conventions.TOOL_NAME,
        *conventions.TOOL_CALL,
        *conventions.TOOL_ARGS,
        conventions.TOOL_PARAMETERS,
        *conventions.TOOL_RESULT,
        *("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "logfire.json_schema"),
        *("logfire.msg", "input.mime_type", "output.mime_type", "gen_ai.agent.name", "gen_ai.agent.call.id"),
    )
)


def sniff(head: bytes, path: SourcePath) -> bool:
    """Trace requests in JSON, one a line, or lines that `span_lines` wrote."""
    beginning = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    is_request = beginning.startswith(b"{") and b'"resourceSpans"' in beginning[:200]
    is_other = SCOPE.encode() in head or sniff_document(head, path)
    return beginning.startswith(b'{"otlp":') or (is_request and not is_other)


def sniff_document(head: bytes, _path: SourcePath) -> bool:
    """One trace request in JSON over many lines."""
    first, _, rest = head.removeprefix(BYTE_ORDER_MARK).lstrip().partition(b"\n")
    return first.strip() == b"{" and b'"resourceSpans"' in rest[:200]


def read(lines: Iterable[SourceLine], _path: SourcePath, state: dict[str, object]) -> Records:
    """Reads lines of ours, requests of one line each, and a file that is one request over many lines."""
    content = list(lines)
    first = next((line.raw.strip() for line in content if not is_blank(line.raw)), b"")
    if first == b"{":
        yield from _read_document(content)
        return
    for line in read_json_lines(content, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        yield from _read_checked(line.raw, line.number, line.raw)


def _read_document(content: list[SourceLine]) -> Records:
    raw = b"".join(line.raw for line in content).removeprefix(BYTE_ORDER_MARK)
    yield from _read_checked(raw, content[0].number, content[0].raw, sum(not is_blank(line.raw) for line in content))


def read_protobuf(lines: Iterable[SourceLine], _path: SourcePath, _state: dict[str, object]) -> Records:
    """Reads a file that is one request in protobuf, or several of them one after another, which are one message."""
    content = list(lines)
    if not content:
        return
    try:
        spans = decode_protobuf(b"".join(line.raw for line in content))
        yield from _read_lines(span_lines(spans), content[0].number)
    except (Untrusted, Unavailable) as refusal:
        reason = refusal.reason if isinstance(refusal, Untrusted) else str(refusal)
        yield LineProblem(line=content[0].number, path="$", reason=reason, raw=b"", lines=len(content))


def _read_checked(raw: bytes, number: int, shown: bytes, lines: int = 1) -> Records:
    try:
        members = object_slices(raw)
        if "otlp" in members:
            yield from list(_read_line(members, number))
        else:
            document = parse_json(raw)
            records = _read_lines(span_lines(json_spans(document)), number)
            yield from records
            run = next((record.run for record in records if not isinstance(record, LineProblem)), "")
            yield from odd_records(document, number, shown, run)
    except Untrusted as refusal:
        yield LineProblem(line=number, path=refusal.path, reason=refusal.reason, raw=shown, lines=lines)


def _read_lines(lines: Iterable[TraceLine], number: int) -> list[Record | LineProblem]:
    """The records of lines of this format. Claude Code's own spans beside others' are those of another one."""
    listed = list(lines)
    records = [
        record for line in listed if line.format == NAME for record in _read_line(object_slices(line.raw), number)
    ]
    if others := {line.format for line in listed} - {NAME}:
        reason = f"spans of {', '.join(sorted(others))} are left out: this file is read as {NAME}"
        records.append(LineProblem(line=number, path="$.resourceSpans", reason=reason, raw=b"", part=True))
    return records


def _read_line(members: dict[str, bytes], line: int) -> Records:
    """Raises Untrusted."""
    kind, run = _word(members, "otlp"), _word(members, "run")
    if kind == "odd":
        yield read_odd_line(members, line)
        return
    if not run:
        raise Untrusted("a span has a trace id, or the id of its conversation", "$.run")
    if kind == "span":
        readers = {"tool": _tool_records, "model": _model_records, "agent": _agent_records}
        sort = _word(members, "kind")
        if sort not in readers:
            raise Untrusted("not a known kind of span", "$.kind")
        yield from readers[sort](members, line, run)
        return
    if kind == "child":
        yield RunRecord(line=line, run=run, parent_run=_word(members, "parent"), parent_call=_word(members, "call"))
        return
    at = _number(members, "at")
    place: dict[str, Any] = {"line": line, "run": run, "position": at, "at": iso_time(at)}
    content, call = members.get("content", b"null"), _word(members, "call")
    match kind:
        case "response" if call:
            yield from _response_records(members, call, place)
        case "call" if call:
            args = members.get("content")
            yield CallRecord(call=call, tool=_word(members, "tool") or "unknown", args=args, **place)
        case "step" if call:
            tool, step = _word(members, "tool") or "unknown", _word(members, "step") or None
            yield CallRecord(call=call, tool=tool, args=None, step=step, **place)
        case "text":
            role, standing = _word(members, "role") or "user", _word(members, "standing")
            named = content + members.get("role", b"") + members.get("standing", b"")
            digest = hashlib.blake2s(named, digest_size=16).hexdigest()
            yield MessageRecord(key=digest, role=role, content=content, kind=standing or None, **place)
        case _:
            raise Untrusted("not a known kind of line, or a call without an id", "$.otlp")


def _response_records(members: dict[str, bytes], call: str, place: dict[str, Any]) -> Records:
    """The receipt, where its text was recorded, and how the call ended, where the response states it."""
    if content := members.get("content"):
        fidelity: ReceiptFidelity = "reconstructed" if "rebuilt" in members else "exact"
        fidelity = "masked" if "masked" in members else fidelity
        yield ReceiptRecord(call=call, content=content, fidelity=fidelity, **place)
    if end := _word(members, "end"):
        stated_kind = "write_denied" if end == "refused" else None
        yield ResultRecord(call=call, result=None, fidelity="absent", is_error=True, stated_kind=stated_kind, **place)


def _tool_records(members: dict[str, bytes], line: int, run: str) -> Records:
    attributes = _attributes(members)
    start, end = _number(members, "start"), _number(members, "end")
    call = first_value(attributes, conventions.TOOL_CALL)
    is_named = isinstance(call, str) and call not in conventions.NO_CALL
    call = storable(call) if is_named else f"{UNNAMED}{_word(members, 'span')}"
    tool = first_value(attributes, conventions.TOOL_NAME)
    name = _word(members, "name")
    if not {"args", "result"} & members.keys() and conventions.is_handoff(name, attributes):
        yield EventRecord(line=line, run=run, position=start, kind="agent.handoff", message=name, at=iso_time(start))
        return
    retry = attributes.get("pydantic_ai.tool.retry.attempt")  # on calls that failed and may be tried again, from 1
    yield CallRecord(
        line=line,
        run=run,
        position=start,
        call=call,
        tool=storable(str(tool or name or "unknown")),
        args=members.get("args"),
        attempt=retry if isinstance(retry, int) and 0 < retry < 1_000 else 1,
        at=iso_time(start),
    )
    is_error = _number(members, "status") == ERROR_STATUS or attributes.get("gen_ai.tool.status") == "error"
    if _word(members, "scope") == AUTOGEN and not {"args", "result"} & members.keys():
        if is_error:  # the rest is in OpenInference's span around it, which names no call
            place: dict[str, Any] = {"line": line, "run": run, "position": start}
            yield ResultRecord(call=call, result=None, fidelity="absent", is_error=True, **place)
        return
    result = members.get("result")
    rest = {key: value for key, value in attributes.items() if key not in KNOWN}
    fidelity: ResultFidelity = (
        "absent" if result is None else "structured" if result[:1] in (b"{", b"[") else "stringified"
    )
    yield ResultRecord(
        line=line,
        run=run,
        position=start,
        call=call,
        result=result,
        fidelity=fidelity,
        is_error=is_error,
        at=iso_time(end),
        started_at=iso_time(start),
        ended_at=iso_time(end),
        duration_ms=max(0, end - start) // 1_000,
        error=_error(members, attributes) if is_error else None,
        extra=dump_json(rest) if rest else None,
    )


def _error(members: dict[str, bytes], attributes: dict[str, Any]) -> bytes:
    events = parse_json(members.get("events", b"[]"))
    return dump_json(conventions.failure(attributes, events, _word(members, "status_message")))


def _model_records(members: dict[str, bytes], line: int, run: str) -> Records:
    attributes = _attributes(members)
    yield _run_record(members, line, run)
    total = _count(attributes, conventions.INPUT_TOKENS)
    read, created = _count(attributes, conventions.CACHE_READ), _count(attributes, conventions.CACHE_CREATION)
    if not total:
        return
    start = _number(members, "start")
    usage = {name: value for name, value in attributes.items() if "usage" in name or "token_count" in name}
    yield UsageRecord(
        line=line,
        run=run,
        # That of the answer, at the end of the span for one part: the request has all that came before.
        position=_number(members, "answer") or max(start, _number(members, "end")),
        at=iso_time(start),
        request=_word(members, "span"),
        input_tokens=total - read - created if read + created <= total else total,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        output_tokens=_count(attributes, conventions.OUTPUT_TOKENS),
        usage=dump_json(usage),
    )


def _agent_records(members: dict[str, bytes], line: int, run: str) -> Records:
    start, end = _number(members, "start"), _number(members, "end")
    yield _run_record(members, line, run)
    name = _word(members, "name")
    level: Literal["info", "error"] = "error" if _number(members, "status") == ERROR_STATUS else "info"
    yield EventRecord(
        line=line, run=run, position=end, kind="agent.finished", message=name, level=level, at=iso_time(end)
    )
    yield EventRecord(line=line, run=run, position=start, kind="agent.started", message=name, at=iso_time(start))


def _run_record(members: dict[str, bytes], line: int, run: str) -> RunRecord:
    attributes, resource = _attributes(members), parse_json(members.get("resource", b"{}"))
    agent = first_value(attributes, conventions.AGENT)
    service = resource.get("service.name") if isinstance(resource, dict) else None
    title = service if isinstance(service, str) and not service.startswith(UNKNOWN_SERVICE) else None
    if title is None and not _word(members, "parent"):  # one of the run: other agents are below it
        title = first_value(attributes, conventions.WORKFLOW)
    model = first_value(attributes, conventions.MODEL)
    return RunRecord(
        line=line,
        run=run,
        title=storable(title) if isinstance(title, str) else None,
        agent=storable(agent) if isinstance(agent, str) else None,
        model=storable(model) if isinstance(model, str) and _word(members, "kind") == "model" else None,
        started_at=iso_time(_number(members, "start")),
        last_at=iso_time(_number(members, "end")),
    )


def _attributes(members: dict[str, bytes]) -> dict[str, Any]:
    attributes = parse_json(members.get("attributes", b"{}"))
    return attributes if isinstance(attributes, dict) else {}


def _word(members: dict[str, bytes], name: str) -> str:
    raw = members.get(name)
    if raw is None:
        return ""
    value = parse_checked(raw) if raw.startswith(b'"') else parse_json(raw)  # a string is not deep
    return storable(value) if isinstance(value, str) else ""


def _number(members: dict[str, bytes], name: str) -> int:
    value = parse_json(members.get(name, b"0"))
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LATEST else 0


def _count(attributes: dict[str, Any], names: tuple[str, ...]) -> int:
    value = first_value(attributes, names)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


_format = partial(
    Format,
    agent="otlp",
    namespace="otlp",
    version=8,
    read=read,
    is_global_call_id=lambda _call: False,
    unnamed=UNNAMED,
    name_place=name_position,
)
FORMATS: tuple[Format, ...] = (
    _format(
        name=NAME,
        title="OpenTelemetry traces (OTLP)",
        mark="trace requests in JSON, with resourceSpans",
        sniff=sniff,
    ),
    _format(
        name="otlp-document",
        title="OpenTelemetry traces (OTLP), one request",
        mark="a trace request in JSON over many lines",
        sniff=sniff_document,
        recorded_as="otlp",
        is_document=True,
    ),
)
PROTOBUF = msgspec.structs.replace(
    FORMATS[0],
    name="otlp-protobuf",
    title="OpenTelemetry traces (OTLP), protobuf",
    mark="a trace request in protobuf, whose first span has its two ids",
    sniff=sniff_protobuf,
    read=read_protobuf,
    recorded_as="otlp",
    is_document=True,
)
