"""Tools that read what an agent remembers: MemorySearch and MemoryGet.

FoundMemories  places that may hold what was sought, best first
ReadMemory     the content of one place
"""

from __future__ import annotations

from pathlib import Path

from envelopes.families.base import Family
from envelopes.families.memory import tools
from envelopes.families.memory.receipts import receipt
from envelopes.families.memory.results import MEMORY_CHARACTERS, FoundMemories, ReadMemory, project
from envelopes.lint.rules import must_mention
from envelopes.schema.budget import ProjectionPolicy

FAMILY = Family(
    name="memory",
    title="Memory",
    results=(FoundMemories, ReadMemory),
    project=project,
    renderers={"receipt": receipt},
    projection=ProjectionPolicy(preview=MEMORY_CHARACTERS),
    tools=tools.TOOLS,
    lint=(must_mention("reference_unsaid", "what to ask MemoryGet for", "/result/results/*/source_ref"),),
    examples=Path(__file__).with_name("examples.json"),
)
