"""Claude Code's own spans (`com.anthropic.claude_code.tracing`), which are records of its sessions' calls.

With content (`OTEL_LOG_TOOL_CONTENT=1` and detailed tracing) both halves of a call are in them:

    claude_code.tool             tool_input: [TOOL INPUT: Bash] and the arguments; new_context: [TOOL RESULT: Bash] and
                                 the result, of calls that succeeded
    claude_code.tool.execution   success and duration_ms of the tool itself, without what it waited for
    claude_code.llm_request      new_context: what the request has beyond the one before; [TOOL RESULT: toolu_01…] and a
                                 receipt, [USER] and a message, with a line of dashes between two of them
    claude_code.interaction      user_prompt

1. Run and call are those of the session, so that its transcript and its hooks join the same calls. A subagent's spans
   have the session of its parent and an `agent_id`; `gen_ai.conversation.id` is then that of the agent.
2. A receipt behind a line of dashes could be a part of the one before it, which contains such a line: it is
   reconstructed, like the one before it. The only one of a request is recorded.
3. A value that the client cut to its limit (`new_context_truncated`, `tool_input_truncated`) is left out, and so are
   its other spans (hooks, permissions) and the usage, which the transcript has under another id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.base import CallRecord, ReceiptRecord, Record, ResultRecord, RunRecord
from envelopes.recordings.json_lines import storable
from envelopes.recordings.otlp.spans import LATEST, Attributes, TraceLine, TraceSpan, iso_time
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices, parse_json

FORMAT = "claude-code-otel"
SPANS = tuple(f"claude_code.{name}" for name in ("tool", "tool.execution", "llm_request", "interaction"))
SCOPE = "com.anthropic.claude_code.tracing"
_TITLE = re.compile(r"\[TOOL (?:INPUT|RESULT): (?P<tool>[^\]\n]{1,200})\]\n")
_RECEIPT = re.compile(r"\[TOOL RESULT: (?P<call>[\w-]{1,200})\]\n")
_BETWEEN = re.compile(r"\n\n---\n\n(?=\[(?:TOOL RESULT: [\w-]{1,200}|USER|ASSISTANT)\]\n)")


def is_own_span(span: TraceSpan) -> bool:
    return span.scope == SCOPE


def span_line(span: TraceSpan) -> TraceLine | None:
    """The line of a span; None for one that says nothing of a call."""
    if span.name not in SPANS:
        return None
    members = {
        "otel_event": span.name,
        "at": span.start,
        "until": span.end,
        "version": span.resource.get("service.version"),
        "attributes": dict(sorted(span.attributes.items())),
    }
    raw = dump_json(members)
    return TraceLine(raw, hashlib.blake2b(raw, digest_size=16).digest(), 0, FORMAT)


def session_run(attributes: Attributes) -> str:
    """The session, or the run of one of its subagents; empty without a session."""
    session, agent = attribute_text(attributes, "session.id"), attribute_text(attributes, "agent_id")
    return f"{session}/{agent}" if session and agent else session


def span_records(event: str, at: int, attributes: Attributes, members: dict[str, bytes], line: int) -> Iterator[Record]:
    """Raises Untrusted."""
    run, call = session_run(attributes), attribute_text(attributes, "tool_use_id")
    if not run:
        raise Untrusted("no session.id", "$.attributes")
    until = parse_json(members.get("until", b"0"))
    end = until if isinstance(until, int) and not isinstance(until, bool) and at <= until < LATEST else at
    place: dict[str, Any] = {"line": line, "run": run, "position": max(0, at), "at": iso_time(at)}
    match event:
        case "claude_code.tool" if call:
            yield from _tool_records(attributes, call, place, end)
        case "claude_code.tool.execution" if call:
            success, duration = attributes.get("success"), attributes.get("duration_ms")
            yield ResultRecord(
                call=call,
                result=None,
                fidelity="absent",
                is_error=not success if isinstance(success, bool) else None,
                duration_ms=duration if isinstance(duration, int) and duration >= 0 else None,
                **place,
            )
        case "claude_code.llm_request":
            model, version = attribute_text(attributes, "model"), parse_json(members.get("version", b"null"))
            yield RunRecord(
                line=line,
                run=run,
                agent="claude-code",
                model=model or None,
                version=storable(version) if isinstance(version, str) else None,
                started_at=place["at"],
                last_at=iso_time(end),
            )
            yield from _receipts(_whole(attributes, "new_context"), place)
        case "claude_code.interaction":
            prompt = attribute_text(attributes, "user_prompt")
            title = None if prompt in ("", "<REDACTED>") else summarize(prompt)
            yield RunRecord(line=line, run=run, agent="claude-code", title=title, started_at=place["at"])


def _tool_records(attributes: Attributes, call: str, place: dict[str, Any], end: int) -> Iterator[Record]:
    tool, args = _titled_json(_whole(attributes, "tool_input"))
    tool = tool or attribute_text(attributes, "tool_name") or attribute_text(attributes, "gen_ai.tool.name")
    if tool:
        yield CallRecord(call=call, tool=tool, args=args, **place)
    context = _whole(attributes, "new_context")
    title, result = _TITLE.match(context), _titled_json(context)[1]
    if title and tool.startswith("mcp__"):  # a text, which may be JSON
        result = dump_json(context[title.end() :])
    if result is not None:
        yield ResultRecord(call=call, result=result, fidelity=_fidelity(result), ended_at=iso_time(end), **place)


def _titled_json(text: str) -> tuple[str, bytes | None]:
    """The tool in the first line of a text, and the JSON below it; None where that is none, as when it was cut."""
    title = _TITLE.match(text)
    if title is None:
        return "", None
    raw = text[title.end() :].encode("utf-8", "surrogatepass")
    try:
        parse_json(raw)
    except Untrusted:
        return title["tool"], None
    return title["tool"], raw


def _fidelity(result: bytes) -> ResultFidelity:
    """That of `claude_code.messages.result_fidelity`, repeated because a reader may not import another one."""
    if result.startswith(b'"'):
        return "stringified"
    saved = object_slices(result).get("persistedOutputPath") if result.startswith(b"{") else None
    return "structured" if saved in (None, b"null", b'""') else "bounded"


def _receipts(context: str, place: dict[str, Any]) -> Iterator[ReceiptRecord]:
    parts = _BETWEEN.split(context)
    fidelity: ReceiptFidelity = "recorded" if len(parts) == 1 else "reconstructed"
    for part in parts:
        if head := _RECEIPT.match(part):
            yield ReceiptRecord(call=head["call"], content=_content(part[head.end() :]), fidelity=fidelity, **place)


def _content(text: str) -> bytes:
    """The blocks of an answer, which are written as JSON, or the text."""
    raw = text.encode("utf-8", "surrogatepass")
    if raw.startswith(b'[{"type":'):
        try:
            parse_json(raw)
        except Untrusted:
            return dump_json(text)
        return raw
    return dump_json(text)


def _whole(attributes: Attributes, name: str) -> str:
    return "" if attributes.get(f"{name}_truncated") else attribute_text(attributes, name)


def attribute_text(attributes: Attributes, name: str) -> str:
    """A text that can be stored; empty for any other value."""
    value = attributes.get(name)
    return storable(value) if isinstance(value, str) else ""
