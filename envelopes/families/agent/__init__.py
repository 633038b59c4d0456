"""Tools that hand work to an agent, a skill, the user, or the agent's own next turn.

A launched child is a task: its handle is what TaskOutput takes.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.agent import (
    claude_code,
    cline,
    copilot_cli,
    gemini_cli,
    kilo_code,
    kimi_cli,
    kimi_code,
    mistral_vibe,
    opencode,
    openhands,
)
from envelopes.families.agent.receipts import agent_outcome, receipt, spawn_outcome
from envelopes.families.agent.results import (
    PROJECTIONS,
    AgentRead,
    FollowUp,
    Spawned,
    WaitRecorded,
    follow_up_outcome,
    wait_outcome,
)
from envelopes.families.agent.tools import TOOLS
from envelopes.families.base import Family, project_by_type
from envelopes.lint.rules import must_mention
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import CHILD_REPORT_CHARACTERS

FAMILY = Family(
    name="agent",
    title="Agents and people",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 5},
    projection=ProjectionPolicy(preview=CHILD_REPORT_CHARACTERS),
    mappings=(
        *claude_code.MAPPINGS,
        *cline.MAPPINGS,
        *gemini_cli.MAPPINGS,
        *opencode.MAPPINGS,
        *kilo_code.MAPPINGS,
        *openhands.MAPPINGS,
        *copilot_cli.MAPPINGS,
        *kimi_cli.MAPPINGS,
        *kimi_code.MAPPINGS,
        *mistral_vibe.MAPPINGS,
    ),
    tools=TOOLS,
    outcomes={
        AgentRead: agent_outcome,
        FollowUp: follow_up_outcome,
        Spawned: spawn_outcome,
        WaitRecorded: wait_outcome,
    },
    lint=(
        must_mention("agent_unsaid", "which agent or task it is", "/result/agent_id", "/result/task_handle/task_id"),
    ),
    examples=Path(__file__).with_name("examples.json"),
)
