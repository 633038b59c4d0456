"""The tools that agents called, with what came of it; the built-in tools by plane; the names of agents' tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any, TypeAlias, get_args
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q, Sum
from django.urls import reverse

from dashboard.filters.syntax import Term
from dashboard.models import Project, RunFacet
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import FAILED
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
MAX_CALLED = 200  # names in the table
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
        return f"{reverse('run-list')}?{self._params}"

    @property
    def calls_url(self) -> str:
        return f"{reverse('call-list')}?{self._params}"

    @property
    def _params(self) -> str:
        return urlencode({"q": f"{Term('tool', self.name)} {self.terms}".strip()})


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


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTotals:
    """The calls of one tool name in a project, each counted once."""

    name: str
    family: str
    calls: int
    failed: int
    refused: int
    cut: int
    tokens: int  # of the current receipts
    term: str  # the filter for them

    def url(self, *terms: str) -> str:
        return f"{reverse('call-list')}?{urlencode({'q': ' '.join((self.term, *terms))})}"

    @property
    def calls_url(self) -> str:
        return self.url()

    @property
    def failed_url(self) -> str:
        return self.url("status:failed")

    @property
    def refused_url(self) -> str:
        return self.url("outcome:refused")

    @property
    def cut_url(self) -> str:
        return self.url("cut:yes")


@dataclass(frozen=True, kw_only=True)
class ToolList:
    called: tuple[CallTotals, ...]  # the most called first
    left_out: int  # names that are called less than those
    groups: tuple[PlaneGroup, ...]
    agents: tuple[AgentTools, ...]
    total: int
    recorded: int  # built-in names that a recorded run used
    since: date | None  # the first day of what is counted; None for all


def load_tool_list(project: Project, *, is_whole: bool = False) -> ToolList:
    """Three queries, however many runs the project has. A tool of several planes is listed under its first.

    Of a project with more than NEWEST_CALLS it counts the last days, unless `is_whole`.
    """
    definitions = tools()
    since = None if is_whole else project.calls.find_last_days(settings.NEWEST_CALLS)
    called = count_calls(project, since)
    uses = count_uses(project, {*definitions, *mapped_names(FAMILIES)}, since)
    rows = [tool_row(definition, uses) for definition in definitions.values()]
    groups = []
    own_planes = sorted({row.planes[0] for row in rows if row.planes}.difference(get_args(Plane)))
    for plane in (*get_args(Plane), *own_planes):
        plane_rows = tuple(row for row in rows if row.planes[:1] == (plane,))
        if plane_rows:
            groups.append(PlaneGroup(plane, PLANES.get(plane, plane), plane_rows))
    return ToolList(
        called=tuple(called[:MAX_CALLED]),
        left_out=len(called[MAX_CALLED:]),
        groups=tuple(groups),
        agents=tuple(row for family in FAMILIES for row in agent_tools(family, uses)),
        total=len(rows),
        recorded=sum(row.use.runs > 0 for row in rows),
        since=since,
    )


def count_calls(project: Project, since: date | None = None) -> list[CallTotals]:
    """Reads all calls of the project once, or those since that day in UTC: 0.1 s for 100,000.

    Spellings of one name are one tool, as they are in the filter that a row leads to.
    """
    calls = project.calls.filter(started_at__gte=_midnight(since)) if since else project.calls.all()
    counts = calls.values_list("tool", "family").annotate(
        calls=Count("pk"),
        failed=Count("pk", filter=FAILED),
        refused=Count("pk", filter=Q(outcome=Outcome.REFUSED)),
        cut=Count("pk", filter=Q(is_cut=True)),
        all_tokens=Sum("tokens"),
    )
    spellings: dict[tuple[str, str], list[Any]] = {}
    for name, family, *numbers in counts:
        spellings.setdefault((name.casefold(), family), []).append((numbers, name))
    called = []
    for (_, family), rows in spellings.items():
        name = max(rows)[1]  # the spelling of most calls
        totals = (sum(column) for column in zip(*(numbers for numbers, _ in rows), strict=True))
        names = ("calls", "failed", "refused", "cut", "tokens")
        term = f"{Term('tool', name)} {Term('family', family)}{_since_term(since)}"
        called.append(CallTotals(name=name, family=family, term=term, **dict(zip(names, totals, strict=True))))
    return sorted(called, key=lambda totals: (-totals.calls, totals.name, totals.family))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def _since_term(since: date | None) -> str:
    return f" {Term('after', since.isoformat())}" if since else ""


def count_uses(project: Project, names: Iterable[str], since: date | None = None) -> Uses:
    """Uses of these names only, by runs since that day: a project may have thousands of other tools."""
    facets = RunFacet.objects.filter(project=project, kind="tool", value__in=sorted(names))
    if since:
        # Both have the run's time: PostgreSQL would read all runs to join them, twice as long with a million calls.
        facets = facets.filter(sort_at__gte=_midnight(since), run__sort_at__gte=_midnight(since))
    counts = facets.values_list("run__agent", "value").annotate(runs=Count("pk"), calls=Sum("count"))
    terms = _since_term(since)
    return {
        (agent, name): ToolUse(name=name, runs=runs, calls=calls, terms=terms) for agent, name, runs, calls in counts
    }


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
        terms=" ".join((*(f"-agent:{agent}" for agent in others), *{use.terms.strip() for use in rows})),
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
    use = uses.get((agent, name), ToolUse(name=name))
    return replace(use, terms=f"agent:{agent}{use.terms}")
