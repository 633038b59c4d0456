"""Tool-result envelopes for any agent runtime: what happened, what was kept, what the model saw.

    project(complete, family, policy, sink)   everything that happened -> the bounded canonical result
    render(canonical, family, policy)         the canonical result -> the receipt, every character sourced
    compact(canonical, budget)                what stays of the result when the call ages out of the history
    read_halves(agent=…, tool=…, …)           what a foreign agent recorded of a call -> both halves
    ToolCall, Settlement, ExecutionEvent      what was asked, how it ended, and what was told on the way

The pipeline knows no family; `envelopes.families` is the registry, `envelopes.halves` wires the two.
"""

from __future__ import annotations

from envelopes.halves import Halves, read_halves
from envelopes.pipeline.compaction import Compacted, compact
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.call import ToolCall
from envelopes.schema.event import ExecutionEvent
from envelopes.schema.receipt import Receipt, Segment
from envelopes.schema.result import CanonicalResult, CompleteOutput, ToolError
from envelopes.schema.settlement import Settlement

__all__ = [
    "CanonicalResult",
    "Compacted",
    "CompleteOutput",
    "ExecutionEvent",
    "Halves",
    "Receipt",
    "Segment",
    "Settlement",
    "ToolCall",
    "ToolError",
    "compact",
    "project",
    "read_halves",
    "render",
]
