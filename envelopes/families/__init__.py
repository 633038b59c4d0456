"""The registry of families. Only this module names them; `external` takes whatever nobody claims."""

from __future__ import annotations

from functools import cache

from envelopes.families import (
    agent,
    command,
    external,
    file,
    memory,
    notification,
    search,
    task,
    web,
    work_item,
    workspace,
)
from envelopes.families.base import Family
from envelopes.foreign import ForeignTool
from envelopes.result import CompleteOutput
from envelopes.tool import Capability, Profile, ToolDefinition

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


def foreign(agent_name: str, tool: str) -> tuple[Family, ForeignTool]:
    """The family and mapping for a foreign tool. An unknown one is external's, and always renders."""
    return _by_tool().get((agent_name, tool)) or (external.FAMILY, external.FALLBACK)


def fallback() -> tuple[Family, ForeignTool]:
    """What reads a call that its own family could not: nothing is assumed about its shape."""
    return external.FAMILY, external.FALLBACK


def is_mapped(agent_name: str, tool: str) -> bool:
    """Whether a typed mapping names this tool, or its namespace convention does (`mcp__…`)."""
    return (agent_name, tool) in _by_tool() or external.is_known(agent_name, tool)


@cache
def _by_name() -> dict[str, Family]:
    return {one.name: one for one in FAMILIES}


@cache
def _by_builtin() -> dict[str, tuple[Family, ToolDefinition]]:
    found = {definition.name: (one, definition) for one in FAMILIES for definition in one.tools}
    return dict(sorted(found.items()))


@cache
def _by_tool() -> dict[tuple[str, str], tuple[Family, ForeignTool]]:
    return {(row.agent, tool): (one, row) for one in FAMILIES for row in one.foreign for tool in row.tools}
