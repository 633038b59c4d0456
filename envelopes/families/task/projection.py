"""The bounded canonical results of the task family.

    TaskOutput   retrieval_status, task {…, output_preview, output_truncated, output_artifact?, failure_artifact?}
    TaskList     tasks [digest], tasks_omitted?, tasks_artifact?
    TaskStatus   task {snapshot}
    TaskInput    task {snapshot}, accepted_input, input_target?, bytes_written?, refusal?
    TaskStop     task {snapshot}, stop_requested, force_stop_requested

An index `<field>_artifact` beside a preview points into the envelope's `artifacts` (RFC-087).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

import msgspec

from envelopes.families.base import Projector, ResultMembers, project_by_type
from envelopes.families.task.results import (
    ActiveTasks,
    FailureArtifact,
    InputOffered,
    StopRequested,
    TaskCommand,
    TaskDigest,
    TaskRead,
    TaskSnapshot,
    TaskState,
    TaskStopped,
)
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import CHILD_REPORT_CHARACTERS, to_members
from envelopes.schema.result import JsonValue
from envelopes.text.command_preview import preview_command
from envelopes.text.fit_receipt import count_fitting
from envelopes.text.preview import FileText

LISTED_TASKS = 50
ROWS_SHARE = 2  # the receipt says half of a row: not its times, nor the command's identity
LINE_CHARACTERS = 200  # spec/model.md E-8: summary 200


def _task_read(found: TaskRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    task: ResultMembers = {
        "task_id": found.task_id,
        "kind": found.kind,
        "status": found.status,
        **_text("summary", found.summary, projector, policy),
        "exit_status": found.exit_status,
        **_output(found, projector, policy),
        **_failure_text(found.failure, projector, policy),
        "failure_artifact": _failure(found.failure_artifact, projector, policy),
        "child_supervision": to_members(found.child_supervision),
    }
    return {"retrieval_status": found.retrieval_status, "task": _said(task)}


def _output(found: TaskRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The preview, where the whole is, and the task's report unless the output says it already (RFC-107)."""
    budget = policy.preview if found.child_supervision is None else min(policy.preview, CHILD_REPORT_CHARACTERS)
    field, output = "task/output_preview", found.output
    path = output.path if isinstance(output, FileText) else found.log_path
    artifact: int | None
    if isinstance(output, str) and path is None:
        shown, artifact = projector.preview(field, output, budget, role="output")
    else:
        shown, artifact = projector.preview_stored(field, output, budget, path=path or "")
    report = None if _repeats(found, shown) else found.result_summary
    return {
        "output_preview": shown,
        "output_truncated": (output.characters if isinstance(output, FileText) else len(output)) > budget,
        "output_artifact": artifact,
        **_text("result_summary", report, projector, policy),
    }


def _repeats(found: TaskRead, shown: str) -> bool:
    report = (found.result_summary or "").strip()
    whole = "" if isinstance(found.output, FileText) else found.output.strip()
    return report in (whole, (found.summary or "").strip()) or report in shown


def _failure_text(text: str | None, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """Its index has a name of its own: `failure_artifact` is our own record of why a task failed."""
    if text is None:
        return {}
    shown, artifact = projector.preview("task/failure", text, policy.details, role="failure")
    return {"failure": shown, "failure_text_artifact": artifact}


def _failure(found: FailureArtifact | None, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    if found is None:
        return None
    at = "task/failure_artifact"
    causes = _fitting_indexes(f"{at}/source_chain", map(_line_size, found.source_chain), projector, policy)
    members = list(found.metadata.items())
    kept = _fitting_indexes(f"{at}/metadata", (len(json.dumps(one)) for one in members), projector, policy)
    lines = [
        projector.line(f"{at}/source_chain/{index}", found.source_chain[index], LINE_CHARACTERS) for index in causes
    ]
    return _said(
        {
            **msgspec.structs.asdict(found),
            "summary": projector.line(f"{at}/summary", found.summary, policy.details),
            "source_chain": lines if found.source_chain else None,
            "source_chain_omitted": len(found.source_chain) - len(causes) or None,
            "metadata": dict(members[index] for index in kept) if members else None,
            "metadata_omitted": len(members) - len(kept) or None,
        }
    )


def _fitting_indexes(field: str, sizes: Iterable[int], projector: Projector, policy: ProjectionPolicy) -> list[int]:
    """The items of `/result/<field>` that fit; what does not is recorded as cut."""
    known = list(sizes)
    limit = count_fitting(known, rows=policy.rows, characters=policy.details)
    projector.rows(field, list(known), limit)
    return list(range(min(limit, len(known))))


def _task_stopped(found: TaskStopped, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    command = None if found.command is None else {"cmd": preview_command(found.command).preview}
    message = {} if found.message is None else projector.text("message", found.message, policy.details, role="message")
    return {
        "task": _said({"task_id": found.task_id, "kind": found.kind, "command": command}),
        "stop_requested": True,
        **message,
    }


def _active_tasks(found: ActiveTasks, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """At most 50 rows (spec/tools.md B.1). The whole list is kept when some had to go."""
    rows = count_fitting(map(_row_size, found.tasks), rows=min(policy.rows, LISTED_TASKS), characters=policy.preview)
    bounded = msgspec.structs.replace(policy, rows=rows, preview=ROWS_SHARE * policy.preview)
    listed = projector.build_items("tasks", found.tasks, bounded, partial(_row, projector))
    if "tasks_omitted" in listed:
        listed["tasks_artifact"] = projector.store("tasks", _lines_of_json(found))
    return listed


def _row(projector: Projector, task: TaskDigest, field: str) -> JsonValue:
    """The command of a row is only its identity; TaskStatus says the rest."""
    identity = {} if task.command is None else _identity(task.command)
    return _said(
        {
            "id": task.id,
            "kind": task.kind,
            "status": task.status,
            "summary": _line(f"{field}/summary", task.summary, projector),
            "updated_at": task.updated_at,
            "wait_policy": task.wait_policy,
            "command": identity or None,
        }
    )


def _identity(command: TaskCommand) -> dict[str, JsonValue]:
    """What may be said of the command's text: a preview without secrets and the digest of the whole."""
    if command.cmd is None:
        return _said({"cmd_digest": command.cmd_digest})
    text = preview_command(command.cmd)
    return {"cmd": text.preview, "cmd_digest": command.cmd_digest or text.digest}


def _row_size(task: TaskDigest) -> int:
    """Of what the receipt says; names and times of the envelope are the same in each row."""
    return len(task.id) + len(task.kind) + len(task.status) + _line_size(task.summary or "")


def _line(field: str, text: str | None, projector: Projector) -> str | None:
    """One line, so that it cannot pass for a line of the receipt's own."""
    return None if text is None else projector.line(field, " ".join(text.split()), LINE_CHARACTERS)


def _line_size(text: str) -> int:
    return min(len(text), LINE_CHARACTERS)


def _lines_of_json(found: ActiveTasks) -> str:
    """One task a line, so that a slice of the artifact is readable."""
    return "\n".join(json.dumps(to_members(task), ensure_ascii=False) for task in found.tasks)


def _task_state(found: TaskState, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {"task": _snapshot(found.task, projector, policy)}


def _input_offered(found: InputOffered, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    refusal = None if found.accepted_input else found.refusal
    return {
        "task": _snapshot(found.task, projector, policy),
        "accepted_input": found.accepted_input,
        "input_target": found.input_target,
        "bytes_written": found.bytes_written,
        "refusal": _line("refusal", refusal, projector),
    }


def _stop_requested(found: StopRequested, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "task": _snapshot(found.task, projector, policy),
        "stop_requested": True,
        "force_stop_requested": found.force_stop_requested,
    }


def _snapshot(task: TaskSnapshot, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    members = msgspec.structs.asdict(task) | {
        "summary": _line("task/summary", task.summary, projector),
        "child_supervision": to_members(task.child_supervision),
    }
    for name, texts in _NESTED_TEXTS.items():
        if (part := getattr(task, name)) is not None:
            members[name] = _part(part, name, texts, projector, policy)
    if task.command is not None:
        members["command"] |= _identity(task.command)
    return _said(members)


_NESTED_TEXTS = {
    "command": ("result_summary",),
    "child_observability": ("waiting_reason", "blocked_reason", "last_progress", "last_result"),
}


def _part(
    part: msgspec.Struct, name: str, texts: tuple[str, ...], projector: Projector, policy: ProjectionPolicy
) -> JsonValue:
    members = msgspec.structs.asdict(part)
    for text in texts:
        members |= _text(text, members[text], projector, policy, at=f"task/{name}")
    return _said(members)


def _text(
    field: str, text: str | None, projector: Projector, policy: ProjectionPolicy, *, at: str = "task"
) -> ResultMembers:
    """`field` with at most `policy.details` characters, and the index of the whole when it was cut."""
    if text is None:
        return {}
    shown, artifact = projector.preview(f"{at}/{field}", text, policy.details, role=field)
    return {field: shown} if artifact is None else {field: shown, f"{field}_artifact": artifact}


def _said(members: ResultMembers) -> dict[str, JsonValue]:
    return {name: member for name, member in members.items() if member is not None}


project = project_by_type(
    {
        TaskRead: _task_read,
        TaskStopped: _task_stopped,
        ActiveTasks: _active_tasks,
        TaskState: _task_state,
        InputOffered: _input_offered,
        StopRequested: _stop_requested,
    }
)
