"""The audit layout: a folder of files that a plan executor writes, and that `export_run` writes for any run.

    run.json        one document: the plan, the policy snapshot, the confirmation
    calls.jsonl     ToolCall, one a line
    results.jsonl   ToolResult, one a line
    events.jsonl    ExecutionEvent, one a line
    receipts.jsonl  receipts as native records (snake case)
    messages.jsonl  messages, and the usage of requests, as native records
    remarks.jsonl   of an export: values that its source had and that were changed or left out

1. Fields are camelCase. Each file is read by itself; the `runId` in every object joins them.
2. An object is kept whole as the `document` of its record, so that fields without a column are not lost.
3. A call's id is `providerCallId` where there is one (an export of another agent's run), else `callId`. Its
   result is `recorded`, the source's own, where there is one, else `data`.
4. `run.json` may be spread over many lines, and over two parts of a file that grows.
5. In an export of another agent's run each object names the `source` first: the format that the run was recorded in,
   whose ids, families and error flags hold. `position` is the place in the run (receipts and messages are in files
   of their own), `isError` the source's own flag; `status`, `error` and `canonical` are derived and not read.
6. A receipt with a later `seq` replaced the one before it; `superseded` is when and why a receipt left the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from envelopes.recordings.audit.objects import (
    Records,
    call_records,
    event_records,
    message_records,
    receipt_records,
    remark_records,
    result_records,
    run_record,
)
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    SupersedeRecord,
)
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, is_blank, read_json_lines
from envelopes.recordings.object_fields import SOURCE, ObjectFields
from envelopes.recordings.places import name_position
from envelopes.text.untrusted_json import Untrusted, check_json

_DOCUMENT_BYTES = 2**20  # an unfinished run.json beyond this size is not kept for its next part
_REMEMBERED_RUNS = 64
_REMEMBERED_CHARACTERS = 1_000  # of one run's name
_OF_A_CALL = (CallRecord, ResultRecord, ReceiptRecord, SupersedeRecord, EventRecord)


def sniff(head: bytes, path: SourcePath, source: str | None = None) -> bool:
    """The file has one of its names and begins with an object that names a run or a plan.

    `source` is the format that an export names, None for the executor's own files.
    """
    if _file_name(path) not in _READERS:
        return False
    beginning = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    exported = SOURCE.match(beginning)
    if (exported[1].decode() if exported else None) != source:
        return False
    return beginning.startswith(b"{") and any(key in beginning for key in (b'"runId"', b'"plan"', b'"run"'))


def _no_mark(_head: bytes, _path: SourcePath) -> bytes:
    return b""


def export_format(recorded: Format) -> Format:
    """The format of `export_run` for a run that was recorded in another one: its ids and names are of that one."""
    return msgspec.structs.replace(
        recorded,
        name=f"{recorded.name}-export",
        title=f"{recorded.title}, exported",
        mark="a file of the audit layout whose objects name the format that was exported",
        version=2,  # of `read` here
        is_document=False,
        is_archive=False,
        sniff=partial(sniff, source=recorded.name),
        read=read,
        name_mark=_no_mark,
        recorded_as=recorded.name,
        unnamed="",  # which calls are one was decided before the export
    )


def read(lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object]) -> Records:
    """Reads one of its files; in a file of another name each object is read by its fields."""
    if _file_name(path) == "run.json":
        yield from _read_document(lines, path, state)
        return
    known_runs = msgspec.convert(state.get("told", []), list[str])
    read_records = _READERS.get(_file_name(path), _read_by_fields)
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            fields = ObjectFields(line.number, line.raw)
            run = fields.required_text("runId", "run")
            records = list(read_records(fields, run))
            if fields.has_remarks:
                subject = next((record for record in records if isinstance(record, _OF_A_CALL)), None)
                records += fields.remarks(run, getattr(subject, "call", None), getattr(subject, "owner", None))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        if run not in known_runs and not fields.is_exported:
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
        document = ObjectFields(first, raw)
        record = run_record(document, path)
        yield record
        yield from document.remarks(record.run, None)
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


def _read_by_fields(fields: ObjectFields, run: str) -> Records:
    """Decides by a field that only one kind of object has; an object with none of them is an event."""
    for key, read_object in _READERS_BY_FIELD.items():
        if fields.has(key):
            yield from read_object(fields, run)
            return
    yield from event_records(fields, run)


_READERS: dict[str, Callable[[ObjectFields, str], Records]] = {
    "run.json": _read_by_fields,
    "calls.jsonl": call_records,
    "results.jsonl": result_records,
    "events.jsonl": event_records,
    "receipts.jsonl": receipt_records,
    "messages.jsonl": message_records,
    "remarks.jsonl": remark_records,
}
_READERS_BY_FIELD: dict[str, Callable[[ObjectFields, str], Records]] = {
    "args": call_records,
    "status": result_records,
    "renderer": receipt_records,
    "role": message_records,
    "request": message_records,
    "remark": remark_records,
}
FORMATS: tuple[Format, ...] = (
    Format(
        name="audit",
        title="Audit folder of a plan executor",
        agent="audit",
        namespace="audit",
        mark="a file of the audit layout whose objects have a runId or a plan",
        version=2,
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
        name_place=name_position,
    ),
)
