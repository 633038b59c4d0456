"""Tools that read what an agent remembers: MemorySearch and MemoryGet."""

from __future__ import annotations

from pathlib import Path

from envelopes.families.base import Family, project_by_type
from envelopes.families.memory.receipts import receipt
from envelopes.families.memory.results import (
    MEMORY_CHARACTERS,
    PROJECTIONS,
    FoundMemories,
    ReadMemory,
    found_outcome,
    granted_characters,
    memory_outcome,
)
from envelopes.families.memory.tools import TOOLS
from envelopes.lint.rules import must_mention
from envelopes.schema.budget import ProjectionPolicy

FAMILY = Family(
    name="memory",
    title="Memory",
    results=tuple(PROJECTIONS),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 6},
    projection=ProjectionPolicy(preview=MEMORY_CHARACTERS),
    tools=TOOLS,
    granted=granted_characters,
    outcomes={FoundMemories: found_outcome, ReadMemory: memory_outcome},
    lint=(must_mention("reference_unsaid", "what to ask MemoryGet for", "/result/results/*/source_ref"),),
    examples=Path(__file__).with_name("examples.json"),
)
