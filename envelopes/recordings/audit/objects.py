"""The objects of the audit layout as records: one function for each kind of object."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal, get_args

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkKind,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
    SupersedeRecord,
    UsageRecord,
    describe_later_text,
)
from envelopes.recordings.object_fields import ObjectFields
from envelopes.text.untrusted_json import (
    Untrusted,
)

Records = Iterator[Record | LineProblem]
_FIDELITIES: dict[str, ReceiptFidelity] = {name: name for name in get_args(ReceiptFidelity)}
_RESULT_FIDELITIES: dict[str, ResultFidelity] = {name: name for name in get_args(ResultFidelity)}
_DELIVERIES: dict[str, Delivery] = {name: name for name in get_args(Delivery)}
_REMARK_KINDS: dict[str, RemarkKind | None] = {name: name for name in get_args(RemarkKind)}
_ORIGINS: dict[str, Literal["message", "progress"]] = {"progress": "progress"}
MAX_ATTEMPT = 2**31 - 1
_TOKEN_COUNTS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens")
_LEVELS: dict[str, Literal["info", "warn", "error"]] = {"info": "info", "warn": "warn", "error": "error"}


def run_record(fields: ObjectFields, path: SourcePath) -> RunRecord:
    """The run of a run.json; where it has no `runId`, the folder's name is its id."""
    folders = path.path.split("/")[:-1]
    run = fields.text("runId", "id") or (folders[-1] if folders else None)
    if not run:
        raise Untrusted("no runId, or not a string", "$.runId")
    plan = fields.slice("plan")
    goal = None
    if plan is not None and plan.startswith(b"{") and not fields.is_exported:
        goal = ObjectFields(fields.line, plan, "$.plan", fields).text("title", "goal", "summary", "intent")
    return RunRecord(
        line=fields.line,
        run=run,
        parent_run=fields.text("parentRunId"),
        parent_call=fields.text("parentCallId"),
        title=fields.text("title") or goal,
        agent=fields.text("agent"),
        model=fields.text("model"),
        version=fields.text("executorVersion"),
        cwd=fields.text("cwd"),
        branch=fields.text("branch"),
        started_at=fields.time("startedAt", "createdAt"),
        ended_at=fields.time("endedAt", "finishedAt"),
        last_at=fields.time("lastAt"),
        plan=plan,
        origin=fields.choice("origin", _ORIGINS, "message"),
        extra=fields.rest(),
        document=fields.document,
    )


def call_records(fields: ObjectFields, run: str) -> Records:
    yield CallRecord(
        line=fields.line,
        run=run,
        position=fields.integer("position", 0),
        call=fields.required_text("providerCallId", "callId"),
        tool=fields.required_text("tool"),
        args=fields.slice("args") or b"null",
        step=fields.text("stepId"),
        attempt=fields.integer("attempt", 1, MAX_ATTEMPT) or 1,
        at=fields.time("createdAt"),
        origin=fields.choice("origin", _ORIGINS, "message"),
        inherited=fields.flag("inherited") is True,
        names_other=fields.flag("namesOther") is True,
        extra=fields.rest(),
        document=fields.document,
        owner=fields.text("ownerRunId"),
    )


def result_records(fields: ObjectFields, run: str) -> Records:
    call = fields.required_text("providerCallId", "callId")
    owner = fields.text("ownerRunId")
    status = fields.text("status")
    ok = fields.flag("ok")
    is_error = None if ok is None and status is None else ok is False or status not in (None, "ok", "skipped")
    result = fields.value("recorded") if fields.is_exported else fields.slice("recorded", "data")
    position, ended_at = fields.integer("position", 0), fields.time("endedAt")
    yield ResultRecord(
        line=fields.line,
        run=run,
        position=position,
        call=call,
        result=result,
        fidelity=fields.choice("fidelity", _RESULT_FIDELITIES, "structured") if result else "absent",
        is_error=fields.flag("isError") if fields.is_exported else is_error,
        status=status,
        at=fields.time("observedAt") or ended_at,
        started_at=fields.time("startedAt"),
        ended_at=ended_at,
        duration_ms=fields.integer("durationMs", 0),
        child_run=fields.text("childRunId"),
        error=None if fields.is_exported else fields.slice("error"),
        effects=fields.slice("effects"),
        extra=fields.rest(),
        document=fields.document,
        owner=owner,
    )
    paths: set[str] = set()
    for file in fields.objects_in("files"):
        role, path = file.text("role"), file.text("path")
        if not (role and path) or path in paths:
            file.leave_out("a file needs a role and a path" if path not in paths else "another file has its path")
            continue
        paths.add(path)
        yield ArtifactRecord(
            line=fields.line,
            run=run,
            call=call,
            role=role,
            path=path,
            size=file.integer("size", 0),
            sha256=file.text("sha256"),
            owner=owner,
        )


def event_records(fields: ObjectFields, run: str) -> Records:
    kind = fields.required_text("type", "event")
    at = fields.time("timestamp")
    message = fields.text("message")
    if kind == "run.started":
        yield RunRecord(line=fields.line, run=run, started_at=at)
    if kind == "run.finished":
        yield RunRecord(line=fields.line, run=run, ended_at=at)
    yield EventRecord(
        line=fields.line,
        run=run,
        position=fields.integer("position", 0),
        kind=kind,
        message=message or ("" if fields.is_exported and message is not None else kind),
        level=fields.choice("level", _LEVELS, "info"),
        call=fields.text("providerCallId", "callId"),
        payload=fields.slice("payload") or b"null",
        at=at,
        extra=fields.rest(),
        document=None if fields.is_exported else fields.document,
    )


def receipt_records(fields: ObjectFields, run: str) -> Records:
    """A receipt with a later number replaced the one before it, unless it is a further one."""
    call = fields.required_text("call", "providerCallId", "callId")
    seq, position, at = fields.integer("seq", 1), fields.integer("position", 0), fields.time("at")
    owner = fields.text("owner_run")
    fidelity = fields.choice("fidelity", _FIDELITIES, "recorded")
    end = fields.object_in("superseded")
    parts = fields.slice("parts")
    content = parts if parts not in (None, b"[]") else fields.slice("text") or fields.value("content")
    is_further = fields.flag("is_further") is True
    if seq is not None and seq > 1 and content and not is_further:
        yield SupersedeRecord(
            line=fields.line,
            run=run,
            position=position,
            call=call,
            reason=describe_later_text(fields.text("reason") or ""),
            content=content,
            at=at,
            owner=owner,
        )
    else:
        yield ReceiptRecord(
            line=fields.line,
            run=run,
            position=position,
            call=call,
            content=content or b"null",
            fidelity=fidelity if content else "absent",
            is_further=is_further,
            is_running=fields.flag("is_running") is True,
            at=at,
            extra=fields.rest(),
            document=fields.document,
            owner=owner,
        )
    if end is not None:
        yield SupersedeRecord(
            line=fields.line,
            run=run,
            position=end.integer("position", 0),
            call=call,
            reason=end.text("reason") or "",
            at=end.time("at"),
            owner=owner,
        )


def message_records(fields: ObjectFields, run: str) -> Records:
    """A message, or the usage of the request that it answered."""
    if fields.has("request"):
        yield from _usage_records(fields, run)
        return
    seq = fields.integer("seq", 0)
    content = fields.slice("text", "content") or b"null"
    # Two messages with one number are both kept: the key has the text too.
    yield MessageRecord(
        line=fields.line,
        run=run,
        position=fields.integer("position", 0),
        key=f"seq-{fields.line if seq is None else seq}-{hashlib.blake2s(content, digest_size=16).hexdigest()}",
        role=fields.required_text("role"),
        content=content,
        step=fields.text("step"),
        at=fields.time("at"),
        delivery=fields.choice("delivery", _DELIVERIES, "sent"),
        kind=fields.text("kind"),
    )


def remark_records(fields: ObjectFields, run: str) -> Records:
    """A remark of `export_run` on a value that its export has no more."""
    kind = fields.choice("remark", _REMARK_KINDS, None)
    if kind is None:
        raise Untrusted("not a kind of remark", "$.remark")
    yield RemarkRecord(
        line=fields.line,
        run=run,
        position=fields.integer("position", 0),
        kind=kind,
        path=fields.required_text("path"),
        was=fields.text("was") or "",
        became=fields.text("became") or "",
        call=fields.text("providerCallId"),
    )


def _usage_records(fields: ObjectFields, run: str) -> Records:
    counts = {name: fields.integer(name, 0) or 0 for name in _TOKEN_COUNTS}
    yield UsageRecord(
        line=fields.line,
        run=run,
        position=fields.integer("position", 0),
        request=fields.required_text("request"),
        usage=fields.slice("usage") or b"null",
        edits=fields.slice("edits"),
        cleared_tokens=fields.integer("cleared_tokens", 0),
        repeated_tokens=fields.integer("repeated_tokens", 0) or 0,
        origin=fields.choice("origin", _ORIGINS, "message"),
        at=fields.time("at"),
        **counts,
    )
