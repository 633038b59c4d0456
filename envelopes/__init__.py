"""Tool-result envelopes for any agent runtime: the result that it keeps, and the receipt that the model reads.

    project(complete, family, policy, sink)    a tool's complete output -> the bounded canonical result
    render(canonical, family, policy)          the canonical result -> the receipt, every character with its source
    compact(canonical, budget)                 the canonical result made smaller when its call ages out of the history
    read_halves(agent=…, tool=…, …)            the recorded call of a foreign agent -> both halves
    outcome_to_model_content(outcome)          one of the five outcomes of a call -> the tool message's text
    capture(role, content, sink)               bytes or an open file as the output of a complete output
    tools(), builtin(tool)                     the definitions of the built-in tools, and the families they belong to
    transport(name).encode(…)                  the receipt -> the message of a provider
    transport(name).answers(…, calls=…)        all receipts of a turn -> the messages of a provider, none missing
    Executor(tools, policy).run(plan)          a plan -> its calls, results and events, recorded as they happen
    ToolLoop(tools, artifacts).run_turn(…)     the calls of a model -> one outcome each, recorded as they happen

This is the whole public API: what a runtime needs is imported from `envelopes` itself. `ToolOutcome` is an alias of
the five outcome classes (`envelopes.schema.outcome`). Only msgspec and rfc8785 are needed to import it.
"""

from __future__ import annotations

from envelopes.families.base import Family
from envelopes.families.registry import builtin, tools
from envelopes.halves import Halves, read_halves
from envelopes.pipeline.compaction import Compacted, compact
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import FileRecorder
from envelopes.plan.schema import read_plan
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.tool_loop import ModelMessage, ToolLoop, ToolRequest
from envelopes.schema.call import ExecutionEvent, Limits, RunPolicy, Sandbox, ToolCall
from envelopes.schema.outcome import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    outcome_to_model_content,
)
from envelopes.schema.receipt import Receipt, Segment
from envelopes.schema.result import CanonicalResult, CompleteOutput, ToolError
from envelopes.schema.settlement import Settlement
from envelopes.schema.tool import InvalidToolInput, ToolDefinition
from envelopes.storage.file_store import FileStore
from envelopes.storage.sinks import MemorySink, capture
from envelopes.transports import AnsweredCall, CallIds, IncompleteTurn, transport

__all__ = [
    "AnsweredCall",
    "CallIds",
    "CanonicalResult",
    "Compacted",
    "CompleteOutput",
    "ExecutionEvent",
    "Executor",
    "Family",
    "FileRecorder",
    "FileStore",
    "Halves",
    "IncompleteTurn",
    "InvalidToolInput",
    "Limits",
    "MemorySink",
    "ModelMessage",
    "Receipt",
    "RunPolicy",
    "Sandbox",
    "Segment",
    "Settlement",
    "Tool",
    "ToolArtifactReference",
    "ToolCall",
    "ToolDefinition",
    "ToolDenied",
    "ToolError",
    "ToolExecutionResult",
    "ToolFailed",
    "ToolFailure",
    "ToolLoop",
    "ToolOutcome",
    "ToolRequest",
    "ToolTimeout",
    "builtin",
    "capture",
    "compact",
    "outcome_to_model_content",
    "project",
    "read_halves",
    "read_plan",
    "render",
    "tools",
    "transport",
]
