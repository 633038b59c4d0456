"""The families of tools. Only this module names them.

FAMILIES are the program's own; `external` takes every tool that no other family claims. Installed packages add
others (`envelopes.families.plugins`). `envelopes.families.registry` finds families and tools by name in both.
"""

from __future__ import annotations

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
from envelopes.families.external.any_agent import FALLBACK_MAPPING, is_mcp_tool

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
FALLBACK = (external.FAMILY, FALLBACK_MAPPING)  # reads the tools that no family maps

__all__ = ["FALLBACK", "FAMILIES", "is_mcp_tool"]
