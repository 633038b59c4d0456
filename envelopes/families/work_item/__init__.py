"""Tools that keep a list of work: TodoWrite, TodoRead and the Task list tools of Claude Code.

    TodoList         the whole list as it stands, and as it stood before
    WorkItem         one item
    WorkItems        all of them
    WorkItemUpdate   which fields of one item changed

An update that found no item is a verdict inside a success.
"""

from __future__ import annotations

from envelopes.families.base import Facet, Family
from envelopes.families.work_item.claude_code import TOOLS
from envelopes.families.work_item.results import TodoList, WorkItem, WorkItems, WorkItemUpdate, project, receipt
from envelopes.families.work_item.samples import SAMPLES
from envelopes.recorded import RecordedText

FAMILY = Family(
    name="work_item",
    title="Work items",
    results=(TodoList, WorkItem, WorkItems, WorkItemUpdate, RecordedText),
    project=project,
    renderers={"receipt": receipt},
    foreign=TOOLS,
    facets=(
        Facet("Todo list", "/result/todo_list", "table"),
        Facet("Before", "/result/previous_todo_list", "table"),
        Facet("Work items", "/result/work_items", "table"),
        Facet("Description", "/result/work_item/description", "text"),
        Facet("Text", "/result/text", "text"),
    ),
    samples=SAMPLES,
)
