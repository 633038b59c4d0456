"""The lines of ours that spans become: one for each span of an agent, and one for each part of a message."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TypeAlias

from envelopes.recordings.otlp import conventions
from envelopes.recordings.otlp.claude_code_spans import is_own_span, span_line
from envelopes.recordings.otlp.conventions import (
    ChildRun,
    as_json,
    find_child_runs,
    first_value,
    is_scrubbed_text,
    run_name,
    span_kind,
)
from envelopes.recordings.otlp.frameworks import as_genai
from envelopes.recordings.otlp.message_parts import TracePart, message_parts, standing_parts
from envelopes.recordings.otlp.odd_values import odd_lines
from envelopes.recordings.otlp.spans import (
    TraceLine,
    TraceSpan,
    decode_protobuf,
    earliest_lines,
    json_spans,
    trace_line,
)
from envelopes.text.untrusted_json import dump_json, join_object, object_slices, parse_json

GEMINI_CLI = "gemini-cli"  # the name of its instrumentation
CLAUDE_SDK = "com.anthropic.sdk."
MCP = "opentelemetry.instrumentation.mcp.instrumentation"  # Traceloop's
PartLines: TypeAlias = dict[tuple[str, TracePart], TraceLine]  # by run and part


def decode_traces(body: bytes, *, is_json: bool) -> list[TraceLine]:
    """Each line of a trace request once, and of values that are left out in JSON. Raises Untrusted, and Unavailable."""
    if not is_json:
        return earliest_lines(span_lines(decode_protobuf(body)))
    document = parse_json(body)
    lines = earliest_lines(span_lines(json_spans(document)))
    own = next((line.raw for line in lines if line.format == "otlp"), None)
    run = str(parse_json(object_slices(own)["run"])) if own else ""
    return [*lines, *odd_lines(document, run)]


def span_lines(spans: Iterable[TraceSpan]) -> Iterator[TraceLine]:
    """The lines of the spans that are of an agent. Raises nothing: what is odd in a span is refused when it is read."""
    spans = list(spans)
    yield from (line for span in filter(is_own_span, spans) if (line := span_line(span)) is not None)
    others = (span for span in spans if not is_own_span(span) and not is_internal(span))
    listed = [named for span in others if (named := as_genai(span)) is not None]
    yield from map(_child_line, find_child_runs(listed))
    known: PartLines = {}
    for span in listed:
        kind = span_kind(span)
        if kind == "other":
            continue
        run = run_name(span)
        parts = [] if kind == "tool" else span_parts(span, has_messages=kind == "model")
        answer = find_answer(span, parts)
        lines = list(part_lines(run, parts, span.start, answer, known))
        yield from lines
        yield from _step_lines(span, run, parts, answer)
        yield _span_line(span, kind, run, [line.key for line in lines], answer)


def is_internal(span: TraceSpan) -> bool:
    """Spans of agents or clients about themselves, which are left out.

    Codex's are of its program's parts, by their paths in its source: they name no call and no content. The Gemini
    CLI's have the names of the conventions with values of its own in them: a call would be there twice, and one that
    failed would be a success. Both agents have recordings with both halves. The Claude SDK's without content are of a
    request of which the span around them has the content and the same usage, and MCP clients' of a call that has one.
    """
    has_content = any(name in span.attributes for name in (*conventions.INPUT_LISTS, *conventions.OUTPUT_LISTS))
    is_of_client = span.attributes.get("gen_ai.operation.name") == "chat" and bool(span.parent) and not has_content
    if span.scope == MCP or (is_of_client and span.scope.startswith(CLAUDE_SDK)):
        return True
    return span.scope == GEMINI_CLI or str(span.attributes.get("target", "")).startswith("codex_")


def _child_line(child: ChildRun) -> TraceLine:
    members = {"otlp": "child", "run": child.run, "parent": child.parent, "call": child.call}
    return trace_line({name: dump_json(value) for name, value in members.items()}, child.at)


def span_parts(span: TraceSpan, *, has_messages: bool = True) -> list[TracePart]:
    """The parts that every request has, and those of messages, which the span of an agent repeats from its model's."""
    return [*standing_parts(span.attributes), *(message_parts(span) if has_messages else ())]


def find_answer(span: TraceSpan, parts: Sequence[TracePart]) -> int:
    """The place at which the answer begins: all parts of the request are before it."""
    answered = sum(part.is_output for part in parts)
    return max(span.end, span.start + len(parts)) - max(answered, 1) + 1


def part_lines(run: str, parts: Sequence[TracePart], start: int, answer: int, known: PartLines) -> Iterator[TraceLine]:
    """Lines of the parts of a span: those of the request from `start` on, those of the answer from `answer` on.

    `known` are the lines of the spans before it: most parts of a request are those of the request before. Each part is
    a microsecond after the one before it, so that their order is kept.
    """
    places = {False: count(start), True: count(answer)}
    for part in parts:
        at, line = next(places[part.is_output]), known.get((run, part))
        if line is None or line.at > at:
            line = known[run, part] = _part_line(part, run, at)
        yield line


def _part_line(part: TracePart, run: str, at: int) -> TraceLine:
    members = {"otlp": dump_json(part.kind), "run": dump_json(run), "role": dump_json(part.role)}
    if part.call:
        members["call"] = dump_json(part.call)
    if part.tool:
        members["tool"] = dump_json(part.tool)
    if part.is_rebuilt:
        members["rebuilt"] = b"true"
    if part.is_masked:
        members["masked"] = b"true"
    if part.standing:
        members["standing"] = dump_json(part.standing)
    if part.end:
        members["end"] = dump_json(part.end)
    if part.content:
        members["content"] = part.content
    content = join_object(members)
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return TraceLine(content[:-1] + b',"at":' + dump_json(at) + b"}", digest, at)


def _step_lines(span: TraceSpan, run: str, parts: Sequence[TracePart], answer: int) -> Iterator[TraceLine]:
    """A line for each call in the answer of a model, by which the call has the request that it follows.

    The line of the part itself does not have it, because later requests repeat that one.
    """
    outputs = (part for part in parts if part.is_output)
    for at, part in enumerate(outputs, answer):
        if part.kind == "call" and span.span:
            members = {"otlp": "step", "run": run, "call": part.call, "tool": part.tool, "step": span.span}
            yield trace_line({name: dump_json(value) for name, value in members.items()} | {"at": dump_json(at)}, at)


def _span_line(span: TraceSpan, kind: str, run: str, parts: list[bytes], answer: int) -> TraceLine:
    attributes = {
        name: value for name, value in sorted(span.attributes.items()) if not conventions.is_message_attribute(name)
    }
    members: dict[str, bytes] = {
        "otlp": b'"span"',
        "kind": dump_json(kind),
        "run": dump_json(run),
        "trace": dump_json(span.trace),
        "span": dump_json(span.span),
        "parent": dump_json(span.parent),
        "name": dump_json(span.name),
        "start": dump_json(span.start),
        "end": dump_json(span.end),
        "status": dump_json(span.status),
        "status_message": dump_json(span.status_message),
    }
    if kind == "tool":
        args, result = conventions.tool_arguments(attributes), first_value(attributes, conventions.TOOL_RESULT)
        values = {name: as_json(value) for name, value in (("args", args), ("result", result)) if value is not None}
        is_scrubbed = conventions.SCRUBBED in attributes
        members |= {name: raw for name, raw in values.items() if not (is_scrubbed and is_scrubbed_text(raw))}
        used = (*conventions.TOOL_ARGS, *conventions.TOOL_RESULT)
        attributes = {name: value for name, value in attributes.items() if name not in used}
    for name in conventions.HISTORIES:  # they repeat what the parts have
        if name in attributes:
            attributes[name] = hashlib.blake2b(as_json(attributes[name]), digest_size=16).hexdigest()
    if kind == "model" and answer != max(span.start, span.end):
        members["answer"] = dump_json(answer)
    members["attributes"] = dump_json(attributes)
    events = [event for event in span.events if kind != "model" or event.name not in conventions.MESSAGE_EVENTS]
    members["events"] = dump_json([[event.name, event.attributes] for event in events])
    members["resource"] = dump_json(span.resource)
    members["scope"] = dump_json(span.scope)
    members["parts"] = dump_json("".join(part.hex() for part in parts)) if parts else b'""'
    return trace_line(members)
