"""The output of `codex exec --json`: events of a thread, an object a line, without times and without receipts.

1. `thread.started` names the thread. Its items are counted from 0 in each process, so a thread that is resumed writes
   the same ids again: a file is a run of its own, named by its thread and its name.
2. `item.started`, `item.updated` and `item.completed` have an `item` with an id and a type. `command_execution`,
   `mcp_tool_call`, `file_change` and `web_search` are calls. The completed item is the result; of an MCP call its
   `result` or `error` is. What the model got of it is not recorded.
3. `agent_message` is a message of the model, `todo_list` the plan of the run; other items are events.
4. The usage in `turn.completed` is that of all requests of a turn, and so no weight of a context: it is an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.codex.lines import bounded_or_structured
from envelopes.recordings.json_lines import (
    NOTHING,
    ForeignObject,
    first_byte,
    may_name,
    parsed_lines,
    read_json_lines,
    storable,
    struct_reader,
)
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_object, object_slices

Records = Iterator[Record | LineProblem]
_SLOT = "codex-exec"
_ITEMS = ("item.started", "item.updated", "item.completed")
_CALLS = frozenset({"command_execution", "mcp_tool_call", "file_change", "web_search"})
_FAILED = frozenset({"failed", "declined"})


class ExecEvent(ForeignObject, frozen=True, gc=False):
    """A line."""

    type: str | None = None
    thread_id: str | None = None
    item: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    message: str | None = None


class ExecItem(ForeignObject, frozen=True, gc=False):
    """The `item` of a line."""

    id: str | None = None
    type: str | None = None
    status: str | None = None
    command: msgspec.Raw = NOTHING
    server: str | None = None
    tool: str | None = None
    arguments: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    query: msgspec.Raw = NOTHING
    items: msgspec.Raw = NOTHING
    text: msgspec.Raw = NOTHING


_read_event = struct_reader(ExecEvent)
_read_item = struct_reader(ExecItem)


def sniff(head: bytes, _path: SourcePath) -> bool:
    """The first object is the beginning of a thread, or some line has an item of one."""
    events = parsed_lines(head, _read_event) if may_name(head, b"thread_id", b"item") else ()
    for number, event in enumerate(events):
        if number == 0 and event.type == "thread.started" and event.thread_id:
            return True
        if event.type in _ITEMS and first_byte(event.item) == b"{":
            return True
    return False


def is_global_call_id(call: str) -> bool:
    """Items are counted."""
    return False


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    run = str(saved.get(_SLOT) or path.stem)
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            event = _read_event(line.raw)
            if event.type == "thread.started" and event.thread_id and _SLOT not in saved:
                run = event.thread_id if event.thread_id in path.stem else f"{event.thread_id} {path.stem}"
                saved[_SLOT] = run
                yield RunRecord(line=line.number, run=run, agent="codex")
            yield from list(_event_records(line, event, run))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)


def _event_records(line: SourceLine, event: ExecEvent, run: str) -> Records:
    if not event.type:
        raise Untrusted("no type, or not a string", "$.type")
    if event.type in _ITEMS:
        if first_byte(event.item) != b"{":
            raise Untrusted("no item, or not an object", "$.item")
        yield from _item_records(line.number, event.type, bytes(event.item), run)
    elif event.type != "thread.started":
        failed = event.type in ("error", "turn.failed")
        yield _event(line.number, run, event.type, event.message or event.type, line.raw, failed=failed)


def _event(line: int, run: str, kind: str, text: str, payload: bytes, *, failed: bool = False) -> EventRecord:
    return EventRecord(
        line=line,
        run=run,
        kind=storable(kind),
        message=storable(summarize(text)),
        level="error" if failed else "info",
        payload=payload,
    )


def _item_records(line: int, event: str, raw: bytes, run: str) -> Records:
    item, is_completed = _read_item(raw), event == "item.completed"
    if not item.id or not item.type:
        raise Untrusted("an item without an id or a type", "$.item")
    if item.type in _CALLS:
        if is_completed or (event == "item.started" and item.type in ("command_execution", "mcp_tool_call")):
            yield _call(line, item, run)
        if is_completed:
            yield _result(line, item, raw, run)
    elif item.type == "todo_list":
        yield RunRecord(line=line, run=run, plan=bytes(item.items) or None)
        yield _event(line, run, item.type, item.type, raw)
    elif item.type == "agent_message" and is_completed and first_byte(item.text) == b'"':
        yield MessageRecord(line=line, run=run, key=item.id, role="assistant", content=bytes(item.text))
    elif is_completed:
        yield _event(line, run, item.type, item.type, raw, failed=item.type == "error")


def _call(line: int, item: ExecItem, run: str) -> CallRecord:
    tool = f"mcp__{item.server or ''}__{item.tool or ''}" if item.type == "mcp_tool_call" else str(item.type)
    named = {"command": bytes(item.command), "query": bytes(item.query)}
    own = join_object({name: value for name, value in named.items() if value}) if any(named.values()) else b"null"
    args = (bytes(item.arguments) or b"null") if item.type == "mcp_tool_call" else own
    return CallRecord(line=line, run=run, call=str(item.id), tool=storable(tool), args=args)


def _result(line: int, item: ExecItem, raw: bytes, run: str) -> ResultRecord:
    """A search has a query and no result of its own."""
    recorded: bytes | None = raw
    if item.type == "mcp_tool_call":
        recorded = next((bytes(part) for part in (item.error, item.result) if first_byte(part) == b"{"), raw)
    elif item.type == "web_search":
        recorded = None
    is_flagged = b'"isError"' in (recorded or b"") and object_slices(recorded or b"").get("isError") == b"true"
    return ResultRecord(
        line=line,
        run=run,
        call=str(item.id),
        result=recorded,
        fidelity="absent" if recorded is None else bounded_or_structured(recorded),
        is_error=item.status in _FAILED or is_flagged,
    )
