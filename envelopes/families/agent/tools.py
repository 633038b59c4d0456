"""The definitions of WaitFor, AgentGet, Enqueue and SpawnAgent."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from envelopes.families.agent.results import AgentRead, FollowUp, Spawned, WaitRecorded, Wake
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

AgentId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9._-]+$")]
Preset: TypeAlias = Literal["private_child", "public_named"]
# `interrupt` is the former name of `interject`.
InputPriority: TypeAlias = Literal["interject", "next", "normal", "background", "interrupt"]
ALIASES = {"interrupt": "interject"}
NEEDS_RESOURCE: tuple[Wake, ...] = ("task_result", "external")
NOT_BLANK = {"type": "string", "minLength": 1, "pattern": r"\S"}


class WaitForInput(ToolInput, frozen=True):
    """`resource` names the task or the external thing that is waited for."""

    trimmed: ClassVar[tuple[str, ...]] = ("reason", "resource")

    reason: NonEmpty
    wake: Wake
    resource: str | None = None

    def check(self) -> None:
        if self.wake in NEEDS_RESOURCE and not self.resource:
            raise ValueError(f"resource: is required when wake is {self.wake}")


class AgentGetInput(ToolInput, frozen=True):
    """No members."""


class EnqueueInput(ToolInput, frozen=True):
    trimmed: ClassVar[tuple[str, ...]] = ("text",)

    text: NonEmpty
    priority: InputPriority | None = "next"

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "priority", ALIASES.get(self.priority or "", self.priority))


class SpawnAgentInput(ToolInput, frozen=True):
    """A named agent is created idle; a private child gets its first message and starts at once."""

    trimmed: ClassVar[tuple[str, ...]] = ("initial_message", "agent_id", "template")

    initial_message: str | None = None
    preset: Preset | None = "private_child"
    agent_id: AgentId | None = None
    template: NonEmpty | None = None
    workspace_mode: Literal["inherit", "worktree"] | None = "inherit"

    def check(self) -> None:
        match self:
            case SpawnAgentInput(preset="public_named", agent_id=None):
                raise ValueError("agent_id: is required for the preset public_named")
            case SpawnAgentInput(preset="public_named", workspace_mode="worktree"):
                raise ValueError("workspace_mode: a public_named agent can only inherit the workspace")
            case SpawnAgentInput(preset="private_child", agent_id=str()):
                raise ValueError("agent_id: a private_child gets its id from the runtime")
            case SpawnAgentInput(preset="private_child", initial_message=None | ""):
                raise ValueError("initial_message: is required for the preset private_child")


WAIT_CONDITIONS: dict[str, Any] = {
    "if": {"properties": {"wake": {"enum": list(NEEDS_RESOURCE)}}},
    "then": {"properties": {"resource": NOT_BLANK}, "required": ["resource"]},
}
SPAWN_CONDITIONS: dict[str, Any] = {
    "if": {"properties": {"preset": {"const": "public_named"}}, "required": ["preset"]},
    "then": {
        "properties": {"agent_id": {"type": "string"}, "workspace_mode": {"enum": ["inherit", None]}},
        "required": ["agent_id"],
    },
    "else": {
        "properties": {"initial_message": NOT_BLANK, "agent_id": {"type": "null"}},
        "required": ["initial_message"],
    },
}

TOOLS = (
    ToolDefinition(
        name="WaitFor",
        capability="core_agent",
        planes=("work_item", "agent"),
        risk="writes",
        effects=("record-wait",),
        ends_turn=True,
        description=(
            "End this turn and record what you wait for: `reason` in a sentence, and `wake`, which is "
            "operator_input, task_result or external. For task_result give the task id as `resource`, for external "
            "what will happen. The wait belongs to the current open work item, or to the agent when there is none, "
            "and replaces the waits that stood there."
        ),
        input=WaitForInput,
        result=(WaitRecorded,),
        is_mutation=True,
        result_only=("scope", "status", "wait_condition", "work_item", "cancelled_wait_condition_ids"),
        misnamed={"task_id": "resource", "wake_on": "wake", "message": "reason"},
        hint='for example {"reason": "the tests still run", "wake": "task_result", "resource": "task_7"}',
        examples=(
            {"reason": "Which of the two names?", "wake": "operator_input"},
            {"reason": "the tests still run", "wake": "task_result", "resource": "task_7"},
        ),
        counter_examples=(
            {"reason": "the tests still run", "wake": "task_result"},
            {"reason": "review", "wake": "external", "resource": "  "},
            {"reason": " ", "wake": "operator_input"},
            {"reason": "later", "wake": "timer"},
        ),
        conditions=WAIT_CONDITIONS,
    ),
    ToolDefinition(
        name="AgentGet",
        capability="core_agent",
        planes=("agent",),
        risk="read-only",
        description=(
            "Read how this agent stands: profile, lifecycle, focus, workspace, active tasks, waits, children, "
            "skills. Takes no input. Long lists are shortened and say how many more there are."
        ),
        input=AgentGetInput,
        result=(AgentRead,),
        result_only=("agent",),
        hint="call AgentGet with an empty object: {}",
        examples=({},),
        counter_examples=({"agent_id": "agent_main"}, {"agent": {}}),
    ),
    ToolDefinition(
        name="Enqueue",
        capability="core_agent",
        planes=("agent",),
        risk="writes",
        effects=("schedule-message",),
        destructive=False,
        description=(
            "Schedule a follow-up message to yourself: `text`, and `priority`, which is interject (before anything "
            "else), next (the default), normal or background. It is delivered in a later turn."
        ),
        input=EnqueueInput,
        result=(FollowUp,),
        is_mutation=True,
        result_only=("enqueued", "follow_up_text"),
        misnamed={"message": "text", "prompt": "text"},
        hint='for example {"text": "Look at the test results again", "priority": "next"}',
        examples=(
            {"text": "Look at the test results again"},
            {"text": "Clean up", "priority": "background"},
            {"text": "Stop and read this", "priority": "interrupt"},
        ),
        counter_examples=({"text": ""}, {"text": "x", "priority": "urgent"}, {"message": "x"}, {"priority": "next"}),
    ),
    ToolDefinition(
        name="SpawnAgent",
        capability="agent_creation",
        planes=("agent",),
        risk="commands",
        effects=("start-agent",),
        description=(
            "Create another agent. `preset` private_child (the default) starts a child on `initial_message` and "
            "supervises it as a background task; the runtime names it. `preset` public_named creates an agent that "
            "others can address, under the `agent_id` that you give. `workspace_mode` is inherit, or worktree for a "
            "private child that changes files. `template` names a role that the runtime knows."
        ),
        input=SpawnAgentInput,
        result=(Spawned,),
        error_kinds=("unsupported_runtime_capability",),
        is_mutation=True,
        result_only=("task_handle", "child_agent_id", "supervision_task_id", "child_supervision", "status"),
        misnamed={"prompt": "initial_message", "message": "initial_message", "name": "agent_id"},
        hint=(
            'for example {"initial_message": "Find every use of the old registry"}, '
            'or {"preset": "public_named", "agent_id": "reviewer"}'
        ),
        examples=(
            {"initial_message": "Find every use of the old registry"},
            {"initial_message": "Try the upgrade", "workspace_mode": "worktree"},
            {"preset": "public_named", "agent_id": "reviewer-2.a_b"},
        ),
        counter_examples=(
            {},
            {"initial_message": "  "},
            {"preset": "public_named"},
            {"preset": "public_named", "agent_id": "two words"},
            {"preset": "public_named", "agent_id": "reviewer", "workspace_mode": "worktree"},
            {"initial_message": "Go", "agent_id": "reviewer"},
        ),
        conditions=SPAWN_CONDITIONS,
    ),
)
