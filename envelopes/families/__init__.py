"""The registry of families. Only this module names them; `external` takes whatever nobody claims.

FAMILIES are the program's own. Installed packages add others (`envelopes.families.plugins`): `all_families` has both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from envelopes.alignment.mapping import ToolMapping
from envelopes.families import (
    agent,
    command,
    external,
    file,
    memory,
    notification,
    plugins,
    search,
    task,
    web,
    work_item,
    workspace,
)
from envelopes.families.base import Family
from envelopes.lint.model import Rule
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.result import CompleteOutput
from envelopes.schema.tool import Capability, Profile, ToolDefinition

FAMILIES: tuple[Family, ...] = (
    command.FAMILY,
    task.FAMILY,
    file.FAMILY,
    workspace.FAMILY,
    search.FAMILY,
    work_item.FAMILY,
    web.FAMILY,
    agent.FAMILY,
    memory.FAMILY,
    notification.FAMILY,
    external.FAMILY,
)

# spec/model.md E-16: a child that one agent supervises creates no agents of its own.
WITHHELD: dict[Profile, frozenset[Capability]] = {
    "public_named": frozenset(),
    "private_child": frozenset({"agent_creation"}),
}


NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def all_families() -> tuple[Family, ...]:
    """The program's own, then those of installed packages."""
    return (*FAMILIES, *(one.thing for one in plugged_families().plugged))


@cache
def plugged_families() -> plugins.Found[Family]:
    """Looked for once a process."""
    taken = list(FAMILIES)

    def check(one: Family) -> None:
        _check(one, taken)
        taken.append(one)

    return plugins.found(plugins.FAMILIES, Family, check)


def look_again() -> None:
    """Forgets what packages added: for a process in which one is installed while it runs."""
    for remembered in (plugged_families, _by_name, _by_builtin, _by_tool):
        remembered.cache_clear()


def family(name: str) -> Family:
    """Raises KeyError for a name that no module has."""
    return _by_name()[name]


def tools() -> dict[str, ToolDefinition]:
    """Every built-in tool by name, in the order of their names."""
    return {name: definition for name, (_, definition) in _by_builtin().items()}


def builtin(name: str) -> tuple[Family, ToolDefinition]:
    """Raises KeyError for a name that no family defines."""
    return _by_builtin()[name]


def samples(tool: str) -> dict[str, CompleteOutput]:
    """The gallery of a built-in tool: its complete outputs by sort (success, error, large, empty, odd)."""
    gallery = builtin(tool)[0].gallery
    return {name.partition("/")[2]: one for name, one in gallery.items() if name.startswith(f"{tool}/")}


def may_call(profile: Profile, tool: str) -> bool:
    """Whether an agent of this profile may call the tool. Raises KeyError for an unknown tool.

    All profiles is the default (TOOLS-005 to TOOLS-008); a profile takes away whole capabilities and a
    definition may name fewer profiles (spec/model.md E-16).
    """
    definition = tools()[tool]
    return profile in definition.profiles and definition.capability not in WITHHELD[profile]


def foreign(agent_name: str, tool: str) -> tuple[Family, ToolMapping]:
    """The family and mapping for a foreign tool. An unknown one is external's, and always renders."""
    return _by_tool().get((agent_name, tool)) or (external.FAMILY, external.FALLBACK)


def fallback() -> tuple[Family, ToolMapping]:
    """What reads a call that its own family could not: nothing is assumed about its shape."""
    return external.FAMILY, external.FALLBACK


def is_mapped(agent_name: str, tool: str) -> bool:
    """Whether a typed mapping names this tool, or its namespace convention does (`mcp__…`)."""
    return (agent_name, tool) in _by_tool() or external.is_known(agent_name, tool)


@cache
def _by_name() -> dict[str, Family]:
    return {one.name: one for one in all_families()}


@cache
def _by_builtin() -> dict[str, tuple[Family, ToolDefinition]]:
    found = {definition.name: (one, definition) for one in all_families() for definition in one.tools}
    return dict(sorted(found.items()))


@cache
def _by_tool() -> dict[tuple[str, str], tuple[Family, ToolMapping]]:
    return {(row.agent, tool): (one, row) for one in all_families() for row in one.foreign for tool in row.tools}


def _check(one: Family, taken: Iterable[Family]) -> None:
    """Raises plugins.Refused. The types too: a struct takes anything, and pages would find out one by one."""
    if not NAME.fullmatch(str(one.name)):
        raise plugins.Refused(f"the name {one.name!r} is no lower-case word")
    held: tuple[tuple[Iterable[object], type], ...] = (
        ((one.name, one.title), str),
        ((one.rendering,), RenderPolicy),
        ((one.projection,), ProjectionPolicy),
        (one.foreign, ToolMapping),
        (one.tools, ToolDefinition),
        (one.lint, Rule),
        (one.samples, CompleteOutput),
    )
    for things, kind in held:
        if odd := next((thing for thing in things if not isinstance(thing, kind)), None):
            raise plugins.Refused(f"{one.name}: a {kind.__name__} is expected, not {type(odd).__name__}")
    if "receipt" not in one.renderers or not all(map(callable, (one.project, *one.renderers.values()))):
        raise plugins.Refused(f"{one.name}: it needs a renderer `receipt`, and all of them are functions")
    _check_free(one, list(taken))


def _check_free(one: Family, taken: list[Family]) -> None:
    if one.name in {other.name for other in taken}:
        raise plugins.Refused(f"there is a family {one.name} already")
    rows = {(row.agent, tool) for other in taken for row in other.foreign for tool in row.tools}
    for row in one.foreign:
        if double := rows & {(row.agent, tool) for tool in row.tools}:
            raise plugins.Refused(f"{one.name}: the tool {min(double)[1]} of {row.agent} is another family's")
    names = {definition.name for other in taken for definition in other.tools}
    if repeated := names & {definition.name for definition in one.tools}:
        raise plugins.Refused(f"{one.name}: there is a tool {min(repeated)} already")
