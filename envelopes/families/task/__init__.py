"""Tools that look after background tasks: five of our own, and Claude Code's under all their names.

A wait that timed out, an input that was refused and a task that failed are verdicts inside a success: the call worked.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, project_by_type
from envelopes.families.task import claude_code, kilo_code, kimi_cli, kimi_code
from envelopes.families.task.receipts import receipt
from envelopes.families.task.results import (
    PROJECTIONS,
    ActiveTasks,
    InputOffered,
    StopRequested,
    TaskRead,
    TaskState,
    active_outcome,
    input_outcome,
    read_outcome,
    state_outcome,
    stop_outcome,
)
from envelopes.families.task.tools import TOOLS
from envelopes.lint.rules import must_mention

FAMILY = Family(
    name="task",
    title="Background tasks",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 9},
    mappings=(*claude_code.MAPPINGS, *kimi_cli.MAPPINGS, *kimi_code.MAPPINGS, *kilo_code.MAPPINGS),
    tools=TOOLS,
    outcomes={
        ActiveTasks: active_outcome,
        InputOffered: input_outcome,
        StopRequested: stop_outcome,
        TaskRead: read_outcome,
        TaskState: state_outcome,
    },
    lint=(must_mention("task_unsaid", "which task it is", "/result/task/task_id", "/result/tasks/*/id"),),
    examples=Path(__file__).with_name("examples.json"),
)
