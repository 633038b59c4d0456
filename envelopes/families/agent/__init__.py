"""Tools that hand work to an agent, a skill, the user, or the agent's own next turn.

    WaitFor, Enqueue                                    waiting: recorded waits and follow-ups
    AgentGet                                            summary: how the agent stands
    SpawnAgent                                          spawning: a child, and the task that supervises it
    Task, Skill, AskUserQuestion, plan mode of others   results and claude_code

A launched child is a task: its handle is what TaskOutput takes.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.agent import claude_code
from envelopes.families.agent.receipts import receipt
from envelopes.families.agent.results import PROJECTIONS
from envelopes.families.agent.spawning import Spawned, project_spawned
from envelopes.families.agent.summary import AgentRead, project_agent
from envelopes.families.agent.tools import TOOLS
from envelopes.families.agent.waiting import FollowUp, WaitRecorded, project_follow_up, project_wait
from envelopes.families.base import Family, Projection, project_by_type
from envelopes.lint.rules import must_mention
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import CHILD_REPORT_CHARACTERS

PROJECTED: dict[type, Projection] = {
    WaitRecorded: project_wait,
    AgentRead: project_agent,
    FollowUp: project_follow_up,
    Spawned: project_spawned,
    **PROJECTIONS,
}

FAMILY = Family(
    name="agent",
    title="Agents and people",
    results=(*PROJECTED, RecordedText),
    project=project_by_type(PROJECTED),
    renderers={"receipt": receipt},
    projection=ProjectionPolicy(preview=CHILD_REPORT_CHARACTERS),
    mappings=claude_code.TOOLS,
    tools=TOOLS,
    lint=(
        must_mention("agent_unsaid", "which agent or task it is", "/result/agent_id", "/result/task_handle/task_id"),
    ),
    examples=Path(__file__).with_name("examples.json"),
)
