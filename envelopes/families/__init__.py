"""The registry of families. Only this module names them; `external` takes whatever nobody claims."""

from __future__ import annotations

from functools import cache

from envelopes.families import agent, command, external, file, search, task, web, work_item
from envelopes.families.base import Family
from envelopes.foreign import ForeignTool

FAMILIES: tuple[Family, ...] = (
    command.FAMILY,
    task.FAMILY,
    file.FAMILY,
    search.FAMILY,
    work_item.FAMILY,
    web.FAMILY,
    agent.FAMILY,
    external.FAMILY,
)


def family(name: str) -> Family:
    """Raises KeyError for a name that no module has."""
    return _by_name()[name]


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
def _by_tool() -> dict[tuple[str, str], tuple[Family, ForeignTool]]:
    return {(row.agent, tool): (one, row) for one in FAMILIES for row in one.foreign for tool in row.tools}
