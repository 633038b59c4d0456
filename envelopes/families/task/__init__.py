"""Tools that look after background tasks: five of our own, and Claude Code's under all their names.

    TaskList, TaskStatus, TaskOutput, TaskInput, TaskStop   definitions, results and receipts here
    TaskOutput, AgentOutputTool, TaskStop, KillShell, …     of Claude Code, taken in by claude_code

A wait that timed out, an input that was refused and a task that failed are verdicts inside a success.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family
from envelopes.families.task.claude_code import FOREIGN
from envelopes.families.task.projection import project
from envelopes.families.task.receipts import receipt
from envelopes.families.task.results import (
    ActiveTasks,
    InputOffered,
    StopRequested,
    TaskRead,
    TaskState,
    TaskStopped,
)
from envelopes.families.task.tools import TOOLS
from envelopes.lint.rules import must_mention

FAMILY = Family(
    name="task",
    title="Background tasks",
    results=(TaskRead, TaskStopped, ActiveTasks, TaskState, InputOffered, StopRequested, RecordedText),
    project=project,
    renderers={"receipt": receipt},
    mappings=FOREIGN,
    tools=TOOLS,
    lint=(must_mention("task_unsaid", "which task it is", "/result/task/task_id", "/result/tasks/*/id"),),
    examples=Path(__file__).with_name("examples.json"),
)
