"""Tools that look for files and for text in them: Grep, Glob, LS and LSP of Claude Code."""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, project_by_type
from envelopes.families.search import (
    claude_code,
    cline,
    continue_cli,
    copilot_cli,
    gemini_cli,
    kilo_code,
    kimi_cli,
    kimi_code,
    mistral_vibe,
    opencode,
    openhands,
    pi,
    qwen_code,
)
from envelopes.families.search.receipts import receipt
from envelopes.families.search.results import PROJECTIONS

FAMILY = Family(
    name="search",
    title="Search",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 4},
    mappings=(
        *claude_code.MAPPINGS,
        *continue_cli.MAPPINGS,
        *cline.MAPPINGS,
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
    ),
    examples=Path(__file__).with_name("examples.json"),
)
