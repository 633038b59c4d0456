"""The audit layout of a plan executor: a folder of four files, and receipts where there are any.

    run.json        one document: the plan, the policy snapshot, the confirmation
    calls.jsonl     ToolCall, one a line
    results.jsonl   ToolResult, one a line
    events.jsonl    ExecutionEvent, one a line
    receipts.jsonl  receipts as native records (snake case)

1. Fields are camelCase. Each file is read by itself; the `runId` in every object joins them.
2. Fields for which a record has none of its own are kept in `extra`; nothing is omitted.
3. A call's id is `providerCallId` where there is one (an export of another agent's run), else `callId`. Its
   result is `recorded`, the source's own, where there is one, else `data`.
4. `run.json` may be spread over many lines, and over two parts of a file that grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar, get_args

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.recordings.base import (
    BYTE_ORDER_MARK,
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    is_blank,
    read_json_lines,
    storable,
    valid_timestamp,
)
from envelopes.text.untrusted_json import Untrusted, check_json, join_object, object_slices, parse_json

Records = Iterator[Record | LineProblem]
Value = TypeVar("Value")
_DOCUMENT_BYTES = 2**20  # an unfinished run.json beyond this size is not kept for its next part
_REMEMBERED_RUNS = 64
_REMEMBERED_CHARACTERS = 1_000  # of one run's name
_FIDELITIES: dict[str, ReceiptFidelity] = {name: name for name in get_args(ReceiptFidelity)}
_LEVELS: dict[str, Literal["info", "warn", "error"]] = {"info": "info", "warn": "warn", "error": "error"}


class AuditObject:
    """The fields of one object. Reading a field removes it; `rest` returns those that were not read.

    Where a method takes several names, the first field that is present and has the type is read.
    """

    def __init__(self, line: int, raw: bytes) -> None:
        self.line = line
        self._fields = object_slices(raw)

    def slice(self, *names: str) -> bytes | None:
        """The field's own bytes; a null counts as absent."""
        for name in names:
            if self._fields.get(name, b"null") != b"null":
                return self._fields.pop(name)
        return None

    def text(self, *names: str) -> str | None:
        """A string, as a text column can store it."""
        for name in names:
            if self._fields.get(name, b"").startswith(b'"'):
                return storable(str(parse_json(self._fields.pop(name))))
        return None

    def required_text(self, *names: str) -> str:
        text = self.text(*names)
        if not text:
            name = next((name for name in names if name in self._fields), names[0])
            raise Untrusted(f"no {' or '.join(names)}, or not a string", f"$.{name}")
        return text

    def time(self, *names: str) -> str | None:
        for name in names:
            if not self._fields.get(name, b"").startswith(b'"'):
                continue
            if timestamp := valid_timestamp(str(parse_json(self._fields[name]))):
                del self._fields[name]
                return timestamp
        return None

    def choice(self, name: str, table: dict[str, Value], default: Value) -> Value:
        """The value that `table` has for the string; a string that is not in the table stays in `rest`."""
        for word, value in table.items():
            if self._fields.get(name) == b'"' + word.encode() + b'"':
                del self._fields[name]
                return value
        return default

    def has(self, name: str) -> bool:
        return name in self._fields

    def integer(self, name: str, minimum: int) -> int | None:
        value = parse_json(self._fields.get(name, b"null"))
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value < 2**53:
            del self._fields[name]
            return value
        return None

    def flag(self, name: str) -> bool | None:
        """A boolean, which stays in `rest`."""
        return {b"true": True, b"false": False}.get(self._fields.get(name, b""))

    def rest(self) -> bytes | None:
        return join_object(self._fields) if self._fields else None


def sniff(head: bytes, path: SourcePath) -> bool:
    """The file has one of the five names and begins with an object that names a run or a plan."""
    if _file_name(path) not in _READERS:
        return False
    beginning = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    return beginning.startswith(b"{") and any(key in beginning for key in (b'"runId"', b'"plan"', b'"run"'))


def read(lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object]) -> Records:
    """Reads one of the five files; in a file of another name each object is read by its fields."""
    if _file_name(path) == "run.json":
        yield from _read_document(lines, path, state)
        return
    known_runs = msgspec.convert(state.get("told", []), list[str])
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            audit_object = AuditObject(line.number, line.raw)
            run = audit_object.required_text("runId", "run")
            records = list(_READERS.get(_file_name(path), _read_by_fields)(audit_object, run))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        if run not in known_runs:
            yield RunRecord(line=line.number, run=run)
            if len(run) <= _REMEMBERED_CHARACTERS:
                known_runs = [*known_runs, run][-_REMEMBERED_RUNS:]
        yield from records
        state["told"] = known_runs


def is_global_call_id(call: str) -> bool:
    """Call ids are unique within their run only."""
    return False


def _file_name(path: SourcePath) -> str:
    return path.path.rsplit("/", 1)[-1]


def _read_document(lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object]) -> Records:
    """Reads run.json. The beginning of an unfinished document is kept in `state`, byte for byte as Latin-1."""
    earlier = str(state.get("document", "")).encode("latin-1")
    new_lines = list(lines)
    raw = (earlier + b"".join(line.raw for line in new_lines)).removeprefix(BYTE_ORDER_MARK)
    if is_blank(raw) or not new_lines:
        return
    first = int(str(state.get("document_line", new_lines[0].number)))
    try:
        check_json(raw)
        yield _run(AuditObject(first, raw), path)
    except Untrusted as refusal:
        yield LineProblem(
            line=new_lines[0].number,
            path=refusal.path,
            reason=f"run.json is one JSON document: {refusal.reason}",
            raw=raw,
            lines=sum(not is_blank(line.raw) for line in new_lines),
        )
        if len(raw) <= _DOCUMENT_BYTES:
            state.update(document=raw.decode("latin-1"), document_line=first)
        return
    state.pop("document", None)


def _run(fields: AuditObject, path: SourcePath) -> RunRecord:
    """The run of a run.json; where it has no `runId`, the folder's name is its id."""
    folders = path.path.split("/")[:-1]
    run = fields.text("runId", "id") or (folders[-1] if folders else None)
    if not run:
        raise Untrusted("no runId, or not a string", "$.runId")
    plan = fields.slice("plan")
    goal = None
    if plan is not None and plan.startswith(b"{"):
        goal = AuditObject(fields.line, plan).text("title", "goal", "summary", "intent")
    return RunRecord(
        line=fields.line,
        run=run,
        title=fields.text("title") or goal,
        agent=fields.text("agent"),
        model=fields.text("model"),
        version=fields.text("executorVersion"),
        started_at=fields.time("startedAt", "createdAt"),
        ended_at=fields.time("endedAt", "finishedAt"),
        plan=plan,
        extra=fields.rest(),
    )


def _calls(fields: AuditObject, run: str) -> Records:
    yield CallRecord(
        line=fields.line,
        run=run,
        call=fields.required_text("providerCallId", "callId"),
        tool=fields.required_text("tool"),
        args=fields.slice("args") or b"null",
        step=fields.text("stepId"),
        attempt=fields.integer("attempt", 1) or 1,
        at=fields.time("createdAt"),
        extra=fields.rest(),
    )


def _results(fields: AuditObject, run: str) -> Records:
    call = fields.required_text("providerCallId", "callId")
    status = fields.text("status")
    ok = fields.flag("ok")
    result = fields.slice("recorded", "data")
    yield ResultRecord(
        line=fields.line,
        run=run,
        call=call,
        result=result,
        fidelity="structured" if result else "absent",
        is_error=None if ok is None and status is None else ok is False or status not in (None, "ok", "skipped"),
        status=status,
        at=fields.time("endedAt"),
        started_at=fields.time("startedAt"),
        duration_ms=fields.integer("durationMs", 0),
        error=fields.slice("error"),
        effects=fields.slice("effects"),
        extra=fields.rest(),
    )


def _events(fields: AuditObject, run: str) -> Records:
    kind = fields.required_text("type", "event")
    at = fields.time("timestamp")
    if kind == "run.started":
        yield RunRecord(line=fields.line, run=run, started_at=at)
    if kind == "run.finished":
        yield RunRecord(line=fields.line, run=run, ended_at=at)
    yield EventRecord(
        line=fields.line,
        run=run,
        kind=kind,
        message=fields.text("message") or kind,
        level=fields.choice("level", _LEVELS, "info"),
        call=fields.text("providerCallId", "callId"),
        payload=fields.slice("payload") or b"null",
        at=at,
        extra=fields.rest(),
    )


def _receipts(fields: AuditObject, run: str) -> Records:
    call = fields.required_text("call", "providerCallId", "callId")
    fidelity = fields.choice("fidelity", _FIDELITIES, "recorded")
    parts = fields.slice("parts")
    content = parts if parts not in (None, b"[]") else fields.slice("text")
    yield ReceiptRecord(
        line=fields.line,
        run=run,
        call=call,
        content=content or b"null",
        fidelity=fidelity if content else "absent",
        at=fields.time("at"),
        extra=fields.rest(),
    )


def _read_by_fields(fields: AuditObject, run: str) -> Records:
    """Decides by a field that only one kind of object has; an object with none of them is an event."""
    for key, read_object in (("args", _calls), ("status", _results), ("renderer", _receipts)):
        if fields.has(key):
            yield from read_object(fields, run)
            return
    yield from _events(fields, run)


_READERS: dict[str, Callable[[AuditObject, str], Records]] = {
    "run.json": _read_by_fields,
    "calls.jsonl": _calls,
    "results.jsonl": _results,
    "events.jsonl": _events,
    "receipts.jsonl": _receipts,
}
FORMATS: tuple[Format, ...] = (
    Format(
        name="audit",
        title="Audit folder of a plan executor",
        agent="audit",
        namespace="audit",
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
    ),
)
