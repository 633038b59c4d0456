"""Commands: ExecCommand and ExecCommandBatch, and Claude Code's Bash and relatives."""

from __future__ import annotations

from pathlib import Path

from envelopes.families.base import Family, project_by_type
from envelopes.families.command import (
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
    mini_swe_agent,
    mistral_vibe,
    opencode,
    openhands,
    pi,
    qwen_code,
    swe_agent,
    terminus_2,
)
from envelopes.families.command.projection import PROJECTIONS, granted_characters
from envelopes.families.command.receipts import RENDERERS
from envelopes.families.command.results import BatchResult, CommandResult, batch_outcome, command_outcome
from envelopes.families.command.tools import TOOLS
from envelopes.lint.rules import must_mention

FAMILY = Family(
    name="command",
    title="Commands",
    results=tuple(PROJECTIONS),
    project=project_by_type(PROJECTIONS, keeps_nulls=True),
    renderers=RENDERERS,
    versions={"receipt": 8, "json_aware": 8, "tail_first": 8},
    tools=TOOLS,
    granted=granted_characters,
    counts_tokens=True,
    outcomes={CommandResult: command_outcome, BatchResult: batch_outcome},
    mappings=(
        *claude_code.MAPPINGS,
        *continue_cli.MAPPINGS,
        *cline.MAPPINGS,
        *codex.MAPPINGS,
        *gemini_cli.MAPPINGS,
        *qwen_code.MAPPINGS,
        *opencode.MAPPINGS,
        *kilo_code.MAPPINGS,
        *pi.MAPPINGS,
        *kimi_cli.MAPPINGS,
        *kimi_code.MAPPINGS,
        *mistral_vibe.MAPPINGS,
        *openhands.MAPPINGS,
        *copilot_cli.MAPPINGS,
        *inspect_ai.MAPPINGS,
        *mini_swe_agent.MAPPINGS,
        *swe_agent.MAPPINGS,
        *terminus_2.MAPPINGS,
    ),
    lint=(
        must_mention("task_unsaid", "which task runs the command", "/result/task_handle/task_id"),
        must_mention("saved_output_unsaid", "where the whole output was saved", "/result/saved_output/path"),
    ),
    examples=Path(__file__).with_name("examples.json"),
)
