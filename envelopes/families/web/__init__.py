"""Tools that read the web: WebFetch and WebSearch, ours, and those of Claude Code and the Gemini CLI.

The text comes from outside and is untrusted; the receipt says so before it.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, project_by_type
from envelopes.families.web import (
    claude_code,
    cline,
    continue_cli,
    gemini_cli,
    kilo_code,
    kimi_cli,
    kimi_code,
    mistral_vibe,
    opencode,
    qwen_code,
)
from envelopes.families.web.receipts import receipt
from envelopes.families.web.results import (
    PROJECTIONS,
    WEB_CHARACTERS,
    FetchedPage,
    FoundPages,
    fetched_outcome,
    granted_characters,
    search_outcome,
)
from envelopes.families.web.tools import TOOLS
from envelopes.schema.budget import ProjectionPolicy

FAMILY = Family(
    name="web",
    title="Web",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 6},
    projection=ProjectionPolicy(preview=WEB_CHARACTERS),
    mappings=(
        *claude_code.MAPPINGS,
        *continue_cli.MAPPINGS,
        *cline.MAPPINGS,
        *gemini_cli.MAPPINGS,
        *qwen_code.MAPPINGS,
        *opencode.MAPPINGS,
        *kilo_code.MAPPINGS,
        *kimi_cli.MAPPINGS,
        *kimi_code.MAPPINGS,
        *mistral_vibe.MAPPINGS,
    ),
    tools=TOOLS,
    granted=granted_characters,
    outcomes={FetchedPage: fetched_outcome, FoundPages: search_outcome},
    examples=Path(__file__).with_name("examples.json"),
)
