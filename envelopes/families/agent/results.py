"""The results of tools that hand work to an agent, a skill or the user, and their bounded forms.

WaitRecorded   WaitFor: scope, reason, wake, resource?, work_item_id?, wait_condition {}, work_item {}?,
               cancelled_wait_condition_ids []
AgentRead      AgentGet: agent {identity {}, state, …, active_children [], …}, at most 6,000 characters of names
               and values; agent_artifact?
FollowUp       Enqueue: enqueued, priority, follow_up_text
Spawned        SpawnAgent: agent_id, and for a private child the task that supervises it
AgentRun, SkillRun, Answers, ApprovedPlan, EnteredPlanMode   what foreign agents record
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers, count_fitting, pick, text_size
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import (
    CHILD_REPORT_CHARACTERS,
    ChildSupervision,
    JsonValue,
    TaskHandle,
    ToolError,
    summarize,
    to_members,
)
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import join

AGENT_CHARACTERS = 6_000
NAMES_CHARACTERS = 400  # of the lists, and of the counts of what was left out
LINE_CHARACTERS = 200  # E-8: summary 200
SOURCES_CHARACTERS = 1_000
LISTED = 10
LISTS = (
    "counts",
    "wait_conditions",
    "active_children",
    "waiting_intents",
    "external_triggers",
    "notifications",
    "loaded_guidance",
    "skills",
)

Wake: TypeAlias = Literal["operator_input", "task_result", "external"]
Scope: TypeAlias = Literal["agent", "work_item"]
Priority: TypeAlias = Literal["interject", "next", "normal", "background"]


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


class AgentIdentity(msgspec.Struct, frozen=True, kw_only=True):
    agent_id: str
    profile: Literal["public_named", "private_child"]
    name: str | None = None
    parent_agent_id: str | None = None


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """How the last turn ended: continuable, waiting, completed, failed."""

    outcome: str
    waiting_reason: str | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    execution_root: str | None = None
    cwd: str | None = None
    projection_kind: str | None = None


class WorkspaceOccupancy(msgspec.Struct, frozen=True, kw_only=True):
    workspace_id: str
    mode: str | None = None
    holder_agent_id: str | None = None


class ActiveChild(msgspec.Struct, frozen=True, kw_only=True):
    agent_id: str
    status: str | None = None
    task_id: str | None = None
    work_item_id: str | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An intent to wait, an external trigger or a notification that is still open."""

    id: str
    status: str | None = None
    text: str | None = None


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    identity: AgentIdentity
    state: str
    scheduling_posture: str | None = None
    lifecycle: str
    active_task_count: int = 0
    current_work_item_id: str | None = None
    model: str | None = None
    token_usage: TokenUsage | None = None
    closure: Closure | None = None
    execution: Execution | None = None
    workspace: WorkspaceOccupancy | None = None
    counts: dict[str, int] = {}
    wait_conditions: tuple[WaitCondition, ...] = ()
    active_children: tuple[ActiveChild, ...] = ()
    waiting_intents: tuple[Pending, ...] = ()
    external_triggers: tuple[Pending, ...] = ()
    notifications: tuple[Pending, ...] = ()
    loaded_guidance: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


class AgentRead(msgspec.Struct, frozen=True):
    agent: AgentSummary


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """A public_named agent has only an id; a private_child runs in the background under a task.

    `initial_output` is what the child said before the call returned, whole.
    """

    agent_id: str
    child_agent_id: str | None = None
    task_handle: TaskHandle | None = None
    supervision_task_id: str | None = None
    child_supervision: ChildSupervision | None = None
    delegation_id: str | None = None
    parent_work_item_id: str | None = None
    child_work_item_id: str | None = None
    initial_output: str = ""


class AgentRun(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the child's report; `launched`: it still works in the background."""

    agent_id: str | None = None
    status: str | None = None
    description: str | None = None
    launched: bool = False
    output_file: str | None = None
    text: str = ""
    total_tokens: int | None = None
    total_tool_uses: int | None = None
    duration_ms: int | float | None = None


class SkillRun(msgspec.Struct, frozen=True, kw_only=True):
    skill: str | None = None
    started: bool | None = None
    status: str | None = None
    agent_id: str | None = None
    text: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`answer` is None for a question that was left open."""

    question: str
    header: str | None = None
    answer: str | None = None


class Answers(msgspec.Struct, frozen=True):
    answers: tuple[Answer, ...] = ()


class ApprovedPlan(msgspec.Struct, frozen=True, kw_only=True):
    plan: str = ""
    path: str | None = None
    is_agent: bool | None = None


class EnteredPlanMode(msgspec.Struct, frozen=True):
    message: str


def wait_outcome(result: WaitRecorded) -> str:
    holder = f"work item {result.work_item_id}" if result.scope == "work_item" else "the agent"
    return summarize(f"Waiting at {holder} on {result.wake}: {result.reason}")


def follow_up_outcome(result: FollowUp) -> str:
    return f"Enqueued follow-up ({result.priority})"


def agent_outcome(result: AgentRead) -> str:
    return summarize(f"Agent {result.agent.identity.agent_id} is {result.agent.state}")


def spawn_outcome(result: Spawned) -> str:
    under = f" under task {result.task_handle.task_id}" if result.task_handle else ""
    return summarize(f"Agent spawned: {result.agent_id}{under}")


def no_agents_here(profile: str) -> ToolError:
    """A profile without the capability to create agents."""
    return ToolError(
        kind="unsupported_agent_profile_capability",
        message=f"an agent of the profile {profile} cannot create agents",
        details={"required_family": "agent_creation", "profile_preset": profile},
        recovery_hint="do the work yourself, or report to the parent agent what another agent should do",
        retryable=False,
    )


def no_worktrees_here() -> ToolError:
    return ToolError(
        kind="unsupported_runtime_capability",
        message="this runtime cannot give a child a worktree of its own",
        details={"field": "workspace_mode"},
        recovery_hint='call SpawnAgent with workspace_mode "inherit", or leave it out',
        retryable=False,
    )


def _project_wait(result: WaitRecorded, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The reason is whole in the call's arguments, so no artifact repeats it."""
    return {
        "scope": result.scope,
        "reason": projector.one_line("reason", result.reason, policy.details),
        **pick(result, "wake", "resource", "work_item_id"),
        "wait_condition": _project_condition(result.wait_condition, projector, policy),
        "work_item": _project_work_item(result.work_item, projector),
        **projector.items("cancelled_wait_condition_ids", result.cancelled_wait_condition_ids, policy),
    }


def _project_condition(condition: WaitCondition, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    lines = {
        name: projector.one_line(f"wait_condition/{name}", getattr(condition, name), LINE_CHARACTERS)
        for name in ("waiting_for", "no_fallback_reason", "continuation")
    }
    sources = projector.items(
        "wait_condition/wake_sources", condition.wake_sources, policy, characters=SOURCES_CHARACTERS
    )
    return _members(msgspec.structs.replace(condition, **lines)) | sources


def _project_work_item(item: WaitingWorkItem | None, projector: Projector) -> JsonValue:
    if item is None:
        return None
    objective = projector.one_line("work_item/objective", item.objective, LINE_CHARACTERS)
    return to_members(msgspec.structs.replace(item, objective=objective))


def _project_follow_up(result: FollowUp, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    text = projector.line("follow_up_text", result.text, policy.details)  # whole in the call's arguments
    return {"enqueued": True, "priority": result.priority, "follow_up_text": text}


def _project_spawned(result: Spawned, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    members = msgspec.structs.asdict(result) | {
        "task_handle": to_members(result.task_handle),
        "child_supervision": to_members(result.child_supervision),
        "initial_output": None,
    }
    if result.initial_output:
        budget, field = min(policy.preview, CHILD_REPORT_CHARACTERS), "initial_output_preview"
        preview, artifact = projector.preview(field, result.initial_output, budget, role="initial_output")
        members |= {
            field: preview,
            "initial_output_truncated": artifact is not None,
            "initial_output_artifact": artifact,
        }
    return members


def _project_agent(result: AgentRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """Every text is one line, every list has at most ten entries and shares what the scalars leave.

    The whole summary is stored as an artifact when something had to go. The smallest list is served first and gets
    at most an even share; what it leaves goes to those after it.
    """
    whole = _members(result.agent)
    agent = {
        name: _shorten_texts(f"agent/{name}", member, projector) for name, member in whole.items() if name not in LISTS
    }
    rows = min(policy.rows, LISTED)
    room = AGENT_CHARACTERS - NAMES_CHARACTERS - text_size(agent)
    # Measured with projectors of their own: an entry that is omitted in the end must leave no cut.
    sizes = {name: text_size(_project_list(name, whole[name], Projector(MemorySink()), rows, room)) for name in LISTS}
    for served, name in enumerate(sorted(LISTS, key=sizes.__getitem__)):
        listed = _project_list(name, whole[name], projector, rows, room // (len(LISTS) - served))
        room -= text_size(listed)
        agent |= listed
    is_cut = bool(projector.cuts)
    artifact = projector.store("agent", json.dumps(whole, ensure_ascii=False, indent=1)) if is_cut else None
    return {"agent": agent, "agent_artifact": artifact}


def _project_list(name: str, entries: JsonValue, projector: Projector, rows: int, room: int) -> ResultMembers:
    """`name` with the entries that fit, and `<name>_omitted`; nothing for an empty list or no counts."""
    field = f"agent/{name}"
    listed: list[JsonValue] | dict[str, JsonValue]
    match entries:
        case dict() if entries:
            sizes = (text_size({count: number}) for count, number in entries.items())
            limit = count_fitting(sizes, rows=rows, characters=room)
            listed = {str(count): entries[str(count)] for count in projector.rows(field, list(entries), limit)}
        case list() if entries:
            scratch = Projector(MemorySink())
            sizes = (text_size(_shorten_texts(field, entry, scratch)) for entry in entries)
            limit = count_fitting(sizes, rows=rows, characters=room)
            listed = [
                _shorten_texts(f"{field}/{index}", entry, projector)
                for index, entry in enumerate(projector.rows(field, entries, limit))
            ]
        case _:
            return {}
    omitted = len(entries) - len(listed)
    return {name: listed, f"{name}_omitted": omitted} if omitted else {name: listed}


def _shorten_texts(field: str, value: JsonValue, projector: Projector) -> JsonValue:
    """`value` with each of its texts on one line of at most 200 characters."""
    match value:
        case str():
            return projector.one_line(field, value, LINE_CHARACTERS)
        case dict():
            return {name: _shorten_texts(join(field, name), member, projector) for name, member in value.items()}
        case list():
            return [_shorten_texts(join(field, index), item, projector) for index, item in enumerate(value)]
    return value


def _members(struct: msgspec.Struct) -> dict[str, Any]:
    members = to_members(struct)
    assert isinstance(members, dict)
    return members


def _project_run(result: AgentRun, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    handle = {"task_id": result.agent_id, "kind": "agent", "status": "running"}
    return {
        **pick(result, "agent_id", "status"),
        **projector.text("description", result.description, policy.details, role="description"),
        "task_handle": handle if result.launched else None,
        **pick(result, "output_file", "total_tokens", "total_tool_uses", "duration_ms"),
        **projector.text("text", result.text or None, policy.preview, role="report"),
    }


def _project_skill(result: SkillRun, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    text = projector.text("text", result.text or None, policy.preview, role="report")
    return {**pick(result, "skill", "started", "status", "agent_id"), **text}


def _project_answers(result: Answers, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    rows = [pick(answer, "question", "header", "answer") for answer in result.answers]
    return projector.items("answers", rows, policy)


def _project_plan(result: ApprovedPlan, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    plan = projector.text("plan", result.plan, policy.preview, role="plan")
    return {**pick(result, "path", "is_agent"), **plan}


def _project_plan_mode(result: EnteredPlanMode, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.text("message", result.message, policy.preview, role="message")


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    WaitRecorded: _project_wait,
    AgentRead: _project_agent,
    FollowUp: _project_follow_up,
    Spawned: _project_spawned,
    AgentRun: _project_run,
    SkillRun: _project_skill,
    Answers: _project_answers,
    ApprovedPlan: _project_plan,
    EnteredPlanMode: _project_plan_mode,
}
