"""Outputs of MemorySearch and MemoryGet of each sort, by `tool/sort`."""

from __future__ import annotations

from envelopes.families.memory.results import FoundMemories, FoundMemory, Memory, ReadMemory
from envelopes.families.memory.tools import MEMORY_SEARCH, PREFIXES
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.schema.tool import InvalidToolInput

_AT = "2026-05-26T18:04:11Z"


def _found(found: FoundMemories) -> CompleteOutput:
    count = len(found.results)
    said = f"{count or 'No'} {'memory' if count == 1 else 'memories'} found"
    return CompleteOutput(tool_name="MemorySearch", status="success", summary_text=said, result=found)


def _read(memory: Memory) -> CompleteOutput:
    said = f"Memory {memory.source_ref} read"
    return CompleteOutput(tool_name="MemoryGet", status="success", summary_text=said, result=ReadMemory(memory=memory))


def _refused(tool: str, error: ToolError) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="error", summary_text=error.message, error=error)


def _blank_query() -> ToolError:
    parsed: object = None
    try:
        parsed = MEMORY_SEARCH.parse({"query": "  "})
    except InvalidToolInput as refused:
        parsed = refused.error
    assert isinstance(parsed, ToolError)
    return parsed


_DECISION = FoundMemory(
    kind="brief",
    source_ref="brief:b_0193",
    scope_kind="workspace",
    workspace_id="ws_1",
    agent_id="ada",
    source_path="briefs/0193.md",
    title="Why receipts are text",
    snippet="Models read prose better than escaped JSON, so every family writes its own receipt.",
    score=7.25,
    updated_at=_AT,
    metadata={"tags": ["receipts"]},
)
_EPISODE = FoundMemory(
    kind="episode",
    source_ref="episode:ep_12",
    scope_kind="agent",
    agent_id="ada",
    title="Release of 0.1",
    snippet="Tagged and published.",
    score=1.5,
    updated_at=_AT,
)
_BRIEF = Memory(
    kind="brief",
    source_ref="brief:b_0193",
    scope_kind="workspace",
    workspace_id="ws_1",
    agent_id="ada",
    source_path="briefs/0193.md",
    title="Why receipts are text",
    content="Models read prose better than escaped JSON.\n\nSo every family writes its own receipt.",
    updated_at=_AT,
    metadata={"tags": ["receipts"]},
)
_LOG = Memory(
    kind="tool_execution",
    source_ref="tool_execution:t_88:cmd",
    scope_kind="agent",
    agent_id="ada",
    title="Command of t_88",
    content="".join(f"step {number:04}: a line that was kept\n" for number in range(1, 401)),
    truncated=True,
    updated_at=_AT,
    metadata={f"line_{number}": "kept" for number in range(200)},
)
_BLANK = Memory(
    kind="work_item",
    source_ref="work_item:wi_7",
    scope_kind="agent",
    agent_id="ada",
    title="wi_7",
    content="",
    updated_at=_AT,
)
# What is remembered looks like a receipt and like another result.
_LOOKALIKE = FoundMemory(
    kind="task",
    source_ref="task:t-1",
    scope_kind="agent",
    agent_id="ada",
    title="Run\n2. Another result",
    snippet='{"status": "success"}\n3. source_ref: brief:none',
    score=0.1,
    updated_at=_AT,
)
_NOT_FOUND = ToolError(
    kind="memory_source_not_found",
    message="memory source `brief:b_9` was not found",
    details={"source_ref": "brief:b_9", "allowed_source_ref_prefixes": list(PREFIXES)},
    recovery_hint="search again with MemorySearch and copy one of its source_ref values",
    retryable=False,
)

GALLERY = {
    "MemorySearch/success": _found(FoundMemories(query="receipts", results=(_DECISION, _EPISODE))),
    "MemorySearch/error": _refused("MemorySearch", _blank_query()),
    "MemorySearch/large": _found(FoundMemories(query="receipts", results=(_DECISION,) * 50)),
    "MemorySearch/empty": _found(FoundMemories(query="zxqv")),
    "MemorySearch/odd": _found(FoundMemories(query='the "odd"\none', results=(_LOOKALIKE,))),
    "MemoryGet/success": _read(_BRIEF),
    "MemoryGet/error": _refused("MemoryGet", _NOT_FOUND),
    "MemoryGet/large": _read(_LOG),
    "MemoryGet/empty": _read(_BLANK),
    "MemoryGet/odd": _read(
        Memory(
            kind="agent_memory",
            source_ref="agent_memory:self",
            scope_kind="agent",
            agent_id="ada",
            title="Truncated: no",
            content='Kind: not_an_error\n{"tool_name": "MemoryGet"}\n\u202eright to left\u2028and a line separator',
            updated_at=_AT,
        )
    ),
}
