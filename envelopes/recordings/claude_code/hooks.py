"""Events that Claude Code gives its hooks on stdin: PreToolUse, PostToolUse and PostToolUseFailure, one object a line.

1. `tool_response` is the structured result, `duration_ms` the tool's own time. The receipt is in the transcript, which
   joins the same calls by their ids.
2. A hook has no time and no line of the transcript: `received_at` is when it was taken in, and gives the order until
   the transcript is imported.
3. `agent_id` names the subagent that called the tool.
4. Other events (SessionStart, Stop …) only name their run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    LineProblem,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.claude_code.messages import result_fidelity
from envelopes.recordings.json_lines import NOTHING, ForeignObject, parsed_lines, read_json_lines, struct_reader
from envelopes.schema.timestamps import parse_instant
from envelopes.text.untrusted_json import Untrusted

FAILED, DONE, ASKED = "PostToolUseFailure", "PostToolUse", "PreToolUse"


class HookEvent(ForeignObject, frozen=True, gc=False):
    hook_event_name: str | None = None
    session_id: str | None = None
    cwd: str | None = None
    agent_id: str | None = None
    tool_name: str | None = None
    tool_use_id: str | None = None
    duration_ms: int | float | None = None
    received_at: str | None = None
    tool_input: msgspec.Raw = NOTHING
    tool_response: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


_read_event = struct_reader(HookEvent, is_payload=True)


def sniff(head: bytes, _path: SourcePath) -> bool:
    """The first line that is an object names an event of a hook and its session."""
    first = next(parsed_lines(head, _read_event), HookEvent())
    return bool(first.hook_event_name and first.session_id)


def read(lines: Iterable[SourceLine], _path: SourcePath, state: dict[str, object]) -> Iterator[Record | LineProblem]:
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            yield from list(_event_records(_read_event(line.raw), line.number))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)


def _event_records(event: HookEvent, line: int) -> Iterator[Record]:
    """Raises Untrusted."""
    if not event.session_id:
        raise Untrusted("no session_id, or not a string", "$.session_id")
    if not event.hook_event_name:
        raise Untrusted("no hook_event_name, or not a string", "$.hook_event_name")
    run = f"{event.session_id}/{event.agent_id}" if event.agent_id else event.session_id
    parent = event.session_id if event.agent_id else None
    at = event.received_at if parse_instant(event.received_at or "") else None
    yield RunRecord(line=line, run=run, parent_run=parent, cwd=event.cwd, last_at=at)
    if event.hook_event_name not in (ASKED, DONE, FAILED):
        return
    if not event.tool_use_id or not event.tool_name:
        raise Untrusted("a call needs a tool_use_id and a tool_name", "$.tool_use_id")
    instant = parse_instant(at) if at else None
    position = int(instant.timestamp() * 1_000_000) if instant else line
    yield CallRecord(
        line=line,
        run=run,
        position=position,
        call=event.tool_use_id,
        tool=event.tool_name,
        args=bytes(event.tool_input) or b"null",
        at=at if event.hook_event_name == ASKED else None,
        origin="progress",  # the transcript's own message is nearer
    )
    if event.hook_event_name == ASKED:
        return
    is_failed = event.hook_event_name == FAILED
    result = event.error if is_failed else event.tool_response
    yield ResultRecord(
        line=line,
        run=run,
        position=position,
        call=event.tool_use_id,
        result=bytes(result) or None,
        fidelity=result_fidelity(result),
        is_error=is_failed,
        at=at,
        ended_at=at,
        duration_ms=round(event.duration_ms) if event.duration_ms and 0 <= event.duration_ms < 2**31 else None,
    )
