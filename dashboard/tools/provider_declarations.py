"""The definition of a tool as a model gets it: its schema alone, or a provider's entry for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboard.text.chunks import TextChunk
from envelopes.schema.tool import ToolDefinition
from envelopes.transports import TRANSPORTS, UnsupportedPart

SCHEMA = ""  # the name of the form that is no provider's


@dataclass(frozen=True, kw_only=True)
class Form:
    name: str
    title: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Declared:
    """`without_conditions`: the shown form leaves out rules between fields that the schema itself has."""

    forms: tuple[Form, ...]
    window: TextChunk
    without_conditions: bool


def bodies(definition: ToolDefinition) -> dict[str, tuple[str, dict[str, Any]]]:
    """Form name -> its title and its JSON. A provider that has no form for this tool is left out."""
    found: dict[str, tuple[str, dict[str, Any]]] = {SCHEMA: ("JSON Schema", definition.input_schema())}
    for transport in TRANSPORTS:
        try:
            found[transport.name] = (transport.title, transport.declare(definition))
        except UnsupportedPart:
            continue
    return found
