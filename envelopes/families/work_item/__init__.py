"""Tools that keep a list of work: our own work-item tools, and the todo and Task lists of Claude Code.

An update of Claude Code's that found no item is a verdict inside a success.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, project_by_type
from envelopes.families.work_item import (
    claude_code,
    codex,
    continue_cli,
    copilot_cli,
    gemini_cli,
    kilo_code,
    kimi_cli,
    kimi_code,
    mistral_vibe,
    opencode,
    openhands,
    qwen_code,
)
from envelopes.families.work_item.receipts import receipt
from envelopes.families.work_item.results import (
    PROJECTIONS,
    WorkItemChange,
    WorkItemPage,
    WorkItemPick,
    WorkItemReading,
    change_outcome,
    page_outcome,
    pick_outcome,
    reading_outcome,
)
from envelopes.families.work_item.tools import TOOLS
from envelopes.lint.rules import must_mention

NAMED_BY = ("/result/work_item/id", "/result/work_items/*/id", "/result/work_item_id", "/result/current_work_item_id")

FAMILY = Family(
    name="work_item",
    title="Work items",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 5},
    mappings=(
        *claude_code.MAPPINGS,
        *continue_cli.MAPPINGS,
        *codex.MAPPINGS,
        *gemini_cli.MAPPINGS,
        *qwen_code.MAPPINGS,
        *opencode.MAPPINGS,
        *kilo_code.MAPPINGS,
        *openhands.MAPPINGS,
        *copilot_cli.MAPPINGS,
        *kimi_cli.MAPPINGS,
        *kimi_code.MAPPINGS,
        *mistral_vibe.MAPPINGS,
    ),
    tools=TOOLS,
    outcomes={
        WorkItemChange: change_outcome,
        WorkItemPage: page_outcome,
        WorkItemPick: pick_outcome,
        WorkItemReading: reading_outcome,
    },
    lint=(must_mention("work_item_unsaid", "which work item it is", *NAMED_BY),),
    examples=Path(__file__).with_name("examples.json"),
)
