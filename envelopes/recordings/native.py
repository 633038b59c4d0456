"""Native records: what a runtime that knows Counterfoil writes, one JSON object a line, in files or over HTTP.

    {"v":1,"type":"run","run":"r1","source":"my-runtime","title":"…","started_at":"…Z"}
    {"v":1,"type":"call","run":"r1","call":"c1","tool":"ExecCommand","args":{…},"at":"…Z"}
    {"v":1,"type":"result","run":"r1","call":"c1","status":"ok","complete":{…},"started_at":"…Z","ended_at":"…Z"}
    {"v":1,"type":"receipt","run":"r1","call":"c1","seq":1,"text":"…","fidelity":"exact","at":"…Z"}

1. The other types are message, usage, artifact, event and confirmation. Every object names its run, which is unique
   among the project's native records. Fields are snake_case.
2. `call` is unique within its run; each attempt has its own. A result may come before its call.
3. The recorded result is `complete`, else the result of the five-key `canonical`. A call, result or receipt with
   more fields than its record has is kept whole as its `document`: unknown fields are evidence, and set nothing.
4. In a file the lines are in order. Records that are sent have `position`, else the microseconds of their time,
   else `seq`: so the same records give the same order however they arrive.
5. A receipt with a later `seq`, or that `supersedes` one, replaced the one before it. Of two that have the same `seq`,
   or none, the one with the later place (4) replaced the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, get_args

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    Delivery,
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
    SupersedeRecord,
    UsageRecord,
    describe_later_text,
)
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, read_json_lines
from envelopes.recordings.object_fields import ObjectFields
from envelopes.recordings.places import name_position
from envelopes.schema.settlement import read_end
from envelopes.schema.timestamps import parse_instant
from envelopes.text.untrusted_json import Untrusted, object_slices

VERSION = 1
Records: TypeAlias = Iterator[Record | LineProblem]
_RECEIPT_FIDELITIES: dict[str, ReceiptFidelity] = {name: name for name in get_args(ReceiptFidelity)}
_RESULT_FIDELITIES: dict[str, ResultFidelity] = {name: name for name in get_args(ResultFidelity)}
_DELIVERIES: dict[str, Delivery] = {name: name for name in get_args(Delivery)}
_BEGINNING = re.compile(rb'\s*\{[^{}\[\]]{0,200}"type"\s*:\s*"([a-z]+)"')
_SHA256 = re.compile("[0-9a-f]{64}")
_NO_FAILURES = ("ok", "skipped")
MAX_ATTEMPT = 2**31 - 1
ARRAY = "this is a JSON array: send each record as one object on a line of its own, without brackets and commas"


def sniff(head: bytes, _path: SourcePath) -> bool:
    """The first object names a version, one of the types, and a run."""
    beginning = _BEGINNING.match(head.removeprefix(BYTE_ORDER_MARK))
    first = head.lstrip(BYTE_ORDER_MARK + b" \t\r\n").partition(b"\n")[0]
    return beginning is not None and beginning[1].decode() in _READERS and b'"v"' in first and b'"run"' in first


def read(lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object]) -> Records:
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            if line.raw.lstrip().startswith(b"["):
                raise Untrusted(ARRAY)
            yield from _read_object(ObjectFields(line.number, line.raw), path)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)


def _read_object(fields: ObjectFields, path: SourcePath) -> list[Record | LineProblem]:
    """Raises Untrusted."""
    version = fields.integer("v", 1)
    if version is None:
        raise Untrusted(f'no version: expected "v":{VERSION}', "$.v")
    if version > VERSION:
        raise Untrusted(f"version {version} is not understood; version {VERSION} is", "$.v")
    kind = fields.required_text("type")
    if kind not in _READERS:
        raise Untrusted(f"not a known type; there are {', '.join(_READERS)}", "$.type")
    run = fields.required_text("run")
    records = list(_READERS[kind](fields, run, path))
    if fields.has_remarks:
        call = next((record.call for record in records if isinstance(record, _OF_A_CALL)), None)
        records += fields.remarks(run, call)
    return records


def _position(fields: ObjectFields, path: SourcePath, at: str | None, seq: int | None = None) -> int | None:
    """None where the line is the place. See rule 4 of the module."""
    given = fields.integer("position", 0)
    if given is not None or not path.is_live:
        return given
    instant = parse_instant(at) if at is not None else None
    return int(instant.timestamp() * 1_000_000) if instant is not None else seq or 0


def _run_records(fields: ObjectFields, run: str, _path: SourcePath) -> Records:
    parent = fields.text("parent_run")
    parent_call = fields.text("parent_call")
    record = RunRecord(
        line=fields.line,
        run=run,
        parent_run=parent,
        parent_call=parent_call if parent else None,  # calls are unique within a run only
        title=fields.text("title"),
        agent=fields.text("agent"),
        model=fields.text("model"),
        version=fields.text("version"),
        cwd=fields.text("cwd"),
        branch=fields.text("branch"),
        started_at=fields.time("started_at"),
        ended_at=fields.time("ended_at"),
        last_at=fields.time("last_at"),
        plan=fields.slice("plan"),
    )
    yield msgspec.structs.replace(record, document=fields.document) if fields.rest() else record


def _call_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    at = fields.time("at", "created_at")
    yield CallRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, at),
        call=fields.required_text("call"),
        tool=fields.required_text("tool"),
        args=fields.slice("args") or b"null",
        step=fields.text("step"),
        attempt=fields.integer("attempt", 1, MAX_ATTEMPT) or 1,
        at=at,
        document=fields.document if fields.rest() else None,
    )


def _result_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    call, ended_at = fields.required_text("call"), fields.time("ended_at")
    at = fields.time("at") or ended_at
    canonical = fields.slice("canonical")
    if canonical is not None and not canonical.startswith(b"{"):
        raise Untrusted("the canonical result is an object with five keys", "$.canonical")
    envelope = object_slices(canonical) if canonical else {}
    error = fields.slice("error") or _present(envelope.get("error"))
    complete = fields.value("complete")
    if complete == b"null" and error is not None:  # of a program that writes all fields
        complete = None
    inner = envelope.get("result", b"null")
    result = complete if complete is not None else inner if inner != b"null" else None
    fidelity: ResultFidelity = "structured" if complete is not None else "bounded"
    status, started_at = fields.text("status"), fields.time("started_at")
    yield ResultRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, at),
        call=call,
        result=result,
        fidelity=fields.choice("fidelity", _RESULT_FIDELITIES, fidelity) if result is not None else "absent",
        is_error=_is_error(fields, status, envelope, has_error=error is not None),
        status=status,
        at=at,
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=_duration(fields.integer("duration_ms", 0), started_at, ended_at),
        child_run=fields.text("child_run"),
        error=error,
        document=fields.document,
    )


def _duration(given: int | None, started_at: str | None, ended_at: str | None) -> int | None:
    """The tool's own time in milliseconds, without the wait before it."""
    start, end = (parse_instant(text) if text else None for text in (started_at, ended_at))
    if given is not None or start is None or end is None or end < start:
        return given
    return int((end - start).total_seconds() * 1_000)


def _is_error(fields: ObjectFields, status: str | None, envelope: dict[str, bytes], *, has_error: bool) -> bool | None:
    """The source's own flag, else what its status, its envelope or its error states; None where none does."""
    flag = fields.flag("is_error")
    if flag is not None:
        return flag
    if status is not None:
        end = read_end(status)
        return None if end is None else end not in _NO_FAILURES
    if "status" in envelope:
        return envelope["status"] == b'"error"'
    return True if has_error else None


def _present(raw: bytes | None) -> bytes | None:
    return None if raw in (None, b"null") else raw


def _receipt_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    call, at, seq = fields.required_text("call"), fields.time("at"), fields.integer("seq", 1)
    supersedes = fields.integer("supersedes", 0)
    position = _position(fields, path, at, seq or 1)
    fidelity = fields.choice("fidelity", _RECEIPT_FIDELITIES, "recorded")
    parts = fields.slice("parts")
    content = parts if parts not in (None, b"[]") else fields.slice("text") or fields.value("content")
    if content is not None and not content.startswith((b'"', b"[")):
        raise Untrusted("a receipt is a text or a list of parts", "$.text")
    if content and ((seq or 1) > 1 or supersedes):
        reason = describe_later_text(fields.text("reason") or "")
        yield SupersedeRecord(
            line=fields.line, run=run, position=position, call=call, reason=reason, content=content, at=at
        )
        return
    yield ReceiptRecord(
        line=fields.line,
        run=run,
        position=position,
        call=call,
        content=content or b"null",
        fidelity=fidelity if content else "absent",
        may_replace=True,
        at=at,
        document=fields.document if fields.rest() else None,
    )


def _message_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    seq, at = fields.integer("seq", 0), fields.time("at")
    content = fields.slice("text", "content") or b"null"
    place = seq if seq is not None else (at or "") if path.is_live else fields.line
    digest = hashlib.blake2s(content, digest_size=16).hexdigest()
    yield MessageRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, at, seq),
        key=f"{place}-{digest}",  # two messages with one number are both kept
        role=fields.required_text("role"),
        content=content,
        step=fields.text("step"),
        at=at,
        delivery=fields.choice("delivery", _DELIVERIES, "sent"),
        kind=fields.text("kind"),
    )


def _usage_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    at = fields.time("at")
    yield UsageRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, at),
        request=fields.required_text("request"),
        usage=fields.slice("usage") or fields.document,
        edits=fields.slice("edits"),
        cleared_tokens=fields.integer("cleared_tokens", 0),
        repeated_tokens=fields.integer("repeated_tokens", 0) or 0,
        at=at,
        input_tokens=fields.integer("input_tokens", 0) or 0,
        cache_read_tokens=fields.integer("cache_read_tokens", 0) or 0,
        cache_creation_tokens=fields.integer("cache_creation_tokens", 0) or 0,
        output_tokens=fields.integer("output_tokens", 0) or 0,
    )


def _artifact_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    sha256 = fields.text("sha256")
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise Untrusted("not a SHA-256: 64 hexadecimal digits in lower case", "$.sha256")
    yield ArtifactRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, fields.time("at")),
        call=fields.required_text("call"),
        role=fields.text("role") or "file",
        path=fields.required_text("path"),
        size=fields.integer("size", 0),
        sha256=sha256,
        ordinal=fields.integer("ordinal", 0, 10_000) or 0,
    )


def _event_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    kind, at, seq = fields.required_text("event"), fields.time("at"), fields.integer("seq", 0)
    if kind == "run.started":
        yield RunRecord(line=fields.line, run=run, started_at=at)
    if kind == "run.finished":
        yield RunRecord(line=fields.line, run=run, ended_at=at)
    yield EventRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, at, seq),
        kind=kind,
        message=fields.text("message") or kind,
        level=fields.choice("level", {"info": "info", "warn": "warn", "error": "error"}, "info"),
        call=fields.text("call"),
        payload=fields.slice("payload") or b"null",
        at=at,
        document=fields.document if fields.rest() else None,
    )


def _confirmation_records(fields: ObjectFields, run: str, path: SourcePath) -> Records:
    """Who decided what about a plan: an event with the whole record."""
    at, decision, actor = fields.time("at"), fields.required_text("decision"), fields.text("actor")
    yield EventRecord(
        line=fields.line,
        run=run,
        position=_position(fields, path, at),
        kind="run.confirmation",
        message=f"{decision} by {actor}" if actor else decision,
        payload=fields.document,
        at=at,
    )


_OF_A_CALL = (CallRecord, ResultRecord, ReceiptRecord, SupersedeRecord)
_READERS: dict[str, Callable[[ObjectFields, str, SourcePath], Records]] = {
    "run": _run_records,
    "message": _message_records,
    "usage": _usage_records,
    "call": _call_records,
    "result": _result_records,
    "receipt": _receipt_records,
    "artifact": _artifact_records,
    "event": _event_records,
    "confirmation": _confirmation_records,
}
FORMATS: tuple[Format, ...] = (
    Format(
        name="native",
        title="Native records",
        agent="native",
        namespace="native",
        mark="a first object with v, a type and a run",
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        version=5,
        name_place=name_position,
    ),
)
