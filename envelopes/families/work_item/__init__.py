"""Tools that keep a list of work: our own work-item tools, and the todo and Task lists of Claude Code.

    views        one item as its agent sees it, and what our tools did to it
    projection   what of that fits into the canonical result
    receipts     what the model reads of it
    results      TodoList, WorkItem, WorkItems, WorkItemUpdate: what Claude Code records, with their own

An update of Claude Code's that found no item is a verdict inside a success.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, Projection, project_by_type
from envelopes.families.work_item import claude_code, projection, tools
from envelopes.families.work_item.receipts import receipt
from envelopes.families.work_item.results import PROJECTIONS
from envelopes.families.work_item.views import WorkItemChange, WorkItemPage, WorkItemPick, WorkItemReading
from envelopes.lint.rules import must_mention

OURS: dict[type[msgspec.Struct], Projection] = {
    WorkItemChange: projection.change,
    WorkItemPick: projection.pick,
    WorkItemReading: projection.reading,
    WorkItemPage: projection.page,
}

FAMILY = Family(
    name="work_item",
    title="Work items",
    results=(*OURS, *PROJECTIONS, RecordedText),
    project=project_by_type({**OURS, **PROJECTIONS}),
    renderers={"receipt": receipt},
    mappings=claude_code.TOOLS,
    tools=tools.TOOLS,
    lint=(
        must_mention(
            "work_item_unsaid",
            "which work item it is",
            "/result/work_item/id",
            "/result/work_items/*/id",
            "/result/work_item_id",
            "/result/current_work_item_id",
        ),
    ),
    examples=Path(__file__).with_name("examples.json"),
)
