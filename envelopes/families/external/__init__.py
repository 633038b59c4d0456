"""Every tool that no other family takes: tools of MCP servers, and tools of any agent that no mapping names.

Namespaced tools of MCP servers (`mcp__server__tool`) return content blocks, so their mapping is
typed although their names are open.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, project_by_type
from envelopes.families.external import cline, codex, openhands
from envelopes.families.external.receipts import receipt
from envelopes.families.external.results import PROJECTIONS

FAMILY = Family(
    name="external",
    title="External",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 4},
    mappings=(*cline.MAPPINGS, *codex.MAPPINGS, *openhands.MAPPINGS),
    examples=Path(__file__).with_name("examples.json"),
)
