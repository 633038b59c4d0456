"""The Tools page: every built-in definition by plane, the foreign names beside it, and how often runs used each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args
from urllib.parse import urlencode

from django.db.models import Count, Sum
from django.urls import reverse

from dashboard.models import Project, RunFacet
from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.registry import may_call, tools
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
class Use:
    """What recorded runs of one project did with one tool name. `calls` counts an inherited call in each run."""

    name: str
    runs: int = 0
    calls: int = 0

    @property
    def url(self) -> str:
        return f"{reverse('run-list')}?{urlencode({'q': f'tool:{self.name}'})}"


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
    use: Use


@dataclass(frozen=True)
class PlaneGroup:
    name: str
    title: str
    rows: tuple[ToolRow, ...]


@dataclass(frozen=True)
class ForeignRow:
    """The names under which one agent's recordings reach one family."""

    family: str
    agent: str
    uses: tuple[Use, ...]


@dataclass(frozen=True, kw_only=True)
class ToolList:
    groups: tuple[PlaneGroup, ...]
    foreign: tuple[ForeignRow, ...]
    total: int
    recorded: int  # built-in names that a recorded run used


def tool_list(project: Project) -> ToolList:
    """One query, whatever the project holds."""
    definitions = tools()
    used = uses(project, {*definitions, *foreign_names(FAMILIES)})
    rows = [tool_row(one, used) for one in definitions.values()]
    groups = [PlaneGroup(name, PLANES[name], _of_plane(name, rows)) for name in get_args(Plane)]
    return ToolList(
        groups=tuple(group for group in groups if group.rows),
        foreign=tuple(row for family in FAMILIES for row in foreign_rows(family, used)),
        total=len(rows),
        recorded=sum(row.use.runs > 0 for row in rows),
    )


def uses(project: Project, names: Iterable[str]) -> dict[str, Use]:
    """Only of the names that are asked for: a project may hold thousands of other tools."""
    facets = RunFacet.objects.filter(project=project, kind="tool", value__in=sorted(names))
    counted = facets.values_list("value").annotate(runs=Count("pk"), calls=Sum("count"))
    return {name: Use(name=name, runs=runs, calls=calls) for name, runs, calls in counted}


def tool_row(definition: ToolDefinition, used: Mapping[str, Use]) -> ToolRow:
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
        use=used.get(definition.name, Use(name=definition.name)),
    )


def foreign_names(families: Iterable[Family]) -> set[str]:
    return {name for family in families for row in family.mappings for name in row.tools}


def foreign_rows(family: Family, used: Mapping[str, Use]) -> list[ForeignRow]:
    """One row an agent: its names in the order of the family's mappings."""
    names: dict[str, list[str]] = {}
    for mapping in family.mappings:
        names.setdefault(mapping.agent, []).extend(mapping.tools)
    return [
        ForeignRow(family.title, agent, tuple(used.get(name, Use(name=name)) for name in found))
        for agent, found in names.items()
    ]


def _of_plane(name: str, rows: Iterable[ToolRow]) -> tuple[ToolRow, ...]:
    """A tool of several planes stands once, under its first."""
    return tuple(row for row in rows if row.planes[:1] == (name,))
