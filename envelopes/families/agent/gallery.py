"""Complete outputs of the four built-in tools by sort."""

from __future__ import annotations

import msgspec

from envelopes.families.agent.spawning import Spawned, no_agents_here, no_worktrees_here, spawn_outcome
from envelopes.families.agent.summary import (
    ActiveChild,
    AgentIdentity,
    AgentRead,
    AgentSummary,
    Closure,
    Execution,
    Pending,
    TokenUsage,
    WorkspaceOccupancy,
    agent_outcome,
)
from envelopes.families.agent.waiting import (
    FollowUp,
    WaitCondition,
    WaitingWorkItem,
    WaitRecorded,
    follow_up_outcome,
    wait_outcome,
)
from envelopes.schema.follow_up_handles import ChildSupervision, TaskHandle, Worktree
from envelopes.schema.result import CompleteOutput, ToolError

CONDITION = WaitCondition(
    id="wait_12",
    work_item_id="work_4",
    status="active",
    kind="task",
    source="WaitFor",
    subject_ref="task_7",
    waiting_for="the tests still run",
    wake_sources=("task_7",),
    created_at="2026-05-27T09:14:40Z",
    updated_at="2026-05-27T09:14:40Z",
)
WAIT = WaitRecorded(
    scope="work_item",
    reason="the tests still run",
    wake="task_result",
    resource="task_7",
    work_item_id="work_4",
    wait_condition=CONDITION,
    work_item=WaitingWorkItem(
        id="work_4", objective="Make the importer restartable", state="open", focus="current", readiness="blocked"
    ),
    cancelled_wait_condition_ids=("wait_9", "wait_11"),
)
SUPERVISION = ChildSupervision(
    parent_agent_id="agent_main",
    child_agent_id="agent_child_2",
    supervision_task_id="task_9",
    parent_work_item_id="work_4",
    child_work_item_id="work_5",
    delegation_id="delegation_3",
    workspace_mode="worktree",
    worktree=Worktree(path="/worktrees/agent_child_2", branch="child/agent_child_2"),
    cleanup_owner="agent_main",
    cleanup_status="pending",
    followup_target="agent_child_2",
)
CHILD = Spawned(
    agent_id="agent_child_2",
    child_agent_id="agent_child_2",
    task_handle=TaskHandle(task_id="task_9", kind="child_agent_task"),
    supervision_task_id="task_9",
    child_supervision=SUPERVISION,
    delegation_id="delegation_3",
    parent_work_item_id="work_4",
    child_work_item_id="work_5",
)
AGENT = AgentSummary(
    identity=AgentIdentity(agent_id="agent_main", profile="public_named", name="main"),
    state="awake",
    scheduling_posture="runnable",
    lifecycle="running",
    active_task_count=2,
    current_work_item_id="work_4",
    model="claude-sonnet-4",
    token_usage=TokenUsage(input_tokens=120_411, output_tokens=8_204, total_tokens=128_615),
    closure=Closure(outcome="continuable"),
    execution=Execution(execution_root="/workspace/ledger", cwd="/workspace/ledger/src"),
    workspace=WorkspaceOccupancy(workspace_id="ledger", mode="direct", holder_agent_id="agent_main"),
    counts={"pending_messages": 1, "open_work_items": 3},
    wait_conditions=(CONDITION,),
    active_children=(ActiveChild(agent_id="agent_child_2", status="working", task_id="task_9"),),
    skills=("review", "release"),
)
LARGE_AGENT = msgspec.structs.replace(
    AGENT,
    wait_conditions=tuple(msgspec.structs.replace(CONDITION, id=f"wait_{number}") for number in range(1, 24)),
    active_children=tuple(
        ActiveChild(agent_id=f"agent_child_{number}", status="working", task_id=f"task_{number}")
        for number in range(1, 41)
    ),
    notifications=tuple(
        Pending(id=f"note_{number}", status="recorded", text="The nightly build failed once more. " * 20)
        for number in range(1, 16)
    ),
    loaded_guidance=tuple(f"guidance/chapter_{number}.md" for number in range(1, 31)),
)


def _success(tool: str, result: msgspec.Struct, said: str) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text=said, result=result)


def _error(tool: str, error: ToolError) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="error", summary_text=error.message, error=error)


def _wait(found: WaitRecorded) -> CompleteOutput:
    return _success("WaitFor", found, wait_outcome(found))


def _agent(found: AgentSummary) -> CompleteOutput:
    return _success("AgentGet", AgentRead(found), agent_outcome(AgentRead(found)))


def _follow_up(found: FollowUp) -> CompleteOutput:
    return _success("Enqueue", found, follow_up_outcome(found))


def _spawned(found: Spawned) -> CompleteOutput:
    return _success("SpawnAgent", found, spawn_outcome(found))


def _refused(tool: str, field: str, reason: str, hint: str) -> CompleteOutput:
    error = ToolError(
        kind="invalid_tool_input",
        message=f"input for {tool} does not match the tool schema: {field}: {reason}",
        details={"tool_name": tool, "field": field, "validation_error": reason},
        recovery_hint=hint,
        retryable=False,
    )
    return _error(tool, error)


_AGENT_LEVEL = msgspec.structs.replace(CONDITION, id="wait_13", kind="operator", work_item_id=None, subject_ref=None)

GALLERY = {
    "WaitFor/success": _wait(WAIT),
    "WaitFor/error": _refused(
        "WaitFor", "resource", "is required when wake is task_result", "give the id of the task that you wait for"
    ),
    "WaitFor/large": _wait(
        msgspec.structs.replace(
            WAIT,
            reason="Waiting for the answer of the release team. " * 60,
            cancelled_wait_condition_ids=tuple(f"wait_{number}" for number in range(1, 301)),
        )
    ),
    "WaitFor/empty": _wait(
        WaitRecorded(
            scope="agent", reason="Which of the two names?", wake="operator_input", wait_condition=_AGENT_LEVEL
        )
    ),
    "WaitFor/odd": _wait(
        msgspec.structs.replace(
            WAIT,
            wake="external",
            reason="two lines\nand a tab\tin it",
            resource="https://ci.example/builds/77?tab=log&raw=1",
            work_item=None,
        )
    ),
    "AgentGet/success": _agent(AGENT),
    "AgentGet/error": _error(
        "AgentGet",
        ToolError(
            kind="tool_execution_failed",
            message="the agent's state could not be read",
            recovery_hint="try again",
            retryable=True,
        ),
    ),
    "AgentGet/large": _agent(LARGE_AGENT),
    "AgentGet/empty": _agent(
        AgentSummary(
            identity=AgentIdentity(agent_id="agent_new", profile="public_named"), state="asleep", lifecycle="idle"
        )
    ),
    "AgentGet/odd": _agent(
        msgspec.structs.replace(
            AGENT,
            identity=AgentIdentity(agent_id="agent_child_2", profile="private_child", parent_agent_id="agent_main"),
            closure=Closure(outcome="waiting", waiting_reason="awaiting_task_result"),
            active_children=(),
            external_triggers=(Pending(id="hook_1", text="Line one\nActive tasks: 99"),),
        )
    ),
    "Enqueue/success": _follow_up(FollowUp(priority="next", text="Look at the test results again.")),
    "Enqueue/error": _refused("Enqueue", "text", "must not be blank", "say what to follow up on"),
    "Enqueue/large": _follow_up(
        FollowUp(priority="background", text="".join(f"{number}. Check shard {number}.\n" for number in range(1, 200)))
    ),
    "Enqueue/empty": _follow_up(FollowUp(priority="interject", text=" ")),
    "Enqueue/odd": _follow_up(FollowUp(priority="normal", text='{"looks": "like JSON",\n "and": ["has", "lines"]}')),
    "SpawnAgent/success": _spawned(CHILD),
    "SpawnAgent/error": _error("SpawnAgent", no_agents_here("private_child")),
    "SpawnAgent/large": _spawned(
        msgspec.structs.replace(
            CHILD, initial_output="".join(f"Looked at file {number} of 400.\n" for number in range(1, 401))
        )
    ),
    "SpawnAgent/empty": _spawned(Spawned(agent_id="reviewer")),
    "SpawnAgent/odd": _error("SpawnAgent", no_worktrees_here()),
}
