"""What SpawnAgent leaves behind: a child agent, and for a private one the task that supervises it.

agent_id, child_agent_id?, task_handle {task_id, kind, status}?, supervision_task_id?,
child_supervision {}?, delegation_id?, parent_work_item_id?, child_work_item_id?,
initial_output_preview?, initial_output_truncated?, initial_output_artifact?
"""

from __future__ import annotations

import msgspec

from envelopes.families.base import Projector, ResultMembers
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import CHILD_REPORT_CHARACTERS, ChildSupervision, TaskHandle, to_members
from envelopes.schema.result import ToolError, summarize


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


def spawn_outcome(found: Spawned) -> str:
    under = f" under task {found.task_handle.task_id}" if found.task_handle else ""
    return summarize(f"Agent spawned: {found.agent_id}{under}")


def project_spawned(found: Spawned, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    members = msgspec.structs.asdict(found) | {
        "task_handle": to_members(found.task_handle),
        "child_supervision": to_members(found.child_supervision),
        "initial_output": None,
    }
    if found.initial_output:
        members |= _initial_output(found.initial_output, projector, policy)
    return members


def _initial_output(text: str, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    budget = min(policy.preview, CHILD_REPORT_CHARACTERS)
    shown, artifact = projector.preview("initial_output_preview", text, budget, role="initial_output")
    return {
        "initial_output_preview": shown,
        "initial_output_truncated": artifact is not None,
        "initial_output_artifact": artifact,
    }


def no_agents_here(profile: str) -> ToolError:
    """A profile without the capability to create agents (spec/tools.md B.0)."""
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
