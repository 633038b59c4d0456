"""The list of built-in tools by plane, the tool names of recorded agents, and how often runs used each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args
from urllib.parse import urlencode

from django.db.models import Count, Sum
from django.urls import reverse

from dashboard.models import Project, RunFacet
from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.registry import builtin, find_mapping, is_mapped, may_call, tools
from envelopes.schema.tool import ALL_PROFILES, Plane, ToolDefinition

PLANES = {
    "work_item": "Work items",
    "task_control": "Task control",
    "agent": "Agents",
    "workspace": "Workspace",
    "memory": "Memory",
    "web": "Web",
}
RISK_TONES = {"read-only": "good", "writes": "warn", "commands": "bad"}


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """How often recorded runs of one project used a tool name. `calls` counts an inherited call in each run.

    `terms` are the agents of the runs, as a filter: two agents may have tools of one name that do different things.
    """

    name: str
    runs: int = 0
    calls: int = 0
    terms: str = ""

    @property
    def url(self) -> str:
        return f"{reverse('run-list')}?{urlencode({'q': f'tool:{self.name} {self.terms}'.strip()})}"


Uses: TypeAlias = "Mapping[tuple[str, str], ToolUse]"  # by agent and tool name


@dataclass(frozen=True, kw_only=True)
class ToolRow:
    name: str
    url: str
    gist: str
    capability: str
    planes: tuple[str, ...]
    risk: str
    risk_tone: str
    stability: str
    is_mutation: bool
    profiles: tuple[str, ...]  # empty: every profile may call it
    use: ToolUse


@dataclass(frozen=True)
class PlaneGroup:
    name: str
    title: str
    rows: tuple[ToolRow, ...]


@dataclass(frozen=True)
class AgentTools:
    """The tool names of one agent that are read into one family."""

    family: str
    agent: str
    uses: tuple[ToolUse, ...]


@dataclass(frozen=True, kw_only=True)
class ToolList:
    groups: tuple[PlaneGroup, ...]
    agents: tuple[AgentTools, ...]
    total: int
    recorded: int  # built-in names that a recorded run used


def load_tool_list(project: Project) -> ToolList:
    """One query, however many runs the project has. A tool of several planes is listed under its first."""
    definitions = tools()
    uses = count_uses(project, {*definitions, *mapped_names(FAMILIES)})
    rows = [tool_row(definition, uses) for definition in definitions.values()]
    groups = []
    for plane in get_args(Plane):
        plane_rows = tuple(row for row in rows if row.planes[:1] == (plane,))
        if plane_rows:
            groups.append(PlaneGroup(plane, PLANES[plane], plane_rows))
    return ToolList(
        groups=tuple(groups),
        agents=tuple(row for family in FAMILIES for row in agent_tools(family, uses)),
        total=len(rows),
        recorded=sum(row.use.runs > 0 for row in rows),
    )


def count_uses(project: Project, names: Iterable[str]) -> Uses:
    """Uses of these names only: a project may have thousands of other tools."""
    facets = RunFacet.objects.filter(project=project, kind="tool", value__in=sorted(names))
    counts = facets.values_list("run__agent", "value").annotate(runs=Count("pk"), calls=Sum("count"))
    return {(agent, name): ToolUse(name=name, runs=runs, calls=calls) for agent, name, runs, calls in counts}


def _built_in_use(name: str, uses: Uses) -> ToolUse:
    """The uses of a built-in tool, without agents whose tool of this name is read into another family: to-do lists."""
    family = builtin(name)[0].name
    agents = {agent for agent, used in uses if used == name}
    others = sorted(agent for agent in agents if is_mapped(agent, name) and find_mapping(agent, name)[0].name != family)
    rows = [use for (agent, used), use in uses.items() if used == name and agent not in others]
    return ToolUse(
        name=name,
        runs=sum(use.runs for use in rows),
        calls=sum(use.calls for use in rows),
        terms=" ".join(f"-agent:{agent}" for agent in others),
    )


def tool_row(definition: ToolDefinition, uses: Uses) -> ToolRow:
    callers = tuple(profile for profile in ALL_PROFILES if may_call(profile, definition.name))
    return ToolRow(
        name=definition.name,
        url=reverse("tool-detail", args=[definition.name]),
        gist=definition.description.partition(". ")[0].rstrip(".").replace("`", "") + ".",
        capability=definition.capability,
        planes=definition.planes,
        risk=definition.risk,
        risk_tone=RISK_TONES[definition.risk],
        stability=definition.stability,
        is_mutation=definition.is_mutation,
        profiles=() if callers == ALL_PROFILES else callers,
        use=_built_in_use(definition.name, uses),
    )


def mapped_names(families: Iterable[Family]) -> set[str]:
    """The tool names of recorded agents that are read into these families."""
    return {name for family in families for mapping in family.mappings for name in mapping.tools}


def agent_tools(family: Family, uses: Uses) -> list[AgentTools]:
    """One entry for each agent: its names in the order of the family's mappings."""
    names_by_agent: dict[str, list[str]] = {}
    for mapping in family.mappings:
        names_by_agent.setdefault(mapping.agent, []).extend(mapping.tools)
    return [
        AgentTools(family.title, agent, tuple(_agent_use(agent, name, uses) for name in names))
        for agent, names in names_by_agent.items()
    ]


def _agent_use(agent: str, name: str, uses: Uses) -> ToolUse:
    return replace(uses.get((agent, name), ToolUse(name=name)), terms=f"agent:{agent}")
