"""What WaitFor and Enqueue leave behind: a recorded wait, and a follow-up to oneself.

WaitFor   scope, reason, wake, resource?, work_item_id?, wait_condition {}, work_item {}?,
          cancelled_wait_condition_ids []
Enqueue   enqueued, priority, follow_up_text
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envelopes.families.base import Projector, ResultMembers
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import to_members
from envelopes.schema.result import JsonValue, summarize

Wake: TypeAlias = Literal["operator_input", "task_result", "external"]
Scope: TypeAlias = Literal["agent", "work_item"]
Priority: TypeAlias = Literal["interject", "next", "normal", "background"]
LINE_CHARACTERS = 200  # spec/model.md E-8: summary 200
SOURCES_CHARACTERS = 1_000


class WaitCondition(msgspec.Struct, frozen=True, kw_only=True):
    """One wait as the runtime keeps it. Times are ISO 8601 with zone."""

    id: str
    work_item_id: str | None = None
    status: Literal["active", "resolved", "cancelled", "expired"]
    kind: Literal["task", "external", "operator", "timer", "system"]
    source: str | None = None
    subject_ref: str | None = None
    waiting_for: str
    wake_sources: tuple[str, ...] = ()
    external_recoverability: str | None = None
    no_fallback_reason: str | None = None
    continuation: str | None = None
    created_at: str
    updated_at: str


class WaitingWorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """The work item that now waits, as far as a wait changes it."""

    id: str
    objective: str
    state: Literal["open", "completed"]
    focus: str | None = None
    readiness: str | None = None


class WaitRecorded(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelled_wait_condition_ids` are the waits that this one replaced."""

    scope: Scope
    reason: str
    wake: Wake
    resource: str | None = None
    work_item_id: str | None = None
    wait_condition: WaitCondition
    work_item: WaitingWorkItem | None = None
    cancelled_wait_condition_ids: tuple[str, ...] = ()


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    priority: Priority
    text: str


def wait_outcome(found: WaitRecorded) -> str:
    at = f"work item {found.work_item_id}" if found.scope == "work_item" else "the agent"
    return summarize(f"Waiting at {at} on {found.wake}: {found.reason}")


def follow_up_outcome(found: FollowUp) -> str:
    return f"Enqueued follow-up ({found.priority})"


def project_wait(found: WaitRecorded, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The reason is whole in the call's arguments, so no artifact repeats it."""
    replaced = list(found.cancelled_wait_condition_ids)
    return {
        "scope": found.scope,
        "reason": one_line("reason", found.reason, projector, policy.details),
        "wake": found.wake,
        "resource": found.resource,
        "work_item_id": found.work_item_id,
        "wait_condition": _condition("wait_condition", found.wait_condition, projector, policy),
        "work_item": _work_item(found.work_item, projector),
        **projector.items("cancelled_wait_condition_ids", list(replaced), policy),
    }


def project_follow_up(found: FollowUp, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    text = projector.text("follow_up_text", found.text, policy.details, role="follow_up")
    return {"enqueued": True, "priority": found.priority, **text}


def _condition(field: str, condition: WaitCondition, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    texts = ("waiting_for", "no_fallback_reason", "continuation")
    lines = {name: one_line(f"{field}/{name}", getattr(condition, name), projector) for name in texts}
    few = msgspec.structs.replace(policy, preview=min(policy.preview, SOURCES_CHARACTERS))
    sources = projector.items(f"{field}/wake_sources", list(condition.wake_sources), few)
    said = to_members(msgspec.structs.replace(condition, **lines))
    assert isinstance(said, dict)
    return said | {path.rpartition("/")[2]: member for path, member in sources.items()}


def one_line(field: str, text: str | None, projector: Projector, budget: int = LINE_CHARACTERS) -> str | None:
    """One line, so that it cannot pass for a line of the receipt's own."""
    return None if text is None else projector.line(field, " ".join(text.split()), budget)


def _work_item(found: WaitingWorkItem | None, projector: Projector) -> JsonValue:
    if found is None:
        return None
    objective = one_line("work_item/objective", found.objective, projector)
    return to_members(msgspec.structs.replace(found, objective=objective))
