"""Rows for tests: plain functions with visible defaults. Nothing here derives anything but the label of a call."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from dashboard.evidence.argument_labels import store_label
from dashboard.ingest.store_derived import current_derivation
from dashboard.models import (
    Call,
    CanonicalProjection,
    Event,
    Membership,
    Message,
    Observation,
    Problem,
    Project,
    RecordedReceipt,
    Run,
    RunCall,
    RunFacet,
    Source,
)
from dashboard.models.identity import derive_id
from dashboard.models.outcomes import decide_outcome

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
NEXT = count(1)

ENVELOPE = {
    "tool_name": "ExecCommand",
    "status": "success",
    "summary_line": "exit 0",
    "result": {"exit_status": 0, "stdout_preview": "hello\nworld"},
    "error": None,
}


def create_project(slug: str = "default") -> Project:
    return Project.objects.filter(slug=slug).first() or Project.objects.create(slug=slug, name=slug.title())


def create_user(name: str = "alice", *, project: Project | None = None, role: str = "operator") -> User:
    """A member of `project`; nobody's member when that is None."""
    user = User.objects.filter(username=name).first() or User.objects.create(username=name)
    if project is not None and not Membership.objects.filter(user=user, project=project).update(role=role):
        Membership.objects.create(user=user, project=project, role=role)
    return user


def create_run(
    project: Project, external_id: str = "", *, facets: dict[str, list[str]] | None = None, **fields: Any
) -> Run:
    """`facets` are the values by kind, e.g. {"tool": ["Bash"], "state": ["failed"]}."""
    external_id = external_id or f"run-{next(NEXT)}"
    fields = {"title": f"Title of {external_id}", "agent": "claude-code", "source_format": "claude-code"} | fields
    fields.setdefault("started_at", START)
    fields.setdefault("sort_at", fields["started_at"] or START)
    fields.setdefault("last_at", fields["sort_at"])
    key = derive_id("run", project.pk, "test", external_id)
    run = Run.objects.create(id=key, project=project, namespace="test", external_id=external_id, **fields)
    for kind, values in (facets or {}).items():
        for value in values:
            RunFacet.objects.create(run=run, project=project, kind=kind, value=value, sort_at=run.sort_at, count=1)
    return run


def create_call(
    run: Run,
    external_id: str = "",
    *,
    args: Any = None,
    result: Any = None,
    receipt: str | list[Any] | None = None,
    envelope: dict[str, Any] | None = None,
    **fields: Any,
) -> Call:
    """A call in its run, with the halves that are given: bytes pass as they are, anything else as JSON."""
    number = next(NEXT)
    external_id = external_id or f"toolu_{number:04d}"
    fields = {"tool": "Bash", "family": "command", "status": "success", "line": number} | fields
    args = args if args is not None else {"command": "echo hello"}
    fields.setdefault("derivation", current_derivation())
    fields.setdefault("asked", store_label(_encode(args)) if fields["derivation"] else "")
    fields.setdefault("started_at", START + timedelta(seconds=number))
    names = ("status", "error_kind", "exit_status", "source_error")
    fields.setdefault("outcome", decide_outcome(**{name: fields[name] for name in names if name in fields}))
    key = derive_id("call", run.project_id, "test", external_id)
    call = Call.objects.create(
        id=key, project=run.project, run=run, namespace="test", external_id=external_id, **fields
    )
    RunCall.objects.create(run=run, call=call, ordinal=call.line)
    create_observation(call, "args", args)
    observation = None if result is None else create_observation(call, "result", result)
    if receipt is not None:
        create_receipt(call, receipt)
    if envelope is not None or observation is not None:
        create_projection(call, envelope or ENVELOPE, observation=observation)
    return call


def _encode(content: Any) -> bytes:
    return (
        content
        if isinstance(content, bytes)
        else json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )


def create_observation(
    call: Call, surface: str, content: Any, *, fidelity: str = "structured", selected: bool = True
) -> Observation:
    data = _encode(content)
    sha256 = hashlib.sha256(data).hexdigest()
    return Observation.objects.create(
        id=derive_id("observation", call.pk.bytes, surface, sha256),
        call=call,
        surface=surface,
        source=call.source,
        line=call.line,
        own_data=data,
        sha256=sha256,
        size=len(data),
        fidelity=fidelity,
        observed_at=call.started_at,
        selected=selected,
    )


def create_receipt(
    call: Call, content: Any, *, seq: int = 1, fidelity: str = "recorded", **fields: Any
) -> RecordedReceipt:
    observation = create_observation(call, "receipt", content, fidelity=fidelity)
    columns = {"output_lines": call.output_lines, "seen_lines": call.seen_lines, "is_cut": call.is_cut}
    fields = {"characters": len(content) if isinstance(content, str) else 0, "line": call.line, **columns} | fields
    run = fields.pop("run", call.run)
    return RecordedReceipt.objects.create(
        id=derive_id("receipt", run.pk.bytes, call.pk.bytes, seq),
        run=run,
        call=call,
        seq=seq,
        observation=observation,
        fidelity=fidelity,
        at=call.started_at,
        **fields,
    )


def create_projection(
    call: Call, envelope: dict[str, Any], *, observation: Observation | None = None, cuts: list[Any] | None = None
) -> CanonicalProjection:
    data = json.dumps(envelope, ensure_ascii=False).encode()
    return CanonicalProjection.objects.create(
        call=call,
        observation=observation,
        mapping=f"{call.family}:claude-code:1",
        policy="default",
        data=data,
        cuts=json.dumps(cuts or []).encode(),
        size=len(data),
    )


def create_message(run: Run, content: Any = "Please look.", *, role: str = "user", **fields: Any) -> Message:
    data = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    number = next(NEXT)
    fields = {"at": START + timedelta(seconds=number), "line": number, "size": len(data)} | fields
    return Message.objects.create(
        id=derive_id("message", run.pk.bytes, number), run=run, role=role, own_data=data, **fields
    )


def create_event(run: Run, kind: str = "step.started", *, call: UUID | None = None, **fields: Any) -> Event:
    number = next(NEXT)
    fields = {"at": START + timedelta(seconds=number), "line": number, "own_data": b"{}", "size": 2} | fields
    return Event.objects.create(id=derive_id("event", run.pk.bytes, number), run=run, call=call, kind=kind, **fields)


def create_source(project: Project, path: str = "sessions/one.jsonl", **fields: Any) -> Source:
    fields = {"format": "claude-code", "namespace": "test"} | fields
    return Source.objects.create(project=project, path=path, **fields)


def create_problem(project: Project, raw: bytes = b'{"broken": ', **fields: Any) -> Problem:
    fields = {
        "file": "sessions/one.jsonl",
        "line": next(NEXT),
        "path": "$",
        "reason": "The line is not valid JSON.",
        "raw_size": len(raw),
    } | fields
    return Problem.objects.create(project=project, raw=raw, **fields)
