"""Files: ApplyPatch and ReadArtifact, and Claude Code's Read, Edit, MultiEdit, Write and NotebookEdit."""

from __future__ import annotations

from pathlib import Path

from envelopes.families.base import Family, project_by_type
from envelopes.families.file import (
    claude_code,
    cline,
    codex,
    continue_cli,
    copilot_cli,
    gemini_cli,
    inspect_ai,
    kilo_code,
    kimi_cli,
    kimi_code,
    mistral_vibe,
    opencode,
    openhands,
    pi,
    qwen_code,
    swe_agent,
)
from envelopes.families.file.receipts import receipt
from envelopes.families.file.results import (
    PROJECTIONS,
    ArtifactMatches,
    ArtifactSlice,
    PatchResult,
    granted_characters,
    matches_outcome,
    patch_outcome,
    slice_outcome,
)
from envelopes.families.file.tools import TOOLS

FAMILY = Family(
    name="file",
    title="Files",
    results=tuple(PROJECTIONS),
    project=project_by_type(PROJECTIONS, keeps_nulls=True),
    renderers={"receipt": receipt},
    versions={"receipt": 6},
    tools=TOOLS,
    granted=granted_characters,
    outcomes={PatchResult: patch_outcome, ArtifactSlice: slice_outcome, ArtifactMatches: matches_outcome},
    mappings=(
        *claude_code.MAPPINGS,
        *continue_cli.MAPPINGS,
        *cline.MAPPINGS,
        *codex.MAPPINGS,
        *gemini_cli.MAPPINGS,
        *qwen_code.MAPPINGS,
        *opencode.MAPPINGS,
        *kilo_code.MAPPINGS,
        *openhands.MAPPINGS,
        *pi.MAPPINGS,
        *kimi_cli.MAPPINGS,
        *kimi_code.MAPPINGS,
        *mistral_vibe.MAPPINGS,
        *copilot_cli.MAPPINGS,
        *swe_agent.MAPPINGS,
        *inspect_ai.MAPPINGS,
    ),
    examples=Path(__file__).with_name("examples.json"),
)
