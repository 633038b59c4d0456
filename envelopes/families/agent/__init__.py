"""Tools that hand work to an agent, a skill or the user: Task, Skill, AskUserQuestion, plan mode.

    AgentRun   a child agent that reported, or was started in the background
    SkillRun   a skill that was launched
    Answers    questions to the user, and what the user answered
    Plan       a plan that the user approved
    PlanMode   plan mode was entered

A launched child is a task: its handle is what TaskOutput takes.
"""

from __future__ import annotations

from envelopes.budget import ProjectionPolicy
from envelopes.families.agent.claude_code import TOOLS
from envelopes.families.agent.results import AgentRun, Answers, Plan, PlanMode, SkillRun, project, receipt
from envelopes.families.agent.samples import SAMPLES
from envelopes.families.base import Facet, Family
from envelopes.recorded import RecordedText

FAMILY = Family(
    name="agent",
    title="Agents and people",
    results=(AgentRun, SkillRun, Answers, Plan, PlanMode, RecordedText),
    project=project,
    renderers={"receipt": receipt},
    projection=ProjectionPolicy(preview=4_000),
    foreign=TOOLS,
    facets=(
        Facet("Report", "/result/text", "text"),
        Facet("Answers", "/result/answers", "table"),
        Facet("Plan", "/result/plan", "text"),
    ),
    samples=SAMPLES,
)
