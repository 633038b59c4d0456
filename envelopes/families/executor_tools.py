"""Reads the results of the built-in tools as an executor of plans records them: the complete output, tool by tool.

An executor's record has the members of the tool's own struct (CALL-041), so nothing has to be guessed. A result that is
none of the structs is read as that of any tool, with a note.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.command.results import BatchResult, CommandResult, batch_outcome, command_outcome
from envelopes.families.external.any_agent import FALLBACK_MAPPING
from envelopes.families.file.results import (
    ArtifactMatches,
    ArtifactSlice,
    PatchResult,
    matches_outcome,
    patch_outcome,
    slice_outcome,
)
from envelopes.families.task.results import (
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
from envelopes.schema.tool import ToolDefinition

EXECUTOR = "audit"  # the name of the agent in recordings of the audit layout
VERSION = 1
_OUTCOMES: dict[type[msgspec.Struct], Callable[[Any], str]] = {
    CommandResult: command_outcome,
    BatchResult: batch_outcome,
    PatchResult: patch_outcome,
    ArtifactSlice: slice_outcome,
    ArtifactMatches: matches_outcome,
    ActiveTasks: active_outcome,
    InputOffered: input_outcome,
    StopRequested: stop_outcome,
    TaskRead: read_outcome,
    TaskState: state_outcome,
}


def map_executor_tool(definition: ToolDefinition) -> ToolMapping:
    """The mapping of a built-in tool's results in the records of an executor."""
    return ToolMapping(
        agent=EXECUTOR,
        tools=(definition.name,),
        version=VERSION,
        read=partial(_read, definition),
        align=FALLBACK_MAPPING.align,
    )


def _read(definition: ToolDefinition, evidence: Evidence) -> Reading:
    """Raises InvalidToolOutput for a result that is none of the tool's structs."""
    if failure := read_failure(evidence):
        return failure
    if evidence.result is None:
        return read_untyped(evidence)
    result = definition.read_data(evidence.result)
    describe = _OUTCOMES.get(type(result))
    outcome = describe(result) if describe else f"{definition.name} returned a result"
    return reading(evidence, result, outcome, links={})
